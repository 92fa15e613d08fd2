/* Products by the device's library (engine.gemm: cublaslt): the call itself against sums in double,
 * each op that goes through it against the reference, for every type of weights and in slices, and
 * models end to end. On a device this is what says whether cuBLASLt got what we meant.
 *
 * Bounds, relative L2: float32 2e-6. Weights and activations rounded to bfloat16, 2^-9 each at
 * most: 5e-3; the same of the call alone, whose operands are bfloat16: sums in another order, 2e-6,
 * and of fp8 1e-3, as tensor cores keep fewer bits of such sums. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/cuda/device.h"
#include "kernels/fp8.h"
#include "tests/harness/tiny_model.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_TOK = LIBRARY_TOKENS + 3, BLOCKS = N_TOK / KERN_BLOCK_TOKENS + 1, MAX_WIDTH = 512 };
static const double EXACT = 2e-6, ROUNDED = 5e-3, OF_FP8 = 1e-3;

static double distance(const float *got, const float *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        error += d * d;
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(error / size);
}

static void no_reports(const char *what)
{
    char text[300];
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s: %s", what, text);
}

/* --- the call --- */

enum { M = 48, N = 80, K = 64, GAP = 4, SIZE = GAP + M * (N + GAP) };

static const struct operand {
    enum dev_type type;
    size_t bytes;
    double bound;
} OPERANDS[] = {{DEV_BF16, 2, EXACT}, {DEV_FP8, 1, OF_FP8}, {DEV_F32, 4, EXACT}};

static float operand(const struct operand *o, struct rng *r, uint8_t *to)
{
    float v = (float)rng_normal(r);
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    uint8_t byte = fp8_from_f32(v);
    memcpy(to,
           o->bytes == 4   ? (void *)&v
           : o->bytes == 2 ? (void *)&half
                           : (void *)&byte,
           o->bytes);
    return o->bytes == 4 ? v : o->bytes == 2 ? bf16_to_f32(half) : fp8_to_f32(byte);
}

static void *upload(const void *from, size_t n)
{
    struct dev_stream *s = TEST_DEV.stream_open();
    struct err e;
    void *p = TEST_DEV.alloc(n);
    assert_non_null(p);
    TEST_DEV.copy(p, from, n, DEV_TO_DEVICE, s);
    assert_ok(TEST_DEV.sync(s, &e), &e);
    TEST_DEV.stream_close(s);
    return p;
}

/* Rows of c are further apart than they are long, and begin at no very round address. */
static void check_call(const struct operand *o, bool is_added)
{
    static uint8_t a[M * K * 4], b[N * K * 4];
    static float x[M * K], y[N * K], got[SIZE], want[SIZE];
    struct dev_stream *s = TEST_DEV.stream_open();
    struct err e;
    struct rng r;
    rng_seed(&r, 3);
    for (size_t i = 0; i < M * K; i++)
        x[i] = operand(o, &r, a + i * o->bytes);
    for (size_t i = 0; i < N * K; i++)
        y[i] = operand(o, &r, b + i * o->bytes);
    for (size_t i = 0; i < SIZE; i++)
        got[i] = want[i] = (float)rng_normal(&r);
    for (size_t i = 0; i < M * N; i++) {
        double sum = 0;
        float *c = want + GAP + i / N * (N + GAP) + i % N;
        for (size_t k = 0; k < K; k++)
            sum += (double)x[i / N * K + k] * (double)y[i % N * K + k];
        *c = (float)(0.5 * sum + (is_added ? (double)*c : 0));
    }
    float *c = upload(got, sizeof got);
    void *on_device[] = {c, upload(a, sizeof a), upload(b, sizeof b),
                         TEST_DEV.alloc(DEV_GEMM_WORKSPACE)};
    const struct dev_gemm g = {.c = c + GAP,
                               .a = on_device[1],
                               .b = on_device[2],
                               .m = M,
                               .n = N,
                               .k = K,
                               .ldc = N + GAP,
                               .type = o->type,
                               .scale = 0.5f,
                               .is_added = is_added,
                               .workspace = on_device[3]};
    TEST_DEV.gemm(&g, s);
    TEST_DEV.copy(got, c, sizeof got, DEV_TO_HOST, s);
    assert_ok(TEST_DEV.sync(s, &e), &e);
    double d = distance(got, want, SIZE);
    if (!(d < o->bound))
        fail_msg("type %d, %s: off by %.2e", (int)o->type, is_added ? "added" : "stored", d);
    for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++)
        TEST_DEV.release(on_device[i]);
    TEST_DEV.stream_close(s);
}

