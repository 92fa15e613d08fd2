/* Mixtures of experts against the reference, in six orders: one token and many (tiles of 8 and of
 * 64 pairs), experts that nobody chooses, all chosen, one a token, experts of several types, gate
 * and up of two. Two products one after the other, each within 6e-6 (ops_test.c), and a gate
 * between: 3e-5 relative L2. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/dtype.h"
#include "tests/harness/tiny_model.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOK = 40, MAX_N = 16, WIDEST = 512 };

static const double BOUND = 3e-5;

struct mix_case {
    uint32_t n_expert, n_used, n_tok, d_model, d_ff;
    uint32_t gate, up, down, other_down; /* types; the last: of experts of odd number */
    uint32_t n_shunned;                  /* the last experts, whose logits are far below */
    bool has_fp8;                        /* bf16 becomes fp8, in the reference too */
};

static const struct mix_case CASES[] = {
    {8, 2, 1, 64, 96, DTYPE_Q4_0, DTYPE_Q4_0, DTYPE_Q4_0, DTYPE_Q4_0, 0, false},
    {4, 4, 3, 96, 32, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0, 0, false},
    {16, 1, 40, 75, 40, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_F16, 9, false},
    {6, 3, 40, 256, 256, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q4_K, 2, false},
    {5, 2, 33, 64, 64, DTYPE_Q5_0, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q5_1, 3, false},
    {3, 2, 9, 40, 36, DTYPE_F32, DTYPE_F32, DTYPE_F16, DTYPE_F16, 0, false},
    {4, 3, 5, 32, 96, DTYPE_Q4_1, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0, 1, false},
    {5, 2, 33, 96, 40, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 2, true},
    {4, 2, 3, 72, 33, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 1, true},
};

struct inputs {
    const struct mix_case *c;
    struct buf gate[MAX_N], up[MAX_N], down[MAX_N];
    float router[MAX_N * WIDEST], x[MAX_TOK * WIDEST], norm[WIDEST];
};

struct device {
    const struct kern_ops *ops;
    struct kern_device *d;
    const struct inputs *in;
    struct kern_experts experts;
    const struct kern_matrix *gate_up[MAX_N], *down[MAX_N];
    const struct kern_vector *norm;
    struct kern_mixer *mixer;
    struct kern_buffer *x, *y;
    struct kern_kv *kv;
    float *out;
};

static uint32_t down_type(const struct mix_case *c, uint32_t expert)
{
    return expert % 2 ? c->other_down : c->down;
}

static void random_blocks(struct rng *r, uint32_t dtype, size_t n, size_t cols, struct buf *b)
{
    buf_init(b, 4 * MiB);
    tiny_random_blocks(r, dtype, n, 1 / sqrt((double)cols), b);
    assert_false(b->failed);
}

/* Activations are positive: a row of negative weights is an expert that nobody chooses. */
static void make(struct inputs *in, const struct mix_case *c)
{
    struct rng r;
    rng_seed(&r, c->n_expert * 100 + c->n_tok);
    in->c = c;
    for (uint32_t x = 0; x < c->n_expert; x++) {
        size_t n = (size_t)c->d_model * c->d_ff;
        random_blocks(&r, c->gate, n, c->d_model, &in->gate[x]);
        random_blocks(&r, c->up, n, c->d_model, &in->up[x]);
        random_blocks(&r, down_type(c, x), n, c->d_ff, &in->down[x]);
        for (uint32_t i = 0; i < c->d_model; i++)
            in->router[x * c->d_model + i] =
                x + c->n_shunned < c->n_expert ? (float)rng_normal(&r) : -3.0f;
    }
    for (uint32_t i = 0; i < c->n_tok * c->d_model; i++)
        in->x[i] = 0.1f + fabsf((float)rng_normal(&r));
    for (uint32_t i = 0; i < c->d_model; i++)
        in->norm[i] = 0.5f + (float)(i % 5) / 4;
}

