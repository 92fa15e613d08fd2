/* Every op of every backend and instruction set against the reference, on every tensor type and on
 * sizes that fill no tile: rows not a multiple of 16, 1 to 37 tokens, uneven sequences.
 *
 * Bound of an op: the largest difference, over the root mean square of what the reference gives.
 * Float32 sums in another order: 2e-5; the same where a quantised product meets activations that
 * its steps hold exactly (put_on_grid makes them so by the rule of kernels/README.md), which is how
 * the products themselves are tested, with 5e-4 for values that a rounding pushes off their step.
 * Behind a norm activations are what they are: a step of 1 / 127 of a block's fourth largest word
 * errs by 0.4% of the root mean square, four times that in the worst of thousands of sums: 3e-2.
 * Q6_K made eight bits per 32: 4e-2 (its own six bits cost four times that). f16 keys and values:
 * 2^-11 of a score up to 10 is 5e-3 of its weight. A product of two (gate_up) peaks far above its
 * root mean square, its errors with it: ten times. */
#include "tests/kernels/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct flavour FLAVOURS[] = {{&KERN_CPU, "avx512"},
                                          {&KERN_CPU, "avx512zen"},
                                          {&KERN_CPU, "avxvnni"},
                                          {&KERN_CPU, "avx2"},
                                          {&KERN_CPU, "plain"}};
enum { N_FLAVOURS = sizeof FLAVOURS / sizeof *FLAVOURS };

static const struct type_case {
    uint32_t dtype;
    double bound;
} TYPES[] = {{DTYPE_F32, 2e-5},  {DTYPE_F16, 2e-5},  {DTYPE_BF16, 2e-5}, {DTYPE_Q8_0, 5e-4},
             {DTYPE_Q4_0, 5e-4}, {DTYPE_Q4_1, 5e-4}, {DTYPE_Q5_0, 5e-4}, {DTYPE_Q5_1, 5e-4},
             {DTYPE_Q4_K, 5e-4}, {DTYPE_Q5_K, 5e-4}, {DTYPE_Q6_K, 4e-2}};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

static double distance(const float *got, const float *want, size_t n)
{
    double most = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        most = d > most || isnan(d) ? d : most;
        squares += (double)want[i] * (double)want[i];
    }
    return most / sqrt(squares / (double)n);
}

static void compare(const struct flavour *f, const struct inputs *in, const struct outcome *got,
                    const struct outcome *want, double bound)
{
    size_t n = in->n_tok, qkv = in->q_width + 2 * in->kv_width;
    double rounded = bound > 1e-4 && bound < 3e-2 ? 3e-2 : bound;
    const struct {
        const char *op;
        const float *got, *want;
        size_t n;
        double bound;
    } cases[] = {
        {"embed", got->embedded, want->embedded, n * in->d_model, bound},
        {"project", got->projected, want->projected, n * qkv, rounded},
        {"attention", got->attended, want->attended, n * in->q_width, 5e-3},
        {"gate_up", got->gated, want->gated, n * in->d_ff, 10 * rounded},
        {"add_norm", got->summed, want->summed, n * in->d_model, 2 * bound},
        {"add", got->joined, want->joined, n * in->d_model, 2 * bound},
        {"project_add", got->added, want->added, n * in->d_model, bound},
        {"head", got->logits, want->logits, (n > 1 ? 2 : 1) * VOCAB, 2 * rounded},
        {"plain project", got->plain, want->plain, n * qkv, bound},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double d = distance(cases[i].got, cases[i].want, cases[i].n);
        if (!(d < cases[i].bound))
            fail_msg("%s: %s, %s, %u tokens, width %u: off by %.2e, bound %.2e", f->instruction_set,
                     cases[i].op, dtype_name(in->dtype), in->n_tok, in->d_model, d, cases[i].bound);
    }
}

/* 32 columns to the nearest values that a quantised product holds: the fourth largest word of four
 * columns sets the step, numbers beyond a byte take two. */
static void grid_block(float *x)
{
    float word[8] = {0}, sorted[8];
    for (int i = 0; i < 32; i++)
        word[i / 4] = fmaxf(word[i / 4], fabsf(x[i]));
    memcpy(sorted, word, sizeof sorted);
    for (int i = 0; i < 8; i++)
        for (int j = i + 1; j < 8; j++)
            if (sorted[j] > sorted[i]) {
                float kept = sorted[i];
                sorted[i] = sorted[j];
                sorted[j] = kept;
            }
    float step = fmaxf(sorted[3] / 127, sorted[0] / (127 * 128));
    for (int i = 0; i < 32; i++)
        x[i] = step > 0 ? rintf(x[i] / step) * step : 0;
}

static void grid_rows(float *x, uint32_t n, uint32_t width)
{
    for (size_t at = 0; at < (size_t)n * width; at += 32)
        grid_block(x + at);
}

/* After a test has changed them. */
static void put_on_grid(struct inputs *in)
{
    memcpy(in->grid, in->x, (size_t)MAX_TOK * in->d_model * sizeof *in->x);
    if (in->d_model % 32 == 0)
        grid_rows(in->grid, in->n_tok, in->d_model);
    if (in->d_ff % 32 == 0)
        grid_rows(in->h, in->n_tok, in->d_ff);
}

