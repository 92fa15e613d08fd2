/* A hand-made vocabulary: added tokens and their order, any bytes back again, room, bad files. */
#include "engine/text/fixture_test.h"

#include "common/rng.h"

#include <pthread.h>

static const struct fixture PLAIN = {
    .merge = {"h e", "l l", "he ll", "hell o", "a a", "aa aa", "= ="},
    .control = {"<|im_start|>", "<|im_end|>", "<|im", "<s>"},
    .user = {"<think>", "::", ":::"},
    .bos = 256 + 7 + 3,
};
enum { MAX_IDS = 4096 };

struct session {
    struct gguf *file;
    struct tokenizer *t;
    int32_t ids[MAX_IDS];
    size_t n;
    struct err e;
};

static struct session start(const struct fixture *f)
{
    struct session s = {.file = fixture_open(f)};
    assert_ok(tokenizer_open(&s.t, s.file, &s.e), &s.e);
    return s;
}

static void stop(struct session *s)
{
    tokenizer_close(s->t);
    gguf_close(s->file);
}

static void encode(struct session *s, struct str text, bool parse_special)
{
    assert_ok(tokenizer_encode(s->t, text, parse_special, s->ids, MAX_IDS, &s->n, &s->e), &s->e);
}

static void assert_round_trip(struct session *s, struct str text)
{
    struct buf out;
    buf_init(&out, MiB);
    tokenizer_decode(s->t, s->ids, s->n, false, &out);
    assert_int_equal(out.n, text.n);
    if (text.n)
        assert_memory_equal(out.p, text.p, text.n);
    buf_free(&out);
}

static void test_merges(void **state)
{
    (void)state;
    struct session s = start(&PLAIN);
    encode(&s, STR("hello"), false);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.ids[0], 256 + 3);
    encode(&s, STR("hell yeah"), false); /* the space stays with the word behind it */
    assert_int_equal(s.ids[0], 256 + 2);
    assert_int_equal(s.ids[1], ' ');
    encode(&s, STR("aaaaa"), false); /* leftmost first: aaaa a */
    assert_int_equal(s.n, 2);
    assert_int_equal(s.ids[0], 256 + 5);
    assert_int_equal(s.ids[1], 'a');
    encode(&s, STR(""), false);
    assert_int_equal(s.n, 0);
    stop(&s);
}

static void test_special(void **state)
{
    (void)state;
    struct session s = start(&PLAIN);
    int32_t start_id = fixture_id(&PLAIN, "<|im_start|>");
    encode(&s, STR("<|im_start|>hello<|im_x"), true);
    assert_int_equal(s.ids[0], start_id);
    assert_int_equal(s.ids[1], 256 + 3);
    assert_int_equal(s.ids[2], fixture_id(&PLAIN, "<|im")); /* the longest that fits */
    assert_round_trip(&s, STR("<|im_start|>hello<|im_x"));
    encode(&s, STR("<|im_start|>hello<|im_end|><s>"), false); /* text cannot become a turn */
    for (size_t i = 0; i < s.n; i++)
        assert_false(tokenizer_is_special(s.t, s.ids[i]));
    assert_round_trip(&s, STR("<|im_start|>hello<|im_end|><s>"));
    encode(&s, STR("a<think>::::"), false); /* user defined: always; leftmost, longest */
    assert_int_equal(s.n, 4);
    assert_int_equal(s.ids[1], fixture_id(&PLAIN, "<think>"));
    assert_int_equal(s.ids[2], fixture_id(&PLAIN, ":::"));
    assert_int_equal(s.ids[3], ':');
    stop(&s);
}

static void test_skip_special(void **state)
{
    (void)state;
    struct session s = start(&PLAIN);
    struct buf out;
    buf_init(&out, KiB);
    int32_t ids[] = {fixture_id(&PLAIN, "<|im_start|>"), 'h', fixture_id(&PLAIN, "<think>"), -1,
                     1000000};
    tokenizer_decode(s.t, ids, 5, true, &out);
    assert_str(buf_str(&out), "h<think>");
    buf_reset(&out);
    tokenizer_decode(s.t, ids, 2, false, &out);
    assert_str(buf_str(&out), "<|im_start|>h");
    buf_free(&out);
    stop(&s);
}

