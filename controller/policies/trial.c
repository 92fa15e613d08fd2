/* controller/policies/trial.c - what one canary has shown so far.
 *
 * Invariant: a unit enters each stream at most once, requests in admission order and conversations
 * in the order of their first turn, so every test is a fair game under its H0 given the units
 * before. What is unscored enters no reward test but is counted, guarded, and held against the
 * challenger in the filled tests. Pure. */
#include "controller/policies/trial_tests.h"

#include <math.h>

enum { RECENT = 20, SRM_FIRST_LOOK = 500 };
#define RECENT_MASK   ((1u << RECENT) - 1u)
#define INTERVAL_MISS 0.05 /* intervals shown hold with 95% */
#define NOT_KNOWN     ((double)NAN)

static const struct {
    enum unit_value first;
    int n;
} STREAMS[STREAM_COUNT] = {
    [STREAM_SCORED] = {VALUE_REWARD, VALUE_FILLED - VALUE_REWARD},
    [STREAM_ALL] = {VALUE_FILLED, VALUE_REWARD_B - VALUE_FILLED},
    [STREAM_SET_B] = {VALUE_REWARD_B, VALUE_COUNT - VALUE_REWARD_B},
};
_Static_assert(VALUE_COUNT <= (int)UNIT_VALUES, "a unit has room for every value");
_Static_assert(VALUE_REWARD_B - VALUE_FILLED <= (int)BLOCKS_VALUES, "and a block for a stream's");

const struct state_field STANDING_FIELDS[] = {
    STATE_SUB(struct standing, reward, CONFSEQ_FIELDS),
    STATE_SUB(struct standing, below, BETTING_FIELDS),
    STATE_END,
};

const struct state_field TRIAL_FIELDS[] = {
    STATE_SUBS(struct trial, stream, STREAM_COUNT, BLOCKS_FIELDS),
    STATE_SUBS(struct trial, test, TEST_COUNT, BETTING_FIELDS),
    STATE_SUB(struct trial, units, UNITS_FIELDS),
    STATE_SUB(struct trial, baseline, BASELINE_FIELDS),
    STATE_SUB(struct trial, effect, CONFSEQ_FIELDS),
    STATE_SUB(struct trial, reward_control, CONFSEQ_FIELDS),
    STATE_SUB(struct trial, challenger, STANDING_FIELDS),
    STATE_NUMBERS(struct trial, n_rows, STATE_U64, 2),
    STATE_NUMBERS(struct trial, n_units, STATE_U64, 2),
    STATE_NUMBERS(struct trial, n_unscored, STATE_U64, 2),
    STATE_NUMBER(struct trial, step_units, STATE_U64),
    STATE_NUMBER(struct trial, share, STATE_F64),
    STATE_NUMBER(struct trial, first_row, STATE_U64),
    STATE_NUMBER(struct trial, last_row, STATE_U64),
    STATE_NUMBER(struct trial, first_admission, STATE_U64),
    STATE_NUMBER(struct trial, last_admission, STATE_U64),
    STATE_SUB(struct trial, srm, SRM_FIELDS),
    STATE_NUMBER(struct trial, srm_next, STATE_U64),
    STATE_NUMBER(struct trial, is_split_broken, STATE_U32),
    STATE_NUMBER(struct trial, said_unscored, STATE_U32),
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
    t->share = share;
}

void trial_start(struct trial *t, const struct policy_settings *s, double share,
                 const struct baseline *champion)
{
    *t = (struct trial){.baseline = *champion,
                        .effect = confseq_eb_start(INTERVAL_MISS),
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
        if (TRIAL_TESTS[i].stream != stream)
            continue;
        int at = (int)TRIAL_TESTS[i].value - (int)STREAMS[stream].first;
        struct bet_stake stake = test_stake(i, s, b, at);
        betting_update(&t->test[i], stake.s, stake.lo); /* NaN, not known, is no bet */
    }
    if (stream == STREAM_SCORED)
        confseq_eb_update(&t->effect, 0.5 * (b->diff.v[0] + 1.0));
}

static void push(struct trial *t, const struct policy_settings *s, enum trial_stream stream,
                 const struct unit *u)
{
    struct block b;
    struct block_value value = {{0}};
    for (int i = 0; i < STREAMS[stream].n; i++)
        value.v[i] = u->value[(int)STREAMS[stream].first + i];
    if (blocks_push(&t->stream[stream], u->stratum, u->is_challenger != 0, &value, &b))
        play(t, s, stream, &b);
}

static double flag(const struct unit_row *row, uint32_t flags)
{
    return row->flags & flags ? 1.0 : 0.0;
}

