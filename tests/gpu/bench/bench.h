/* tests/gpu/bench/bench.h - the measurements of engine-bench; each adds its rows. ERR_DEVICE: the
 * device broke. Rows found before an error stay. */
#ifndef TESTS_GPU_BENCH_BENCH_H
#define TESTS_GPU_BENCH_BENCH_H

#include "kernels/cuda/dev.h"
#include "kernels/ops.h"
#include "tests/gpu/bench/rows.h"
#include "tests/gpu/bench/synth.h"

#include <stdbool.h>

struct bench_options {
    const char *backend; /* cuda, or simt or ref to try the program itself */
    const struct kern_ops *ops;
    const struct dev_ops *dev; /* NULL: of ref, which has none */
    const struct synth_shape *shape;
    const char *dtype_name;
    uint32_t dtype;
    bool is_fp8;                            /* bf16 kept as fp8 */
    bool has_library_gemm;                  /* prompts by cuBLASLt */
    uint32_t batch[8], context[8], n_batch; /* sequences, and the positions before each */
    uint32_t prompt;
    bool is_small; /* sizes for the emulator */
};

/* What this card can do, whatever we write: copy, read, products on random data, launches. */
MUST_USE int bench_ceilings(const struct bench_options *o, struct rows *rows, struct err *e);
/* Every op at the shapes of an 8-billion model, inputs rotated beyond the cache. */
MUST_USE int bench_kernels(const struct bench_options *o, struct rows *rows, struct err *e);
MUST_USE int bench_attention(const struct bench_options *o, struct rows *rows, struct err *e);
/* Microseconds of one call of n, by events: all captured in a graph and replayed, or launched where
 * that cannot be. Inside the device's run. */
MUST_USE int bench_time(const struct bench_options *o, struct kern_device *device,
                        void (*call)(void *arg, uint32_t i), void *arg, uint32_t n, double *us,
                        struct err *e);
/* Whole steps of a model: decoding at each batch size, and a prompt. */
MUST_USE int bench_model(const struct bench_options *o, struct rows *rows, struct err *e);

/* ceilings.cu, in both builds: sums n words of 16 bytes; out: a word a block. Grids of any size. */
void ceil_read_cuda(const void *p, size_t n, float *out, struct dev_stream *s);
void ceil_nothing_cuda(struct dev_stream *s);

#endif