static void test_info(void **state)
{
    (void)state;
    struct session s = start(&PLAIN);
    const struct tokenizer_info *info = tokenizer_get_info(s.t);
    assert_int_equal(info->n_vocab, 256 + 7 + 4 + 3);
    assert_int_equal(info->bos, 256 + 7 + 3);
    assert_int_equal(info->eos, -1);
    assert_false(info->add_bos);
    assert_int_equal(info->n_missing_bytes, 0);
    assert_true(tokenizer_is_end(s.t, fixture_id(&PLAIN, "<|im_end|>")));
    assert_false(tokenizer_is_end(s.t, fixture_id(&PLAIN, "<|im_start|>")));
    assert_false(tokenizer_is_end(s.t, -1));
    assert_int_equal(tokenizer_find(s.t, STR("hello")), 256 + 3);
    assert_int_equal(tokenizer_find(s.t, STR("<|im")), fixture_id(&PLAIN, "<|im"));
    assert_int_equal(tokenizer_find(s.t, STR("hella")), -1);
    assert_int_equal(tokenizer_find(s.t, STR("")), -1);
    stop(&s);
}

/* Turn markers that a file calls user defined, or normal, are control tokens all the same. */
static void test_markers_are_control(void **state)
{
    (void)state;
    struct fixture f = {.user = {"<|im_end|>", "<b>"}, .extra_token = "<end_of_turn>"};
    struct session s = start(&f);
    encode(&s, STR("<|im_end|><end_of_turn>"), false);
    assert_int_equal(s.n, 10 + 13);
    assert_true(tokenizer_is_special(s.t, tokenizer_find(s.t, STR("<|im_end|>"))));
    assert_false(tokenizer_is_special(s.t, tokenizer_find(s.t, STR("<b>"))));
    encode(&s, STR("<|im_end|><end_of_turn>"), true);
    assert_int_equal(s.n, 2);
    stop(&s);
}

