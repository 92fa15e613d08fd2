/* Inputs from a seed, a device loaded with them, and one body that goes through all ops. */
#include "tests/kernels/op_cases.h"

#include <math.h>
#include <string.h>

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

static const uint32_t START[3] = {0, 5, 19};

/* Three sequences in turn: long runs, one token, and a run that starts inside a block. */
static void random_step(struct rng *r, struct inputs *in)
{
    uint32_t first = in->n_tok > 2 ? in->n_tok / 2 : in->n_tok, at = 0;
    const uint32_t length[3] = {first, in->n_tok > first, in->n_tok - first - (in->n_tok > first)};
    for (uint32_t s = 0; s < 3; s++) {
        in->tables[s] = in->block[s];
        for (uint32_t i = 0; i < CONTEXT / KERN_BLOCK_TOKENS; i++)
            in->block[s][i] = i * 3 + (s + 1) % 3;
        for (uint32_t i = 0; i < length[s]; i++, at++) {
            in->token[at] = (int32_t)rng_below(r, VOCAB);
            in->position[at] = START[s] + i;
            in->seq[at] = s;
        }
    }
    in->row[0] = in->n_tok - 1;
    in->row[1] = in->n_tok / 2;
    in->step = (struct kern_step){in->n_tok, in->token, in->position, in->seq, in->tables};
}

void make_inputs(struct inputs *in, uint32_t dtype, uint32_t n_tok, uint32_t d_model, uint32_t d_ff,
                 uint32_t d_head, uint32_t n_head, uint32_t n_head_kv)
{
    struct rng r;
    rng_seed(&r, dtype * 1000 + n_tok);
    *in = (struct inputs){.n_tok = n_tok,
                          .d_model = d_model,
                          .d_ff = d_ff,
                          .dtype = dtype,
                          .other = dtype,
                          .output_type = dtype};
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

void mix_types(struct inputs *in, uint32_t other)
{
    struct rng r;
    rng_seed(&r, other);
    in->other = other;
    buf_free(&in->v);
    buf_free(&in->up);
    random_matrix(&r, other, in->kv_width, in->d_model, &in->v);
    random_matrix(&r, other, in->d_ff, in->d_model, &in->up);
}

void set_output_type(struct inputs *in, uint32_t dtype)
{
    struct rng r;
    rng_seed(&r, dtype);
    in->output_type = dtype;
    buf_free(&in->output);
    random_matrix(&r, dtype, in->d_model, in->d_ff, &in->output);
}

void move_far(struct inputs *in, uint32_t base)
{
    const uint32_t blocks = CONTEXT / KERN_BLOCK_TOKENS, first = base / KERN_BLOCK_TOKENS - 1;
    in->base = base;
    in->window = FAR_WINDOW;
    in->attention.max_position = base + CONTEXT - KERN_BLOCK_TOKENS;
    for (uint32_t t = 0; t < in->n_tok; t++)
        in->position[t] += base;
    for (uint32_t s = 0; s < 3; s++) {
        in->far_table[s] = calloc(first + blocks, sizeof *in->far_table[s]);
        assert_non_null(in->far_table[s]);
        memcpy(in->far_table[s] + first, in->block[s], sizeof in->block[s]);
        in->tables[s] = in->far_table[s];
    }
}

void free_inputs(struct inputs *in)
{
    struct buf *all[] = {&in->table, &in->q, &in->k, &in->v, &in->output, &in->gate, &in->up};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_free(all[i]);
    free(in->norm), free(in->x), free(in->grid), free(in->h), free(in->qkv);
    free(in->bias), free(in->head_norm);
    for (uint32_t s = 0; s < 3; s++)
        free(in->far_table[s]);
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
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t p = in->base ? in->base - FAR_WINDOW + 1 : 0; p < in->base + START[s]; p++)
            position[n] = p, seq[n++] = s;
    const struct kern_step step = {n, in->token, position, seq, in->tables};
    v->ops->begin(v->d, &step, v->kv);
    v->ops->write(v->d, v->y, in->qkv, n);
    struct kern_attn_layer layer = layer_of(v);
    layer.window = in->base ? 1 : layer.window; /* nothing is before them */
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
    k->add(v->d, v->z, v->x);
    k->read(v->d, v->x, v->out.joined, in->n_tok);
    k->head(v->d, v->x, in->n_tok > 1 ? 2 : 1, in->row, &norm, v->embedding, v->out.logits);
}

static void load(struct device *v, struct err *e)
{
    struct inputs *in = v->in;
    const struct kern_ops *k = v->ops;
    const struct kern_part embedding = {in->dtype, VOCAB, in->table.p};
    const struct kern_part qkv[] = {{in->dtype, in->q_width, in->q.p},
                                    {in->dtype, in->kv_width, in->k.p},
                                    {in->other, in->kv_width, in->v.p}};
    const struct kern_part output = {in->output_type, in->d_model, in->output.p};
    const struct kern_part gate_up[] = {{in->dtype, in->d_ff, in->gate.p},
                                        {in->other, in->d_ff, in->up.p}};
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
    list[7] = &o->plain, list[8] = &o->joined;
    return *list;
}

bool compute(const struct flavour *f, struct inputs *in, uint32_t threads, struct outcome *out)
{
    struct err e;
    struct device v = {.ops = f->ops, .in = in};
    const struct kern_options o = {.n_threads = threads,
                                   .max_tok = MAX_TOK,
                                   .instruction_set = f->instruction_set,
                                   .has_fp8_weights = in->has_fp8_weights};
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

void free_outcome(struct outcome *o)
{
    float **list[N_OUTPUTS];
    (void)outputs(o, list);
    for (int i = 0; i < N_OUTPUTS; i++)
        free(*list[i]);
}
