/* controller/policy.h - the narrow waist: a control law for one route.
 *
 * A policy is a pure state machine: (settings, state, event) -> (state, actions). It does no I/O,
 * reads no clock and draws no random number: time comes in with each event. The server, the
 * simulator and `replay` call the same functions; the same events in the same order give
 * bit-identical state and actions. So the caller must store, in one order, every event it feeds
 * (rows are stored anyway; ticks only matter from policy_wake_us() on, so only those are fed).
 *
 * Order of work for the caller: feed the event, write state and actions in one transaction, commit,
 * then act. A START_CANARY action asks for a new revision: the caller creates it and feeds
 * EVENT_START with its number and hash (also for an operator's push), or EVENT_STOP if it cannot.
 * One thread owns a policy. A new law is one file in policies/ and one line in registry.c. */
#ifndef CONTROLLER_POLICY_H
#define CONTROLLER_POLICY_H

#include "controller/policy_action.h"
#include "controller/policy_settings.h"

#include <jansson.h>

enum { POLICY_STRATA_MAX = 8, POLICY_STRATUM_BYTES = 32 };
enum { POLICY_TESTS_MAX = 24, POLICY_ARMS_MAX = 16 };

struct experiment_setup; /* experiments/plan.h */

/* A revision as a law sees it: every knob resolved (params_resolve with an empty client). */
struct policy_revision {
    uint64_t number; /* 0 = none */
    char hash[POLICY_HASH_BYTES];
    double knob[PARAM_COUNT];
};

enum policy_finish { FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };

/* One committed output. Feed the rows of every route to every policy: numbers of admission are
 * gapless per (engine, epoch), not per route, and a row of another route fills its place. */
struct policy_row {
    uint64_t source;    /* hash of (engine, epoch) */
    uint64_t admission; /* within the source */
    uint64_t row;       /* the controller's row id */
    bool is_foreign;    /* of another route: nothing below is read */
    uint32_t choice;    /* only choice 0 counts: the unit is the request */
    uint64_t revision;
    struct str experiment; /* borrowed during the call; empty = none */
    struct str stratum;
    struct str checks; /* version of the checks behind the reward; empty = not said */
    double propensity; /* of the arm it was given */
    bool is_scored;
    double reward; /* [0,1] when scored */
    bool is_scored_b;
    double reward_b; /* of the disjoint set of checks, when there is one */
    enum policy_finish finish;
    bool is_invalid;                /* nothing usable: empty or undecodable. Not "a check failed" */
    bool is_refusal, is_repetitive; /* a check of that kind failed */
    struct str session;             /* user or conversation; empty = the request stands alone */
    uint64_t latency_us;            /* to the last token, waiting included; 0 = not said */
    uint32_t prompt_tokens, completion_tokens;
};

struct policy_start {
    struct str experiment; /* id, unique over the route's life */
    struct policy_revision challenger;
    bool is_now;             /* starts at now_share, the rest is the concurrent control */
    bool takes_non_inferior; /* operator's cost win: promote when it is merely not worse */
    bool is_own, is_revert;  /* answers a START_CANARY of this policy; ... of the champion before */
};

enum policy_event_kind {
    EVENT_ROW,
    EVENT_TICK,     /* nothing but time */
    EVENT_CHAMPION, /* first revision of the route; ends a running canary */
    EVENT_START,
    EVENT_STOP,     /* operator ends the canary, champion stays; or a proposal was refused */
    EVENT_PROMOTE,  /* operator decides without the tests */
    EVENT_ROLLBACK, /* operator: ends and quarantines the challenger; or leaves the champion, for
                       `champion` when it is given (number != 0), else for the previous one */
    EVENT_HOLD,     /* SAFE: champion pinned, no experiments */
    EVENT_RESUME,
    EVENT_CRASH,      /* an engine died while it served the challenger, or an experiment's arms */
    EVENT_EXPERIMENT, /* K arms at once; the law's own trials wait */
    EVENT_EXPERIMENT_STOP,
    EVENT_KIND_COUNT
};

struct policy_event {
    enum policy_event_kind kind;
    uint64_t now_us; /* wall clock of the commit; going back is treated as standing still */
    union {
        struct policy_row row;
        struct policy_start start;
        struct policy_revision champion;           /* EVENT_CHAMPION, EVENT_ROLLBACK */
        const struct experiment_setup *experiment; /* EVENT_EXPERIMENT */
    };
};

