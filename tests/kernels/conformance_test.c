/* Every op of every backend and instruction set against the reference, on every tensor type and on
 * sizes that fill no tile: rows not a multiple of 16, 1 to 37 tokens, uneven sequences.
 *
 * Bound of an op: the largest difference, over the root mean square of what the reference gives.
 * Float32 sums in another order: 2e-5; the same where a quantised product meets activations that
 * its steps hold exactly (put_on_grid makes them so by the rule of kernels/README.md), which is how
 * the products themselves are tested, with 5e-4 for values that a rounding pushes off their step.
 * Behind a norm activations are what they are: a step of 1 / 127 of a block's fourth largest word
 * errs by 0.4% of the root mean square, four times that in the worst of thousands of sums: 3e-2.
 * Q4_K and Q5_K, scales rounded to f16, which errs the same way for 32 columns: 4e-3. Q6_K made
 * eight bits per 32: 4e-2 (its own six bits cost four times that). f16 keys and values: 2^-11 of a
 * score up to 10 is 5e-3 of its weight. A product of two (gate_up) peaks far above its root mean
 * square, its errors with it: ten times. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/ops.h"
#include "tests/harness/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOK = 40, VOCAB = 50, CONTEXT = 160 };

static const struct flavour {
    const struct kern_ops *ops;
    const char *instruction_set;
} FLAVOURS[] = {
    {&KERN_CPU, "avx512"}, {&KERN_CPU, "avxvnni"}, {&KERN_CPU, "avx2"}, {&KERN_CPU, "plain"}};
enum { N_FLAVOURS = sizeof FLAVOURS / sizeof *FLAVOURS };

static const struct type_case {
    uint32_t dtype;
    double bound;
} TYPES[] = {{DTYPE_F32, 2e-5},  {DTYPE_F16, 2e-5},  {DTYPE_BF16, 2e-5}, {DTYPE_Q8_0, 5e-4},
             {DTYPE_Q4_0, 5e-4}, {DTYPE_Q4_1, 5e-4}, {DTYPE_Q5_0, 5e-4}, {DTYPE_Q5_1, 5e-4},
             {DTYPE_Q4_K, 4e-3}, {DTYPE_Q5_K, 4e-3}, {DTYPE_Q6_K, 4e-2}};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

/* What one device computes from the same inputs. */
struct outcome {
    float *embedded, *projected, *added, *gated, *logits, *attended, *summed, *plain;
};
enum { N_OUTPUTS = sizeof(struct outcome) / sizeof(float *) };

struct inputs {
    uint32_t n_tok, d_model, d_ff, q_width, kv_width;
    uint32_t dtype;
    struct buf q, k, v, output, gate, up, table;
    float *norm, *x, *grid, *h, *qkv, *bias, *head_norm;
    struct kern_attn_shape attention;
    double inv_freq[KERN_MAX_ROPES][64];
    bool has_extras; /* bias, norms of heads, second RoPE, GELU, scales */
    uint32_t window;
    struct kern_step step;
    int32_t token[MAX_TOK];
    uint32_t position[MAX_TOK], seq[MAX_TOK], row[2];
    uint32_t block[3][CONTEXT / KERN_BLOCK_TOKENS];
    const uint32_t *tables[3];
};

struct device {
    const struct kern_ops *ops;
    struct kern_device *d;
    struct inputs *in;
    const struct kern_matrix *embedding, *qkv, *output, *gate_up;
    const struct kern_vector *norm, *bias, *q_norm, *k_norm;
    struct kern_buffer *x, *y, *z, *h, *h_out, *att;
    struct kern_kv *kv;
    struct outcome out;
};

static float *normals(struct rng *r, size_t n)
{
    float *p = calloc(n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)rng_normal(r);
    return p;
}

static void random_matrix(struct rng *r, uint32_t dtype, size_t rows, size_t cols, struct buf *b)
{
    buf_init(b, 16 * MiB);
    tiny_random_blocks(r, dtype, rows * cols, 1 / sqrt((double)cols), b);
    assert_false(b->failed);
}

/* Three sequences in turn: long runs, one token, and a run that starts inside a block. */
static void random_step(struct rng *r, struct inputs *in)
{
    uint32_t first = in->n_tok > 2 ? in->n_tok / 2 : in->n_tok, at = 0;
    const uint32_t length[3] = {first, in->n_tok > first, in->n_tok - first - (in->n_tok > first)};
    const uint32_t start[3] = {0, 5, 19};
    for (uint32_t s = 0; s < 3; s++) {
        in->tables[s] = in->block[s];
        for (uint32_t i = 0; i < CONTEXT / KERN_BLOCK_TOKENS; i++)
            in->block[s][i] = i * 3 + (s + 1) % 3;
        for (uint32_t i = 0; i < length[s]; i++, at++) {
            in->token[at] = (int32_t)rng_below(r, VOCAB);
            in->position[at] = start[s] + i;
            in->seq[at] = s;
        }
    }
    in->row[0] = in->n_tok - 1;
    in->row[1] = in->n_tok / 2;
    in->step = (struct kern_step){in->n_tok, in->token, in->position, in->seq, in->tables};
}

