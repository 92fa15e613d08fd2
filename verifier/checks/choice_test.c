/* References, the text of a choice instead of its letter, bounded work. */
#include "verifier/check_harness.h"

static void test_references(void **state)
{
    (void)state;
    struct str text = STR("The answer is (C).");
    assert_int_equal(harness_text("choice", "{}", text, "{\"reference\":\"C\"}").outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("choice", "{\"reference\":\"b\"}", text, NULL).outcome,
                     SCORE_FAIL);
    assert_string_equal(harness_text("choice", "{}", text, NULL).reason, "no_reference");
    assert_string_equal(harness_text("choice", "{}", text, "{\"reference\":\"42\"}").reason,
                        "bad_reference");
    assert_int_equal(
        harness_text("choice", "{\"letters\":2}", text, "{\"reference\":\"C\"}").outcome,
        SCORE_FAIL);
}

static void test_text_of_a_choice(void **state)
{
    (void)state;
    static const char metadata[] =
        "{\"reference\":\"B\",\"choices\":[\"London\",\"Paris\",\"Rome\"]}";
    assert_int_equal(harness_text("choice", "{}", STR("Answer: paris."), metadata).outcome,
                     SCORE_PASS);
    assert_int_equal(harness_text("choice", "{}", STR("Answer: Rome"), metadata).outcome,
                     SCORE_FAIL);
    assert_string_equal(harness_text("choice", "{}", STR("Berlin"), metadata).reason, "no_letter");
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const piece[] = {
        "answer ",    "option ", "(",  "(B",      "\\boxed{",        "*",
        "answer is ", "\xFF",    "A ", "\\text{", "choice: option: "};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        struct str text = harness_repeat(piece[i], HOSTILE_BYTES / 8 / strlen(piece[i]));
        harness_text("choice", "{}", text, "{\"reference\":\"C\",\"choices\":[\"x\"]}");
        free((char *)text.p);
    }
    struct str nul = {"B\0C", 3};
    assert_int_equal(harness_text("choice", "{}", nul, "{\"reference\":\"C\"}").outcome,
                     SCORE_FAIL);
    harness_refuses("choice", "{\"reference\":\"42\"}", "allowed: a letter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_text_of_a_choice),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
