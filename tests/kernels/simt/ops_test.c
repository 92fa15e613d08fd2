/* Every op of the device backend against the reference, on the emulator, in six orders of threads.
 *
 * Bound of an op: relative L2 distance, root of sum((got - want)^2) over root of sum(want^2). Sums
 * of float32 products in another order, weights exact: 2e-6. Products on tensor cores: weights
 * exact, each activation the sum of two bfloat16, off by up to 2^-18 of itself: 6e-6. f16 keys and
 * values: 2^-11 each, and of a score up to 10: 2e-3. int8 ones: the reference rounds the same way,
 * so that only a value at a rounding's edge differs: 2e-3. bf16: 2^-8 each in place of
 * 2^-11: 1.6e-2. fp8: 2^-4: 0.12; the reference of both keeps floats. Add and gate keep the bound
 * of their product. fp8 weights: the reference rounds the same way, so the bound of tensor cores;
 * the rounding itself, up to 2^-4 of a weight: 0.04. */
#include "tests/kernels/op_cases.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double EXACT = 2e-6, SPLIT = 6e-6;
static const double ATTENTION[] = {
    [KERN_KV_F16] = 2e-3, [KERN_KV_INT8] = 2e-3, [KERN_KV_BF16] = 1.6e-2, [KERN_KV_FP8] = 0.12};

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

static void compare(const struct inputs *in, const struct outcome *got, const struct outcome *want,
                    unsigned order, double attention)
{
    size_t n = in->n_tok, qkv = in->q_width + 2 * in->kv_width;
    bool is_exact = in->dtype == in->other && (in->dtype == DTYPE_F32 || in->dtype == DTYPE_F16);
    double product = is_exact ? EXACT : SPLIT;
    const struct {
        const char *op;
        const float *got, *want;
        size_t n;
        double bound;
    } cases[] = {
        {"embed", got->embedded, want->embedded, n * in->d_model, EXACT},
        {"project", got->projected, want->projected, n * qkv, product},
        {"attention", got->attended, want->attended, n * in->q_width, attention},
        {"gate_up", got->gated, want->gated, n * in->d_ff, product},
        {"add_norm", got->summed, want->summed, n * in->d_model, product},
        {"add", got->joined, want->joined, n * in->d_model, product},
        {"project_add", got->added, want->added, n * in->d_model, product},
        {"head", got->logits, want->logits, (n > 1 ? 2 : 1) * VOCAB, product},
        {"plain project", got->plain, want->plain, n * qkv, product},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double d = distance(cases[i].got, cases[i].want, cases[i].n);
        if (!(d < cases[i].bound))
            fail_msg("%s: %s, %u tokens, width %u, order %u: off by %.2e, bound %.2e", cases[i].op,
                     dtype_name(in->dtype), in->n_tok, in->d_model, order, d, cases[i].bound);
    }
}

static void check_within(struct inputs *in, unsigned n_orders, double attention)
{
    const struct flavour reference = {&KERN_REF, NULL}, device = {&TEST_KERN, NULL};
    struct outcome want, got;
    char text[300];
    enum kern_kv_type type = in->attention.kv_type;
    if (type != KERN_KV_INT8)
        in->attention.kv_type = KERN_KV_F16;
    assert_true(compute(&reference, in, 1, &want));
    in->attention.kv_type = type;
    for (unsigned order = 0; order < n_orders; order++) {
        simt_set_order(order);
        assert_true(compute(&device, in, 1, &got));
        if (simt_take_reports(text, sizeof text))
            fail_msg("%s, order %u: %s", dtype_name(in->dtype), order, text);
        compare(in, &got, &want, order, attention);
        free_outcome(&got);
    }
    free_outcome(&want);
    free_inputs(in);
}

static void check(struct inputs *in, unsigned n_orders)
{
    check_within(in, n_orders, ATTENTION[in->attention.kv_type]);
}

/* One token and several, 8, 16 and more: the forms of the product. */
static void test_types(void **state)
{
    static const uint32_t TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,
                                     DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,
                                     DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    struct inputs in;
    (void)state;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        make_inputs(&in, TYPES[t], 1, 256, 256, 32, 3, 1);
        check(&in, 1);
        make_inputs(&in, TYPES[t], 5, 256, 256, 32, 3, 1);
        check(&in, 2);
        make_inputs(&in, TYPES[t], 9 + (uint32_t)t, 256, 256, 32, 3, 1);
        check(&in, 1);
    }
}

