/* SentencePiece on a hand-made vocabulary: order of merges, byte and unknown tokens, the space in
 * front, a stream of bytes, bad files, and time that stays n log n. */
#include "engine/text/fixture_test.h"

#include "common/rng.h"
#include "engine/text/detok.h"
#include "engine/text/vocab.h"

#include <math.h>
#include <stdio.h>

enum { N_BYTES = 256, FIRST_BYTE = 4, FIRST_PIECE = FIRST_BYTE + N_BYTES, MAX_IDS = 64 };

static const char *const PIECES[] = {"\xE2\x96\x81",
                                     "a",
                                     "b",
                                     "c",
                                     "ab",
                                     "bc",
                                     "aa",
                                     "é",
                                     "aaaa",
                                     ("\xE2\x96\x81"
                                      "ab")};
static const float SCORES[] = {-20, -21, -22, -23, -3, -2, -4, -24, -5, -1};
enum { N_PIECES = sizeof SCORES / sizeof *SCORES };
enum { SPACE = FIRST_PIECE, A, B, C, AB, BC, AA, E_ACUTE, AAAA, SPACE_AB };

struct pieces {
    bool has_bytes, has_prefix, has_map;
    const char *byte_text; /* in place of <0x00> */
    float extra_score;     /* of the last piece, when not 0 */
    uint32_t n_scores_less;
};

static void put_tokens(struct buf *b, const struct pieces *p)
{
    static const char *const FIRST[] = {"<unk>", "<s>", "</s>", "  "};
    char text[8];
    fixture_array(b, "tokenizer.ggml.tokens", GGUF_STRING, FIRST_PIECE + N_PIECES);
    for (int i = 0; i < FIRST_BYTE; i++)
        fixture_text(b, str_from(FIRST[i]));
    for (int i = 0; i < N_BYTES; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        fixture_text(b, str_from(i == 0 && p->byte_text ? p->byte_text : text));
    }
    for (int i = 0; i < N_PIECES; i++)
        fixture_text(b, str_from(PIECES[i]));
}

static void put_types(struct buf *b, const struct pieces *p)
{
    static const uint32_t FIRST[] = {TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_CONTROL,
                                     TOKEN_USER_DEFINED};
    fixture_array(b, "tokenizer.ggml.token_type", GGUF_I32, FIRST_PIECE + N_PIECES);
    for (int i = 0; i < FIRST_PIECE + N_PIECES; i++)
        fixture_u32(b, i < FIRST_BYTE     ? FIRST[i]
                       : i >= FIRST_PIECE ? TOKEN_NORMAL
                       : p->has_bytes     ? TOKEN_BYTE
                                          : TOKEN_UNUSED);
}

static void put_scores(struct buf *b, const struct pieces *p)
{
    uint32_t n = FIRST_PIECE + N_PIECES - p->n_scores_less;
    fixture_array(b, "tokenizer.ggml.scores", GGUF_F32, n);
    for (uint32_t i = 0; i < n; i++) {
        float score = i < FIRST_PIECE ? 0 : SCORES[i - FIRST_PIECE];
        if (i + 1 == n && p->extra_score != 0)
            score = p->extra_score;
        buf_put(b, &score, sizeof score);
    }
}

