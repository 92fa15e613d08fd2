/* controller/policies/arms.h - who serves: champion, challenger, what was tried before.
 *
 * The bookkeeping every law shares. Functions change the arms and append the action that makes the
 * outside follow; the caller may put its numbers into the action returned. Pure. */
#ifndef CONTROLLER_POLICIES_ARMS_H
#define CONTROLLER_POLICIES_ARMS_H

#include "controller/policies/state_codec.h"
#include "controller/policy.h"

enum { ARMS_TRIED = 64 };

enum arms_phase {
    PHASE_STABLE,
    PHASE_PROPOSED,
    PHASE_CANARY,
    PHASE_SAFE,
    PHASE_EXPERIMENT, /* K arms are compared beside the law, which starts nothing meanwhile */
    PHASE_COUNT
};

struct tried_revision {
    char hash[POLICY_HASH_BYTES];
    uint32_t is_quarantined; /* else it merely found no verdict; forgotten with the champion */
    double knob[PARAM_COUNT];
};

struct arms {
    struct policy_revision champion, previous, challenger;
    uint32_t phase;
    uint32_t is_now, takes_non_inferior, is_own;
    uint32_t
        is_revert;     /* the challenger is the previous champion, the suspect is the present one */
    uint32_t is_held;  /* a drift alarm came while it ran: no step, no promotion */
    uint32_t draining; /* a bit for each source that may have requests of the split before */
    uint64_t acted_us; /* when what is served last changed */
    uint64_t heard_us; /* last committed row, of any route */
    uint32_t ramp_step;
    uint32_t proposed_knob; /* of PHASE_PROPOSED */
    double proposed_value;
    uint32_t n_tried;
    struct tried_revision tried[ARMS_TRIED];
    char experiment[POLICY_ID_BYTES]; /* running, or the last one */
    uint64_t experiment_tag;
    double share;
    uint64_t n_experiments; /* started over the route's life: index of the alpha spent */
    uint64_t now_us, started_us;
};

extern const struct state_field ARMS_FIELDS[];

/* Appends an action with every number unset. Never NULL: POLICY_ACTIONS_MAX is above what one
 * event can cause, and the last slot is reused should that be wrong. */
struct policy_action *arms_action(const struct arms *a, enum policy_action_kind kind,
                                  struct policy_actions *out);
void arms_reason(struct policy_action *act, const char *fmt, ...) PRINTF_LIKE(2, 3);

uint64_t arms_tag(struct str experiment); /* 0 for none */
void arms_clock(struct arms *a, uint64_t now_us);

void arms_set_champion(struct arms *a, const struct policy_revision *r);
/* Starts the canary at `share` and appends SET_SPLIT. */
struct policy_action *arms_begin(struct arms *a, const struct policy_start *start, double share,
                                 struct policy_actions *out);
/* Ends of a canary; the phase is STABLE afterwards. Rollback also appends QUARANTINE. */
struct policy_action *arms_promote(struct arms *a, struct policy_actions *out);
struct policy_action *arms_rollback(struct arms *a, struct policy_actions *out);
struct policy_action *arms_expire(struct arms *a, struct policy_actions *out);
/* EVENT_ROLLBACK: a running challenger is rolled back; the champion is left for the revision the
 * event names, or for the previous one when there was no canary, and quarantined. Returns true when
 * the champion changed; *first is the first action. */
bool arms_leave(struct arms *a, const struct policy_event *ev, struct policy_actions *out,
                struct policy_action **first);

/* Next step of the law's own search: one step down in temperature, else fewer new tokens, inside
 * the bounds and not tried before. False when none is left. */
bool arms_propose(const struct arms *a, const struct policy_settings *s, enum param_id *knob,
                  double *value);

bool arms_is_draining(const struct arms *a);
/* Asks for the canary of the previous champion against the present one, at 50%. */
struct policy_action *arms_open_revert(struct arms *a, struct policy_actions *out);
/* The previous champion won: the present one is left, and quarantined. */
struct policy_action *arms_confirm_revert(struct arms *a, struct policy_actions *out);

/* Asks for the canary of a proposal; the phase is PROPOSED until EVENT_START or EVENT_STOP. */
struct policy_action *arms_open_proposal(struct arms *a, enum param_id knob, double value,
                                         struct policy_actions *out);
/* The caller could not start it: not to be proposed again from this champion. */
void arms_drop_proposal(struct arms *a);

/* Why an operator's event cannot happen in this phase; NULL = it can. */
const char *arms_refuses(const struct arms *a, const struct policy_event *ev);
/* Operator events of the laws without statistics (all kinds but ROW and START). */
void arms_operator(struct arms *a, const struct policy_event *ev, struct policy_actions *out);
/* The part of a view that every law has; clears the rest. */
void arms_view(const struct arms *a, struct policy_view *out);

#endif