static void test_the_call(void **state)
{
    struct err e;
    (void)state;
    assert_ok(TEST_DEV.open(0, &e), &e);
    assert_ok(TEST_DEV.gemm_ready(&e), &e);
    for (size_t i = 0; i < sizeof OPERANDS / sizeof *OPERANDS; i++) {
        check_call(&OPERANDS[i], false);
        if (OPERANDS[i].type != DEV_FP8)
            check_call(&OPERANDS[i], true);
    }
    no_reports("the call");
}

/* Without a device the library is still found, and says what it lacks. */
static void test_no_device(void **state)
{
#if defined MILEPOST_WITH_NCCL && !defined TEST_ON_CUDA /* and so with CUDA */
    struct err e;
    (void)state;
    if (DEV_CUDA.is_here())
        skip();
    assert_int_equal(DEV_CUDA.gemm_ready(&e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "finds no device"));
#else
    (void)state;
    skip();
#endif
}

/* --- the ops --- */

struct kind {
    uint32_t dtype, other; /* of the second part of a matrix of two */
    uint32_t d_model, d_ff;
    bool is_fp8;
    uint32_t slice_bytes; /* 0: as it is */
};

struct bench {
    const struct kern_ops *k;
    struct kern_device *d;
    const struct kind *kind;
    uint32_t n_tok;
    const struct kern_matrix *two, *gate_up, *down;
    const struct kern_vector *norm;
    struct kern_buffer *x, *y, *h;
    struct kern_kv *kv;
    float *projected, *gated, *added; /* [n_tok][MAX_WIDTH] */
};

static float input_x[N_TOK * MAX_WIDTH], input_norm[MAX_WIDTH];

static void matrix(struct bench *b, struct rng *r, uint32_t cols, const struct kern_part *shape,
                   uint32_t n_parts, const struct kern_matrix **out)
{
    struct kern_part parts[KERN_MAX_PARTS] = {0};
    struct buf blocks[KERN_MAX_PARTS];
    struct err e;
    for (uint32_t i = 0; i < n_parts; i++) {
        buf_init(&blocks[i], MiB);
        tiny_random_blocks(r, shape[i].dtype, (size_t)shape[i].rows * cols, 0.1, &blocks[i]);
        assert_false(blocks[i].failed);
        parts[i] = (struct kern_part){shape[i].dtype, shape[i].rows, blocks[i].p};
    }
    assert_ok(b->k->matrix(b->d, cols, parts, n_parts, out, &e), &e);
    for (uint32_t i = 0; i < n_parts; i++)
        buf_free(&blocks[i]);
}

static void ops(void *arg)
{
    struct bench *b = arg;
    const struct kern_ops *k = b->k;
    static const int32_t token[N_TOK];
    uint32_t position[N_TOK], seq[N_TOK] = {0}, block[BLOCKS];
    const uint32_t *table = block;
    for (uint32_t i = 0; i < N_TOK; i++)
        position[i] = i;
    for (uint32_t i = 0; i < BLOCKS; i++)
        block[i] = i;
    const struct kern_step step = {b->n_tok, token, position, seq, &table};
    const struct kern_norm norm = {b->norm, 1e-5f};
    k->begin(b->d, &step, b->kv);
    k->write(b->d, b->x, input_x, b->n_tok);
    k->project(b->d, b->x, NULL, b->two, b->y);
    k->read(b->d, b->y, b->projected, b->n_tok);
    k->gate_up(b->d, b->x, &norm, b->gate_up, KERN_GATE_SILU, b->h);
    k->read(b->d, b->h, b->gated, b->n_tok);
    k->project_add(b->d, b->h, b->down, b->x);
    k->read(b->d, b->x, b->added, b->n_tok);
}

static float *results(void)
{
    float *p = calloc((size_t)N_TOK * MAX_WIDTH, sizeof *p);
    assert_non_null(p);
    return p;
}

