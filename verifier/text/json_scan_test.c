/* The grammar against jansson on random texts; depth; brackets. */
#include "common/rng.h"
#include "common/test.h"
#include "verifier/text/json_scan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* jansson refuses numbers it cannot hold; those are no grammar errors. */
static bool jansson_accepts(struct str s, bool *is_overflow)
{
    json_error_t error;
    json_t *v = json_loadb(s.p, s.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    *is_overflow = !v && json_error_code(&error) == json_error_numeric_overflow;
    json_decref(v);
    return v != NULL;
}

static void test_agrees_with_jansson(void **state)
{
    (void)state;
    static const char *const piece[] = {
        "{",       "}",       "[",        "]",  ",",        ":",    "\"",   "\"a\"",
        "\"b\":",  "1",       "-",        "0",  ".5",       "e3",   "true", "null",
        " ",       "\\u00e9", "\\n",      "\\", "\xC3\xA4", "\xFF", "\n",   "\\ud834\\udd1e",
        "\\ud834", "[1]",     "{\"k\":2}"};
    struct rng r;
    rng_seed(&r, 5);
    int accepted = 0;
    for (int trial = 0; trial < 200000; trial++) {
        char text[128];
        size_t n = 0, pieces = 1 + rng_below(&r, 9);
        for (size_t i = 0; i < pieces; i++) {
            const char *p = piece[rng_below(&r, sizeof piece / sizeof piece[0])];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
        bool is_overflow, theirs = jansson_accepts((struct str){text, n}, &is_overflow);
        bool ours = json_scan_text((struct str){text, n}) == JSON_SCAN_OK;
        accepted += ours;
        if (ours != theirs && !is_overflow)
            fail_msg("'%.*s': we say %d, jansson %d", (int)n, text, ours, theirs);
    }
    assert_true(accepted > 1000);
}

static void test_depth(void **state)
{
    (void)state;
    size_t n = (size_t)JSON_SCAN_DEPTH + 1;
    char *p = malloc(2 * n);
    assert_non_null(p);
    memset(p, '[', n);
    memset(p + n, ']', n);
    assert_int_equal(json_scan_text((struct str){p, 2 * n}), JSON_SCAN_DEEP);
    assert_int_equal(json_scan_text((struct str){p + 1, 2 * n - 2}), JSON_SCAN_OK);
    assert_int_equal(json_scan_text((struct str){p + 1, 2 * n - 3}), JSON_SCAN_BROKEN);
    free(p);
}

static void test_brackets(void **state)
{
    (void)state;
    assert_int_equal(json_scan_brackets(STR("{a [b] \"}\" } tail"), 0), 12);
    assert_int_equal(json_scan_brackets(STR("{\"\\\"}\"}"), 0), 7);
    assert_int_equal(json_scan_brackets(STR("[["), 0), 3);
    assert_int_equal(json_scan_brackets(STR("[\"\\"), 0), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_jansson),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_brackets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