static void make_inputs(struct inputs *in, uint32_t dtype, uint32_t n_tok, uint32_t d_model,
                        uint32_t d_ff, uint32_t d_head, uint32_t n_head, uint32_t n_head_kv)
{
    struct rng r;
    rng_seed(&r, dtype * 1000 + n_tok);
    *in = (struct inputs){.n_tok = n_tok, .d_model = d_model, .d_ff = d_ff, .dtype = dtype};
    in->q_width = n_head * d_head;
    in->kv_width = n_head_kv * d_head;
    random_matrix(&r, dtype, VOCAB, d_model, &in->table);
    random_matrix(&r, dtype, in->q_width, d_model, &in->q);
    random_matrix(&r, dtype, in->kv_width, d_model, &in->k);
    random_matrix(&r, dtype, in->kv_width, d_model, &in->v);
    random_matrix(&r, dtype, d_model, d_ff, &in->output);
    random_matrix(&r, dtype, d_ff, d_model, &in->gate);
    random_matrix(&r, dtype, d_ff, d_model, &in->up);
    in->norm = normals(&r, d_model);
    in->x = normals(&r, (size_t)MAX_TOK * d_model);
    in->grid = normals(&r, (size_t)MAX_TOK * d_model);
    in->h = normals(&r, (size_t)MAX_TOK * d_ff);
    in->qkv = normals(&r, (size_t)MAX_TOK * (in->q_width + 2 * in->kv_width));
    in->bias = normals(&r, in->q_width + 2 * in->kv_width);
    in->head_norm = normals(&r, 2 * d_head);
    for (uint32_t i = 0; i < d_head / 2; i++) {
        in->inv_freq[0][i] = pow(10000.0, -2.0 * i / d_head);
        in->inv_freq[1][i] = pow(500.0, -2.0 * i / d_head);
    }
    in->attention = (struct kern_attn_shape){.n_layer = 2,
                                             .n_head = n_head,
                                             .n_head_kv = n_head_kv,
                                             .d_head = d_head,
                                             .n_rot = d_head,
                                             .n_rope = 2,
                                             .inv_freq = {in->inv_freq[0], in->inv_freq[1]},
                                             .scale = 1.0f / sqrtf((float)d_head),
                                             .n_blocks = 3 * CONTEXT / KERN_BLOCK_TOKENS,
                                             .max_position = CONTEXT};
    random_step(&r, in);
}

static void free_inputs(struct inputs *in)
{
    struct buf *all[] = {&in->table, &in->q, &in->k, &in->v, &in->output, &in->gate, &in->up};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_free(all[i]);
    free(in->norm), free(in->x), free(in->grid), free(in->h), free(in->qkv);
    free(in->bias), free(in->head_norm);
}

static struct kern_attn_layer layer_of(const struct device *v)
{
    struct kern_attn_layer l = {.index = 1, .window = v->in->window};
    if (v->in->has_extras) {
        l.bias = v->bias;
        l.q_norm = v->q_norm;
        l.k_norm = v->k_norm;
        l.eps = 1e-6f;
        l.rope = 1;
    }
    return l;
}

/* Earlier positions of the sequences, so that a query sees more than this step's tokens. */
static void fill_history(struct device *v)
{
    struct inputs *in = v->in;
    uint32_t position[MAX_TOK], seq[MAX_TOK], n = 0;
    for (uint32_t p = 0; p < 5; p++, n++)
        position[n] = p, seq[n] = 1;
    for (uint32_t p = 0; p < 19; p++, n++)
        position[n] = p, seq[n] = 2;
    const struct kern_step step = {n, in->token, position, seq, in->tables};
    v->ops->begin(v->d, &step, v->kv);
    v->ops->write(v->d, v->y, in->qkv, n);
    const struct kern_attn_layer layer = layer_of(v);
    v->ops->attention(v->d, &layer, v->y, v->att);
}

static void body(void *arg)
{
    struct device *v = arg;
    struct inputs *in = v->in;
    const struct kern_ops *k = v->ops;
    const struct kern_norm norm = {v->norm, 1e-5f};
    const struct kern_attn_layer layer = layer_of(v);
    enum kern_gate gate = in->has_extras ? KERN_GATE_GELU : KERN_GATE_SILU;
    fill_history(v);
    k->begin(v->d, &in->step, v->kv);
    k->embed(v->d, v->embedding, in->has_extras ? 25.3f : 1, v->x);
    k->read(v->d, v->x, v->out.embedded, in->n_tok);
    k->write(v->d, v->x, in->grid, in->n_tok);
    k->project(v->d, v->x, NULL, v->qkv, v->y);
    k->read(v->d, v->y, v->out.plain, in->n_tok);
    k->write(v->d, v->x, in->x, in->n_tok);
    k->project(v->d, v->x, &norm, v->qkv, v->y);
    k->read(v->d, v->y, v->out.projected, in->n_tok);
    k->write(v->d, v->y, in->qkv, in->n_tok);
    k->attention(v->d, &layer, v->y, v->att);
    k->read(v->d, v->att, v->out.attended, in->n_tok);
    k->gate_up(v->d, v->x, &norm, v->gate_up, gate, v->h_out);
    k->read(v->d, v->h_out, v->out.gated, in->n_tok);
    k->write(v->d, v->h, in->h, in->n_tok);
    k->project_add(v->d, v->h, v->output, v->x);
    k->read(v->d, v->x, v->out.added, in->n_tok);
    k->project(v->d, v->h, NULL, v->output, v->z);
    k->write(v->d, v->x, in->x, in->n_tok);
    k->add_norm(v->d, v->z, &norm, v->x);
    k->read(v->d, v->x, v->out.summed, in->n_tok);
    k->head(v->d, v->x, in->n_tok > 1 ? 2 : 1, in->row, &norm, v->embedding, v->out.logits);
}

