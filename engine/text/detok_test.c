/* The pieces of a stream against the whole text: cut code points, stop strings across borders. */
#include "engine/text/fixture_test.h"

#include "common/rng.h"
#include "engine/text/detok.h"

static const struct fixture PLAIN = {
    .merge = {"a b", "ab ab", "c a", "= ="},
    .control = {"<|im_end|>"},
    .user = {"<think>"},
};

static struct gguf *file;
static struct tokenizer *tok;

static int setup(void **state)
{
    (void)state;
    struct err e = {0};
    file = fixture_open(&PLAIN);
    assert_ok(tokenizer_open(&tok, file, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tokenizer_close(tok);
    gguf_close(file);
    return 0;
}

/* Pushes the ids one by one; what was handed out, with | between pieces. */
static void stream(const int32_t *ids, size_t n, const struct str *stop, uint32_t n_stop,
                   struct buf *out, bool mark)
{
    struct detok d;
    struct str piece;
    detok_init(&d, tok, stop, n_stop, MiB);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            detok_push(&d, ids[i], &piece);
        else
            detok_finish(&d, &piece);
        assert_true(utf8_is_valid(piece));
        buf_put_str(out, piece);
        if (mark)
            buf_put_char(out, '|');
    }
    assert_int_equal(d.emitted_bytes, d.text.n);
    detok_fini(&d);
}

static void assert_stream(const int32_t *ids, size_t n, const char *stop, const char *expected)
{
    struct buf out;
    struct str stops[1] = {str_from(stop)};
    buf_init(&out, KiB);
    stream(ids, n, stops, 1, &out, true);
    assert_str(buf_str(&out), expected);
    buf_free(&out);
}

static void test_cut_code_points(void **state)
{
    (void)state;
    int32_t smile[] = {'x', 0xF0, 0x9F, 0x98, 0x80, 'y'};
    assert_stream(smile, 6, "", "x||||\xF0\x9F\x98\x80|y||");
    int32_t broken[] = {0xF0, 0x9F, 'a', 0xFF};
    assert_stream(broken, 4, "",
                  "||\xEF\xBF\xBD"
                  "a|\xEF\xBF\xBD||");
    int32_t cut[] = {'a', 0xE4, 0xBA};
    assert_stream(cut, 3, "",
                  "a|||\xEF\xBF\xBD|"); /* one replacement for the cut one, at the end */
}

static void test_special_has_no_text(void **state)
{
    (void)state;
    int32_t ids[] = {'a', fixture_id(&PLAIN, "<|im_end|>"), fixture_id(&PLAIN, "<think>"), -5, 'b'};
    assert_stream(ids, 5, "", "a||<think>||b||");
}

static void test_stop_across_tokens(void **state)
{
    (void)state;
    int32_t ids[] = {'x', '\n', '\n', 'U', 's', 'e', 'r', ':', 'y'};
    assert_stream(ids, 9, "\nUser:", "x||\n||||||||");
    int32_t near[] = {'\n', 'U', 's', 'x', '\n', 'U'};
    assert_stream(near, 6, "\nUser:", "|||\nUsx|||\nU|"); /* held back, then let go */
    int32_t inside[] = {'x', 256 + 1, 'z'};               /* "abab" is one token */
    assert_stream(inside, 3, "ba", "x|a|||");
}

static void test_first_complete_wins(void **state)
{
    (void)state;
    struct buf out;
    int32_t ids[] = {'a', 'b', 'c', 'd', 'e'};
    struct str early[] = {STR("bcde"), STR("c")}, together[] = {STR("d"), STR("bcd")};
    buf_init(&out, KiB);
    stream(ids, 5, early, 2, &out, false);
    assert_str(buf_str(&out), "ab");
    buf_reset(&out);
    stream(ids, 5, together, 2, &out, false);
    assert_str(buf_str(&out), "a");
    buf_free(&out);
}

/* The definition, on the whole text: smallest end, then smallest start. */
static size_t cut_by_stops(struct str text, const struct str *stop, uint32_t n)
{
    for (size_t end = 1; end <= text.n; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < n; i++)
            if (stop[i].n && str_ends(str_slice(text, 0, end), stop[i]) && stop[i].n > longest)
                longest = stop[i].n;
        if (longest)
            return end - longest;
    }
    return text.n;
}

/* How much of text a stream may have handed out: not what could still become a stop string. */
static void assert_nothing_early(const int32_t *ids, size_t n, const struct str *stop,
                                 uint32_t n_stop, size_t limit)
{
    struct detok d;
    struct str piece;
    detok_init(&d, tok, stop, n_stop, MiB);
    for (size_t i = 0; i < n; i++) {
        detok_push(&d, ids[i], &piece);
        assert_true(d.emitted_bytes <= limit);
    }
    detok_fini(&d);
}

static void test_against_whole_text(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"ab",       "aab",       "aaa", "c",   "ca", "abc",
                                        "\xC3\xA9", "a\xC3\xA9", "=",   "=a=", "",   "abababc"};
    struct rng r;
    rng_seed(&r, 5);
    for (int round = 0; round < 20000; round++) {
        int32_t ids[24];
        size_t n = 1 + rng_below(&r, 24);
        struct str stop[4];
        uint32_t n_stop = (uint32_t)rng_below(&r, 5);
        for (uint32_t i = 0; i < n_stop; i++)
            stop[i] = str_from(STOPS[rng_below(&r, sizeof STOPS / sizeof *STOPS)]);
        for (size_t i = 0; i < n; i++)
            ids[i] =
                (int32_t[]){'a', 'b', 'c', 'a', 0xC3, 0xA9, '=', 256, 257, 258}[rng_below(&r, 10)];
        struct buf whole, out;
        buf_init(&whole, KiB);
        buf_init(&out, KiB);
        stream(ids, n, NULL, 0, &whole, false);
        stream(ids, n, stop, n_stop, &out, false);
        size_t want = cut_by_stops(buf_str(&whole), stop, n_stop);
        if (!str_eq(buf_str(&out), str_slice(buf_str(&whole), 0, want)))
            fail_msg("round %d: got '" STR_FMT "' of '" STR_FMT "', want %zu bytes", round,
                     STR_ARG(buf_str(&out)), STR_ARG(buf_str(&whole)), want);
        assert_nothing_early(ids, n, stop, n_stop, want);
        buf_free(&whole);
        buf_free(&out);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct detok d;
    struct str piece, many[DETOK_MAX_STOPS + 1];
    for (int i = 0; i <= DETOK_MAX_STOPS; i++)
        many[i] = STR("zz");
    detok_init(&d, tok, many, DETOK_MAX_STOPS + 1, MiB);
    assert_true(d.text.failed);
    detok_push(&d, 'a', &piece);
    assert_int_equal(piece.n, 0);
    detok_fini(&d);
    detok_init(&d, tok, many, DETOK_MAX_STOPS, 3);
    for (int i = 0; i < 6; i++)
        detok_push(&d, 'a', &piece);
    assert_true(d.text.failed);
    assert_str(buf_str(&d.text), "aaa");
    detok_finish(&d, &piece);
    assert_int_equal(piece.n, 0);
    detok_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_code_points),    cmocka_unit_test(test_special_has_no_text),
        cmocka_unit_test(test_stop_across_tokens), cmocka_unit_test(test_first_complete_wins),
        cmocka_unit_test(test_against_whole_text), cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
