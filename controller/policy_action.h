/* controller/policy_action.h - what a control law wants done, with the numbers behind it.
 *
 * Plain values. The caller does them in order, in the transaction of the event that caused them,
 * and keeps each as a decision. */
#ifndef CONTROLLER_POLICY_ACTION_H
#define CONTROLLER_POLICY_ACTION_H

#include "schemas/params.h"

enum { POLICY_ID_BYTES = 64, POLICY_HASH_BYTES = 65, POLICY_REASON_BYTES = 320 };
enum { POLICY_ACTIONS_MAX = 32 };

enum policy_action_kind {
    ACTION_START_CANARY, /* make a revision: from_revision with `knob` set to `value`; or, when
                            to_revision is another one, take that: the winner of an experiment,
                            else the champion before, suspected of being better */
    ACTION_SET_SPLIT,    /* challenger's share of the route is `share` */
    ACTION_PROMOTE,      /* to_revision serves everything */
    ACTION_ROLLBACK,     /* to_revision serves everything again */
    ACTION_EXPIRE,       /* no verdict: to_revision (the champion) serves everything */
    ACTION_QUARANTINE,   /* `hash` must not be tried again without an operator */
    ACTION_HOLD,         /* no experiments from here on */
    ACTION_ALERT,        /* tell people */
    ACTION_ALLOCATE,     /* shares of an experiment's arms, as the view says; `value`: its number */
    ACTION_ELIMINATE,    /* from_revision is out of the experiment */
    ACTION_CONCLUDE,     /* the experiment is over; `test` says how; to_revision won, if any did */
    ACTION_KIND_COUNT
};

/* One act with every number a person needs to judge it. NaN where no test stands behind it. */
struct policy_action {
    enum policy_action_kind kind;
    char test[32];
    char reason[POLICY_REASON_BYTES];
    char experiment[POLICY_ID_BYTES];
    char hash[POLICY_HASH_BYTES];
    uint64_t from_revision, to_revision;
    enum param_id knob;
    double value, share;
    double log_e, log_threshold;
    uint64_t n_champion, n_challenger; /* scored rows of each arm */
    uint64_t n_unscored_champion, n_unscored_challenger;
    uint64_t n_blocks;
    double mean_champion, mean_challenger;
    double effect, effect_lower, effect_upper; /* challenger minus champion, 95% at any time */
    uint64_t first_row, last_row, first_admission, last_admission;
    bool is_experiment; /* of an experiment, not of the law */
};

struct policy_actions {
    uint32_t n;
    struct policy_action a[POLICY_ACTIONS_MAX];
};

#endif
