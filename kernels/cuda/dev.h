/* kernels/cuda/dev.h - what our backends need from a device's runtime: memory, streams, events,
 * graphs and one matrix product. Two implementations: the CUDA runtime (dev_cuda.c, the only file
 * that knows it) and the emulator (kernels/simt/dev_simt.cc).
 *
 * Work is ordered within a stream and done by the device later; its failures are told by sync, and
 * again by every later one (ERR_DEVICE): the process should end and start again. One thread at a
 * time per stream. Sizes in bytes. */
#ifndef KERNELS_CUDA_DEV_H
#define KERNELS_CUDA_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "common/err.h"
#ifdef __cplusplus
}
#endif

struct dev_stream;
struct dev_event;
struct dev_graph;

enum dev_copy { DEV_TO_DEVICE, DEV_TO_HOST, DEV_ON_DEVICE };
enum dev_type { DEV_BF16, DEV_FP8, DEV_F32 };
enum { DEV_GEMM_WORKSPACE = 32 << 20 }; /* bytes: what cuBLAS recommends for Hopper */

/* c[m, n] = (or +=) scale * a[m, k] b[n, k]^T, float32 out, in any order of sums; rows of c are ldc
 * apart. FP8: m, n and k multiples of 16. */
struct dev_gemm {
    float *c;
    const void *a, *b;
    int m, n, k, ldc;
    enum dev_type type;
    float scale;
    bool is_added;
    void *workspace; /* device memory of DEV_GEMM_WORKSPACE bytes, of the stream alone */
};

struct dev_ops {
    const char *name;
    bool (*is_here)(void); /* asks the driver: may take a second the first time */
    /* The index-th device, counted over again where there are fewer; of the calling thread, too. */
    MUST_USE int (*open)(uint32_t index, struct err *e);
    void (*enter)(uint32_t index); /* another thread works with that device, too */
    unsigned (*capability)(void);  /* of the open device: 90 for 9.0 */
    void (*memory)(size_t *free_bytes, size_t *total_bytes);
    void *(*alloc)(size_t n);      /* aligned to 256; NULL: none left. Content undefined. */
    void (*release)(void *p);      /* NULL is fine */
    void *(*host_alloc)(size_t n); /* host memory that copies fast; NULL: none left */
    void (*host_release)(void *p);

    struct dev_stream *(*stream_open)(void); /* NULL: none left */
    void (*stream_close)(struct dev_stream *s);
    MUST_USE int (*sync)(struct dev_stream *s, struct err *e); /* blocks */
    void (*copy)(void *dst, const void *src, size_t n, enum dev_copy kind, struct dev_stream *s);
    void (*fill)(void *dst, int byte, size_t n, struct dev_stream *s);

    struct dev_event *(*event_open)(void);
    void (*event_close)(struct dev_event *v);
    void (*record)(struct dev_event *v, struct dev_stream *s);
    void (*wait)(struct dev_stream *s, struct dev_event *v);           /* s goes on after v */
    MUST_USE int (*await)(struct dev_event *v, struct err *e);         /* blocks; else as sync */
    float (*elapsed_ms)(struct dev_event *from, struct dev_event *to); /* both done */

    /* Between begin and end the stream's work is kept instead of done. NULL: not capturable. */
    void (*capture_begin)(struct dev_stream *s);
    struct dev_graph *(*capture_end)(struct dev_stream *s);
    void (*graph_launch)(struct dev_graph *g, struct dev_stream *s);
    void (*graph_close)(struct dev_graph *g);

    /* The library behind gemm, before the first. ERR_UNSUPPORTED: it is not here. Any thread. */
    MUST_USE int (*gemm_ready)(struct err *e);
    void (*gemm)(const struct dev_gemm *g, struct dev_stream *s);

    /* Whether nothing is left to do, or it failed (sync tells). Does not block. */
    bool (*is_done)(struct dev_stream *s);
    /* The same of what stands before the event. */
    bool (*is_reached)(struct dev_event *v);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct dev_ops DEV_SIMT;
extern const struct dev_ops DEV_CUDA; /* where built WITH_CUDA */
#ifdef __cplusplus
}
#endif

#endif
