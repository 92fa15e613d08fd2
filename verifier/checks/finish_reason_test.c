/* Only "stop" by default; a truncated answer says so; only reasons an engine gives are accepted. */
#include "verifier/check_harness.h"

static struct check_verdict run(const char *params, const char *reason)
{
    struct output o = {.finish_reason = str_from(reason)};
    return harness_run("finish_reason", params, &o, NULL);
}

static void test_default_and_list(void **state)
{
    (void)state;
    assert_int_equal(run("{}", "stop").outcome, SCORE_PASS);
    assert_string_equal(run("{}", "length").reason, "truncated");
    assert_int_equal(run("{}", "length").outcome, SCORE_FAIL);
    assert_int_equal(run("{\"allow\":[\"stop\",\"length\"]}", "length").outcome, SCORE_PASS);
    assert_int_equal(run("{\"allow\":\"length\"}", "stop").outcome, SCORE_FAIL);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("finish_reason", "{\"allow\":[\"stop\",\"done\"]}",
                    "allow[1]: found 'done', allowed: stop, length");
    harness_refuses("finish_reason", "{\"allow\":[1]}", "allow");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_and_list),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
