/* The rewritten pattern matches exactly what the pattern matches: on random patterns and texts. */
#include "common/rng.h"
#include "common/test.h"
#include "verifier/text/regex_form.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static void forms(const char *pattern, const char *expected)
{
    struct buf b;
    buf_init(&b, 4096);
    assert_true(regex_form(str_from(pattern), &b));
    assert_str(buf_str(&b), expected);
    buf_free(&b);
}

static void test_items(void **state)
{
    (void)state;
    forms("\\s+$", "(?:\\s)+$");
    forms("ab+?c", "a(?:b)+?c");
    forms("[]a+]+", "(?:[]a+])+");
    forms("[[:alpha:]\\]+]+x", "(?:[[:alpha:]\\]+])+x");
    forms("\\p{Lu}+\\x{41}+\\x41+", "(?:\\p{Lu})+(?:\\x{41})+(?:\\x41)+");
    forms("(ab)+a{2}", "(ab)+a{2}");
    forms("\\+\\\\+", "\\+(?:\\\\)+");
    forms("\xC3\xA4+", "(?:\xC3\xA4)+");
    forms("a", "a");
    forms("\\", "\\");
    forms("[a+", "[a+");
}

static void test_what_a_dfa_treats_otherwise(void **state)
{
    (void)state;
    static const char *const pattern[] = {
        "a++",   "(a)*+",   "a{2}+", "a?+",    "(?>a)", "(?x) a +", "\\Qa+\\E", "(*ACCEPT)a",
        "(?R)?", "(?(1)a)", "(?1)",  "(?P>n)", "(?&n)", "(?#a+)",   "(?C1)a",
    };
    struct buf b;
    buf_init(&b, 4096);
    for (size_t i = 0; i < sizeof pattern / sizeof pattern[0]; i++)
        if (regex_form(str_from(pattern[i]), &b))
            fail_msg("%s is not for a DFA", pattern[i]);
    buf_free(&b);
}

static pcre2_code *compile(struct str p)
{
    int code;
    size_t at;
    return pcre2_compile((PCRE2_SPTR)p.p, p.n, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
}

/* Start and end of the first match; (size_t)-1 when there is none. */
static void first_match(pcre2_code *c, struct str text, size_t out[2])
{
    pcre2_match_data *d = pcre2_match_data_create(1, NULL);
    int rc = pcre2_match(c, (PCRE2_SPTR)text.p, text.n, 0, 0, d, NULL);
    out[0] = out[1] = (size_t)-1;
    if (rc >= 0)
        memcpy(out, pcre2_get_ovector_pointer(d), 2 * sizeof *out);
    pcre2_match_data_free(d);
}

static size_t random_text(struct rng *r, const char *const *piece, size_t n_piece, size_t most,
                          char *out)
{
    size_t n = 0, pieces = 1 + rng_below(r, most);
    for (size_t i = 0; i < pieces; i++) {
        const char *p = piece[rng_below(r, n_piece)];
        memcpy(out + n, p, strlen(p));
        n += strlen(p);
    }
    return n;
}

static void test_means_the_same(void **state)
{
    (void)state;
    static const char *const items[] = {"a",       "b",    "+",   "+",     "*",   "?",
                                        "[ab]",    "[^a]", "\\w", "(",     ")",   "|",
                                        "{2}",     "++",   "+?",  "\\x61", ".",   "[]a]",
                                        "\\p{L}",  "(?:",  "^",   "$",     "\\1", "\xC3\xA4",
                                        "[\\]b+]", "\\d",  "(?=", "\\."};
    static const char *const letters[] = {"a", "b", "+", "]", "\xC3\xA4", ".", "1"};
    struct rng r;
    rng_seed(&r, 9);
    struct buf b;
    buf_init(&b, 4096);
    int compared = 0;
    for (int trial = 0; trial < 100000; trial++) {
        char p[128], t[64];
        struct str pattern = {p, random_text(&r, items, sizeof items / sizeof items[0], 8, p)};
        struct str text = {t, random_text(&r, letters, 7, 10, t)};
        pcre2_code *was = compile(pattern);
        if (!was)
            continue;
        buf_reset(&b);
        if (!regex_form(pattern, &b)) {
            pcre2_code_free(was);
            continue;
        }
        pcre2_code *is = compile(buf_str(&b));
        if (!is)
            fail_msg("'%.*s' became '" STR_FMT "'", (int)pattern.n, p, STR_ARG(buf_str(&b)));
        size_t x[2], y[2];
        first_match(was, text, x);
        first_match(is, text, y);
        if (x[0] != y[0] || x[1] != y[1])
            fail_msg("'%.*s' and '" STR_FMT "' differ on '%.*s'", (int)pattern.n, p,
                     STR_ARG(buf_str(&b)), (int)text.n, t);
        compared += memchr(p, '+', pattern.n) != NULL;
        pcre2_code_free(was);
        pcre2_code_free(is);
    }
    assert_true(compared > 2000);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_what_a_dfa_treats_otherwise),
        cmocka_unit_test(test_means_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