static void load(struct device *v, struct err *e)
{
    struct inputs *in = v->in;
    const struct kern_ops *k = v->ops;
    const struct kern_part embedding = {in->dtype, VOCAB, in->table.p};
    const struct kern_part qkv[] = {{in->dtype, in->q_width, in->q.p},
                                    {in->dtype, in->kv_width, in->k.p},
                                    {in->dtype, in->kv_width, in->v.p}};
    const struct kern_part output = {in->dtype, in->d_model, in->output.p};
    const struct kern_part gate_up[] = {{in->dtype, in->d_ff, in->gate.p},
                                        {in->dtype, in->d_ff, in->up.p}};
    assert_ok(k->matrix(v->d, in->d_model, &embedding, 1, &v->embedding, e), e);
    assert_ok(k->matrix(v->d, in->d_model, qkv, 3, &v->qkv, e), e);
    assert_ok(k->matrix(v->d, in->d_ff, &output, 1, &v->output, e), e);
    assert_ok(k->matrix(v->d, in->d_model, gate_up, 2, &v->gate_up, e), e);
    assert_ok(k->vector(v->d, in->norm, in->d_model, &v->norm, e), e);
    uint32_t qkv_width = in->q_width + 2 * in->kv_width, d_head = in->attention.d_head;
    assert_ok(k->vector(v->d, in->bias, qkv_width, &v->bias, e), e);
    assert_ok(k->vector(v->d, in->head_norm, d_head, &v->q_norm, e), e);
    assert_ok(k->vector(v->d, in->head_norm + d_head, d_head, &v->k_norm, e), e);
    assert_ok(k->buffer(v->d, in->d_model, &v->x, e), e);
    assert_ok(k->buffer(v->d, in->d_model, &v->z, e), e);
    assert_ok(k->buffer(v->d, in->q_width + 2 * in->kv_width, &v->y, e), e);
    assert_ok(k->buffer(v->d, in->q_width, &v->att, e), e);
    assert_ok(k->buffer(v->d, in->d_ff, &v->h, e), e);
    assert_ok(k->buffer(v->d, in->d_ff, &v->h_out, e), e);
    assert_ok(k->kv(v->d, &in->attention, &v->kv, e), e);
}

static float **outputs(struct outcome *o, float **list[N_OUTPUTS])
{
    list[0] = &o->embedded, list[1] = &o->projected, list[2] = &o->attended;
    list[3] = &o->gated, list[4] = &o->added, list[5] = &o->logits, list[6] = &o->summed;
    list[7] = &o->plain;
    return *list;
}

/* False when this machine lacks the instruction set. */
static bool compute(const struct flavour *f, struct inputs *in, uint32_t threads,
                    struct outcome *out)
{
    struct err e;
    struct device v = {.ops = f->ops, .in = in};
    const struct kern_options o = {threads, MAX_TOK, f->instruction_set};
    int rc = f->ops->open(&v.d, &o, &e);
    if (rc == ERR_UNSUPPORTED)
        return false;
    assert_ok(rc, &e);
    float **list[N_OUTPUTS];
    (void)outputs(&v.out, list);
    for (int i = 0; i < N_OUTPUTS; i++) {
        *list[i] = calloc((size_t)MAX_TOK * 1024, sizeof(float));
        assert_non_null(*list[i]);
    }
    load(&v, &e);
    assert_ok(f->ops->run(v.d, body, &v, &e), &e);
    f->ops->close(v.d);
    *out = v.out;
    return true;
}

static void free_outcome(struct outcome *o)
{
    float **list[N_OUTPUTS];
    (void)outputs(o, list);
    for (int i = 0; i < N_OUTPUTS; i++)
        free(*list[i]);
}

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
    const struct kern_options o = {1, 1, "quantum"};
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
    const struct kern_options o = {1, 1, NULL};
    (void)state;
    assert_ok(KERN_CPU.open(&d, &o, &e), &e);
    assert_int_equal(KERN_CPU.kv(d, &shape, &kv, &e), ERR_UNSUPPORTED);
    KERN_CPU.close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_odd_shapes),
                                       cmocka_unit_test(test_extras),
                                       cmocka_unit_test(test_extreme_values),
                                       cmocka_unit_test(test_unknown_instruction_set),
                                       cmocka_unit_test(test_head_size_refused)};
    return cmocka_run_group_tests_name("kernels.conformance", tests, NULL, NULL);
}
