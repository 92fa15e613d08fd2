/* Units, both limits, tokens from the engine's own count, refusal of a range that holds nothing. */
#include "verifier/check_harness.h"

static void test_tokens_come_from_the_engine(void **state)
{
    (void)state;
    struct output o = {.text = STR("one two"), .n_tokens = 5, .completion_tokens = 9};
    assert_int_equal(harness_run("length", "{\"min\":5,\"max\":5}", &o, NULL).outcome, SCORE_PASS);
    o.n_tokens = 0; /* ids left out of the record: the usage counts */
    struct check_verdict v = harness_run("length", "{\"max\":8}", &o, NULL);
    assert_int_equal(v.outcome, SCORE_FAIL);
    assert_string_equal(v.reason, "too_long");
    assert_int_equal((int)v.measure, 9);
}

static void test_reasons(void **state)
{
    (void)state;
    struct check_verdict v =
        harness_text("length", "{\"unit\":\"words\",\"min\":3}", STR("a b"), NULL);
    assert_string_equal(v.reason, "too_short");
}

static void test_ten_megabytes_and_broken_bytes(void **state)
{
    (void)state;
    static const char *const params[] = {"{\"unit\":\"words\"}", "{\"unit\":\"chars\"}",
                                         "{\"unit\":\"lines\"}", "{\"unit\":\"sentences\"}"};
    struct str text = harness_repeat("a.\xFF\n ", 2 * 1024 * 1024);
    for (int i = 0; i < 4; i++)
        assert_int_equal(harness_text("length", params[i], text, NULL).outcome, SCORE_PASS);
    free((char *)text.p);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("length", "{\"min\":3,\"max\":2}", "at most max (2)");
    harness_refuses("length", "{\"unit\":\"bytes\"}", "allowed: tokens, words, chars");
    harness_refuses("length", "{\"minimum\":3}", "unknown key 'minimum'; known here: unit, min");
    harness_refuses("length", "{\"min\":\"3\"}", "min");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_come_from_the_engine),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_ten_megabytes_and_broken_bytes),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
