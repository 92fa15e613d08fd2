/* References of every JSON type; tolerance; unscored without a usable reference; bounded work. */
#include "verifier/check_harness.h"

static void test_reference_types(void **state)
{
    (void)state;
    assert_int_equal(harness_text("number", "{}", STR("so 42."), "{\"reference\":42}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("number", "{}", STR("0.1"), "{\"reference\":0.1}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("number", "{}", STR("7"), "{\"reference\":\"#### 7\"}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("number", "{\"reference\":\"7\"}", STR("8"), NULL).outcome,
                     SCORE_FAIL);
    assert_int_equal(
        harness_text("number", "{\"field\":\"gold\"}", STR("7"), "{\"gold\":7}").outcome,
        SCORE_PASS);
}

static void test_unscored(void **state)
{
    (void)state;
    assert_string_equal(harness_text("number", "{}", STR("1"), NULL).reason, "no_reference");
    assert_string_equal(harness_text("number", "{}", STR("1"), "{\"reference\":[1]}").reason,
                        "no_reference");
    assert_string_equal(harness_text("number", "{}", STR("1"), "{\"reference\":\"x\"}").reason,
                        "bad_reference");
    struct check_verdict v = harness_text("number", "{}", STR("none"), "{\"reference\":1}");
    assert_int_equal(v.outcome, SCORE_FAIL);
    assert_string_equal(v.reason, "no_number");
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const piece[] = {"9", "1,", "1.",   "-",        "1 000 ", "answer is ",
                                        "{", "=",  "####", "\\boxed{", "1e9",    "\xE2\x88\x92"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], HOSTILE_BYTES / strlen(piece[i]));
        struct check_verdict v = harness_text("number", "{}", text, "{\"reference\":3}");
        assert_int_equal(v.outcome, SCORE_FAIL);
        free((char *)text.p);
    }
    struct str nul = {"a\0 7\0", 6};
    assert_int_equal(harness_text("number", "{}", nul, "{\"reference\":7}").outcome, SCORE_PASS);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("number", "{\"reference\":\"seven\"}", "allowed: a number");
    harness_refuses("number", "{\"tolerance\":-1}", "tolerance");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_types),
        cmocka_unit_test(test_unscored),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
