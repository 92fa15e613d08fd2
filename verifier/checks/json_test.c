/* Modes, keys, types, comparison, shares; deep, long and broken texts stay bounded. */
#include "verifier/check_harness.h"

static void test_compare_keys_with_partial_score(void **state)
{
    (void)state;
    const char *params = "{\"mode\":\"embedded\",\"compare\":true,\"partial\":true}";
    const char *gold = "{\"reference\":{\"name\":\"Ann\",\"age\":31}}";
    struct check_verdict v =
        harness_text("json", params, STR("{\"name\":\"Ann\",\"age\":30}"), gold);
    assert_int_equal(v.outcome, SCORE_VALUE);
    assert_true(v.value == 0.5);
    assert_string_equal(v.reason, "wrong_value");
    v = harness_text("json", params, STR("{\"age\":31.0,\"name\":\"Ann\",\"x\":1}"), gold);
    assert_int_equal(v.outcome, SCORE_PASS);
    v = harness_text("json", "{\"mode\":\"embedded\",\"compare\":true,\"ignore_case\":true}",
                     STR("{\"age\":31,\"name\":\"ANN \"}"), gold);
    assert_int_equal(v.outcome, SCORE_PASS);
}

static void test_no_reference_is_unscored(void **state)
{
    (void)state;
    assert_string_equal(harness_text("json", "{\"compare\":true}", STR("1"), NULL).reason,
                        "no_reference");
}

static void test_deep(void **state)
{
    (void)state;
    struct str open = harness_repeat("[", 100000), object = harness_repeat("{\"a\":", 100000);
    assert_int_equal(harness_text("json", "{}", open, NULL).outcome, SCORE_FAIL);
    assert_int_equal(harness_text("json", "{\"mode\":\"embedded\"}", open, NULL).outcome,
                     SCORE_FAIL);
    assert_int_equal(harness_text("json", "{\"mode\":\"embedded\"}", object, NULL).outcome,
                     SCORE_FAIL);
    free((char *)open.p);
    free((char *)object.p);
    struct str deep = harness_repeat("[", 200000);
    memset((char *)deep.p + 100000, ']', 100000);
    assert_int_equal(harness_text("json", "{}", deep, NULL).outcome, SCORE_PASS);
    struct check_verdict v = harness_text("json", "{\"compare\":true}", deep, "{\"reference\":1}");
    assert_string_equal(v.reason, "inconclusive"); /* valid, but more than can be built */
    free((char *)deep.p);
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const piece[] = {"[]",  "[],", "{\"",   "\"\\\"", "```\n",
                                        "[{}", "{x}", "\\u00", "[1,",    "~~~json\n"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], (1 << 20) / strlen(piece[i]));
        harness_text("json", "{\"mode\":\"embedded\",\"keys\":[\"a\"]}", text, NULL);
        harness_text("json", "{\"keys\":[\"a\"]}", text, NULL);
        free((char *)text.p);
    }
    struct str ten = harness_repeat("1", 10 * 1024 * 1024);
    assert_string_equal(harness_text("json", "{}", ten, NULL).reason, "inconclusive");
    free((char *)ten.p);
    struct str nul = {"{}\0", 3}, broken = {"[\"\xFF\"]", 5};
    assert_int_equal(harness_text("json", "{}", nul, NULL).outcome, SCORE_FAIL);
    assert_int_equal(harness_text("json", "{}", broken, NULL).outcome, SCORE_FAIL);
    assert_int_equal(
        harness_text("json", "{\"keys\":[\"a\"]}", STR("{\"a\":\"\\u0000\"}"), NULL).outcome,
        SCORE_PASS);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("json", "{\"mode\":\"loose\"}", "found 'loose', allowed: strict, embedded");
    harness_refuses("json", "{\"types\":{\"a\":\"int\"}}", "types.a: found int, allowed: any");
    harness_refuses("json", "{\"only_keys\":true}", "only_keys");
    harness_refuses("json", "{\"keys\":{}}", "keys");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_keys_with_partial_score),
        cmocka_unit_test(test_no_reference_is_unscored),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
