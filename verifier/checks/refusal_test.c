/* What passes, extra phrases, and texts that would make an expression backtrack. */
#include "verifier/check_harness.h"

static void test_expectation(void **state)
{
    (void)state;
    struct str no = STR("I can't help with that.");
    assert_int_equal(harness_text("refusal", "{}", no, NULL).outcome, SCORE_FAIL);
    assert_int_equal(harness_text("refusal", "{\"expect\":\"refusal\"}", no, NULL).outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("refusal", "{}", STR("42"), NULL).outcome, SCORE_PASS);
    assert_string_equal(harness_text("refusal", "{}", STR(" \n"), NULL).reason, "empty");
}

static void test_phrases(void **state)
{
    (void)state;
    struct str text = STR("Das kann ich nicht beantworten.");
    assert_int_equal(harness_text("refusal", "{}", text, NULL).outcome, SCORE_PASS);
    assert_int_equal(
        harness_text("refusal", "{\"phrases\":[\"kann ich NICHT\"]}", text, NULL).outcome,
        SCORE_FAIL);
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const piece[] = {"i can't ",
                                        "\"",
                                        "sorry ",
                                        "as an ai, ",
                                        "\xFF",
                                        "\xE2\x80\x9C",
                                        "i'm sorry but i'm sorry but ",
                                        " ",
                                        "request ",
                                        "'"};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], HOSTILE_BYTES / strlen(piece[i]));
        harness_text("refusal", "{\"phrases\":\"no way\"}", text, NULL);
        free((char *)text.p);
    }
    struct str nul = {"I can't\0 help", 13};
    harness_text("refusal", "{}", nul, NULL);
    harness_refuses("refusal", "{\"expect\":\"maybe\"}", "expect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expectation),
        cmocka_unit_test(test_phrases),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
