/* controller/policies/trial.c - what one canary has shown so far.
 *
 * Invariant: a row enters each stream at most once and in admission order, so every test is a fair
 * game under its H0 given the rows before. What is unscored enters no reward test but is counted,
 * guarded, and held against the challenger in the filled tests. Pure. */
#include "controller/policies/trial.h"

#include <math.h>
#include <stdio.h>

enum test_role { ROLE_ROLLBACK, ROLE_GUARD, ROLE_PROMOTE };
enum all_value { ALL_FILLED, ALL_UNSCORED, ALL_TRUNCATED, ALL_INVALID };

/* A new guardrail is a new line here (and a value in `values_of_all`). */
static const struct test_spec {
    const char *name;
    enum test_role role;
    enum bet_form form;
    enum trial_stream stream;
    int value;
} TESTS[TEST_COUNT] = {
    [TEST_ROLLBACK] = {"rollback", ROLE_ROLLBACK, BET_ROLLBACK, STREAM_SCORED, 0},
    [TEST_GUARD_UNSCORED] = {"guardrail_unscored", ROLE_GUARD, BET_GUARDRAIL, STREAM_ALL,
                             ALL_UNSCORED},
    [TEST_GUARD_TRUNCATED] = {"guardrail_truncation", ROLE_GUARD, BET_GUARDRAIL, STREAM_ALL,
                              ALL_TRUNCATED},
    [TEST_GUARD_INVALID] = {"guardrail_invalid", ROLE_GUARD, BET_GUARDRAIL, STREAM_ALL,
                            ALL_INVALID},
    [TEST_NON_INFERIOR] = {"non_inferior", ROLE_PROMOTE, BET_NON_INFERIOR, STREAM_SCORED, 0},
    [TEST_SUPERIOR] = {"superior", ROLE_PROMOTE, BET_SUPERIOR, STREAM_SCORED, 0},
    [TEST_NON_INFERIOR_FILLED] = {"non_inferior_filled", ROLE_PROMOTE, BET_NON_INFERIOR, STREAM_ALL,
                                  ALL_FILLED},
    [TEST_SUPERIOR_FILLED] = {"superior_filled", ROLE_PROMOTE, BET_SUPERIOR, STREAM_ALL,
                              ALL_FILLED},
    [TEST_NON_INFERIOR_SET_B] = {"non_inferior_set_b", ROLE_PROMOTE, BET_NON_INFERIOR, STREAM_SET_B,
                                 0},
};

enum { N_GUARDS = 3, RECENT = 20, SRM_FIRST_LOOK = 500 };
#define RECENT_MASK   ((1u << RECENT) - 1u)
#define INTERVAL_MISS 0.05       /* intervals shown hold with 95% */
#define RAMP_LOG_E    1.09861229 /* ln 3: a step up needs every guardrail below this */

const struct state_field STANDING_FIELDS[] = {
    STATE_SUB(struct standing, reward, CONFSEQ_FIELDS),
    STATE_SUB(struct standing, below, BETTING_FIELDS),
    STATE_END,
};

const struct state_field TRIAL_FIELDS[] = {
    STATE_SUBS(struct trial, stream, STREAM_COUNT, BLOCKS_FIELDS),
    STATE_SUBS(struct trial, test, TEST_COUNT, BETTING_FIELDS),
    STATE_SUB(struct trial, effect, CONFSEQ_FIELDS),
    STATE_SUB(struct trial, reward_control, CONFSEQ_FIELDS),
    STATE_SUB(struct trial, challenger, STANDING_FIELDS),
    STATE_NUMBERS(struct trial, n_rows, STATE_U64, 2),
    STATE_NUMBERS(struct trial, n_unscored, STATE_U64, 2),
    STATE_NUMBER(struct trial, step_units, STATE_U64),
    STATE_NUMBER(struct trial, first_row, STATE_U64),
    STATE_NUMBER(struct trial, last_row, STATE_U64),
    STATE_NUMBER(struct trial, first_admission, STATE_U64),
    STATE_NUMBER(struct trial, last_admission, STATE_U64),
    STATE_SUB(struct trial, srm, SRM_FIELDS),
    STATE_NUMBER(struct trial, srm_next, STATE_U64),
    STATE_NUMBER(struct trial, recent_invalid, STATE_U32),
    STATE_NUMBER(struct trial, recent_error, STATE_U32),
    STATE_END,
};