static struct gguf *open_pieces(const struct pieces *p)
{
    char path[] = "/tmp/milepost_spm_XXXXXX";
    struct err e = {0};
    struct gguf *g = NULL;
    struct buf b;
    uint64_t n_tensors = 0, n_keys = 8 + p->has_map;
    buf_init(&b, MiB);
    buf_put_c(&b, "GGUF");
    fixture_u32(&b, 3);
    buf_put(&b, &n_tensors, 8);
    buf_put(&b, &n_keys, 8);
    fixture_key(&b, "tokenizer.ggml.model", GGUF_STRING);
    fixture_text(&b, STR("llama"));
    put_tokens(&b, p);
    put_types(&b, p);
    put_scores(&b, p);
    fixture_key(&b, "tokenizer.ggml.unknown_token_id", GGUF_U32), fixture_u32(&b, 0);
    fixture_key(&b, "tokenizer.ggml.bos_token_id", GGUF_U32), fixture_u32(&b, 1);
    fixture_key(&b, "tokenizer.ggml.eos_token_id", GGUF_U32), fixture_u32(&b, 2);
    fixture_key(&b, "tokenizer.ggml.add_space_prefix", GGUF_BOOL);
    buf_put_char(&b, p->has_prefix);
    if (p->has_map) {
        fixture_array(&b, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, 1);
        buf_put_char(&b, 1);
    }
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_ok(io_write_all(fd, buf_str(&b), &e), &e);
    close(fd);
    buf_free(&b);
    assert_ok(gguf_open(&g, path, &e), &e);
    unlink(path);
    return g;
}

static struct tokenizer *open_tokenizer(const struct pieces *p)
{
    struct err e = {0};
    struct tokenizer *t;
    struct gguf *g = open_pieces(p);
    assert_ok(tokenizer_open(&t, g, &e), &e);
    gguf_close(g);
    return t;
}

/* want ends with -1. */
static void assert_ids(const struct tokenizer *t, const char *text, bool parse_special,
                       const int32_t *want)
{
    struct err e = {0};
    int32_t ids[MAX_IDS];
    size_t n;
    assert_ok(tokenizer_encode(t, str_from(text), parse_special, ids, MAX_IDS, &n, &e), &e);
    for (size_t i = 0; i < n; i++)
        if (ids[i] != want[i])
            fail_msg("'%s': id %zu is %d, want %d", text, i, ids[i], want[i]);
    assert_int_equal(want[n], -1);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

static void test_merges_by_score(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true});
    assert_ids(t, "abc", false, IDS(A, BC));
    assert_ids(t, "aaaaa", false, IDS(AAAA, A));
    assert_ids(t, " ab", false, IDS(SPACE_AB));
    assert_ids(t,
               "\xE2\x96\x81"
               "ab",
               false, IDS(SPACE_AB));
    assert_ids(t, "a  ab", false, IDS(A, 3, AB)); /* user defined: before any merge */
    assert_ids(t, "<s>", true, IDS(1));
    tokenizer_close(t);
}

static void test_bytes_and_unknown(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true});
    assert_ids(t, "aéè\xFF", false,
               IDS(A, E_ACUTE, FIRST_BYTE + 0xC3, FIRST_BYTE + 0xA8, FIRST_BYTE + 0xFF));
    assert_int_equal(tokenizer_get_info(t)->n_missing_bytes, 0);
    assert_true(tokenizer_get_info(t)->add_bos);
    tokenizer_close(t);
    t = open_tokenizer(&(struct pieces){.has_bytes = false});
    assert_ids(t, "axyb", false, IDS(A, 0, B)); /* one for both */
    tokenizer_close(t);
}

static void test_space_in_front(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true, .has_prefix = true});
    struct buf out;
    buf_init(&out, KiB);
    assert_ids(t, "ab", false, IDS(SPACE_AB));
    assert_ids(t, "<s>ab</s>", true, IDS(1, SPACE_AB, 2));
    assert_ids(t, "a  ab", false, IDS(SPACE, A, 3, AB));
    assert_ids(t, " ab", false, IDS(3, AB));
    tokenizer_decode(t, IDS(1, SPACE_AB, SPACE_AB), 3, true, &out);
    assert_str(buf_str(&out), "ab ab");
    buf_free(&out);
    tokenizer_close(t);
}

