/* kernels/ops.h - what a device can compute: the waist between models and backends.
 *
 * A backend is one folder that exports one `const struct kern_ops` and adds a line to registry.c.
 * Operations are the fused steps of a decoder layer, so that a backend may keep activations in
 * whatever form suits it between the parts (int8 with scales on a CPU, registers on a GPU).
 * Activations at the borders are float32 in memory from buffer_alloc.
 *
 * Every operation treats each token row by itself: the result of a row is the same bit for bit
 * whatever other rows are in the call, and whether a prompt comes in one piece or many. `ref` is
 * the truth; tests/kernels compares every backend with it, bound per operation.
 *
 * One thread calls a backend. Operations return ERR_OK or ERR_DEVICE, which is sticky. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "common/err.h"
#include "kernels/dtype.h"

#define KERN_BLOCK_TOKENS 16u /* positions of a KV block */

struct kern;        /* an open backend */
struct kern_weight; /* a matrix on the device, maybe repacked */
struct kern_kv;     /* the KV blocks of all layers */

struct kern_options {
    uint32_t n_threads; /* 0 = usable cores */
};

struct kern_matrix { /* [n_rows, n_cols], rows contiguous; y = W x has n_rows values */
    const void *data;
    uint32_t dtype; /* enum dtype; n_cols is a multiple of its block */
    uint64_t n_rows, n_cols;
};

enum kern_layout {
    KERN_CONCAT, /* parts below each other: q, k, v */
    KERN_GATE_UP /* two parts of the same shape: gate and up of a gated feed-forward */
};

enum kern_rope { KERN_ROPE_ADJACENT, KERN_ROPE_HALVES }; /* pairs (2i, 2i+1) or (i, i+d/2) */

struct kern_attention {
    uint32_t n_layer, n_head, n_head_kv, d_head, n_rope; /* first n_rope of d_head are rotated */
    enum kern_rope rope;
    const float *inv_freq; /* [n_rope / 2]; copied */
    uint32_t max_position; /* positions are below this */
    float scale;           /* of q.k, usually d_head^-1/2 */
    uint32_t n_blocks;
};

struct kern_batch { /* as struct model_batch: token t is at position[t] of sequence seq[t] */
    uint32_t n_tok;
    const uint32_t *position, *seq;
    const uint32_t *const *block_table;
};

struct kern_ops {
    const char *name;
    /* May it run on this machine? Cheap, no side effect. */
    bool (*is_available)(void);
    /* max_tok: most rows of a call. Scratch is allocated here or at weight_load, never in an op. */
    int (*open)(struct kern **out, const struct kern_options *o, uint32_t max_tok, struct err *e);
    void (*close)(struct kern *k);

    int (*buffer_alloc)(struct kern *k, size_t n_floats, float **out, struct err *e);
    void (*buffer_free)(struct kern *k, float *p);
    /* Copies the parts; their memory is free afterwards. ERR_UNSUPPORTED: dtype, ERR_INVALID:
     * shape. */
    int (*weight_load)(struct kern *k, const struct kern_matrix *part, uint32_t n_part,
                       enum kern_layout layout, struct kern_weight **out, struct err *e);
    void (*weight_free)(struct kern *k, struct kern_weight *w);
    size_t (*weight_bytes)(const struct kern_weight *w);
    int (*kv_open)(struct kern *k, const struct kern_attention *a, struct kern_kv **out,
                   struct err *e);
    void (*kv_close)(struct kern *k, struct kern_kv *kv);
    size_t (*kv_block_bytes)(const struct kern_attention *a);

    /* x [n, n_cols] = rows token[i] of w; token[i] < n_rows. */
    int (*embed)(struct kern *k, const struct kern_weight *w, const int32_t *token, uint32_t n,
                 float *x, struct err *e);
    /* y [n, n_rows] = W rmsnorm(x [n, n_cols]; gain, eps). row: NULL, or [n] which rows of x. */
    int (*norm_matmul)(struct kern *k, const struct kern_weight *w, const float *gain, float eps,
                       const float *x, const uint32_t *row, uint32_t n, float *y, struct err *e);
    /* y [n, n_rows] += W x [n, n_cols]. */
    int (*matmul_add)(struct kern *k, const struct kern_weight *w, const float *x, uint32_t n,
                      float *y, struct err *e);
    /* h [n, n_ff] = silu(Wg z) * (Wu z), z = rmsnorm(x); w loaded as KERN_GATE_UP. */
    int (*norm_swiglu)(struct kern *k, const struct kern_weight *w, const float *gain, float eps,
                       const float *x, uint32_t n, float *h, struct err *e);
    /* Rotates q and k, writes k and v to the cache, attends causally. qkv [n_tok,
     * (n_head + 2 n_head_kv) * d_head] (q is overwritten), out [n_tok, n_head * d_head]. All KV of
     * the batch is written before any is read, so a chunk may attend to itself. */
    int (*attention)(struct kern *k, struct kern_kv *kv, uint32_t layer,
                     const struct kern_batch *batch, float *qkv, float *out, struct err *e);
};

extern const struct kern_ops KERN_REF, KERN_CPU;

/* By name; NULL or "auto" = the fastest available. ERR_UNSUPPORTED lists the names. */
MUST_USE int kern_find(const struct kern_ops **out, const char *name, struct err *e);

#endif
