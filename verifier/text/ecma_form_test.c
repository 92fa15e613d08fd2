/* Patterns of ECMA-262 mean the same behind the form; what is none is refused. */
#include "common/test.h"
#include "verifier/check_harness.h"
#include "verifier/text/pattern.h"

static enum pattern_result search(const char *pattern, struct str text)
{
    struct err e = {0};
    struct pattern *p = NULL;
    struct pattern_work *w = pattern_work_new(0);
    assert_non_null(w);
    assert_ok(pattern_open(&p, str_from(pattern), PATTERN_ECMA, &e), &e);
    enum pattern_result found = pattern_search(p, text, w);
    pattern_close(p);
    pattern_work_free(w);
    return found;
}

static void test_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool is_found;
    } row[] = {
        {"^\\s$", "\xC2\xA0", true},
        {"^\\s$", "\xEF\xBB\xBF", true},
        {"^[\\sx]$", "\xE2\x80\xA8", true},
        {"^\\S$", "\xC2\xA0", false},
        {"^[\\s\\S]$", "\xC2\xA0", true},
        {"^\\d$", "\xD9\xA1", false},
        {"^\\w$", "\xC3\xA9", false},
        {"^\\u00e9$", "\xC3\xA9", true},
        {"^\\u{1F600}$", "\xF0\x9F\x98\x80", true},
        {"^\\ud83d\\ude00$", "\xF0\x9F\x98\x80", true},
        {"^[\\u0041-\\u0043]+$", "ABC", true},
        {"^\\p{Letter}$", "\xC3\xA9", true},
        {"^\\P{Letter}$", "1", true},
        {"^\\p{gc=Decimal_Number}$", "7", true},
        {"^\\p{Lu}$", "a", false},
        {"[]", "x", false},
        {"a[^]b", "a\nb", true},
        {"^[[:x]+$", "[:x", true},
        {"a$", "a\n", false},
        {"^\\cA\\v\\0$", "\x01\x0b", false},
        {"(?<y>a)\\k<y>", "aa", true},
        {"(a)|b\\1c", "bc", true},
        {"^[\\]\\-]+$", "]-", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if ((search(row[i].pattern, str_from(row[i].text)) == PATTERN_FOUND) != row[i].is_found)
            fail_msg("%s", row[i].pattern);
    assert_int_equal(search("^\\0$", (struct str){"\0", 1}), PATTERN_FOUND);
    assert_int_equal(search("a", (struct str){"\xFF", 1}), PATTERN_BAD_TEXT);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *words;
    } row[] = {
        {"\\Z", "is no escape of ECMA-262"},
        {"a\\", "at byte 1"},
        {"\\u12", "'\\u12'"},
        {"\\u{}", "no escape"},
        {"\\pL", "no escape"},
        {"\\p{Lette", "no escape"},
        {"\\p{Nothing}", "pattern:"},
        {"(?<=a+)b", "pattern:"},
        {"", "found 0 bytes"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct err e = {0};
        struct pattern *p;
        assert_int_equal(pattern_open(&p, str_from(row[i].pattern), PATTERN_ECMA, &e), ERR_INVALID);
        assert_null(p);
        if (!strstr(e.msg, row[i].words))
            fail_msg("%s: '%s' does not say '%s'", row[i].pattern, e.msg, row[i].words);
    }
}

/* The budget is one output's, however many searches it has. */
static void test_budget_is_shared(void **state)
{
    (void)state;
    struct err e = {0};
    struct pattern *p;
    struct pattern_work *w = pattern_work_new(0);
    struct str text = harness_repeat("ab", 20000);
    assert_ok(pattern_open(&p, STR("(a|b|ab)*c"), 0, &e), &e);
    enum pattern_result last = PATTERN_ABSENT;
    for (int i = 0; i < 10000 && last != PATTERN_INCONCLUSIVE; i++)
        last = pattern_search(p, text, w);
    assert_int_equal(last, PATTERN_INCONCLUSIVE);
    pattern_close(p);
    pattern_work_free(w);
    free((char *)text.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_budget_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