static void load(struct bench *b)
{
    static const double INV_FREQ[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {1,          1, 1,      8,     8,          1,
                                          {INV_FREQ}, 1, BLOCKS, N_TOK, KERN_KV_F16};
    const struct kind *kind = b->kind;
    const struct kern_part two[] = {{kind->dtype, kind->d_model, NULL}, {kind->other, 40, NULL}},
                           gate_up[] = {{kind->dtype, kind->d_ff, NULL},
                                        {kind->other, kind->d_ff, NULL}},
                           down = {kind->dtype, kind->d_model, NULL};
    struct err e;
    struct rng r;
    rng_seed(&r, kind->dtype);
    matrix(b, &r, kind->d_model, two, 2, &b->two);
    matrix(b, &r, kind->d_model, gate_up, 2, &b->gate_up);
    matrix(b, &r, kind->d_ff, &down, 1, &b->down);
    assert_ok(b->k->vector(b->d, input_norm, kind->d_model, &b->norm, &e), &e);
    assert_ok(b->k->buffer(b->d, kind->d_model, &b->x, &e), &e);
    assert_ok(b->k->buffer(b->d, kind->d_model + 40, &b->y, &e), &e);
    assert_ok(b->k->buffer(b->d, kind->d_ff, &b->h, &e), &e);
    assert_ok(b->k->kv(b->d, &shape, &b->kv, &e), &e);
    b->projected = results(), b->gated = results(), b->added = results();
}

/* Slices given to the library. */
static uint64_t compute(struct bench *b, const struct kern_ops *k, const struct kind *kind,
                        uint32_t n_tok, bool has_library)
{
    struct err e;
    uint64_t n = 0;
    const struct kern_options o = {.n_threads = 1,
                                   .max_tok = N_TOK,
                                   .has_fp8_weights = kind->is_fp8,
                                   .has_library_gemm = has_library};
    *b = (struct bench){.k = k, .kind = kind, .n_tok = n_tok};
    assert_ok(k->open(&b->d, &o, &e), &e);
    load(b);
    if (has_library && kind->slice_bytes)
        b->d->library.slice_bytes = kind->slice_bytes;
    assert_ok(k->run(b->d, ops, b, &e), &e);
    if (has_library)
        n = b->d->library.n_products;
    k->close(b->d);
    return n;
}

static void free_results(struct bench *b)
{
    free(b->projected), free(b->gated), free(b->added);
}

static void compare(const struct kind *kind, const struct bench *got, const struct bench *want)
{
    uint32_t d = kind->d_model, rows = got->n_tok;
    bool is_exact = kind->dtype == DTYPE_F32 && kind->other == DTYPE_F32;
    const struct {
        const char *op;
        const float *got, *want;
        size_t n;
    } OPS[] = {{"project", got->projected, want->projected, (size_t)rows * (d + 40)},
               {"gate_up", got->gated, want->gated, (size_t)rows * kind->d_ff},
               {"project_add", got->added, want->added, (size_t)rows * d}};
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++) {
        double off = distance(OPS[i].got, OPS[i].want, OPS[i].n);
        if (!(off < (is_exact ? EXACT : ROUNDED) * (double)(i + 1))) /* each reads the last */
            fail_msg("%s, %s and %s: off by %.2e", OPS[i].op, dtype_name(kind->dtype),
                     dtype_name(kind->other), off);
    }
}

static void random_inputs(void)
{
    struct rng r;
    rng_seed(&r, 9);
    for (size_t i = 0; i < sizeof input_x / sizeof *input_x; i++)
        input_x[i] = (float)rng_normal(&r);
    for (size_t i = 0; i < MAX_WIDTH; i++)
        input_norm[i] = (float)rng_normal(&r);
}

static void test_ops(void **state)
{
    static const struct kind KINDS[] = {
        {DTYPE_F32, DTYPE_F32, 90, 75, false, 0},
        {DTYPE_F32, DTYPE_F32, 33, 40, false, 90 * 8 * 4},
        {DTYPE_F16, DTYPE_F16, 90, 75, false, 0},
        {DTYPE_BF16, DTYPE_BF16, 90, 75, false, 0},
        {DTYPE_BF16, DTYPE_BF16, 96, 64, false, 96 * 2 * 24},
        {DTYPE_BF16, DTYPE_BF16, 72, 64, true, 0},
        {DTYPE_Q4_0, DTYPE_F16, 96, 64, false, 5000},
        {DTYPE_Q4_1, DTYPE_Q4_1, 64, 32, false, 0},
        {DTYPE_Q5_0, DTYPE_Q5_1, 64, 32, false, 0},
        {DTYPE_Q8_0, DTYPE_Q8_0, 160, 64, false, 17000},
        {DTYPE_Q4_K, DTYPE_Q5_K, 256, 256, false, 0},
        {DTYPE_Q6_K, DTYPE_Q6_K, 256, 256, false, 40000},
    };
    (void)state;
    random_inputs();
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i += simt_is_checked() ? 2 : 1) {
        struct bench want, got;
        simt_set_order((unsigned)i % SIMT_ORDERS);
        (void)compute(&want, &KERN_REF, &KINDS[i], N_TOK, false);
        assert_true(compute(&got, &TEST_KERN, &KINDS[i], N_TOK, true) > 0);
        no_reports(dtype_name(KINDS[i].dtype));
        compare(&KINDS[i], &got, &want);
        free_results(&want);
        free_results(&got);
    }
}

