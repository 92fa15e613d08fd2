/* The contract of model.h: the logits of a position are the same bits whatever else is in the batch
 * and however its prompt was cut. Sequences run alone, one token a step, and then together in
 * random chunks; every logit of every position is compared with memcmp. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SEQ = 7, MAX_LEN = 90, SEQ_BLOCKS = 6, N_BLOCKS = 48, MAX_BATCH = 64 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRIALS = 2, FIRST_ARCHITECTURE = 3 }; /* the others are in the golden test */
#else
enum { TRIALS = 8, FIRST_ARCHITECTURE = 0 };
#endif

struct fixture {
    struct gguf *file;
    struct model *model;
    uint32_t n_vocab;
    int32_t token[N_SEQ][MAX_LEN];
    uint32_t length[N_SEQ];
    uint32_t table[N_SEQ][SEQ_BLOCKS];
    const uint32_t *tables[N_SEQ];
    float *alone;  /* [N_SEQ][MAX_LEN][n_vocab] */
    float *logits; /* [MAX_BATCH][n_vocab] */
};

struct batch {
    int32_t token[MAX_BATCH];
    uint32_t position[MAX_BATCH], seq[MAX_BATCH], row[MAX_BATCH];
    uint32_t n;
};

static const struct flavour {
    const char *backend, *instruction_set;
} FLAVOURS[] = {{"ref", NULL},      {"cpu", "avx512"}, {"cpu", "avx512zen"},
                {"cpu", "avxvnni"}, {"cpu", "avx2"},   {"cpu", "plain"}};
enum { N_FLAVOURS = sizeof FLAVOURS / sizeof *FLAVOURS };

/* False when this machine lacks the instruction set. */
static bool open_model(struct fixture *f, const struct tiny_model *shape,
                       const struct flavour *flavour, uint32_t threads)
{
    struct err e;
    char path[] = "/tmp/milepost-batch-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(tiny_model_write(shape, path, &e), &e);
    assert_ok(gguf_open(&f->file, path, &e), &e);
    unlink(path);
    const struct model_options o = {.backend = flavour->backend,
                                    .instruction_set = flavour->instruction_set,
                                    .n_threads = threads,
                                    .n_kv_blocks = N_BLOCKS,
                                    .max_batch_tokens = MAX_BATCH,
                                    .max_batch_rows = MAX_BATCH};
    int rc = model_open(&f->model, f->file, &o, &e);
    if (rc == ERR_UNSUPPORTED && flavour->instruction_set) {
        print_message("%s is not on this machine\n", flavour->instruction_set);
        gguf_close(f->file);
        return false;
    }
    assert_ok(rc, &e);
    f->n_vocab = model_get_info(f->model)->n_vocab;
    return true;
}

static void close_model(struct fixture *f)
{
    model_close(f->model);
    gguf_close(f->file);
    free(f->alone);
    free(f->logits);
}

/* Blocks of the sequences lie scattered and in another place each time. */
static void shuffle_blocks(struct fixture *f, struct rng *r)
{
    uint32_t block[N_BLOCKS];
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        block[i] = i;
    for (uint32_t i = N_BLOCKS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)rng_below(r, i + 1), kept = block[i];
        block[i] = block[j];
        block[j] = kept;
    }
    for (uint32_t s = 0; s < N_SEQ; s++) {
        memcpy(f->table[s], block + s * SEQ_BLOCKS, sizeof f->table[s]);
        f->tables[s] = f->table[s];
    }
}

static void put_token(const struct fixture *f, struct batch *b, uint32_t seq, uint32_t position)
{
    b->token[b->n] = f->token[seq][position];
    b->position[b->n] = position;
    b->seq[b->n] = seq;
    b->row[b->n] = b->n;
    b->n++;
}

static void run(struct fixture *f, const struct batch *b)
{
    struct err e;
    const struct model_batch m = {.n_tok = b->n,
                                  .token = b->token,
                                  .position = b->position,
                                  .seq = b->seq,
                                  .block_table = f->tables,
                                  .n_row = b->n,
                                  .row_token = b->row};
    assert_ok(model_forward(f->model, &m, f->logits, &e), &e);
}

static float *alone_at(const struct fixture *f, uint32_t seq, uint32_t position)
{
    return f->alone + ((size_t)seq * MAX_LEN + position) * f->n_vocab;
}

static void run_alone(struct fixture *f, struct rng *r)
{
    f->alone = calloc((size_t)N_SEQ * MAX_LEN * f->n_vocab, sizeof(float));
    f->logits = calloc((size_t)MAX_BATCH * f->n_vocab, sizeof(float));
    assert_non_null(f->alone);
    assert_non_null(f->logits);
    shuffle_blocks(f, r);
    for (uint32_t s = 0; s < N_SEQ; s++) {
        f->length[s] = 1 + (uint32_t)rng_below(r, MAX_LEN);
        for (uint32_t p = 0; p < f->length[s]; p++) {
            f->token[s][p] = (int32_t)rng_below(r, f->n_vocab);
            struct batch b = {.n = 0};
            put_token(f, &b, s, p);
            run(f, &b);
            memcpy(alone_at(f, s, p), f->logits, f->n_vocab * sizeof(float));
        }
    }
}

