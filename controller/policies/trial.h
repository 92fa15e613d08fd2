/* controller/policies/trial.h - the statistics of one running canary and their verdict.
 *
 * Three streams of blocks over the same units: the scored ones, all of them (guardrails, and
 * rewards with what is unscored filled in), and the disjoint set of checks. A unit is a request, or
 * a conversation when the request has one. Every test is a line of one table (trial_tests.c). Pure.
 */
#ifndef CONTROLLER_POLICIES_TRIAL_H
#define CONTROLLER_POLICIES_TRIAL_H

#include "controller/policies/arms.h"
#include "controller/policies/baseline.h"
#include "controller/stats/betting.h"
#include "controller/stats/blocks.h"
#include "controller/stats/confseq.h"
#include "controller/stats/srm.h"
#include "controller/stats/units.h"

enum trial_stream { STREAM_SCORED, STREAM_ALL, STREAM_SET_B, STREAM_COUNT };

enum unit_value { /* of a unit, in the order of its stream */
                  VALUE_REWARD,
                  VALUE_RESIDUAL,   /* STREAM_SCORED up to here */
                  VALUE_FILLED,     /* unscored: 0 for the challenger, 1 for the control */
                  VALUE_FILLED_FOR, /* the other way round: for the challenger */
                  VALUE_UNSCORED,
                  VALUE_TRUNCATED,
                  VALUE_REFUSED,
                  VALUE_REPEATS,
                  VALUE_ERRORS,
                  VALUE_TOKENS,
                  VALUE_LATENCY, /* STREAM_ALL up to here */
                  VALUE_REWARD_B,
                  VALUE_COUNT
};

enum trial_test {
    TEST_ROLLBACK,
    TEST_GUARD_UNSCORED,
    TEST_GUARD_TRUNCATED,
    TEST_GUARD_REFUSAL,
    TEST_GUARD_REPETITION,
    TEST_GUARD_LONGER,
    TEST_GUARD_SHORTER,
    TEST_GUARD_LATENCY,
    TEST_GUARD_ERRORS,
    TEST_ROLLBACK_FILLED,
    TEST_NON_INFERIOR,
    TEST_SUPERIOR,
    TEST_NON_INFERIOR_FILLED,
    TEST_SUPERIOR_FILLED,
    TEST_NON_INFERIOR_LENGTH,
    TEST_SUPERIOR_LENGTH,
    TEST_NON_INFERIOR_SET_B,
    TEST_COUNT
};

/* How a revision stands by itself: goes with it when it is promoted. */
struct standing {
    struct confseq_eb reward;
    struct betting below; /* H0: mean reward >= target */
};

struct trial {
    struct blocks stream[STREAM_COUNT];
    struct betting test[TEST_COUNT];
    struct units units;
    struct baseline baseline;         /* of the champion, frozen part by part */
    struct confseq_eb effect;         /* of (D + 1) / 2 */
    struct confseq_eb reward_control; /* scored units of the concurrent champion */
    struct standing challenger;
    uint64_t n_rows[2]; /* [0] champion, [1] challenger */
    uint64_t n_units[2];
    uint64_t n_unscored[2];
    uint64_t step_units; /* scored challenger units admitted at this step of the ramp */
    double share;        /* of this step */
    uint64_t first_row, last_row, first_admission, last_admission;
    struct srm srm;
    uint64_t srm_next;        /* units at which the split is looked at next */
    uint32_t is_split_broken; /* a look found a mismatch */
    uint32_t said_unscored;
    uint32_t recent_invalid; /* last 20 challenger rows, a bit each */
    uint32_t recent_error;
};

extern const struct state_field STANDING_FIELDS[], TRIAL_FIELDS[];

struct standing standing_start(void);
void standing_add(struct standing *st, double target, double reward);

void trial_start(struct trial *t, const struct policy_settings *s, double share,
                 const struct baseline *champion);
void trial_set_share(struct trial *t, const struct policy_settings *s, double share);
/* Next row in admission order. */
void trial_add(struct trial *t, const struct policy_settings *s, const struct unit_row *row,
               bool is_challenger);
/* Counts the conversations that are complete at this time. */
void trial_close_units(struct trial *t, const struct policy_settings *s, uint64_t now_us);

enum verdict_kind { VERDICT_NONE, VERDICT_ROLLBACK, VERDICT_PROMOTE, VERDICT_EXPIRE, VERDICT_STEP };

struct verdict {
    enum verdict_kind kind;
    const char *test;
    double log_e, log_threshold;
    char reason[POLICY_REASON_BYTES];
};

/* What the numbers say now; looking is free at any time (verdict.c). */
void trial_verdict(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                   struct verdict *out);

/* True when the split check is due now and fails: from then on nothing promotes. */
bool trial_split_breaks(struct trial *t);
/* True once, when the guardrail on unscored outputs has spoken. */
bool trial_unscored_fires(struct trial *t, const struct policy_settings *s, const struct arms *a,
                          struct verdict *out);

/* Puts the trial's numbers into an action. */
void trial_fill(const struct trial *t, struct policy_action *act);
/* Mean and interval of one arm, cut to [0,1]. */
struct policy_arm_view standing_view(const struct confseq_eb *reward, uint64_t n_unscored);
/* One view line per test; returns how many. */
uint32_t trial_view(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                    struct policy_test_view *out);

#endif