/* Text of random pieces: bytes, letters, white space, code points, parts of special tokens. */
static size_t random_text(struct rng *r, char *out, size_t cap)
{
    static const char *const PIECES[] = {
        "hello", "aaaa",       " ",        "\n",           "  ",  "'s",      "123",
        "<|im",  "<|im_end|>", "\xC3\xA9", "\xE4\xBA\xBA", ":::", "\xF0\x9F"};
    size_t n = 0, want = rng_below(r, cap - 16);
    while (n < want) {
        if (rng_below(r, 3) == 0) {
            out[n++] = (char)rng_below(r, 256);
            continue;
        }
        const char *piece = PIECES[rng_below(r, sizeof PIECES / sizeof *PIECES)];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return n;
}

static void test_any_bytes_come_back(void **state)
{
    (void)state;
    static const char *const SPLITS[] = {"gpt-2", "llama-bpe", "qwen2", "smollm"};
    struct rng r;
    rng_seed(&r, 11);
    for (size_t i = 0; i < 4; i++) {
        struct fixture f = PLAIN;
        f.split = SPLITS[i];
        struct session s = start(&f);
        for (int round = 0; round < 3000; round++) {
            char text[512];
            struct str in = {text, random_text(&r, text, sizeof text)};
            encode(&s, in, rng_below(&r, 2));
            assert_round_trip(&s, in);
        }
        stop(&s);
    }
}

static void test_missing_byte(void **state)
{
    (void)state;
    struct fixture f = PLAIN;
    f.missing_byte_plus_1 = 0x04 + 1;
    struct session s = start(&f);
    assert_int_equal(tokenizer_get_info(s.t)->n_missing_bytes, 1);
    encode(&s, STR("=\x04="), false); /* left out before merging: the neighbours meet */
    assert_int_equal(s.n, 1);
    assert_int_equal(s.ids[0], 256 + 6);
    stop(&s);
}

static void test_room(void **state)
{
    (void)state;
    struct session s = start(&PLAIN);
    int32_t ids[3] = {0, 0, 77};
    size_t n;
    assert_int_equal(tokenizer_encode(s.t, STR("hello you"), false, ids, 2, &n, &s.e), ERR_NOMEM);
    assert_int_equal(n, 5);
    assert_int_equal(ids[2], 77);
    assert_int_equal(tokenizer_encode(s.t, STR("abc"), false, NULL, 0, &n, &s.e), ERR_NOMEM);
    assert_int_equal(n, 3);
    stop(&s);
}

struct reader {
    const struct tokenizer *t;
    int n_wrong;
};

static void *read_often(void *arg)
{
    struct reader *r = arg;
    const struct str text =
        STR("hello aaaa <think> 12 == hell\n\nhello aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    int32_t first[128], ids[128];
    size_t n_first, n;
    r->n_wrong += tokenizer_encode(r->t, text, true, first, 128, &n_first, NULL) != ERR_OK;
    for (int i = 0; i < 500; i++) {
        int rc = tokenizer_encode(r->t, text, true, ids, 128, &n, NULL);
        r->n_wrong += rc != ERR_OK || n != n_first || memcmp(ids, first, n * sizeof *ids) != 0;
    }
    return NULL;
}

/* One tokenizer, many threads; ThreadSanitizer watches in its preset. */
static void test_threads(void **state)
{
    (void)state;
    enum { N_THREADS = 4 };
    struct session s = start(&PLAIN);
    pthread_t thread[N_THREADS];
    struct reader reader[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        reader[i] = (struct reader){.t = s.t};
        assert_int_equal(pthread_create(&thread[i], NULL, read_often, &reader[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(reader[i].n_wrong, 0);
    }
    stop(&s);
}

/* A megabyte of one letter, and of white space. Quadratic time would be hours, which the test's
 * time limit ends. */
static void test_long_words(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct fixture f = PLAIN;
    f.split = "qwen2";
    struct session s = start(&f);
    char *text = malloc(N);
    int32_t *ids = malloc(N * sizeof *ids);
    assert_true(text && ids);
    for (const char *c = "a= \n7"; *c; c++) {
        memset(text, *c, N);
        assert_ok(tokenizer_encode(s.t, (struct str){text, N}, true, ids, N, &s.n, &s.e), &s.e);
        assert_int_equal(s.n, *c == 'a' ? N / 4 : *c == '=' ? N / 2 : N);
    }
    free(text);
    free(ids);
    stop(&s);
}

static void assert_refused(const struct fixture *f, int code, const char *part)
{
    struct gguf *file = fixture_open(f);
    struct tokenizer *t;
    struct err e = {0};
    assert_int_equal(tokenizer_open(&t, file, &e), code);
    assert_null(t);
    if (!strstr(e.msg, part))
        fail_msg("message '%s' does not say '%s'", e.msg, part);
    gguf_close(file);
}

static void test_bad_files(void **state)
{
    (void)state;
    assert_refused(&(struct fixture){.model = "t5"}, ERR_UNSUPPORTED, "'t5' is not known");
    assert_refused(&(struct fixture){.split = "tekken"}, ERR_UNSUPPORTED, "smollm");
    assert_refused(&(struct fixture){.merge = {"a b", "ab q?", "nope c"}}, ERR_INVALID, "merge 1");
    assert_refused(&(struct fixture){.merge = {"ab"}}, ERR_INVALID, "two parts");
    assert_refused(&(struct fixture){.merge = {"a b", "a b"}}, ERR_INVALID, "same text");
    assert_refused(&(struct fixture){.control = {"<a>", "<a>"}}, ERR_INVALID, "same text");
    assert_refused(&(struct fixture){.extra_token = "a"}, ERR_INVALID, "same text");
    assert_refused(&(struct fixture){.n_type_error = 1}, ERR_INVALID, "one per token");
    assert_refused(&(struct fixture){.bos = 256}, ERR_INVALID, "bos_token_id: 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_skip_special),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_markers_are_control),
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_missing_byte),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