/* A code point that comes in byte tokens leaves whole; bytes that make none leave as U+FFFD. */
static void test_stream(void **state)
{
    (void)state;
    static const struct {
        int32_t id;
        const char *piece;
    } steps[] = {{A, "a"},
                 {FIRST_BYTE + 0xC3, ""},
                 {FIRST_BYTE + 0xA8, "è"},
                 {FIRST_BYTE + 0xE2, ""},
                 {SPACE_AB, "\xEF\xBF\xBD ab"},
                 {2, ""}};
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true});
    struct detok d;
    detok_init(&d, t, NULL, 0, KiB);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct str piece;
        detok_push(&d, steps[i].id, &piece);
        assert_str(piece, steps[i].piece);
    }
    detok_fini(&d);
    tokenizer_close(t);
}

/* Whatever the bytes, decoding gives them back; U+2581 is left out, which means a space. */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char *const PARTS[] = {"a", "b", "c", " ", "  ", "é", "<s>", "</s>", "漢", "\n"};
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true, .has_prefix = true});
    struct err e = {0};
    struct rng r;
    struct buf text, out;
    int32_t ids[1024];
    size_t n;
    rng_seed(&r, 3);
    buf_init(&text, KiB);
    buf_init(&out, 2 * KiB);
    for (int trial = 0; trial < 5000; trial++) {
        buf_reset(&text);
        buf_reset(&out);
        for (uint64_t i = rng_below(&r, 30); i > 0; i--)
            if (rng_below(&r, 8))
                buf_put_c(&text, PARTS[rng_below(&r, sizeof PARTS / sizeof *PARTS)]);
            else
                buf_put_char(&text, (char)(rng_below(&r, 64) + 0xC0));
        assert_ok(tokenizer_encode(t, buf_str(&text), trial & 1, ids, 1024, &n, &e), &e);
        tokenizer_decode(t, ids, n, false, &out);
        assert_int_equal(out.n, text.n);
        if (text.n)
            assert_memory_equal(out.p, text.p, text.n);
    }
    buf_free(&text);
    buf_free(&out);
    tokenizer_close(t);
}

static void test_long_text(void **state)
{
    enum { N = 1 << 20 };
    (void)state;
    struct tokenizer *t = open_tokenizer(&(struct pieces){.has_bytes = true});
    struct err e = {0};
    char *text = malloc(N);
    int32_t *ids = malloc(N * sizeof *ids);
    size_t n;
    assert_true(text && ids);
    memset(text, 'a', N);
    assert_ok(tokenizer_encode(t, (struct str){text, N}, true, ids, N, &n, &e), &e);
    assert_int_equal(n, N / 4);
    free(text);
    free(ids);
    tokenizer_close(t);
}

static void assert_refused(const struct pieces *p, int code, const char *part)
{
    struct err e = {0};
    struct tokenizer *t;
    struct gguf *g = open_pieces(p);
    assert_int_equal(tokenizer_open(&t, g, &e), code);
    assert_null(t);
    if (!strstr(e.msg, part))
        fail_msg("message '%s' does not say '%s'", e.msg, part);
    gguf_close(g);
}

static void test_bad_files(void **state)
{
    (void)state;
    assert_refused(&(struct pieces){.n_scores_less = 1}, ERR_INVALID, "one per token");
    assert_refused(&(struct pieces){.extra_score = NAN}, ERR_INVALID, "the score of token");
    assert_refused(&(struct pieces){.has_bytes = true, .byte_text = "<0xG0>"}, ERR_INVALID,
                   "type byte");
    assert_refused(&(struct pieces){.has_bytes = true, .byte_text = "<0x01>"}, ERR_INVALID,
                   "each once");
    assert_refused(&(struct pieces){.has_map = true}, ERR_UNSUPPORTED, "normaliser");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_by_score), cmocka_unit_test(test_bytes_and_unknown),
        cmocka_unit_test(test_space_in_front),  cmocka_unit_test(test_stream),
        cmocka_unit_test(test_any_bytes),       cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_bad_files)};
    return cmocka_run_group_tests_name("text.spm", tests, NULL, NULL);
}
