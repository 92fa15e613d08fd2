/* The whole decoder on the emulator: small models of each architecture give the tokens of `cpu`
 * greedily, and the same bits for a sequence alone and among others, however its prompt was cut.
 *
 * Near ties: where the two best logits of `cpu` differ by less than TIE of its range, either token
 * may come; the comparison then goes on with cpu's. With MILEPOST_TEST_MODEL_ON_SIMT set to a GGUF
 * file, that file too: 16 tokens after a prompt of 8. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/model/arch.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/cuda/device.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_BLOCKS = 24, MAX_BATCH = 40, MAX_LEN = 64, N_SEQ = 3 };
static const double TIE = 0.02; /* of the best logit's distance from the mean */

struct opened {
    struct model *m;
    uint32_t n_vocab;
    float *logits; /* [MAX_BATCH][n_vocab] */
};

static void open_with(struct opened *o, const char *path, const char *backend,
                      enum model_kv_type kv_type, bool has_fp8_weights)
{
    struct err e;
    struct gguf *g;
    const struct model_options options = {.backend = backend,
                                          .n_threads = 1,
                                          .n_kv_blocks = N_BLOCKS,
                                          .kv_type = kv_type,
                                          .has_fp8_weights = has_fp8_weights,
                                          .max_batch_tokens = MAX_BATCH,
                                          .max_batch_rows = MAX_BATCH};
    assert_ok(gguf_open(&g, path, &e), &e);
    assert_ok(model_open(&o->m, g, &options, &e), &e);
    gguf_close(g);
    o->n_vocab = model_get_info(o->m)->n_vocab;
    o->logits = calloc((size_t)MAX_BATCH * o->n_vocab, sizeof *o->logits);
    assert_non_null(o->logits);
}

static void open_file(struct opened *o, const char *path, const char *backend)
{
    open_with(o, path, backend, MODEL_KV_F16, false);
}

static void close_file(struct opened *o)
{
    model_close(o->m);
    free(o->logits);
}

/* Tokens first..first + n - 1 of one sequence, logits of the last. */
static void advance(struct opened *o, const int32_t *token, uint32_t first, uint32_t n)
{
    struct err e;
    uint32_t position[MAX_BATCH], seq[MAX_BATCH] = {0}, block[N_BLOCKS], row = n - 1;
    const uint32_t *table = block;
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        block[i] = (i * 7 + 3) % N_BLOCKS;
    for (uint32_t i = 0; i < n; i++)
        position[i] = first + i;
    const struct model_batch b = {.n_tok = n,
                                  .token = token + first,
                                  .position = position,
                                  .seq = seq,
                                  .block_table = &table,
                                  .n_row = 1,
                                  .row_token = &row};
    assert_ok(model_forward(o->m, &b, o->logits, &e), &e);
}

static uint32_t best_of(const float *logits, uint32_t n, uint32_t except)
{
    uint32_t best = except == 0;
    for (uint32_t i = 0; i < n; i++)
        if (i != except && logits[i] > logits[best])
            best = i;
    return best;
}

static bool is_near_tie(const struct opened *o, uint32_t best, uint32_t other)
{
    double mean = 0;
    for (uint32_t i = 0; i < o->n_vocab; i++)
        mean += (double)o->logits[i] / o->n_vocab;
    double gap = (double)o->logits[best] - (double)o->logits[other];
    return gap < TIE * ((double)o->logits[best] - mean);
}

/* Closes both. */
static void compare_opened(struct opened *cpu, struct opened *simt, const int32_t *prompt,
                           uint32_t n_prompt, uint32_t n_new)
{
    int32_t token[MAX_LEN];
    uint32_t n_ties = 0;
    char text[300];
    memcpy(token, prompt, n_prompt * sizeof *token);
    for (uint32_t i = 0, first = 0, n = n_prompt; i < n_new; i++, first += n, n = 1) {
        advance(cpu, token, first, n);
        advance(simt, token, first, n);
        if (simt_take_reports(text, sizeof text))
            fail_msg("%s", text);
        uint32_t want = best_of(cpu->logits, cpu->n_vocab, UINT32_MAX);
        uint32_t got = best_of(simt->logits, simt->n_vocab, UINT32_MAX);
        if (got != want && !is_near_tie(cpu, want, got))
            fail_msg("token %u: %u, wanted %u", i, got, want);
        n_ties += got != want;
        token[first + n] = (int32_t)want;
    }
    print_message("%u tokens, %u of them other ones at a near tie\n", n_new, n_ties);
    assert_true(n_ties <= n_new / 8);
    close_file(cpu);
    close_file(simt);
}