/* Sizes that fill nothing: rows, columns, heads, lanes of a key. */
static void test_odd_shapes(void **state)
{
    struct inputs in;
    (void)state;
    make_inputs(&in, DTYPE_Q4_1, 7, 96, 224, 48, 3, 1);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_F32, 9, 90, 75, 16, 9, 1);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_F16, 1, 33, 17, 16, 9, 3);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_Q8_0, 11, 32, 96, 80, 2, 2);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_Q4_0, 37, 64, 32, 256, 2, 1);
    check(&in, 2);
    make_inputs(&in, DTYPE_Q5_0, 17, 160, 96, 40, 3, 1);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_Q5_1, 16, 224, 32, 24, 2, 1);
    check(&in, 2);
    make_inputs(&in, DTYPE_BF16, 33, 90, 75, 16, 5, 1);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_Q5_1, 3, 160, 64, 32, 1, 1);
    check(&in, 2);
    for (uint32_t k = DTYPE_Q4_K; k <= DTYPE_Q6_K;
         k++) { /* one group of columns, rows that fill none */
        make_inputs(&in, k, k == DTYPE_Q5_K ? 1 : 21, 256, 256, 24, 3, 1);
        check(&in, SIMT_ORDERS);
    }
}

/* A matrix of two types is two panels, and gate and up then meet in a kernel of their own. */
static void test_mixed_types(void **state)
{
    struct inputs in;
    (void)state;
    make_inputs(&in, DTYPE_Q4_0, 5, 96, 160, 24, 3, 1);
    mix_types(&in, DTYPE_Q8_0);
    check(&in, SIMT_ORDERS);
    make_inputs(&in, DTYPE_F32, 1, 33, 75, 16, 3, 1);
    mix_types(&in, DTYPE_BF16);
    check(&in, 2);
}

/* Bias, norms of heads, a second RoPE, GELU; windows that end in, at and beside a block. */
static void test_extras(void **state)
{
    static const uint32_t WINDOWS[] = {0, 1, 7, 16, 17, 40};
    struct inputs in;
    (void)state;
    for (size_t i = 0; i < sizeof WINDOWS / sizeof *WINDOWS; i++) {
        make_inputs(&in, DTYPE_Q8_0, i % 2 ? 37 : 5, 64, 64, 64, 4, i % 3 ? 1 : 2);
        in.has_extras = true;
        in.window = WINDOWS[i];
        in.attention.scale = 0.11f;
        in.attention.kv_type = (enum kern_kv_type)(i % 4);
        check(&in, 1);
    }
}

/* Rotations at the end of the longest context, of half a head too; a table of 8192 blocks. */
static void test_longest_context(void **state)
{
    struct inputs in;
    (void)state;
    for (uint32_t n = 1; n <= 13; n += 12) {
        make_inputs(&in, DTYPE_F32, n, 32, 32, 48, 3, 1);
        move_far(&in, (128 << 10) - 64);
        in.attention.n_rot = n == 1 ? 48 : 24;
        check(&in, n == 1 ? SIMT_ORDERS : 1);
    }
}

/* Keys and values that bf16 and fp8 hold: the cache rounds nothing, and what is left is the
 * rounding of queries and weights, to 8 and 11 bits (attend_test.c). */
static void test_exact_caches(void **state)
{
    static const enum kern_kv_type TYPES[] = {KERN_KV_BF16, KERN_KV_FP8};
    static const double BOUND[] = {5e-3, 1e-3};
    struct inputs in;
    (void)state;
    for (int i = 0; i < 4; i++) {
        make_inputs(&in, DTYPE_F32, i < 2 ? 5 : 37, 32, 32, 40, 3, 1);
        in.attention.kv_type = TYPES[i % 2];
        memset(in.inv_freq, 0, sizeof in.inv_freq);
        for (uint32_t k = 0; k < MAX_TOK * (in.q_width + 2 * in.kv_width); k++)
            in.qkv[k] = fminf(fmaxf(rintf(in.qkv[k] * 4) / 4, -1.75f), 1.75f);
        check_within(&in, i < 2 ? SIMT_ORDERS : 1, BOUND[i % 2]);
    }
}