struct standing standing_start(void)
{
    return (struct standing){.reward = confseq_eb_start(INTERVAL_MISS), .below = betting_start()};
}

void standing_add(struct standing *st, double target, double reward)
{
    confseq_eb_update(&st->reward, reward);
    if (target > 0.0 && target < 1.0)
        betting_update(&st->below, target - reward, 1.0 - target);
}

void trial_set_share(struct trial *t, const struct policy_settings *s, double share)
{
    for (int i = 0; i < STREAM_COUNT; i++)
        blocks_set_share(&t->stream[i], share, s->k_max);
    t->step_units = 0;
}

void trial_start(struct trial *t, const struct policy_settings *s, double share)
{
    *t = (struct trial){.effect = confseq_eb_start(INTERVAL_MISS),
                        .reward_control = confseq_eb_start(INTERVAL_MISS),
                        .challenger = standing_start(),
                        .srm_next = SRM_FIRST_LOOK};
    for (int i = 0; i < TEST_COUNT; i++)
        t->test[i] = betting_start();
    trial_set_share(t, s, share);
}

/* Plays every test of a stream with one block. */
static void play(struct trial *t, const struct policy_settings *s, enum trial_stream stream,
                 const struct block *b)
{
    for (int i = 0; i < TEST_COUNT; i++) {
        if (TESTS[i].stream != stream)
            continue;
        double eps = TESTS[i].role == ROLE_GUARD ? s->guardrail_epsilon : s->epsilon;
        struct bet_stake stake = bet_paired(TESTS[i].form, b->diff.v[TESTS[i].value], eps);
        betting_update(&t->test[i], stake.s, stake.lo);
    }
    if (stream == STREAM_SCORED)
        confseq_eb_update(&t->effect, 0.5 * (b->diff.v[0] + 1.0));
}

static void push(struct trial *t, const struct policy_settings *s, enum trial_stream stream,
                 const struct unit_row *row, bool is_challenger, const struct block_value *value)
{
    struct block b;
    if (blocks_push(&t->stream[stream], row->stratum, is_challenger, value, &b))
        play(t, s, stream, &b);
}

static double flag(const struct unit_row *row, uint32_t flags)
{
    return row->flags & flags ? 1.0 : 0.0;
}

static struct block_value values_of_all(const struct unit_row *row, bool is_challenger)
{
    bool is_scored = row->flags & UNIT_SCORED;
    /* Worst case for the challenger: 0 for its unscored rows, 1 for the control's. */
    double filled = is_scored ? row->reward : is_challenger ? 0.0 : 1.0;
    return (struct block_value){{[ALL_FILLED] = filled,
                                 [ALL_UNSCORED] = is_scored ? 0.0 : 1.0,
                                 [ALL_TRUNCATED] = flag(row, UNIT_TRUNCATED),
                                 [ALL_INVALID] = flag(row, UNIT_INVALID | UNIT_ERROR)}};
}

static void note_range(struct trial *t, const struct unit_row *row)
{
    bool is_first = t->n_rows[0] + t->n_rows[1] == 0;
    if (is_first || row->row < t->first_row)
        t->first_row = row->row;
    if (row->row > t->last_row)
        t->last_row = row->row;
    if (is_first || row->admission < t->first_admission)
        t->first_admission = row->admission;
    if (row->admission > t->last_admission)
        t->last_admission = row->admission;
}

static void add_scored(struct trial *t, const struct policy_settings *s, const struct unit_row *row,
                       bool is_challenger)
{
    struct block_value reward = {{row->reward}};
    push(t, s, STREAM_SCORED, row, is_challenger, &reward);
    if (!is_challenger) {
        confseq_eb_update(&t->reward_control, row->reward);
        return;
    }
    standing_add(&t->challenger, s->target, row->reward);
    t->step_units++;
}