static void compare_tokens(const char *path, const int32_t *prompt, uint32_t n_prompt,
                           uint32_t n_new)
{
    struct opened cpu, simt;
    open_file(&cpu, path, "cpu");
    open_file(&simt, path, TEST_BACKEND);
    compare_opened(&cpu, &simt, prompt, n_prompt, n_new);
}

static void write_tiny(const struct tiny_model *t, char path[40])
{
    struct err e;
    snprintf(path, 40, "/tmp/milepost-simt-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(tiny_model_write(t, path, &e), &e);
}

static void test_tokens(void **state)
{
    static const char *const NAMES[] = {"llama", "qwen2", "qwen3", "gemma3", "qwen3moe", "mixtral"};
    static const int32_t prompt[] = {1, 80, 75, 90, 104, 2, 33, 41, 55};
    char path[40];
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct tiny_model t = i ? tiny_model_of(NAMES[i]) : tiny_model_default();
        simt_set_order(i == 0 ? SIMT_SHUFFLED : SIMT_FORWARD);
        write_tiny(&t, path);
        compare_tokens(path, prompt, sizeof prompt / sizeof *prompt, simt_is_checked() ? 3 : 16);
        unlink(path);
    }
}

/* bf16 weights kept as fp8, against the reference's own. */
static void test_fp8_weights(void **state)
{
    static const int32_t prompt[] = {1, 80, 75, 90, 104, 2, 33, 41, 55};
    struct tiny_model t = tiny_model_default();
    struct opened ref, simt;
    char path[40];
    (void)state;
    t.matrix_dtype = t.embedding_dtype = DTYPE_BF16;
    write_tiny(&t, path);
    open_with(&ref, path, "ref", MODEL_KV_F16, true);
    open_with(&simt, path, TEST_BACKEND, MODEL_KV_F16, true);
    compare_opened(&ref, &simt, prompt, sizeof prompt / sizeof *prompt, simt_is_checked() ? 2 : 8);
    unlink(path);
}

static double kl_divergence(const float *p, const float *q, uint32_t n)
{
    double sum_p = 0, sum_q = 0, kl = 0;
    float top_p = p[best_of(p, n, UINT32_MAX)], top_q = q[best_of(q, n, UINT32_MAX)];
    for (uint32_t i = 0; i < n; i++) {
        sum_p += exp((double)p[i] - (double)top_p);
        sum_q += exp((double)q[i] - (double)top_q);
    }
    for (uint32_t i = 0; i < n; i++) {
        double ln_p = (double)p[i] - (double)top_p - log(sum_p);
        kl += exp(ln_p) * (ln_p - ((double)q[i] - (double)top_q - log(sum_q)));
    }
    return kl;
}

/* Caches of bf16 and fp8 end to end: mean KL against `cpu` with f16 over the positions of a text.
 */
static void test_cache_types(void **state)
{
    enum { LEN = 40 };
    static const struct {
        enum model_kv_type type;
        double bound;
    } CASES[] = {{MODEL_KV_BF16, 2e-4}, {MODEL_KV_FP8, 3e-2}};
    struct tiny_model t = tiny_model_default();
    char path[40];
    int32_t token[LEN];
    (void)state;
    simt_set_order(SIMT_FORWARD);
    write_tiny(&t, path);
    for (int i = 0; i < LEN; i++)
        token[i] = 20 + i * 37 % 200;
    for (size_t c = simt_is_checked() ? 1 : 0; c < sizeof CASES / sizeof *CASES; c++) {
        struct opened plain, other;
        double kl = 0;
        open_file(&plain, path, "simt");
        open_with(&other, path, "simt", CASES[c].type, false);
        for (uint32_t first = 0, n = 8; first < LEN; first += n, n = 1) {
            advance(&plain, token, first, n);
            advance(&other, token, first, n);
            kl += kl_divergence(plain.logits, other.logits, plain.n_vocab) / (LEN - 7);
        }
        print_message("cache type %d: mean KL %.2e\n", (int)CASES[c].type, kl);
        assert_true(kl >= 0 && kl < CASES[c].bound);
        close_file(&plain);
        close_file(&other);
    }
    unlink(path);
}

