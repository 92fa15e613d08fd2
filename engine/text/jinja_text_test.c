/* Constant texts of templates, whole and broken ones. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/text/jinja_text.h"

#include <string.h>

static void assert_pieces(const char *jinja, const char *expected)
{
    struct jinja_scan s = {.rest = str_from(jinja)};
    struct str piece;
    struct buf out;
    bool is_quoted;
    buf_init(&out, KiB);
    while (jinja_next(&s, &piece, &is_quoted)) {
        buf_put_c(&out, is_quoted ? "'" : "|");
        buf_put_str(&out, piece);
    }
    assert_str(buf_str(&out), expected);
    buf_free(&out);
}

static void test_pieces(void **state)
{
    (void)state;
    assert_pieces("", "");
    assert_pieces("plain {x} text", "|plain {x} text");
    assert_pieces("a{{ 'b' + \"c'\" }}d{# 'e' #}f{% if x == 'g' %}h", "|a'b'c'|d|f'g|h");
    assert_pieces("{{ 'it\\'s' }}", "|'it\\'s");
    assert_pieces("{{ '%}' }}x", "|'%}|x");
    assert_pieces("{{ 'open", "|'open");
    assert_pieces("{{ 'end\\", "|'end\\");
    assert_pieces("a{# no end", "|a");
    assert_pieces("a{", "|a{");
    assert_pieces("{%", "|");
}

static void test_find(void **state)
{
    (void)state;
    struct str jinja = STR("{% set d = \"26 Jul\" %}{{ 'S\\nYou are \\'X\\'.E' }}{{ 'SE' }}");
    struct buf out;
    buf_init(&out, KiB);
    assert_true(jinja_find_between(jinja, STR("S\n"), STR("E"), &out));
    assert_str(buf_str(&out), "You are 'X'.");
    assert_false(jinja_find_between(STR("{{ 'SE' }}"), STR("S"), STR("E"), &out));
    assert_false(jinja_find_between(STR("{{ 'S' }}x{{ 'E' }}"), STR("S"), STR("E"), &out));
    assert_true(jinja_find_text(jinja, STR("SE"), &out));
    assert_str(buf_str(&out), "SE");
    assert_false(jinja_find_text(jinja, STR("absent"), &out));
    assert_true(jinja_find_quoted_after(jinja, STR("set d = "), &out));
    assert_str(buf_str(&out), "26 Jul");
    assert_false(jinja_find_quoted_after(jinja, STR("set d "), &out));
    assert_false(jinja_find_quoted_after(jinja, STR("{{ 'SE' }}"), &out));
    buf_free(&out);
}

/* Any bytes: it ends, and every piece lies inside the text. */
static void test_any_bytes(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 9);
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t n = rng_below(&r, sizeof text), pieces = 0;
        for (size_t i = 0; i < n; i++)
            text[i] = "{}%#'\"\\ ab"[rng_below(&r, 10)];
        struct jinja_scan s = {.rest = {text, n}};
        struct str piece;
        bool is_quoted;
        while (jinja_next(&s, &piece, &is_quoted)) {
            assert_true(piece.n == 0 || (piece.p >= text && piece.p + piece.n <= text + n));
            assert_true(++pieces <= n + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