void trial_add(struct trial *t, const struct policy_settings *s, const struct unit_row *row,
               bool is_challenger)
{
    note_range(t, row);
    t->n_rows[is_challenger]++;
    /* The split is judged by what was assigned: 1 - propensity is the challenger's for a control.
     */
    srm_add(&t->srm, is_challenger, is_challenger ? row->propensity : 1.0 - row->propensity);
    struct block_value all = values_of_all(row, is_challenger);
    push(t, s, STREAM_ALL, row, is_challenger, &all);
    if (is_challenger) {
        uint32_t invalid = (row->flags & UNIT_INVALID) != 0;
        uint32_t error = (row->flags & UNIT_ERROR) != 0;
        t->recent_invalid = ((t->recent_invalid << 1) | invalid) & RECENT_MASK;
        t->recent_error = ((t->recent_error << 1) | error) & RECENT_MASK;
    }
    if (row->flags & UNIT_SCORED)
        add_scored(t, s, row, is_challenger);
    else
        t->n_unscored[is_challenger]++;
    if (row->flags & UNIT_SCORED_B) {
        struct block_value reward_b = {{row->reward_b}};
        push(t, s, STREAM_SET_B, row, is_challenger, &reward_b);
    }
}

bool trial_split_is_broken(struct trial *t)
{
    if (t->srm.n < t->srm_next)
        return false;
    t->srm_next *= 2; /* a fixed-sample test: few looks, far apart */
    return srm_p(&t->srm) < SRM_ALERT_P;
}

static double test_threshold(int i, const struct policy_settings *s, const struct arms *a)
{
    switch (TESTS[i].role) {
    case ROLE_ROLLBACK:
        return log_threshold(s->alpha);
    case ROLE_GUARD:
        return log_threshold(s->alpha / N_GUARDS);
    default:
        return log_threshold(alpha_spend(s->promote_alpha, a->n_experiments));
    }
}

static void set_test(struct verdict *v, enum verdict_kind kind, int i, double log_e,
                     double threshold)
{
    v->kind = kind;
    v->test = TESTS[i].name;
    v->log_e = log_e;
    v->log_threshold = threshold;
}

static bool judge_hard_trips(const struct trial *t, struct verdict *v)
{
    int invalid = __builtin_popcount(t->recent_invalid);
    int error = __builtin_popcount(t->recent_error);
    if (invalid <= RECENT / 2 && error <= RECENT / 2)
        return false;
    v->kind = VERDICT_ROLLBACK;
    v->test = "hard_trip";
    snprintf(v->reason, sizeof v->reason,
             "hard trip: of the challenger's last %d outputs %d are invalid, %d engine errors "
             "(more than %d are not allowed)",
             RECENT, invalid, error, RECENT / 2);
    return true;
}

static bool judge_rollback(const struct trial *t, const struct policy_settings *s,
                           const struct arms *a, struct verdict *v)
{
    for (int i = 0; i < TEST_COUNT; i++) {
        double threshold = test_threshold(i, s, a);
        if (TESTS[i].role == ROLE_PROMOTE || t->test[i].log_w < threshold)
            continue;
        set_test(v, VERDICT_ROLLBACK, i, t->test[i].log_w, threshold);
        snprintf(v->reason, sizeof v->reason,
                 "%s: e-value %.4g reached 1/alpha = %.4g after %llu blocks", v->test,
                 exp(v->log_e), exp(threshold), (unsigned long long)t->test[i].steps);
        return true;
    }
    return false;
}

static bool is_required(int i, const struct policy_settings *s, const struct arms *a)
{
    if (TESTS[i].role != ROLE_PROMOTE)
        return false;
    if (i == TEST_NON_INFERIOR_SET_B)
        return s->needs_set_b;
    return TESTS[i].form == BET_NON_INFERIOR || !a->takes_non_inferior;
}

/* The required test with the least evidence. */
static int weakest_promote_test(const struct trial *t, const struct policy_settings *s,
                                const struct arms *a)
{
    int weakest = TEST_NON_INFERIOR;
    for (int i = 0; i < TEST_COUNT; i++)
        if (is_required(i, s, a) && t->test[i].log_w < t->test[weakest].log_w)
            weakest = i;
    return weakest;
}

static bool judge_promote(const struct trial *t, const struct policy_settings *s,
                          const struct arms *a, struct verdict *v)
{
    if (a->now_us - a->started_us < s->min_us)
        return false;
    int weakest = weakest_promote_test(t, s, a);
    double threshold = test_threshold(weakest, s, a);
    if (t->test[weakest].log_w < threshold)
        return false;
    set_test(v, VERDICT_PROMOTE, weakest, t->test[weakest].log_w, threshold);
    snprintf(v->reason, sizeof v->reason,
             "every promotion test passed; the weakest, %s, has e-value %.4g against 1/alpha_%llu "
             "= %.4g",
             v->test, exp(v->log_e), (unsigned long long)a->n_experiments, exp(threshold));
    return true;
}

