/* controller/policies/guard_rails_test.c - every guardrail speaks for its own fault and for no
 * other, and what it may do then. */
#include "controller/policies/test_bench.h"

struct fault {
    const char *test;
    void (*make)(struct bench *b);
};

static void truncate_it(struct bench *b)
{
    b->is_truncated = true;
}
static void refuse(struct bench *b)
{
    b->is_refusal = true;
}
static void repeat(struct bench *b)
{
    b->is_repetitive = true;
}
static void lengthen(struct bench *b)
{
    b->length = 5.0;
}
static void shorten(struct bench *b)
{
    b->length = 0.1;
}
static void slow_down(struct bench *b)
{
    b->slowness = 5.0;
}

static const struct fault FAULTS[] = {
    {"guardrail_truncation", truncate_it}, {"guardrail_refusal", refuse},
    {"guardrail_repetition", repeat},      {"guardrail_longer", lengthen},
    {"guardrail_shorter", shorten},        {"guardrail_latency", slow_down},
};
enum { N_FAULTS = sizeof FAULTS / sizeof *FAULTS };

/* The reward stays the same: only the guardrail can tell. Alpha is shared by eight lines. */
static void test_each_rolls_back_for_its_fault(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        struct bench b;
        struct policy_settings s = quick();
        open_bench(&b, &s);
        start(&b, "fault", 2, 1.0, false, false);
        FAULTS[i].make(&b);
        if (!rows_until(&b, ACTION_ROLLBACK, 2000))
            fail_msg("%s never acts", FAULTS[i].test);
        const struct policy_action *act = find(&b, ACTION_ROLLBACK);
        assert_string_equal(act->test, FAULTS[i].test);
        assert_true(fabs(act->log_threshold - log(8.0 / 0.05)) < 1e-9);
        assert_non_null(find(&b, ACTION_QUARANTINE));
        policy_close(b.p);
    }
}

/* Engine errors below the burst of a hard trip: every second output. */
static void test_scattered_errors(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "errors", 2, 1.0, false, false);
    int n = 0;
    do {
        b.is_error = n % 4 == 1; /* the challenger has every second row */
        row(&b);
    } while (!find(&b, ACTION_ROLLBACK) && ++n < 2000);
    assert_non_null(find(&b, ACTION_ROLLBACK));
    assert_string_equal(find(&b, ACTION_ROLLBACK)->test, "guardrail_errors");
    policy_close(b.p);
}

static void test_within_tolerance_none_speaks(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "same", 2, 1.0, false, false);
    b.length = 2.0;
    b.slowness = 2.0;
    assert_int_equal(rows_until(&b, ACTION_ROLLBACK, 4000), 0);
    struct policy_view v = view_of(&b);
    for (uint32_t i = 0; i < v.n_test; i++)
        if (strncmp(v.test[i].name, "guardrail", 9) == 0)
            assert_true(v.test[i].log_e < 1.1);
    policy_close(b.p);
}

/* What is unscored is no low reward (CONTROL.md 2.8): the guardrail stops ramp and promotion and
 * says so; the canary ends without a verdict, and nothing is quarantined. */
static void test_unscored_never_rolls_back(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.max_units = 400;
    open_bench(&b, &s);
    start(&b, "mute", 2, 1.0, false, false);
    b.is_unscored = true;
    assert_true(rows_until(&b, ACTION_ALERT, 300) > 0);
    assert_string_equal(find(&b, ACTION_ALERT)->test, "guardrail_unscored");
    b.is_unscored = false;
    b.mean[1] = 1.0; /* better where it is scored: no promotion */
    int n = 0;
    while (view_of(&b).challenger && n++ < 2000) {
        row(&b);
        assert_null(find(&b, ACTION_PROMOTE));
        assert_null(find(&b, ACTION_ROLLBACK));
        assert_null(find(&b, ACTION_ALERT)); /* said once */
    }
    assert_non_null(strstr(find(&b, ACTION_EXPIRE)->reason, "unscored more often"));
    assert_null(find(&b, ACTION_QUARANTINE));
    policy_close(b.p);
}