/* A row of zeros, and one huge value beside small ones: no division by zero, no NaN. */
static void test_extreme_values(void **state)
{
    struct inputs in;
    (void)state;
    make_inputs(&in, DTYPE_Q4_1, 3, 256, 512, 32, 6, 2);
    memset(in.x, 0, 256 * sizeof *in.x);
    memset(in.h, 0, 512 * sizeof *in.h);
    in.x[256 + 5] = 3e4f;
    check(&in, 1);
}

/* Weights kept as fp8: one token and several, columns that fill no group, all orders. */
static void test_fp8_weights(void **state)
{
    static const uint32_t TOKENS[] = {1, 5, 13, 40}, WIDTHS[] = {96, 256, 33, 72};
    struct inputs in;
    (void)state;
    for (int i = 0; i < 4; i++) {
        make_inputs(&in, DTYPE_BF16, TOKENS[i], WIDTHS[i], WIDTHS[3 - i] + 1, 16, 3, 1);
        in.has_fp8_weights = true;
        check(&in, i < 3 ? SIMT_ORDERS : 1);
    }
}

/* What rounding costs, and that it happens. */
static void test_fp8_rounding(void **state)
{
    const struct flavour device = {&TEST_KERN, NULL};
    struct outcome want, got;
    struct inputs in;
    (void)state;
    make_inputs(&in, DTYPE_BF16, 8, 256, 256, 32, 3, 1);
    assert_true(compute(&device, &in, 1, &want));
    in.has_fp8_weights = true;
    assert_true(compute(&device, &in, 1, &got));
    double d = distance(got.plain, want.plain, (size_t)8 * (in.q_width + 2 * in.kv_width));
    if (!(d > 0.01 && d < 0.04))
        fail_msg("fp8 weights are off by %.2e", d);
    free_outcome(&got);
    free_outcome(&want);
    free_inputs(&in);
}

static void test_fp8_refused(void **state)
{
    const struct kern_options o = {.n_threads = 1, .max_tok = 1, .has_fp8_weights = true};
    struct err e;
    struct kern_device *d;
    (void)state;
    assert_int_equal(KERN_CPU.open(&d, &o, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "engine.weights file"));
}

static void test_head_size_refused(void **state)
{
    struct err e;
    struct kern_device *d;
    struct kern_kv *kv;
    const double inv_freq[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {1, 1, 1, 12, 8, 1, {inv_freq}, 1, 1, 16, KERN_KV_F16};
    const struct kern_options o = {.n_threads = 1, .max_tok = 1};
    (void)state;
    assert_ok(TEST_KERN.open(&d, &o, &e), &e);
    assert_int_equal(TEST_KERN.kv(d, &shape, &kv, &e), ERR_UNSUPPORTED);
    TEST_KERN.close(d);
}

/* Backends without bf16 and fp8 say so, and what there is. */
static void test_caches_refused(void **state)
{
    static const struct kern_ops *const PLAIN[] = {&KERN_CPU, &KERN_REF};
    const double inv_freq[4] = {1, 1, 1, 1};
    const struct kern_options o = {.n_threads = 1, .max_tok = 1};
    struct err e;
    struct kern_device *d;
    struct kern_kv *kv;
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct kern_attn_shape shape = {1, 1, 1, 16, 8, 1, {inv_freq}, 1, 1, 16, KERN_KV_BF16};
        shape.kv_type = i % 2 ? KERN_KV_FP8 : KERN_KV_BF16;
        assert_ok(PLAIN[i / 2]->open(&d, &o, &e), &e);
        assert_int_equal(PLAIN[i / 2]->kv(d, &shape, &kv, &e), ERR_UNSUPPORTED);
        assert_non_null(strstr(e.msg, i % 2 ? "cache of fp8" : "cache of bf16"));
        assert_non_null(strstr(e.msg, "engine.kv_dtype f16 or int8"));
        PLAIN[i / 2]->close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_shapes),        cmocka_unit_test(test_extras),
        cmocka_unit_test(test_longest_context),   cmocka_unit_test(test_exact_caches),
        cmocka_unit_test(test_mixed_types),       cmocka_unit_test(test_types),
        cmocka_unit_test(test_extreme_values),    cmocka_unit_test(test_fp8_weights),
        cmocka_unit_test(test_fp8_rounding),      cmocka_unit_test(test_fp8_refused),
        cmocka_unit_test(test_head_size_refused), cmocka_unit_test(test_caches_refused)};
    return cmocka_run_group_tests_name("kernels.simt.ops", tests, NULL, NULL);
}