static void check(struct inputs *in, double bound)
{
    put_on_grid(in);
    const struct flavour reference = {&KERN_REF, NULL};
    struct outcome want, got;
    assert_true(compute(&reference, in, 1, &want));
    for (size_t f = 0; f < N_FLAVOURS; f++) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            if (!compute(&FLAVOURS[f], in, threads, &got)) {
                print_message("%s is not on this machine\n", FLAVOURS[f].instruction_set);
                continue;
            }
            compare(&FLAVOURS[f], in, &got, &want, bound);
            free_outcome(&got);
        }
    }
    free_outcome(&want);
    free_inputs(in);
}

static void test_types(void **state)
{
    static const uint32_t TOKENS[] = {1, 2, 3, 5, 37};
    struct inputs in;
    (void)state;
    for (size_t t = 0; t < N_TYPES; t++) {
        for (size_t n = 0; n < sizeof TOKENS / sizeof *TOKENS; n++) {
            make_inputs(&in, TYPES[t].dtype, TOKENS[n], 256, 512, 32, 6, 2);
            check(&in, TYPES[t].bound);
        }
    }
}

/* Rows that fill no group of 16, floats that fill no vector, heads of 16 with 9 to a KV head. */
static void test_odd_shapes(void **state)
{
    struct inputs in;
    (void)state;
    make_inputs(&in, DTYPE_Q4_1, 7, 96, 224, 48, 3, 1);
    check(&in, 5e-4);
    make_inputs(&in, DTYPE_F32, 9, 90, 75, 16, 9, 1);
    check(&in, 2e-5);
    make_inputs(&in, DTYPE_F16, 1, 33, 17, 16, 9, 3);
    check(&in, 2e-5);
    make_inputs(&in, DTYPE_Q8_0, 11, 32, 96, 80, 2, 2);
    check(&in, 5e-4);
}

/* An odd number of groups of 16 of gate and up, which only a matrix of floats can read. */
static void test_gates(void **state)
{
    static const uint32_t TOKENS[] = {1, 2, 5, 37}, WIDTHS[] = {256, 1024};
    struct inputs in;
    (void)state;
    for (size_t w = 0; w < 2; w++)
        for (size_t n = 0; n < sizeof TOKENS / sizeof *TOKENS; n++) {
            make_inputs(&in, DTYPE_Q4_1, TOKENS[n], WIDTHS[w], 80, 32, 6, 2);
            set_output_type(&in, DTYPE_F32);
            check(&in, 5e-4);
        }
}

static void test_mixed_types(void **state)
{
    static const uint32_t TOKENS[] = {1, 5, 37};
    struct inputs in;
    (void)state;
    for (size_t n = 0; n < sizeof TOKENS / sizeof *TOKENS; n++) {
        make_inputs(&in, DTYPE_Q4_K, TOKENS[n], 512, 256, 32, 6, 2);
        mix_types(&in, DTYPE_Q8_0);
        check(&in, 5e-4);
    }
}

/* What Gemma 3 and Qwen have beyond Llama, and windows that end in, at and beside a block. */
static void test_extras(void **state)
{
    static const uint32_t WINDOWS[] = {0, 1, 7, 16, 17, 40};
    struct inputs in;
    (void)state;
    for (size_t i = 0; i < sizeof WINDOWS / sizeof *WINDOWS; i++) {
        make_inputs(&in, DTYPE_Q8_0, i % 2 ? 37 : 5, 128, 160, 64, 4, i % 3 ? 1 : 2);
        in.has_extras = true;
        in.window = WINDOWS[i];
        in.attention.scale = 0.11f;
        check(&in, 5e-4);
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
    check(&in, 1e-3);
}

static void test_unknown_instruction_set(void **state)
{
    struct err e;
    struct kern_device *d;
    const struct kern_options o = {.n_threads = 1, .max_tok = 1, .instruction_set = "quantum"};
    (void)state;
    assert_int_equal(KERN_CPU.open(&d, &o, &e), ERR_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(e.msg, "quantum"));
}

static void test_head_size_refused(void **state)
{
    struct err e;
    struct kern_device *d;
    struct kern_kv *kv;
    const double inv_freq[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {1, 1, 1, 8, 8, 1, {inv_freq}, 1, 1, 16, KERN_KV_F16};
    const struct kern_options o = {.n_threads = 1, .max_tok = 1};
    (void)state;
    assert_ok(KERN_CPU.open(&d, &o, &e), &e);
    assert_int_equal(KERN_CPU.kv(d, &shape, &kv, &e), ERR_UNSUPPORTED);
    KERN_CPU.close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_odd_shapes),
                                       cmocka_unit_test(test_gates),
                                       cmocka_unit_test(test_mixed_types),
                                       cmocka_unit_test(test_extras),
                                       cmocka_unit_test(test_extreme_values),
                                       cmocka_unit_test(test_unknown_instruction_set),
                                       cmocka_unit_test(test_head_size_refused)};
    return cmocka_run_group_tests_name("kernels.conformance", tests, NULL, NULL);
}