/* A dead verifier leaves both arms without scores: nothing may act, and nobody is accused. */
static void test_dead_verifier(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "dead", 2, 1.0, false, false);
    b.is_unscored = b.is_champion_unscored = true;
    for (int i = 0; i < 3000; i++) {
        row(&b);
        assert_int_equal(b.acts.n, 0);
    }
    policy_close(b.p);
}

/* Scores missing for the challenger's good answers only: the rollback test alone would act, but the
 * missing ones may be what is good, so it must also hold with them filled in. */
static void test_rollback_survives_the_filling(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "late", 2, 1.0, false, false);
    b.mean[0] = b.mean[1] = 0.6;
    for (int i = 0; i < 3000; i++) {
        bool is_challenger = b.n % 2 == 1;
        b.is_unscored = is_challenger && deals(b.dealt[1] + 7u, b.mean[1]) && i % 3;
        row(&b);
        assert_null(find(&b, ACTION_ROLLBACK));
    }
    const struct policy_view v = view_of(&b);
    assert_true(v.test[0].log_e > v.test[0].log_threshold); /* on the scored rows alone it would */
    b.mean[1] = 0.0;                                        /* truly bad: no filling helps */
    b.is_unscored = false;
    assert_true(rows_until(&b, ACTION_ROLLBACK, 4000) > 0);
    policy_close(b.p);
}

/* The checks that are optimised like it, the disjoint ones do not: no promotion. */
static void test_set_b_gates_promotion(void **state)
{
    (void)state;
    for (int is_worse = 0; is_worse < 2; is_worse++) {
        struct bench b;
        struct policy_settings s = quick();
        s.needs_set_b = true;
        open_bench(&b, &s);
        b.mean[0] = 0.2;
        b.mean[1] = 0.9;
        b.mean_b[0] = 0.7;
        b.mean_b[1] = is_worse ? 0.5 : 0.8;
        start(&b, "goodhart", 2, 1.0, false, false);
        assert_int_equal(rows_until(&b, ACTION_PROMOTE, 2000) > 0, !is_worse);
        policy_close(b.p);
    }
}

/* The reward goes up with length alone: what is left of it without length does not win. */
static void test_length_residual_gates_promotion(void **state)
{
    (void)state;
    for (int is_needed = 0; is_needed < 2; is_needed++) {
        struct bench b;
        struct policy_settings s = quick();
        s.needs_length_residual = is_needed;
        s.drift_threshold = 0;
        open_bench(&b, &s);
        for (int i = 0; i < 600; i++) { /* the champion: short answers earn 0.2, long ones 0.9 */
            bool is_long = i % 3 == 0;
            struct policy_event ev = {.kind = EVENT_ROW, .now_us = b.now_us += 100000};
            ev.row = (struct policy_row){.source = 9,
                                         .admission = ++b.n,
                                         .row = b.n,
                                         .revision = 1,
                                         .propensity = 1.0,
                                         .is_scored = true,
                                         .reward = is_long ? 0.9 : 0.2,
                                         .completion_tokens = is_long ? 80 : 40};
            assert_int_equal(feed(&b, &ev), ERR_OK);
        }
        start(&b, "longer", 2, 1.0, false, false);
        b.mean[0] = 0.2; /* the bench's champion answers with 40 tokens */
        b.mean[1] = 0.9;
        b.length = 2.0;
        assert_int_equal(rows_until(&b, ACTION_PROMOTE, 1500) > 0, !is_needed);
        policy_close(b.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rolls_back_for_its_fault),
        cmocka_unit_test(test_scattered_errors),
        cmocka_unit_test(test_within_tolerance_none_speaks),
        cmocka_unit_test(test_unscored_never_rolls_back),
        cmocka_unit_test(test_dead_verifier),
        cmocka_unit_test(test_rollback_survives_the_filling),
        cmocka_unit_test(test_set_b_gates_promotion),
        cmocka_unit_test(test_length_residual_gates_promotion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
