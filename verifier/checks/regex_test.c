/* Search, negation, what needs backtracking; catastrophic patterns are fast or inconclusive. */
#include "verifier/check_harness.h"

static void test_negate(void **state)
{
    (void)state;
    const char *params = "{\"pattern\":\"(?i)as an ai\",\"negate\":true}";
    assert_int_equal(harness_text("regex", params, STR("fine"), NULL).outcome, SCORE_PASS);
    assert_string_equal(harness_text("regex", params, STR("As an AI, I"), NULL).reason, "matches");
}

static void test_flags(void **state)
{
    (void)state;
    assert_int_equal(
        harness_text("regex", "{\"pattern\":\"^b$\",\"multi_line\":true}", STR("a\nb"), NULL)
            .outcome,
        SCORE_PASS);
    assert_int_equal(
        harness_text("regex", "{\"pattern\":\"a.b\",\"dot_all\":true}", STR("a\nb"), NULL).outcome,
        SCORE_PASS);
    assert_int_equal(harness_text("regex", "{\"pattern\":\"STRA\\u00dfE\",\"ignore_case\":true}",
                                  STR("stra\xC3\x9F"
                                      "e"),
                                  NULL)
                         .outcome,
                     SCORE_PASS);
}

/* Patterns that take a backtracking engine exponential or cubic time. */
static void test_catastrophes(void **state)
{
    (void)state;
    static const char *const pattern[] = {
        "(a+)+$",          "(a|aa)+$",    "(a|a)*$",
        "^(a?){40}a{40}$", "(.*a){20}b",  "([a-z]+)*=",
        "(a*)*b",          "\\\\s+$",     "(?:a+)+[^a]",
        "(a+)\\\\1b",      "(?=(a+)+$)b", "(?<=a{10})b",
        "(x+x+)+y",        "a++b",        "((a{1,20}){1,20}){1,20}c",
    };
    struct str text[] = {harness_repeat("a", 40), harness_repeat("a", 100000),
                         harness_repeat(" ", 100000), harness_repeat("ab", 500000),
                         harness_repeat("a", 1 << 20)};
    for (size_t p = 0; p < sizeof pattern / sizeof pattern[0]; p++) {
        char params[128];
        snprintf(params, sizeof params, "{\"pattern\":\"%s\"}", pattern[p]);
        for (size_t t = 0; t < sizeof text / sizeof text[0]; t++) {
            struct check_verdict v = harness_text("regex", params, text[t], NULL);
            assert_true(v.outcome != SCORE_UNSCORED || strcmp(v.reason, "inconclusive") == 0);
        }
    }
    for (size_t t = 0; t < sizeof text / sizeof text[0]; t++)
        free((char *)text[t].p);
}

static void test_linear_on_long_texts(void **state)
{
    (void)state;
    struct str spaces = harness_repeat(" ", 200000), letters = harness_repeat("a", 200000);
    assert_int_equal(harness_text("regex", "{\"pattern\":\"\\\\s+$\"}", letters, NULL).outcome,
                     SCORE_FAIL);
    assert_int_equal(harness_text("regex", "{\"pattern\":\"\\\\s+x\"}", spaces, NULL).outcome,
                     SCORE_FAIL);
    assert_int_equal(harness_text("regex", "{\"pattern\":\"(a+)+$\"}", letters, NULL).outcome,
                     SCORE_PASS);
    free((char *)spaces.p);
    free((char *)letters.p);
}

static void test_texts_that_are_no_texts(void **state)
{
    (void)state;
    struct str broken = {"a\xFF"
                         "b",
                         3},
               nul = {"a\0b", 3}, empty = {NULL, 0};
    assert_string_equal(harness_text("regex", "{\"pattern\":\"b\"}", broken, NULL).reason,
                        "invalid_text");
    assert_int_equal(harness_text("regex", "{\"pattern\":\"a.b\"}", nul, NULL).outcome, SCORE_PASS);
    assert_int_equal(harness_text("regex", "{\"pattern\":\"^$\"}", empty, NULL).outcome,
                     SCORE_PASS);
    struct str long_text = harness_repeat("a", 10 * 1024 * 1024);
    assert_string_equal(harness_text("regex", "{\"pattern\":\"a\"}", long_text, NULL).reason,
                        "inconclusive");
    free((char *)long_text.p);
}

static void test_refusals(void **state)
{
    (void)state;
    harness_refuses("regex", "{}", "pattern: found 0 bytes");
    harness_refuses("regex", "{\"pattern\":\"a(\"}", "missing closing parenthesis at byte 2");
    harness_refuses("regex", "{\"pattern\":\"\\\\C\"}", "pattern:");
    harness_refuses("regex", "{\"pattern\":\"((((a{1,60}){1,60}){1,60}){1,60})\"}", "pattern:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_negate),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_catastrophes),
        cmocka_unit_test(test_linear_on_long_texts),
        cmocka_unit_test(test_texts_that_are_no_texts),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
