/* Ops one by one, as a decoding step would call them: several copies of a matrix in turn, so that
 * no cache holds it, all captured in one graph and replayed. What cannot be captured is launched.
 */
#include "tests/gpu/bench/bench.h"

#include "common/buf.h"
#include "common/rng.h"
#include "kernels/cuda/device.h"
#include "tests/harness/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COPIES = 16, REPEATS = 2, MAX_TOK = 512 };
static const double BEYOND_CACHE = 200e6; /* bytes; an H200's L2 holds 60 MB */

enum op { OP_PROJECT, OP_ADD, OP_GATE, N_OPS };

/* The matrices of an 8-billion Llama; small: their widths by 16. */
static const struct matrix_shape {
    const char *name;
    enum op op;
    uint32_t rows, cols;
} SHAPES[] = {{"qkv with norm", OP_PROJECT, 6144, 4096},
              {"output, added", OP_ADD, 4096, 4096},
              {"gate and up with norm", OP_GATE, 28672, 4096},
              {"down, added", OP_ADD, 4096, 14336}};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };
static const char *const TYPES[] = {"bf16", "q8_0", "q4_0", "q4_k", "q6_k"};
static const uint32_t TOKENS[] = {1, 8, 64, 256};

struct bench {
    const struct bench_options *o;
    struct kern_device *device;
    struct rows *rows;
    const struct kern_matrix *copy[MAX_COPIES];
    uint32_t n_copies;
    const struct kern_vector *norm;
    struct kern_buffer *x, *y;
    enum op op;
    struct kern_kv *kv;
    double us;
    struct err *error;
    int rc;
};

static void call_matrix(void *arg, uint32_t i)
{
    struct bench *b = arg;
    const struct kern_ops *k = b->o->ops;
    const struct kern_norm norm = {b->norm, 1e-5f};
    if (b->op == OP_PROJECT)
        k->project(b->device, b->x, &norm, b->copy[i % b->n_copies], b->y);
    if (b->op == OP_ADD)
        k->project_add(b->device, b->x, b->copy[i % b->n_copies], b->y);
    if (b->op == OP_GATE)
        k->gate_up(b->device, b->x, &norm, b->copy[i % b->n_copies], KERN_GATE_SILU, b->y);
}

static uint32_t scaled(const struct bench *b, uint32_t n)
{
    return b->o->is_small ? (n / 16 + 255) / 256 * 256 : n; /* whole blocks of every type */
}

static int make_copies(struct bench *b, const struct matrix_shape *s, uint32_t dtype, double *bytes,
                       struct err *e)
{
    uint32_t rows = scaled(b, s->rows), cols = scaled(b, s->cols), parts = s->op == OP_GATE ? 2 : 1;
    struct rng r;
    struct buf data;
    int rc;
    rng_seed(&r, rows + cols);
    buf_init(&data, (size_t)1 << 30);
    tiny_random_blocks(&r, dtype, (size_t)cols * 256, 1 / sqrt(cols), &data);
    size_t row_bytes = data.n / 256, have = data.n;
    TRY(buf_check(&data, "weights", e));
    if (!buf_reserve(&data, row_bytes * rows))
        return err_set(e, ERR_NOMEM, "weights");
    for (size_t at = have; at < row_bytes * rows; at += have)
        memcpy(data.p + at, data.p, row_bytes * rows - at < have ? row_bytes * rows - at : have);
    *bytes = (double)row_bytes * rows;
    double wanted = ceil(BEYOND_CACHE / *bytes);
    b->n_copies = b->o->is_small ? 2 : wanted > MAX_COPIES ? MAX_COPIES : (uint32_t)wanted;
    struct kern_part part[2] = {{dtype, rows / parts, data.p},
                                {dtype, rows / parts, data.p + row_bytes * (rows / parts)}};
    for (uint32_t i = 0; i < b->n_copies; i++)
        TRY(b->o->ops->matrix(b->device, cols, part, parts, &b->copy[i], e));
out:
    buf_free(&data);
    return rc;
}

static void run_matrix(void *arg)
{
    struct bench *b = arg;
    b->rc = bench_time(b->o, b->device, call_matrix, b, b->n_copies * REPEATS, &b->us, b->error);
}

/* A device of its own for each matrix: closing it gives the memory back. */
static int open_device(struct bench *b, uint32_t x_width, uint32_t y_width, struct err *e)
{
    const struct kern_options o = {.n_threads = 1, .max_tok = b->o->is_small ? 8 : MAX_TOK};
    float *ones = malloc(x_width * sizeof *ones);
    int rc = ones ? ERR_OK : err_set(e, ERR_NOMEM, "norm");
    for (uint32_t i = 0; ones && i < x_width; i++)
        ones[i] = 1;
    if (rc == ERR_OK)
        rc = b->o->ops->open(&b->device, &o, e);
    if (rc == ERR_OK)
        rc = b->o->ops->vector(b->device, ones, x_width, &b->norm, e);
    if (rc == ERR_OK)
        rc = b->o->ops->buffer(b->device, x_width, &b->x, e);
    if (rc == ERR_OK)
        rc = b->o->ops->buffer(b->device, y_width, &b->y, e);
    free(ones);
    return rc;
}