static void load(struct device *v)
{
    struct err e;
    const struct kern_ops *k = v->ops;
    const struct mix_case *c = v->in->c;
    static const double inv_freq[4] = {1, 1, 1, 1};
    const struct kern_attn_shape attention = {1, 1, 1, 8, 8, 1, {inv_freq}, 1, 1, 16, KERN_KV_F16};
    const struct kern_mix_shape shape = {c->n_expert, c->n_used, c->d_model,
                                         c->d_ff,     true,      KERN_GATE_SILU};
    const struct kern_part router = {DTYPE_F32, c->n_expert, v->in->router};
    assert_ok(k->matrix(v->d, c->d_model, &router, 1, &v->experts.router, &e), &e);
    for (uint32_t x = 0; x < c->n_expert; x++) {
        const struct kern_part both[] = {{c->gate, c->d_ff, v->in->gate[x].p},
                                         {c->up, c->d_ff, v->in->up[x].p}};
        const struct kern_part down = {down_type(c, x), c->d_model, v->in->down[x].p};
        assert_ok(k->matrix(v->d, c->d_model, both, 2, &v->gate_up[x], &e), &e);
        assert_ok(k->matrix(v->d, c->d_ff, &down, 1, &v->down[x], &e), &e);
    }
    v->experts.gate_up = v->gate_up;
    v->experts.down = v->down;
    assert_ok(k->vector(v->d, v->in->norm, c->d_model, &v->norm, &e), &e);
    assert_ok(k->buffer(v->d, c->d_model, &v->x, &e), &e);
    assert_ok(k->buffer(v->d, c->d_model, &v->y, &e), &e);
    assert_ok(k->kv(v->d, &attention, &v->kv, &e), &e);
    assert_ok(k->mixer(v->d, &shape, &v->mixer, &e), &e);
}

static void body(void *arg)
{
    struct device *v = arg;
    const struct mix_case *c = v->in->c;
    const struct kern_norm norm = {v->norm, 1e-5f};
    static const int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK] = {0}, seq[MAX_TOK], block[1] = {0};
    const uint32_t *table[MAX_TOK];
    for (uint32_t t = 0; t < c->n_tok; t++) {
        seq[t] = t;
        table[t] = block;
    }
    const struct kern_step step = {c->n_tok, token, position, seq, table};
    v->ops->begin(v->d, &step, v->kv);
    v->ops->write(v->d, v->x, v->in->x, c->n_tok);
    v->ops->mix(v->d, v->x, &norm, v->mixer, &v->experts, v->y);
    v->ops->read(v->d, v->y, v->out, c->n_tok);
}

static void compute(const struct kern_ops *ops, const struct inputs *in, float *out)
{
    struct err e;
    struct device v = {.ops = ops, .in = in, .out = out};
    const struct kern_options o = {
        .n_threads = 1, .max_tok = MAX_TOK, .has_fp8_weights = in->c->has_fp8};
    assert_ok(ops->open(&v.d, &o, &e), &e);
    load(&v);
    assert_ok(ops->run(v.d, body, &v, &e), &e);
    ops->close(v.d);
}

static void compare(const struct mix_case *c, unsigned order, const float *got, const float *want)
{
    double error = 0, size = 0;
    for (uint32_t i = 0; i < c->n_tok * c->d_model; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    if (!(sqrt(error / size) < BOUND))
        fail_msg("%s, %u of %u experts, %u tokens, order %u: off by %.2e", dtype_name(c->gate),
                 c->n_used, c->n_expert, c->n_tok, order, sqrt(error / size));
}

static void test_mixtures(void **state)
{
    static struct inputs in;
    static float want[MAX_TOK * WIDEST], got[MAX_TOK * WIDEST];
    char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        bool is_large = CASES[i].d_ff > 128;
        unsigned n_orders = is_large && simt_is_checked() ? 2 : SIMT_ORDERS;
        make(&in, &CASES[i]);
        compute(&KERN_REF, &in, want);
        for (unsigned order = 0; order < n_orders; order++) {
            simt_set_order(order);
            compute(&TEST_KERN, &in, got);
            if (simt_take_reports(text, sizeof text))
                fail_msg("%s", text);
            compare(&CASES[i], order, got, want);
        }
        for (uint32_t x = 0; x < CASES[i].n_expert; x++)
            buf_free(&in.gate[x]), buf_free(&in.up[x]), buf_free(&in.down[x]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixtures)};
    return cmocka_run_group_tests_name("kernels.simt.mix", tests, NULL, NULL);
}
