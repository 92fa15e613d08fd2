/* Bounds on the mean and on single tokens; what is missing or no number is unscored. */
#include "verifier/check_harness.h"

#include <math.h>

static struct check_verdict run(const char *params, const float *logprob, uint32_t n)
{
    struct output o = {.text = STR("x"), .logprobs = logprob, .n_tokens = n};
    return harness_run("logprob", params, &o, NULL);
}

static void test_bounds(void **state)
{
    (void)state;
    const float p[] = {-0.5f, -1.5f, -4.0f};
    struct check_verdict v = run("{\"min\":-2.0}", p, 3);
    assert_int_equal(v.outcome, SCORE_PASS);
    assert_true(v.measure == -2.0);
    assert_string_equal(run("{\"min\":-1.9}", p, 3).reason, "mean_low");
    assert_string_equal(run("{\"max\":-2.5}", p, 3).reason, "mean_high");
    assert_string_equal(run("{\"token_min\":-3.9}", p, 3).reason, "token_low");
    assert_int_equal(run("{\"token_min\":-4,\"min\":-3,\"max\":-1}", p, 3).outcome, SCORE_PASS);
}

static void test_unscored(void **state)
{
    (void)state;
    const float bad[] = {-1, NAN}, low[] = {-1, -INFINITY};
    assert_string_equal(run("{\"min\":-1}", NULL, 0).reason, "no_logprobs");
    assert_string_equal(run("{\"min\":-1}", NULL, 3).reason, "no_logprobs");
    assert_string_equal(run("{\"min\":-1}", bad, 2).reason, "not_a_number");
    assert_string_equal(run("{\"min\":-1}", low, 2).reason, "not_a_number");
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("logprob", "{}", "nothing to compare with");
    harness_refuses("logprob", "{\"min\":1}", "min: must be a number from -1e+06 to 0");
    harness_refuses("logprob", "{\"min\":-1,\"max\":-2}", "min: found -1, allowed: at most max");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_unscored),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
