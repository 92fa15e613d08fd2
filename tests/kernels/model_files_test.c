/* Model files that are wrong: each gives an error that names the thing, and thousands of random
 * mutations of a good file neither crash nor hang whatever opens (run under the asan preset too).
 */
#include "common/test.h"

#include "common/io.h"
#include "common/rng.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 8 << 20, MUTATIONS = 3000, N_BLOCKS = 4, MAX_TOK = 8 };

static const struct model_options OPTIONS = {
    .n_threads = 1, .n_kv_blocks = N_BLOCKS, .max_batch_tokens = MAX_TOK, .max_batch_rows = 1};

struct files {
    struct buf good;
    char path[64];
};

static int set_up(void **state)
{
    struct files *f = calloc(1, sizeof *f);
    struct tiny_model t = tiny_model_default();
    struct err e;
    assert_non_null(f);
    buf_init(&f->good, MAX_FILE);
    assert_ok(tiny_model_make(&t, &f->good, &e), &e);
    snprintf(f->path, sizeof f->path, "/tmp/milepost-files-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct files *f = *state;
    unlink(f->path);
    buf_free(&f->good);
    free(f);
    return 0;
}

/* Some tokens in a good order; whatever comes out must be there, not make sense. */
static void run_some(struct model *m)
{
    struct err e;
    const int32_t token[3] = {0, 1, 2};
    const uint32_t position[3] = {0, 1, 2}, seq[3] = {0}, row[1] = {2};
    const uint32_t block[1] = {1}, *table[1] = {block};
    const struct model_batch b = {.n_tok = 3,
                                  .token = token,
                                  .position = position,
                                  .seq = seq,
                                  .block_table = table,
                                  .n_row = 1,
                                  .row_token = row};
    float *logits = calloc(model_get_info(m)->n_vocab, sizeof *logits);
    assert_non_null(logits);
    (void)!model_forward(m, &b, logits, &e);
    free(logits);
}

static int open_bytes(const struct files *f, struct str bytes, const struct model_options *o,
                      struct err *e)
{
    struct gguf *g = NULL;
    struct model *m = NULL;
    int rc;
    *e = (struct err){0};
    TRY(io_write_file(f->path, bytes, e));
    TRY(gguf_open(&g, f->path, e));
    TRY(model_open(&m, g, o, e));
    run_some(m);
out:
    model_close(m);
    gguf_close(g);
    return rc;
}

/* The good file with the first `old` replaced by `new`, of the same length. */
static void open_changed(const struct files *f, const char *old, const char *new, size_t n,
                         struct err *e)
{
    struct buf b;
    buf_init(&b, MAX_FILE);
    buf_put_str(&b, buf_str(&f->good));
    ptrdiff_t at = str_find(buf_str(&b), (struct str){old, n}, 0);
    assert_true(at >= 0);
    memcpy(b.p + at, new, n);
    int rc = open_bytes(f, buf_str(&b), &OPTIONS, e);
    assert_int_not_equal(rc, ERR_OK);
    buf_free(&b);
}

static void assert_says(const struct err *e, const char *what)
{
    if (!strstr(e->msg, what))
        fail_msg("'%s' does not say '%s'", e->msg, what);
}

static void test_good_file(void **state)
{
    struct err e;
    assert_ok(open_bytes(*state, buf_str(&((struct files *)*state)->good), &OPTIONS, &e), &e);
}

static void test_unknown_architecture(void **state)
{
    struct err e;
    open_changed(*state, "\5\0\0\0\0\0\0\0llama", "\5\0\0\0\0\0\0\0mamba", 13, &e);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_says(&e, "mamba");
    assert_says(&e, "llama");
}

static void test_missing_tensor(void **state)
{
    struct err e;
    open_changed(*state, "blk.1.ffn_down.weight", "blk.1.ffn_dawn.weight", 21, &e);
    assert_int_equal(e.code, ERR_INVALID);
    assert_says(&e, "blk.1.ffn_down.weight");
    assert_says(&e, "[128, 64]");
}

static void test_wrong_shape(void **state)
{
    static const char old[] = "blk.0.attn_k.weight\2\0\0\0\x40\0\0\0\0\0\0\0\x20";
    static const char new[] = "blk.0.attn_k.weight\2\0\0\0\x20\0\0\0\0\0\0\0\x40";
    struct err e;
    open_changed(*state, old, new, sizeof old - 1, &e);
    assert_int_equal(e.code, ERR_INVALID);
    assert_says(&e, "blk.0.attn_k.weight");
    assert_says(&e, "want [64, 32]");
    assert_says(&e, "got [32, 64");
}

static void test_missing_key(void **state)
{
    struct err e;
    open_changed(*state, "llama.embedding_length", "llama.embedding_lengte", 22, &e);
    assert_int_equal(e.code, ERR_INVALID);
    assert_says(&e, "llama.embedding_length");
}

static void test_heads_that_do_not_divide(void **state)
{
    static const char old[] = "attention.head_count\4\0\0\0\4\0\0\0";
    static const char new[] = "attention.head_count\4\0\0\0\5\0\0\0";
    struct err e;
    open_changed(*state, old, new, sizeof old - 1, &e);
    assert_int_equal(e.code, ERR_INVALID);
    assert_says(&e, "heads");
}

static void test_unknown_backend(void **state)
{
    struct err e;
    struct files *f = *state;
    struct model_options o = OPTIONS;
    o.backend = "gpu9";
    assert_int_not_equal(open_bytes(f, buf_str(&f->good), &o, &e), ERR_OK);
    assert_says(&e, "gpu9");
    assert_says(&e, "cpu");
}

static void test_batch_out_of_bounds(void **state)
{
    struct err e;
    struct files *f = *state;
    struct gguf *g;
    struct model *m;
    float logits[512];
    assert_ok(io_write_file(f->path, buf_str(&f->good), &e), &e);
    assert_ok(gguf_open(&g, f->path, &e), &e);
    assert_ok(model_open(&m, g, &OPTIONS, &e), &e);
    gguf_close(g);
    const struct {
        int32_t token;
        uint32_t position, block, row, n_tok;
        const char *says;
    } cases[] = {{-1, 0, 0, 0, 1, "id -1"},        {100000, 0, 0, 0, 1, "id 100000"},
                 {1, 5000, 0, 0, 1, "position"},   {1, 0, N_BLOCKS, 0, 1, "block 0 is 4"},
                 {1, 0, 0, 1, 1, "wants token 1"}, {1, 0, 0, 0, 0, "0 tokens"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t seq = 0, *table = &cases[i].block;
        const struct model_batch b = {.n_tok = cases[i].n_tok,
                                      .token = &cases[i].token,
                                      .position = &cases[i].position,
                                      .seq = &seq,
                                      .block_table = &table,
                                      .n_row = 1,
                                      .row_token = &cases[i].row};
        assert_int_not_equal(model_forward(m, &b, logits, &e), ERR_OK);
        assert_says(&e, cases[i].says);
    }
    model_close(m);
}

/* Few bytes, mostly in the metadata: set, flip a bit, or copy eight bytes from elsewhere. */
static void mutate(struct rng *r, struct buf *b, size_t metadata)
{
    uint32_t n = 1 + (uint32_t)rng_below(r, 4);
    for (uint32_t i = 0; i < n; i++) {
        size_t range = rng_below(r, 8) ? metadata : b->n;
        size_t at = (size_t)rng_below(r, range - 8), from = (size_t)rng_below(r, range - 8);
        uint64_t kind = rng_below(r, 4);
        if (kind == 0)
            b->p[at] = (char)rng_u64(r);
        else if (kind == 1)
            b->p[at] = (char)(b->p[at] ^ 1 << rng_below(r, 8));
        else if (kind == 2)
            memmove(b->p + at, b->p + from, 8);
        else
            memset(b->p + at, rng_below(r, 2) ? 0xFF : 0, 1 + (size_t)rng_below(r, 8));
    }
    if (rng_below(r, 20) == 0)
        b->n = (size_t)rng_below(r, b->n);
}

static void test_mutations(void **state)
{
    static const char *const NAMES[] = {"llama", "qwen2", "qwen3", "qwen3moe", "mixtral", "gemma3"};
    enum { N_NAMES = sizeof NAMES / sizeof *NAMES };
    struct files *f = *state;
    struct rng r;
    struct err e;
    struct buf b, good[N_NAMES];
    uint32_t n_open = 0;
    for (int i = 0; i < N_NAMES; i++) {
        const struct tiny_model t = tiny_model_of(NAMES[i]);
        buf_init(&good[i], MAX_FILE);
        assert_ok(tiny_model_make(&t, &good[i], &e), &e);
    }
    rng_seed(&r, 2026);
    buf_init(&b, MAX_FILE);
    for (int i = 0; i < MUTATIONS; i++) {
        buf_reset(&b);
        buf_put_str(&b, buf_str(&good[i % N_NAMES]));
        ptrdiff_t metadata = str_find(buf_str(&b), STR("output_norm.weight"), 0);
        assert_true(metadata > 0);
        mutate(&r, &b, (size_t)metadata);
        struct model_options o = OPTIONS;
        o.backend = i % 9 ? "cpu" : "ref";
        int rc = open_bytes(f, buf_str(&b), &o, &e);
        n_open += rc == ERR_OK;
        if (rc != ERR_OK && e.msg[0] == '\0')
            fail_msg("mutation %d: error %d without a message", i, rc);
    }
    print_message("%u of %d mutated files open\n", n_open, MUTATIONS);
    assert_in_range(n_open, MUTATIONS / 50, MUTATIONS - MUTATIONS / 10);
    buf_free(&b);
    for (int i = 0; i < N_NAMES; i++)
        buf_free(&good[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_file),       cmocka_unit_test(test_unknown_architecture),
        cmocka_unit_test(test_missing_tensor),  cmocka_unit_test(test_wrong_shape),
        cmocka_unit_test(test_missing_key),     cmocka_unit_test(test_heads_that_do_not_divide),
        cmocka_unit_test(test_unknown_backend), cmocka_unit_test(test_batch_out_of_bounds),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests_name("kernels.model_files", tests, set_up, tear_down);
}