static bool judge_expire(const struct trial *t, const struct policy_settings *s,
                         const struct arms *a, struct verdict *v)
{
    bool is_long = s->max_us && a->now_us - a->started_us >= s->max_us;
    bool is_big = s->max_units && t->n_rows[1] >= s->max_units;
    if (!is_long && !is_big)
        return false;
    int weakest = weakest_promote_test(t, s, a);
    set_test(v, VERDICT_EXPIRE, weakest, t->test[weakest].log_w, test_threshold(weakest, s, a));
    bool is_hidden = t->test[TEST_SUPERIOR].log_w >= v->log_threshold &&
                     t->test[TEST_SUPERIOR_FILLED].log_w < v->log_threshold;
    snprintf(v->reason, sizeof v->reason,
             "inconclusive after %llu challenger outputs and %llu s: the champion stays%s",
             (unsigned long long)t->n_rows[1],
             (unsigned long long)((a->now_us - a->started_us) / 1000000u),
             is_hidden ? " (better only if unscored outputs are left out)" : "");
    return true;
}

static bool judge_step(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                       struct verdict *v)
{
    if (a->is_now || a->ramp_step + 1 >= s->n_ramp || t->step_units < s->ramp_units)
        return false;
    for (int i = 0; i < TEST_COUNT; i++)
        if (TESTS[i].role != ROLE_PROMOTE && t->test[i].log_w >= RAMP_LOG_E)
            return false;
    v->kind = VERDICT_STEP;
    v->test = "ramp";
    snprintf(v->reason, sizeof v->reason,
             "%llu scored challenger outputs at this step, every guardrail's e-value below 3",
             (unsigned long long)t->step_units);
    return true;
}

void trial_verdict(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                   struct verdict *out)
{
    *out = (struct verdict){.kind = VERDICT_NONE, .test = "", .log_e = NAN, .log_threshold = NAN};
    if (judge_hard_trips(t, out))
        return;
    if (t->n_rows[1] < s->min_units)
        return; /* too little for any test to act, and no data is no reason to end */
    if (judge_rollback(t, s, a, out) || judge_promote(t, s, a, out))
        return;
    if (!judge_expire(t, s, a, out))
        judge_step(t, s, a, out);
}

void trial_fill(const struct trial *t, struct policy_action *act)
{
    struct interval d = confseq_eb_interval(&t->effect);
    act->n_champion = t->reward_control.n;
    act->n_challenger = t->challenger.reward.n;
    act->n_unscored_champion = t->n_unscored[0];
    act->n_unscored_challenger = t->n_unscored[1];
    act->n_blocks = t->stream[STREAM_SCORED].n_blocks;
    if (act->n_champion)
        act->mean_champion = confseq_eb_mean(&t->reward_control);
    if (act->n_challenger)
        act->mean_challenger = confseq_eb_mean(&t->challenger.reward);
    act->first_row = t->first_row;
    act->last_row = t->last_row;
    act->first_admission = t->first_admission;
    act->last_admission = t->last_admission;
    if (!act->n_blocks)
        return;
    act->effect = 2.0 * confseq_eb_mean(&t->effect) - 1.0;
    act->effect_lower = fmax(-1.0, 2.0 * d.lower - 1.0);
    act->effect_upper = fmin(1.0, 2.0 * d.upper - 1.0);
}

struct policy_arm_view standing_view(const struct confseq_eb *reward, uint64_t n_unscored)
{
    struct interval v = confseq_eb_interval(reward);
    return (struct policy_arm_view){.n = reward->n,
                                    .n_unscored = n_unscored,
                                    .mean = reward->n ? confseq_eb_mean(reward) : (double)NAN,
                                    .lower = fmax(0.0, v.lower),
                                    .upper = fmin(1.0, v.upper)};
}

uint32_t trial_view(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                    struct policy_test_view *out)
{
    uint32_t n = 0;
    for (int i = 0; i < TEST_COUNT; i++) {
        if (i == TEST_NON_INFERIOR_SET_B && !s->needs_set_b)
            continue;
        out[n++] = (struct policy_test_view){.name = TESTS[i].name,
                                             .log_e = t->test[i].log_w,
                                             .log_threshold = test_threshold(i, s, a)};
    }
    return n;
}
