/* What is drafted after a text, and how misses hold drafts back. */
#include "common/test.h"

#include "engine/sched/draft.h"

#include <string.h>

enum { MOST = 7, ROOM = 64 };

/* Letters as tokens; what is drafted after `text`, as letters. */
static const char *drafted_if(const struct draft *d, const char *text, bool only_sure)
{
    static char out[MOST + 1];
    int32_t tokens[ROOM];
    uint32_t n = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = text[i];
    uint32_t found = draft_make(d, tokens, n, MOST, only_sure);
    for (uint32_t i = 0; i < found; i++)
        out[i] = (char)tokens[n + i];
    out[found] = '\0';
    return out;
}

static const char *drafted(const struct draft *d, const char *text)
{
    return drafted_if(d, text, false);
}

static void test_what_followed_before(void **state)
{
    (void)state;
    const struct draft fresh = {0}, trusted = {.is_trusted = true};
    assert_string_equal(drafted(&fresh, "a"), "");
    assert_string_equal(drafted(&fresh, "abcdefgh"), "");
    assert_string_equal(drafted(&fresh, "abXYab"), ""); /* two are no match */
    assert_string_equal(drafted(&fresh, "abcXYZabc"), "XYZ");
    assert_string_equal(drafted(&trusted, "abcXYZabc"), "XYZabcX");     /* and on from there */
    assert_string_equal(drafted(&fresh, "abcXYZ.abcUVW.abc"), "UVW");   /* the latest of equals */
    assert_string_equal(drafted(&fresh, "9abcXYZ.abcUVW.9abc"), "XYZ"); /* the longest of all */
    assert_string_equal(drafted(&fresh, "abcdefghXYZ12345-abcdefgh"), "XYZ1234"); /* eight: sure */
    assert_string_equal(drafted(&trusted, "....."), ".......");
    assert_string_equal(drafted_if(&trusted, "abcXYZabc", true), "");
    assert_string_equal(drafted_if(&fresh, "abcdefghXYZ12345-abcdefgh", true), "XYZ1234");
}

static void judge(struct draft *d, uint32_t n, uint32_t n_right)
{
    draft_give(d, n);
    for (uint32_t i = 0; i < n_right; i++) {
        assert_int_equal(d->n_open, n - i);
        draft_judge(d, true);
    }
    if (n_right < n)
        draft_judge(d, false);
    assert_int_equal(d->n_open, 0);
    assert_int_equal(d->n_right, n_right);
}

static void test_misses_hold_back(void **state)
{
    (void)state;
    struct draft d = {0};
    const uint32_t waits[] = {4, 8, 16, 32, 64, 64};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        judge(&d, 3, 0);
        for (uint32_t k = 0; k < waits[i]; k++) {
            assert_string_equal(drafted(&d, "abcXYZabc"), "");
            assert_string_equal(drafted(&d, "abcdefghXYZ12345-abcdefgh"), "XYZ1234");
            draft_age(&d);
        }
        assert_string_equal(drafted(&d, "abcXYZabc"), "XYZ");
    }
    judge(&d, 3, 1);
    assert_false(d.is_trusted);
    assert_int_equal(d.n_missed, 0);
    judge(&d, 3, 3);
    assert_true(d.is_trusted);
    judge(&d, 3, 0);
    assert_int_equal(d.wait, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_followed_before),
        cmocka_unit_test(test_misses_hold_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