struct policy_test_view {
    const char *name;
    double log_e, log_threshold;
};

/* Reward of an arm, with its 95% confidence sequence; NaN mean when n is 0. */
struct policy_arm_view {
    uint64_t n, n_unscored;
    double mean, lower, upper;
};

struct policy_drift_view {
    char stratum[POLICY_STRATUM_BYTES];
    bool is_frozen, is_alarmed; /* m0 is known; the alarm is on */
    double m0, log_m, log_threshold;
};

struct policy_effect_view {      /* of an arm's mean reward minus the champion's, 95% at any time */
    double effect, lower, upper; /* NaN before the first comparison */
};

/* What dashboards and metrics show. */
struct policy_view {
    const char *phase; /* "stable" "proposed" "canary" "safe" "experiment" */
    char experiment[POLICY_ID_BYTES];
    uint64_t champion, challenger; /* revision numbers; challenger 0 = none */
    double share;
    struct policy_action numbers; /* n, means, effect, ranges of the running canary */
    struct policy_test_view test[POLICY_TESTS_MAX];
    uint32_t n_test;
    struct policy_drift_view drift[POLICY_STRATA_MAX];
    uint32_t n_drift;
    struct policy_arm_view champion_arm;   /* since it became champion; n_unscored in the canary */
    struct policy_arm_view control_arm;    /* the champion inside the running canary */
    struct policy_arm_view challenger_arm; /* n = 0 when there is none */
    uint64_t n_held, n_late, n_duplicate, n_missing;
    /* The running experiment: arm 0 is the champion; n_arm 0 = none runs. Its tests are named
     * "duel_champion", "duel_arm-1", ...: the strongest evidence that another arm beats that one.
     */
    uint32_t n_arm;
    uint64_t allocation; /* number of the shares in force */
    uint64_t arm_revision[POLICY_ARMS_MAX];
    double arm_share[POLICY_ARMS_MAX];
    struct policy_effect_view arm_effect[POLICY_ARMS_MAX]; /* [0]: zeros */
};

struct state_field; /* policies/state_codec.h */

struct policy_ops {
    const char *name;
    size_t state_bytes;
    size_t arms_at;                   /* offset of the state's struct arms (policies/arms.h) */
    const struct state_field *fields; /* of the state, for the codec */
    void (*step)(const struct policy_settings *s, void *state, const struct policy_event *ev,
                 struct policy_actions *out);
    /* NULL = may be fed. Else why the event cannot happen now (a canary runs already, ...). */
    const char *(*refuses)(const void *state, const struct policy_event *ev);
    uint64_t (*wake_us)(const struct policy_settings *s, const void *state); /* 0 = never */
    void (*view)(const struct policy_settings *s, const void *state, struct policy_view *out);
};

struct policy; /* settings and state of one route */

/* Zero state: feed EVENT_CHAMPION first. Release with policy_close(). */
MUST_USE int policy_open(struct policy **out, const struct policy_settings *s, struct err *e);
void policy_close(struct policy *p);

/* Actions are appended in the order in which they must be done; *out is cleared first. An operator
 * event that cannot happen now is ERR_CONFLICT (state untouched, nothing to store). */
MUST_USE int policy_step(struct policy *p, const struct policy_event *ev,
                         struct policy_actions *out, struct err *e);
uint64_t policy_wake_us(const struct policy *p);
/* The running experiment, else the last one (controller/API.md); NULL = none was started. */
json_t *policy_experiment(const struct policy *p);
void policy_view(const struct policy *p, struct policy_view *out);
const struct policy_settings *policy_settings_of(const struct policy *p);

/* Exact text of the state (hexadecimal floats): appended, or as a new object of the caller's (NULL
 * = no memory). Decode and read replace the state; ERR_CORRUPT, or ERR_INVALID for what is no JSON,
 * leave it untouched: replay the rows instead. */
void policy_state_write(const struct policy *p, struct buf *out);
json_t *policy_state_encode(const struct policy *p);
MUST_USE int policy_state_decode(struct policy *p, const json_t *v, struct err *e);
MUST_USE int policy_state_read(struct policy *p, struct str text, struct err *e);

const struct policy_ops *policy_find(const char *name);    /* NULL = unknown */
const char *policy_law_name(enum policy_kind k);           /* "hold" "threshold" "canary" */
const char *policy_action_name(enum policy_action_kind k); /* as decisions and metrics say it */

#endif