/* Short steps have the bits of a device that was not asked for a library. */
static void test_short_steps(void **state)
{
    static const struct kind KIND = {DTYPE_BF16, DTYPE_BF16, 64, 32, false, 0};
    struct bench plain, with;
    size_t n = (size_t)(LIBRARY_TOKENS - 1) * 64;
    (void)state;
    simt_set_order(SIMT_FORWARD);
    (void)compute(&plain, &TEST_KERN, &KIND, LIBRARY_TOKENS - 1, false);
    assert_int_equal(compute(&with, &TEST_KERN, &KIND, LIBRARY_TOKENS - 1, true), 0);
    assert_memory_equal(plain.added, with.added, n * sizeof *plain.added);
    free_results(&plain);
    free_results(&with);
}

static void test_refused(void **state)
{
    static const struct kern_ops *const PLAIN[] = {&KERN_CPU, &KERN_REF};
    const struct kern_options o = {.n_threads = 1, .max_tok = 1, .has_library_gemm = true};
    struct kern_device *d;
    struct err e;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(PLAIN[i]->open(&d, &o, &e), ERR_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "engine.gemm cublaslt"));
    }
}

/* --- models --- */

static struct model *open_model(const char *path, const char *backend, bool has_library)
{
    const struct model_options options = {.backend = backend,
                                          .n_threads = 1,
                                          .n_kv_blocks = BLOCKS,
                                          .has_library_gemm = has_library,
                                          .max_batch_tokens = N_TOK,
                                          .max_batch_rows = 1};
    struct model *m;
    struct gguf *g;
    struct err e;
    assert_ok(gguf_open(&g, path, &e), &e);
    assert_ok(model_open(&m, g, &options, &e), &e);
    gguf_close(g);
    return m;
}

/* Logits of the last of n tokens from position `first` on. */
static void advance(struct model *m, uint32_t first, uint32_t n, float *logits)
{
    int32_t token[N_TOK];
    uint32_t position[N_TOK], seq[N_TOK] = {0}, block[BLOCKS], row = n - 1;
    const uint32_t *table = block;
    struct err e;
    for (uint32_t i = 0; i < BLOCKS; i++)
        block[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        token[i] = (int32_t)(20 + (first + i) * 37 % 200);
        position[i] = first + i;
    }
    const struct model_batch b = {n, token, position, seq, &table, 1, &row, 0, NULL, NULL};
    assert_ok(model_forward(m, &b, logits, &e), &e);
}

/* A prompt by the library, then tokens by own kernels over the cache it left. The logits may be off
 * by what rounding to bfloat16 does to a few layers: 3e-2. */
static void test_models(void **state)
{
    static const char *const NAMES[] = {"llama", "qwen3moe", "gemma3"};
    const uint32_t n_prompt = N_TOK - 2;
    (void)state;
    simt_set_order(SIMT_FORWARD);
    for (size_t i = 0; i < (simt_is_checked() ? 1 : 3); i++) {
        struct tiny_model t = i ? tiny_model_of(NAMES[i]) : tiny_model_default();
        char path[] = "/tmp/milepost-library-XXXXXX";
        struct err e;
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        assert_ok(tiny_model_write(&t, path, &e), &e);
        struct model *ref = open_model(path, "ref", false);
        struct model *device = open_model(path, TEST_BACKEND, true);
        uint32_t n_vocab = model_get_info(ref)->n_vocab;
        float *want = calloc(n_vocab, sizeof *want), *got = calloc(n_vocab, sizeof *got);
        assert_true(want && got);
        for (uint32_t first = 0, n = n_prompt; first < N_TOK; first += n, n = 1) {
            advance(ref, first, n, want);
            advance(device, first, n, got);
            double d = distance(got, want, n_vocab);
            print_message("%s, position %u: off by %.1e\n", NAMES[i], first + n - 1, d);
            assert_true(d < 3e-2);
        }
        no_reports(NAMES[i]);
        free(want), free(got);
        model_close(ref);
        model_close(device);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_call), cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_ops),      cmocka_unit_test(test_short_steps),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_models)};
    return cmocka_run_group_tests_name("kernels.simt.library", tests, NULL, NULL);
}
