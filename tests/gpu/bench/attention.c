/* Attention of an 8-billion Llama's layers: one token of each of several sequences, and a prompt's
 * piece. Layers in turn, so that the caches are read from memory. */
#include "tests/gpu/bench/bench.h"

#include "common/rng.h"
#include "kernels/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_HEAD = 32, N_HEAD_KV = 8, D_HEAD = 128, N_LAYER = 8, PIECE = 512, MAX_SEQ = 64 };
enum { QKV = (N_HEAD + 2 * N_HEAD_KV) * D_HEAD, REPEATS = 2 };

static const struct attention_case {
    uint32_t n_seq, context, n_new; /* tokens of each sequence after so many */
} CASES[] = {{1, 1024, 1}, {1, 16384, 1}, {64, 1024, 1}, {1, 0, 512}, {1, 7680, 512}};

struct bench {
    const struct bench_options *o;
    struct kern_device *device;
    struct kern_kv *kv;
    struct kern_buffer *x, *y;
    double inv_freq[D_HEAD / 2];
    struct attention_case c;
    uint32_t seq_blocks, position[PIECE], seq[PIECE];
    uint32_t *table;
    const uint32_t *tables[MAX_SEQ];
    int32_t token[PIECE];
    float *random; /* [PIECE][QKV] */
    double us;
    int rc;
    struct err *error;
};

static void call(void *arg, uint32_t i)
{
    struct bench *b = arg;
    const struct kern_attn_layer layer = {.index = i % N_LAYER};
    b->o->ops->attention(b->device, &layer, b->x, b->y);
}

static void begin(struct bench *b, uint32_t n_tok)
{
    const struct kern_step step = {n_tok, b->token, b->position, b->seq, b->tables};
    b->o->ops->begin(b->device, &step, b->kv);
    b->o->ops->write(b->device, b->x, b->random, n_tok);
}

/* The caches up to the context, a piece of a sequence at a time; then what is measured. */
static void fill_and_measure(void *arg)
{
    struct bench *b = arg;
    const struct attention_case *c = &b->c;
    for (uint32_t s = 0; s < c->n_seq; s++) {
        for (uint32_t p = 0, n; p < c->context; p += n) {
            n = c->context - p < PIECE ? c->context - p : PIECE;
            for (uint32_t i = 0; i < n; i++)
                b->position[i] = p + i, b->seq[i] = s;
            begin(b, n);
            for (uint32_t l = 0; l < N_LAYER; l++)
                call(b, l);
        }
    }
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->n_seq; s++)
        for (uint32_t i = 0; i < c->n_new; i++, n++)
            b->position[n] = c->context + i, b->seq[n] = s;
    begin(b, n);
    b->rc = bench_time(b->o, b->device, call, b, N_LAYER * REPEATS, &b->us, b->error);
}

static int open_all(struct bench *b, struct err *e)
{
    const struct kern_ops *k = b->o->ops;
    const struct kern_options options = {.n_threads = 1, .max_tok = PIECE};
    struct kern_attn_shape shape = {.n_layer = N_LAYER,
                                    .n_head = N_HEAD,
                                    .n_head_kv = N_HEAD_KV,
                                    .d_head = D_HEAD,
                                    .n_rot = D_HEAD,
                                    .n_rope = 1,
                                    .inv_freq = {b->inv_freq},
                                    .scale = 0.088f};
    int rc;
    b->seq_blocks = (b->c.context + b->c.n_new) / KERN_BLOCK_TOKENS + 1;
    shape.n_blocks = b->seq_blocks * b->c.n_seq;
    shape.max_position = b->seq_blocks * KERN_BLOCK_TOKENS;
    TRY(k->open(&b->device, &options, e));
    TRY(k->buffer(b->device, QKV, &b->x, e));
    TRY(k->buffer(b->device, N_HEAD * D_HEAD, &b->y, e));
    TRY(k->kv(b->device, &shape, &b->kv, e));
out:
    return rc;
}

static int open_arrays(struct bench *b, struct err *e)
{
    struct rng r;
    uint32_t n = b->c.n_seq;
    rng_seed(&r, 5);
    b->table = malloc((size_t)n * b->seq_blocks * sizeof *b->table);
    b->random = malloc((size_t)PIECE * QKV * sizeof *b->random);
    if (!b->table || !b->random)
        return err_set(e, ERR_NOMEM, "attention: arrays");
    for (size_t i = 0; i < (size_t)PIECE * QKV; i++)
        b->random[i] = (float)rng_uniform(&r) * 2 - 1;
    for (uint32_t s = 0; s < n; s++) {
        b->tables[s] = b->table + (size_t)s * b->seq_blocks;
        for (uint32_t i = 0; i < b->seq_blocks; i++)
            b->table[(size_t)s * b->seq_blocks + i] = i * n + s;
    }
    for (int i = 0; i < D_HEAD / 2; i++)
        b->inv_freq[i] = 1.0 / (1 + i);
    return ERR_OK;
}

static int measure_case(struct bench *b, struct rows *rows, struct err *e)
{
    const struct attention_case *c = &b->c;
    int rc;
    b->error = e;
    TRY(open_all(b, e));
    TRY(open_arrays(b, e));
    TRY(b->o->ops->run(b->device, fill_and_measure, b, e));
    rc = b->rc;
    if (rc != ERR_OK)
        goto out;
    double seen = c->n_seq * (c->context + c->n_new), pairs = 0;
    for (uint32_t i = 0; i < c->n_new; i++)
        pairs += (double)c->n_seq * (c->context + i + 1);
    struct row row = {.us = b->us};
    snprintf(row.name, sizeof row.name, "attention, %u x %u tokens after %u", c->n_seq, c->n_new,
             c->context);
    row.bytes =
        seen * 2 * 2 * N_HEAD_KV * D_HEAD + 4.0 * c->n_seq * c->n_new * (QKV + N_HEAD * D_HEAD);
    row.flops = pairs * 4 * N_HEAD * D_HEAD;
    rows_add(rows, &row);
out:
    b->o->ops->close(b->device);
    free(b->table);
    free(b->random);
    return rc;
}

int bench_attention(const struct bench_options *o, struct rows *rows, struct err *e)
{
    int rc = ERR_OK, n = o->is_small ? 0 : (int)(sizeof CASES / sizeof *CASES);
    for (int i = 0; i < n && rc == ERR_OK; i++) {
        struct bench *b = calloc(1, sizeof *b);
        if (!b)
            return err_set(e, ERR_NOMEM, "attention");
        b->o = o;
        b->c = CASES[i];
        rc = measure_case(b, rows, e);
        free(b);
    }
    return rc;
}