struct batch {
    int32_t token[MAX_BATCH];
    uint32_t position[MAX_BATCH], seq[MAX_BATCH], row[MAX_BATCH], n;
};

static void put(struct batch *b, uint32_t seq, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, b->n++) {
        b->token[b->n] = (int32_t)(20 + (seq * 31 + (first + i) * 17) % 200);
        b->position[b->n] = first + i;
        b->seq[b->n] = seq;
        b->row[b->n] = b->n;
    }
}

static void run(struct opened *o, const struct batch *b, uint32_t shift)
{
    struct err e;
    uint32_t block[N_SEQ][2];
    const uint32_t *table[N_SEQ];
    for (uint32_t s = 0; s < N_SEQ; s++) {
        table[s] = block[s];
        for (uint32_t i = 0; i < 2; i++)
            block[s][i] = (2 * s + i + shift) % N_BLOCKS;
    }
    const struct model_batch m = {.n_tok = b->n,
                                  .token = b->token,
                                  .position = b->position,
                                  .seq = b->seq,
                                  .block_table = table,
                                  .n_row = b->n,
                                  .row_token = b->row};
    assert_ok(model_forward(o->m, &m, o->logits, &e), &e);
}

/* Twenty positions of three sequences: one by one, then together in uneven pieces. */
static void test_same_bits_in_any_batch(void **state)
{
    enum { LEN = 20 };
    static const uint32_t CUTS[][N_SEQ] = {{1, 7, 3}, {4, 1, 6}, {1, 5, 1}, {14, 7, 10}};
    struct tiny_model t = tiny_model_default();
    struct opened o;
    char path[40];
    (void)state;
    simt_set_order(SIMT_FORWARD);
    write_tiny(&t, path);
    open_file(&o, path, TEST_BACKEND);
    unlink(path);
    size_t row = o.n_vocab;
    float *alone = calloc((size_t)N_SEQ * LEN * row, sizeof *alone);
    assert_non_null(alone);
    for (uint32_t s = 0; s < N_SEQ; s++) {
        for (uint32_t p = 0; p < LEN; p++) {
            struct batch b = {.n = 0};
            put(&b, s, p, 1);
            run(&o, &b, 0);
            memcpy(alone + (s * LEN + p) * row, o.logits, row * sizeof *alone);
        }
    }
    uint32_t done[N_SEQ] = {0};
    for (size_t c = 0; c < sizeof CUTS / sizeof *CUTS; c++) {
        struct batch b = {.n = 0};
        for (uint32_t s = 0; s < N_SEQ; s++) {
            put(&b, s, done[s], CUTS[c][s]);
            done[s] += CUTS[c][s];
        }
        run(&o, &b, 11);
        for (uint32_t i = 0; i < b.n; i++)
            if (memcmp(o.logits + i * row, alone + (b.seq[i] * LEN + b.position[i]) * row,
                       row * sizeof *alone) != 0)
                fail_msg("sequence %u position %u differs", b.seq[i], b.position[i]);
    }
    free(alone);
    close_file(&o);
}

/* Launches of a step: embedding, layers, head. Of a layer: qkv, rotation and append, attention,
 * output, gate and up, down; with norms after the products (gemma3) two more; of a mixture, for the
 * last two: router, choice, groups, gate and up, down, their sum, the residual. In a step of more
 * than 8 tokens a product has its rows split by a launch before it. */
