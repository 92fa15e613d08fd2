/* controller/policies/trial_tests.c - the table of tests. Pure. */
#include "controller/policies/trial_tests.h"

#include <string.h>

#define EPSILON  offsetof(struct policy_settings, epsilon)
#define GROWTH   offsetof(struct policy_settings, guardrail_epsilon)
#define LENGTH   offsetof(struct policy_settings, length_ratio)
#define LATENCY  offsetof(struct policy_settings, latency_ratio)
#define EVENT(v) ROLE_GUARD, PLAY_PAIRED, BET_GUARDRAIL, STREAM_ALL, v, GROWTH, 1.0

const struct test_spec TRIAL_TESTS[TEST_COUNT] = {
    [TEST_ROLLBACK] = {"rollback", ROLE_ROLLBACK, PLAY_PAIRED, BET_ROLLBACK, STREAM_SCORED,
                       VALUE_REWARD, EPSILON, 1.0},
    [TEST_GUARD_UNSCORED] = {"guardrail_unscored", ROLE_BLOCK, PLAY_PAIRED, BET_GUARDRAIL,
                             STREAM_ALL, VALUE_UNSCORED, GROWTH, 1.0},
    [TEST_GUARD_TRUNCATED] = {"guardrail_truncation", EVENT(VALUE_TRUNCATED)},
    [TEST_GUARD_REFUSAL] = {"guardrail_refusal", EVENT(VALUE_REFUSED)},
    [TEST_GUARD_REPETITION] = {"guardrail_repetition", EVENT(VALUE_REPEATS)},
    [TEST_GUARD_LONGER] = {"guardrail_longer", ROLE_GUARD, PLAY_RATIO, BET_LARGER, STREAM_ALL,
                           VALUE_TOKENS, LENGTH, 1.0},
    [TEST_GUARD_SHORTER] = {"guardrail_shorter", ROLE_GUARD, PLAY_RATIO, BET_SMALLER, STREAM_ALL,
                            VALUE_TOKENS, LENGTH, 1.0},
    [TEST_GUARD_LATENCY] = {"guardrail_latency", ROLE_GUARD, PLAY_RATIO, BET_LARGER, STREAM_ALL,
                            VALUE_LATENCY, LATENCY, 1.0},
    [TEST_GUARD_ERRORS] = {"guardrail_errors", EVENT(VALUE_ERRORS)},
    [TEST_ROLLBACK_FILLED] = {"rollback_filled", ROLE_SUPPORT, PLAY_PAIRED, BET_ROLLBACK,
                              STREAM_ALL, VALUE_FILLED_FOR, EPSILON, 1.0},
    [TEST_NON_INFERIOR] = {"non_inferior", ROLE_PROMOTE, PLAY_PAIRED, BET_NON_INFERIOR,
                           STREAM_SCORED, VALUE_REWARD, EPSILON, 1.0},
    [TEST_SUPERIOR] = {"superior", ROLE_PROMOTE, PLAY_PAIRED, BET_SUPERIOR, STREAM_SCORED,
                       VALUE_REWARD, EPSILON, 1.0},
    [TEST_NON_INFERIOR_FILLED] = {"non_inferior_filled", ROLE_PROMOTE, PLAY_PAIRED,
                                  BET_NON_INFERIOR, STREAM_ALL, VALUE_FILLED, EPSILON, 1.0},
    [TEST_SUPERIOR_FILLED] = {"superior_filled", ROLE_PROMOTE, PLAY_PAIRED, BET_SUPERIOR,
                              STREAM_ALL, VALUE_FILLED, EPSILON, 1.0},
    [TEST_NON_INFERIOR_LENGTH] = {"non_inferior_length", ROLE_PROMOTE, PLAY_PAIRED,
                                  BET_NON_INFERIOR, STREAM_SCORED, VALUE_RESIDUAL, EPSILON, 0.5},
    [TEST_SUPERIOR_LENGTH] = {"superior_length", ROLE_PROMOTE, PLAY_PAIRED, BET_SUPERIOR,
                              STREAM_SCORED, VALUE_RESIDUAL, EPSILON, 0.5},
    [TEST_NON_INFERIOR_SET_B] = {"non_inferior_set_b", ROLE_PROMOTE, PLAY_PAIRED, BET_NON_INFERIOR,
                                 STREAM_SET_B, VALUE_REWARD_B, EPSILON, 1.0},
};

bool test_is_guard(int i)
{
    return TRIAL_TESTS[i].role == ROLE_GUARD || TRIAL_TESTS[i].role == ROLE_BLOCK;
}

static int n_guards(void)
{
    int n = 0;
    for (int i = 0; i < TEST_COUNT; i++)
        n += test_is_guard(i);
    return n;
}

double test_threshold(int i, const struct policy_settings *s, const struct arms *a)
{
    if (test_is_guard(i))
        return log_threshold(s->alpha / n_guards());
    /* A revert asks the question of a rollback the other way round, at the level of a rollback. */
    if (TRIAL_TESTS[i].role != ROLE_PROMOTE || a->is_revert)
        return log_threshold(s->alpha);
    return log_threshold(alpha_spend(s->promote_alpha, a->n_experiments));
}

bool test_is_used(int i, const struct policy_settings *s)
{
    if (i == TEST_NON_INFERIOR_SET_B)
        return s->needs_set_b;
    if (i == TEST_NON_INFERIOR_LENGTH || i == TEST_SUPERIOR_LENGTH)
        return s->needs_length_residual;
    return true;
}

struct bet_stake test_stake(int i, const struct policy_settings *s, const struct block *b, int at)
{
    const struct test_spec *x = &TRIAL_TESTS[i];
    double margin;
    memcpy(&margin, (const char *)s + x->margin, sizeof margin);
    if (x->bet == PLAY_RATIO)
        return bet_ratio((enum bet_ratio_form)x->form, b->challenger.v[at], b->control.v[at],
                         margin);
    return bet_paired((enum bet_form)x->form, b->diff.v[at], margin * x->scale);
}
