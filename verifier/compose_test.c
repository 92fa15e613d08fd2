/* Every line of the composition rule. */
#include "common/test.h"
#include "verifier/compose.h"

static struct check_result result(enum score_outcome outcome, double value, double weight,
                                  bool is_gate)
{
    return (struct check_result){.outcome = outcome,
                                 .value = value,
                                 .weight = weight,
                                 .is_gate = is_gate,
                                 .reason = outcome == SCORE_UNSCORED ? STR("late") : STR("")};
}

static struct score compose(struct check_result a, struct check_result b, struct check_result c)
{
    struct score s = {.check = {a, b, c}, .n_check = 3};
    compose_score(&s);
    return s;
}

#define PASS(w)     result(SCORE_PASS, 1, w, false)
#define FAIL(w)     result(SCORE_FAIL, 0, w, false)
#define VALUE(v, w) result(SCORE_VALUE, v, w, false)
#define NONE(w)     result(SCORE_UNSCORED, 0, w, false)
#define GATE(o, v)  result(o, v, 1, true)

static void test_weighted_mean(void **state)
{
    (void)state;
    struct score s = compose(PASS(1), FAIL(2), VALUE(0.5, 1));
    assert_true(s.is_scored && s.reward == 1.5 / 4);
    s = compose(PASS(1), FAIL(0), PASS(3));
    assert_true(s.is_scored && s.reward == 1);
}

static void test_unscored_is_left_out_never_zero(void **state)
{
    (void)state;
    struct score s = compose(PASS(1), NONE(5), PASS(1));
    assert_true(s.is_scored && s.reward == 1);
    s = compose(NONE(1), NONE(1), FAIL(0));
    assert_false(s.is_scored);
    assert_str(s.reason, "late");
}

static void test_gates(void **state)
{
    (void)state;
    struct score s = compose(PASS(1), GATE(SCORE_FAIL, 0), PASS(1));
    assert_true(s.is_scored && s.reward == 0);
    s = compose(FAIL(1), GATE(SCORE_PASS, 1), PASS(1));
    assert_true(s.is_scored && s.reward == 0.5); /* a gate is not part of the mean */
    s = compose(PASS(1), GATE(SCORE_UNSCORED, 0), PASS(1));
    assert_false(s.is_scored);
    s = compose(GATE(SCORE_UNSCORED, 0), GATE(SCORE_FAIL, 0), PASS(1));
    assert_true(s.is_scored && s.reward == 0);
    s = compose(GATE(SCORE_PASS, 1), GATE(SCORE_VALUE, 0.9), GATE(SCORE_PASS, 1));
    assert_true(s.is_scored && s.reward == 1);
    s = compose(GATE(SCORE_VALUE, 0.4), PASS(1), PASS(1));
    assert_true(s.is_scored && s.reward == 0);
    s = compose(GATE(SCORE_PASS, 1), NONE(1), NONE(1));
    assert_false(s.is_scored); /* what the gate let through was not judged */
}

static void test_nothing(void **state)
{
    (void)state;
    struct score s = {0};
    compose_score(&s);
    assert_false(s.is_scored);
    assert_str(s.reason, "no_checks");
    s = compose(PASS(0), FAIL(0), PASS(0));
    assert_str(s.reason, "no_weight");
}

/* The disjoint set has a reward of its own, by the same rules; neither touches the other. */
static void test_sets_are_disjoint(void **state)
{
    (void)state;
    struct check_result gate_b = GATE(SCORE_FAIL, 0), fail_b = FAIL(1);
    gate_b.is_b = fail_b.is_b = true;
    struct score s = compose(PASS(1), VALUE(0.5, 1), gate_b);
    assert_true(s.is_scored && s.reward == 0.75);
    assert_true(s.is_scored_b && s.reward_b == 0);
    s = compose(GATE(SCORE_FAIL, 0), PASS(1), fail_b);
    assert_true(s.is_scored && s.reward == 0 && s.is_scored_b && s.reward_b == 0);
    s = compose(PASS(1), PASS(1), PASS(1));
    assert_true(s.is_scored && !s.is_scored_b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weighted_mean),
        cmocka_unit_test(test_unscored_is_left_out_never_zero),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_sets_are_disjoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