/* Some sequences get the next tokens of theirs, in random order and number, until none is left. */
static void run_together(struct fixture *f, struct rng *r)
{
    uint32_t done[N_SEQ] = {0};
    shuffle_blocks(f, r);
    for (uint32_t left = N_SEQ; left > 0;) {
        struct batch b = {.n = 0};
        uint32_t first = (uint32_t)rng_below(r, N_SEQ);
        for (uint32_t i = 0; i < N_SEQ; i++) {
            uint32_t s = (first + i * 3) % N_SEQ, rest = f->length[s] - done[s];
            uint32_t most = rng_below(r, 2) ? 1 : 1 + (uint32_t)rng_below(r, 40);
            uint32_t n = rng_below(r, 3) == 0 ? 0 : most < rest ? most : rest;
            n = n < MAX_BATCH - b.n ? n : MAX_BATCH - b.n;
            for (uint32_t k = 0; k < n; k++)
                put_token(f, &b, s, done[s]++);
            left -= n > 0 && done[s] == f->length[s];
        }
        if (b.n == 0)
            continue;
        run(f, &b);
        for (uint32_t t = 0; t < b.n; t++)
            if (memcmp(f->logits + (size_t)t * f->n_vocab, alone_at(f, b.seq[t], b.position[t]),
                       f->n_vocab * sizeof(float)) != 0)
                fail_msg("sequence %u position %u differs, token %u of %u in the batch", b.seq[t],
                         b.position[t], t, b.n);
    }
}

static void check(const struct tiny_model *shape, uint32_t min_threads, int trials)
{
    for (size_t i = 0; i < N_FLAVOURS; i++) {
        for (uint32_t threads = min_threads; threads <= 2; threads++) {
            struct fixture f = {0};
            struct rng r;
            rng_seed(&r, 17);
            if (!open_model(&f, shape, &FLAVOURS[i], threads))
                continue;
            run_alone(&f, &r);
            for (int trial = 0; trial < trials; trial++)
                run_together(&f, &r);
            close_model(&f);
        }
    }
}

static void test_quantised(void **state)
{
    (void)state;
    struct tiny_model shape = tiny_model_default();
    check(&shape, 1, TRIALS);
}

static void test_eight_bits_odd_groups(void **state)
{
    (void)state;
    struct tiny_model shape = tiny_model_default();
    shape.d_model = 96;
    shape.n_head = 6;
    shape.n_head_kv = 2;
    shape.d_ff = 160;
    shape.matrix_dtype = DTYPE_Q8_0;
    shape.embedding_dtype = DTYPE_Q4_0;
    check(&shape, 1, TRIALS);
}

static void test_float(void **state)
{
    (void)state;
    struct tiny_model shape = tiny_model_default();
    shape.matrix_dtype = DTYPE_F16;
    shape.embedding_dtype = DTYPE_F32;
    shape.has_own_head = true;
    check(&shape, 1, TRIALS);
}

/* Rows so long that chunks begin within what eight blocks have together: 72 blocks of 32 columns
 * are cut by 9 or 18 (AVX-512), 40 by 20 (AVX2). */
static void test_long_rows(void **state)
{
    static const struct {
        uint32_t d_model, dtype;
    } CASES[] = {{2304, DTYPE_Q4_K}, {1280, DTYPE_Q5_K}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct tiny_model shape = tiny_model_default();
        shape.n_layer = 1;
        shape.d_model = CASES[i].d_model;
        shape.n_head = 8;
        shape.d_head = 32;
        shape.d_ff = 256;
        shape.matrix_dtype = CASES[i].dtype;
        shape.embedding_dtype = CASES[i].dtype;
        check(&shape, 2, 1);
    }
}

/* Windows of 8 positions, norms of heads, halves of heads that turn together, bias. */
static void test_architectures(void **state)
{
    static const char *const NAMES[] = {"qwen2", "qwen3", "qwen3moe", "mixtral", "gemma3"};
    (void)state;
    for (size_t i = FIRST_ARCHITECTURE; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct tiny_model shape = tiny_model_of(NAMES[i]);
        check(&shape, 2, (TRIALS + 1) / 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantised), cmocka_unit_test(test_eight_bits_odd_groups),
        cmocka_unit_test(test_float), cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_architectures)};
    return cmocka_run_group_tests_name("kernels.batch", tests, NULL, NULL);
}