static void write_inputs(void *arg)
{
    struct bench *b = arg;
    uint32_t n_tok = b->o->is_small ? 8 : MAX_TOK,
             widest = b->x->width > b->y->width ? b->x->width : b->y->width;
    float *x = malloc((size_t)n_tok * widest * sizeof *x);
    struct rng r;
    rng_seed(&r, 3);
    for (size_t i = 0; x && i < (size_t)n_tok * widest; i++)
        x[i] = (float)rng_uniform(&r) * 2 - 1;
    if (x) {
        b->o->ops->write(b->device, b->x, x, n_tok);
        b->o->ops->write(b->device, b->y, x, n_tok);
    }
    free(x);
}

struct sized {
    struct bench *b;
    uint32_t n_tok;
};

static void begin_and_run(void *arg)
{
    struct sized *s = arg;
    static const uint32_t BLOCK[1] = {0};
    static const uint32_t *const TABLES[1] = {BLOCK};
    int32_t token[MAX_TOK] = {0};
    uint32_t position[MAX_TOK] = {0}, seq[MAX_TOK] = {0};
    const struct kern_step step = {s->n_tok, token, position, seq, TABLES};
    s->b->o->ops->begin(s->b->device, &step, s->b->kv);
    (void)!s->b->o->dev->sync(s->b->device->stream, NULL);
    run_matrix(s->b);
}

static int one_block_kv(struct bench *b, struct err *e)
{
    static const double FREQ[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {.n_layer = 1,
                                          .n_head = 1,
                                          .n_head_kv = 1,
                                          .d_head = 8,
                                          .n_rot = 8,
                                          .n_rope = 1,
                                          .inv_freq = {FREQ},
                                          .scale = 1,
                                          .n_blocks = 1,
                                          .max_position = 16};
    return b->o->ops->kv(b->device, &shape, &b->kv, e);
}

static int measure_matrix(struct bench *b, const struct matrix_shape *s, const char *type,
                          struct err *e)
{
    uint32_t dtype, rows = scaled(b, s->rows), cols = scaled(b, s->cols);
    double bytes = 0;
    int rc = ERR_OK;
    b->op = s->op;
    b->error = e;
    if (!synth_dtype(type, &dtype))
        return err_set(e, ERR_BUG, "type %s", type);
    TRY(open_device(b, cols, s->op == OP_GATE ? rows / 2 : rows, e));
    TRY(one_block_kv(b, e));
    TRY(make_copies(b, s, dtype, &bytes, e));
    TRY(b->o->ops->run(b->device, write_inputs, b, e));
    for (size_t t = 0; t < sizeof TOKENS / sizeof *TOKENS && rc == ERR_OK; t++) {
        struct sized sized = {b, TOKENS[t]};
        if (b->o->is_small && TOKENS[t] > 8)
            break;
        b->rc = ERR_OK;
        rc = b->o->ops->run(b->device, begin_and_run, &sized, e);
        rc = rc == ERR_OK ? b->rc : rc;
        struct row row = {.us = b->us, .bytes = bytes, .flops = 2.0 * rows * cols * TOKENS[t]};
        snprintf(row.name, sizeof row.name, "%s %s %ux%u tokens %u", s->name, type, rows, cols,
                 TOKENS[t]);
        row.bytes += 4.0 * TOKENS[t] * (cols + rows);
        if (rc == ERR_OK)
            rows_add(b->rows, &row);
    }
out:
    b->o->ops->close(b->device);
    b->device = NULL;
    return rc;
}

/* A type or shape that fails does not hide the others, unless the device is gone. */
int bench_kernels(const struct bench_options *o, struct rows *rows, struct err *e)
{
    int rc = ERR_OK, worst = ERR_OK;
    if (!o->dev)
        return err_set(e, ERR_UNSUPPORTED, "kernels are a device's: backend cuda or simt");
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES && rc != ERR_DEVICE; t++) {
        for (size_t i = 0; i < N_SHAPES && rc != ERR_DEVICE; i++) {
            struct bench b = {.o = o, .rows = rows};
            rc = measure_matrix(&b, &SHAPES[i], TYPES[t], e);
            if (rc != ERR_OK)
                fprintf(stderr, "%s %s: %s\n", SHAPES[i].name, TYPES[t], e->msg);
            worst = rc != ERR_OK ? rc : worst;
        }
    }
    struct err attention_error;
    if (rc != ERR_DEVICE && bench_attention(o, rows, &attention_error) != ERR_OK) {
        fprintf(stderr, "attention: %s\n", attention_error.msg);
        worst = err_set(e, attention_error.code, "%s", attention_error.msg);
    }
    return worst;
}