/* Ratios are tested on values cut at twice the tolerated one. */
static struct unit unit_of(const struct trial *t, const struct policy_settings *s,
                           const struct unit_row *row, bool is_challenger)
{
    bool is_scored = row->flags & UNIT_SCORED;
    bool is_cut = row->flags & UNIT_CUT;
    double against = is_challenger ? 0.0 : 1.0; /* the worst case for the challenger */
    struct unit u = {
        .session = row->session,
        .opened_us = row->committed_us,
        .is_challenger = is_challenger,
        .stratum = row->stratum,
        .propensity = row->propensity,
        .value = {
            [VALUE_REWARD] = is_scored ? row->reward : NOT_KNOWN,
            [VALUE_RESIDUAL] = is_scored ? baseline_residual(&t->baseline, row) : NOT_KNOWN,
            [VALUE_FILLED] = is_scored ? row->reward : against,
            [VALUE_FILLED_FOR] = is_scored ? row->reward : 1.0 - against,
            [VALUE_UNSCORED] = is_scored ? 0.0 : 1.0,
            [VALUE_TRUNCATED] = flag(row, UNIT_TRUNCATED),
            [VALUE_REFUSED] = flag(row, UNIT_REFUSED),
            [VALUE_REPEATS] = flag(row, UNIT_REPEATS),
            [VALUE_ERRORS] = flag(row, UNIT_INVALID | UNIT_ERROR),
            [VALUE_TOKENS] =
                is_cut ? NOT_KNOWN : baseline_tokens(&t->baseline, row, 2.0 * s->length_ratio),
            [VALUE_LATENCY] =
                is_cut ? NOT_KNOWN : baseline_latency(&t->baseline, row, 2.0 * s->latency_ratio),
            [VALUE_REWARD_B] = row->flags & UNIT_SCORED_B ? row->reward_b : NOT_KNOWN}};
    for (int i = 0; i < VALUE_COUNT; i++)
        u.n[i] = !isnan(u.value[i]);
    return u;
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

static void count_scored(struct trial *t, const struct policy_settings *s, const struct unit *u)
{
    push(t, s, STREAM_SCORED, u);
    if (!u->is_challenger) {
        confseq_eb_update(&t->reward_control, u->value[VALUE_REWARD]);
        return;
    }
    standing_add(&t->challenger, s->target, u->value[VALUE_REWARD]);
    /* What was admitted before the split changed is still in flight: it is of another step. */
    t->step_units += fabs(u->propensity - t->share) < 1e-9;
}

static void count(struct trial *t, const struct policy_settings *s, const struct unit *u)
{
    t->n_units[u->is_challenger]++;
    push(t, s, STREAM_ALL, u);
    if (u->n[VALUE_REWARD])
        count_scored(t, s, u);
    if (u->n[VALUE_REWARD_B])
        push(t, s, STREAM_SET_B, u);
}

void trial_close_units(struct trial *t, const struct policy_settings *s, uint64_t now_us)
{
    struct unit u;
    while (units_take(&t->units, now_us, s->session_us, &u))
        count(t, s, &u);
}

/* The split is judged by what was assigned: 1 - propensity is the challenger's for a control. */
static void count_assignment(struct trial *t, const struct unit_row *row, bool is_challenger)
{
    srm_add(&t->srm, is_challenger, is_challenger ? row->propensity : 1.0 - row->propensity);
}

static void note_trips(struct trial *t, const struct unit_row *row)
{
    uint32_t invalid = (row->flags & UNIT_INVALID) != 0;
    uint32_t error = (row->flags & UNIT_ERROR) != 0;
    t->recent_invalid = ((t->recent_invalid << 1) | invalid) & RECENT_MASK;
    t->recent_error = ((t->recent_error << 1) | error) & RECENT_MASK;
}

void trial_add(struct trial *t, const struct policy_settings *s, const struct unit_row *row,
               bool is_challenger)
{
    bool is_new = false;
    struct unit u = unit_of(t, s, row, is_challenger);
    note_range(t, row);
    t->n_rows[is_challenger]++;
    t->n_unscored[is_challenger] += !(row->flags & UNIT_SCORED);
    if (is_challenger)
        note_trips(t, row);
    else if (!(row->flags & UNIT_CUT)) /* used from the next row on */
        baseline_add(&t->baseline, row, true);
    trial_close_units(t, s, row->committed_us);
    if (u.session == 0 || s->session_us == 0) {
        count_assignment(t, row, is_challenger);
        count(t, s, &u);
        return;
    }
    if (units_add(&t->units, &u, &is_new) && is_new)
        count_assignment(t, row, is_challenger);
    trial_close_units(t, s, row->committed_us);
}

bool trial_split_breaks(struct trial *t)
{
    if (t->srm.n < t->srm_next)
        return false;
    t->srm_next *= 2; /* a fixed-sample test: few looks, far apart */
    bool is_first = !t->is_split_broken && srm_p(&t->srm) < SRM_ALERT_P;
    t->is_split_broken |= is_first;
    return is_first;
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
        if (!test_is_used(i, s))
            continue;
        out[n++] = (struct policy_test_view){.name = TRIAL_TESTS[i].name,
                                             .log_e = t->test[i].log_w,
                                             .log_threshold = test_threshold(i, s, a)};
    }
    return n;
}
