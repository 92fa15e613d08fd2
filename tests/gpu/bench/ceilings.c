/* Ceilings, each the best of several rounds. Products take random numbers: zeros run a tenth faster
 * and mean nothing. */
#include "tests/gpu/bench/bench.h"

#include "common/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, LAUNCHES = 500, SEED_BYTES = 1 << 24, SIDE = 8192 };
static const size_t LARGE = (size_t)4 << 30;

struct ceilings {
    const struct dev_ops *dev;
    struct dev_stream *stream;
    struct dev_event *from, *to;
    char *a, *b;
    float *c;
    void *workspace;
};

/* Bytes that are sane bfloat16 and fp8 numbers: no infinities, no NaNs, sizes about one. */
static int fill(const struct ceilings *c, struct err *e)
{
    struct rng r;
    uint16_t *seed = malloc(SEED_BYTES);
    if (!seed)
        return err_set(e, ERR_NOMEM, "ceilings");
    rng_seed(&r, 1);
    for (size_t i = 0; i < SEED_BYTES / sizeof *seed; i++) {
        uint64_t bits = rng_u64(&r);
        seed[i] = (uint16_t)(0x3C00 | (bits & 0x8000) | (bits & 0x03FF));
    }
    for (size_t at = 0; at < LARGE; at += SEED_BYTES)
        c->dev->copy(c->a + at, seed, SEED_BYTES, DEV_TO_DEVICE, c->stream);
    c->dev->copy(c->b, c->a, LARGE, DEV_ON_DEVICE, c->stream);
    int rc = c->dev->sync(c->stream, e);
    free(seed);
    return rc;
}

static void copy_all(const struct ceilings *c)
{
    c->dev->copy(c->b, c->a, LARGE, DEV_ON_DEVICE, c->stream);
}

static void read_all(const struct ceilings *c)
{
    ceil_read_cuda(c->a, LARGE / 16, c->c, c->stream);
}

static void multiply(const struct ceilings *c, enum dev_type type)
{
    const struct dev_gemm g = {.c = c->c,
                               .a = c->a,
                               .b = c->b,
                               .m = SIDE,
                               .n = SIDE,
                               .k = SIDE,
                               .ldc = SIDE,
                               .type = type,
                               .scale = 1,
                               .workspace = c->workspace};
    c->dev->gemm(&g, c->stream);
}

static void multiply_bf16(const struct ceilings *c)
{
    multiply(c, DEV_BF16);
}

static void multiply_fp8(const struct ceilings *c)
{
    multiply(c, DEV_FP8);
}

static void launch_many(const struct ceilings *c)
{
    for (int i = 0; i < LAUNCHES; i++)
        ceil_nothing_cuda(c->stream);
}

static int measure(const struct ceilings *c, void (*work)(const struct ceilings *c), double n,
                   struct row *row, struct rows *rows, struct err *e)
{
    int rc = ERR_OK;
    for (int i = 0; i < ROUNDS && rc == ERR_OK; i++) {
        c->dev->record(c->from, c->stream);
        work(c);
        c->dev->record(c->to, c->stream);
        rc = c->dev->sync(c->stream, e);
        double us = rc == ERR_OK ? 1e3 * (double)c->dev->elapsed_ms(c->from, c->to) / n : 0;
        row->us = i == 1 || us < row->us ? us : row->us; /* the first warms up */
    }
    if (rc == ERR_OK)
        rows_add(rows, row);
    return rc;
}

/* The same launches kept in a graph. */
static int measure_graph(const struct ceilings *c, struct rows *rows, struct err *e)
{
    struct row row = {.name = "a launch inside a graph"};
    c->dev->capture_begin(c->stream);
    launch_many(c);
    struct dev_graph *graph = c->dev->capture_end(c->stream);
    int rc = graph ? ERR_OK : err_set(e, ERR_DEVICE, "launches could not be captured");
    for (int i = 0; i < ROUNDS && rc == ERR_OK; i++) {
        c->dev->record(c->from, c->stream);
        c->dev->graph_launch(graph, c->stream);
        c->dev->record(c->to, c->stream);
        rc = c->dev->sync(c->stream, e);
        double us = rc == ERR_OK ? 1e3 * (double)c->dev->elapsed_ms(c->from, c->to) / LAUNCHES : 0;
        row.us = i == 1 || us < row.us ? us : row.us;
    }
    c->dev->graph_close(graph);
    if (rc == ERR_OK)
        rows_add(rows, &row);
    return rc;
}

static int measure_all(const struct ceilings *c, struct rows *rows, struct err *e)
{
    double product = 2.0 * SIDE * SIDE * SIDE;
    struct row copy = {.name = "copy", .bytes = 2.0 * (double)LARGE};
    struct row read = {.name = "read", .bytes = (double)LARGE};
    struct row bf16 = {.name = "bf16 product", .flops = product};
    struct row fp8 = {.name = "fp8 product", .flops = product};
    struct row launch = {.name = "a launch by itself"};
    int rc;
    TRY(fill(c, e));
    TRY(measure(c, copy_all, 1, &copy, rows, e));
    TRY(measure(c, read_all, 1, &read, rows, e));
    TRY(measure(c, multiply_bf16, 1, &bf16, rows, e));
    TRY(measure(c, launch_many, LAUNCHES, &launch, rows, e));
    TRY(measure_graph(c, rows, e));
    TRY(measure(c, multiply_fp8, 1, &fp8, rows, e)); /* last: what may be refused ends the device */
out:
    return rc;
}

int bench_ceilings(const struct bench_options *o, struct rows *rows, struct err *e)
{
    struct ceilings c = {.dev = o->dev};
    if (!c.dev || c.dev != &DEV_CUDA)
        return err_set(e, ERR_UNSUPPORTED, "ceilings are a device's");
    c.stream = c.dev->stream_open();
    c.from = c.dev->event_open();
    c.to = c.dev->event_open();
    c.a = c.dev->alloc(LARGE);
    c.b = c.dev->alloc(LARGE);
    c.c = c.dev->alloc((size_t)SIDE * SIDE * sizeof *c.c);
    c.workspace = c.dev->alloc(DEV_GEMM_WORKSPACE);
    int rc = c.stream && c.a && c.b && c.c && c.workspace
                 ? measure_all(&c, rows, e)
                 : err_set(e, ERR_NOMEM, "ceilings: no device memory");
    c.dev->release(c.a);
    c.dev->release(c.b);
    c.dev->release(c.c);
    c.dev->release(c.workspace);
    return rc;
}
