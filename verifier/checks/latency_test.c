/* Bounds at, below and above; what was not recorded is unscored. */
#include "verifier/check_harness.h"

static struct check_verdict run(const char *params, uint64_t ttft_us, uint64_t decode_us,
                                uint32_t tokens)
{
    struct output o = {.ttft_us = ttft_us, .decode_us = decode_us, .completion_tokens = tokens};
    return harness_run("latency", params, &o, NULL);
}

static void test_bounds(void **state)
{
    (void)state;
    assert_int_equal(run("{\"max_ttft_ms\":200}", 200000, 1000000, 11).outcome, SCORE_PASS);
    assert_string_equal(run("{\"max_ttft_ms\":200}", 200001, 0, 1).reason, "slow_first_token");
    assert_int_equal(run("{\"max_total_ms\":1200}", 200000, 1000000, 11).outcome, SCORE_PASS);
    assert_string_equal(run("{\"max_total_ms\":1199}", 200000, 1000000, 11).reason, "slow");
    assert_int_equal(run("{\"min_tok_s\":10}", 200000, 1000000, 11).outcome, SCORE_PASS);
    assert_string_equal(run("{\"min_tok_s\":10.1}", 200000, 1000000, 11).reason,
                        "few_tokens_a_second");
    assert_true(run("{\"max_total_ms\":9999}", 200000, 1000000, 11).measure == 1.2);
}

static void test_unscored(void **state)
{
    (void)state;
    assert_string_equal(run("{\"max_total_ms\":9}", 0, 0, 5).reason, "no_timings");
    assert_string_equal(run("{\"min_tok_s\":9}", 5, 0, 1).reason, "no_rate");
    assert_int_equal(run("{\"min_tok_s\":9,\"max_ttft_ms\":9}", 5, 0, 1).outcome, SCORE_PASS);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("latency", "{}", "nothing to compare with");
    harness_refuses("latency", "{\"max_ttft_ms\":0}", "max_ttft_ms: must be an integer from 1");
    harness_refuses("latency", "{\"max_ms\":5}", "unknown key 'max_ms'");
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