static void test_launches(void **state)
{
    static const struct {
        const char *architecture;
        uint32_t n_tok, of_layer, of_head;
    } CASES[] = {{"llama", 1, 6, 1},  {"llama", 8, 6, 1},     {"llama", 9, 10, 1},
                 {"gemma3", 1, 8, 1}, {"qwen3moe", 1, 11, 1}, {"qwen3moe", 9, 15, 1}};
    static const int32_t token[] = {1, 80, 75, 90, 104, 2, 33, 41, 55};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct tiny_model t = tiny_model_of(CASES[i].architecture);
        struct opened o;
        char path[40];
        write_tiny(&t, path);
        open_file(&o, path, "simt");
        unlink(path);
        unsigned before = simt_count_launches();
        advance(&o, token, 0, CASES[i].n_tok);
        unsigned n = simt_count_launches() - before;
        if (n != 1 + t.n_layer * CASES[i].of_layer + CASES[i].of_head)
            fail_msg("%s, %u tokens: %u launches of %u layers", CASES[i].architecture,
                     CASES[i].n_tok, n, t.n_layer);
        close_file(&o);
    }
}

static struct dev_graph *lose_graph(struct dev_stream *s)
{
    DEV_SIMT.graph_close(DEV_SIMT.capture_end(s));
    return NULL;
}

/* Decoding in graphs gives the bits of launches one by one, while sequences grow past tables and
 * other kinds of steps come between; also where the runtime cannot capture. */
static void test_graphs(void **state)
{
    enum { LEN = 20 };
    struct tiny_model t = tiny_model_default();
    struct dev_ops failing = DEV_SIMT;
    struct opened plain, with, without_capture;
    struct opened *const others[] = {&with, &without_capture};
    char path[40];
    (void)state;
    failing.capture_end = lose_graph;
    simt_set_order(SIMT_SHUFFLED);
    write_tiny(&t, path);
    open_file(&with, path, "simt");
    open_file(&without_capture, path, "simt");
    open_file(&plain, path, "simt");
    unlink(path);
    plain.m->device->graphs.is_on = false;
    without_capture.m->device->dev = &failing;
    for (uint32_t p = 0; p < LEN; p++) {
        struct batch b = {.n = 0};
        for (uint32_t s = 0; s < N_SEQ - (p % 5 == 4); s++)
            put(&b, s, p - (s == N_SEQ - 1) * (p / 5), 1); /* the last stands still at times */
        run(&plain, &b, 5);
        for (int i = 0; i < 2; i++) {
            run(others[i], &b, 5);
            assert_true(isfinite(plain.logits[0]));
            assert_memory_equal(others[i]->logits, plain.logits,
                                b.n * plain.n_vocab * sizeof *plain.logits);
        }
    }
    const struct device_graphs *g = &with.m->device->graphs;
    print_message("%u graphs, launched %u times\n", (unsigned)g->n_captured,
                  (unsigned)g->n_replayed);
    assert_true(g->n_captured == 4 && g->n_replayed == LEN - 4);
    assert_true(!without_capture.m->device->graphs.is_on);
    assert_int_equal(plain.m->device->graphs.n_captured, 0);
    close_file(&with);
    close_file(&without_capture);
    close_file(&plain);
}

/* MILEPOST_TEST_MODEL_ON_SIMT: minutes with a real model. */
static void test_real_model(void **state)
{
    static const int32_t prompt[] = {504, 3575, 282, 4649, 314, 253, 2145, 338};
    const char *path = getenv("MILEPOST_TEST_MODEL_ON_SIMT");
    (void)state;
    if (!path || simt_is_checked())
        skip();
    simt_set_order(SIMT_FORWARD);
    compare_tokens(path, prompt, sizeof prompt / sizeof *prompt, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),      cmocka_unit_test(test_fp8_weights),
        cmocka_unit_test(test_cache_types), cmocka_unit_test(test_same_bits_in_any_batch),
        cmocka_unit_test(test_launches),    cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_real_model)};
    return cmocka_run_group_tests_name("kernels.simt.model", tests, NULL, NULL);
}
