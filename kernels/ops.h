/* kernels/ops.h - the backend waist: what a model needs from a device, one const table per backend.
 *
 * Activations, weights and the KV cache are the backend's own, in whatever layout and precision it
 * likes; a model only names them. So an op is a step of a layer with its norm, activation function
 * or residual in it, and a backend may fuse, repack and quantise inside. Logical values are
 * float32; shapes are [rows, width], rows = tokens of the step.
 *
 * Everything belongs to the device and is freed by close. One caller at a time. Ops neither
 * allocate nor fail; a device that breaks says so in `run`, and again at every later one
 * (ERR_DEVICE).
 *
 * Determinism, for every op: the result for a token depends on that token's row, the weights and
 * the KV entries at its earlier positions, in an order of floating-point operations that other
 * rows, their number and the number of threads do not change. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "common/err.h"
#include "kernels/attention.h"
#include "kernels/draw.h"
#include "kernels/dtype.h"
#include "kernels/mix.h"

#include <stdint.h>

enum { KERN_MAX_PARTS = 3 };

struct comm;
struct kern_device; /* one opened backend */
struct kern_matrix; /* weights [rows, cols]: y = W x */
struct kern_vector; /* weights of a norm, float32 */
struct kern_buffer; /* activations [max_tok, width] */
struct kern_kv;     /* K and V of all layers and blocks */
struct kern_mixer;  /* scratch for mixtures of experts */

/* One tensor of a matrix: rows of cols elements of `dtype`, row after row, as in GGUF. */
struct kern_part {
    uint32_t dtype, rows;
    const void *data; /* read during the call only */
};

struct kern_options {
    uint32_t n_threads;          /* 0 = usable cores */
    uint32_t max_tok;            /* largest n_tok of a step */
    const char *instruction_set; /* NULL: the best of this machine; others for tests */
    uint32_t device;             /* which of several; they are counted over again */
    bool has_graphs;       /* steps end with head or head_draw and nothing is read or written inside
                              them: a device may launch the layers of a decoding step as one */
    bool has_fp8_weights;  /* bf16 matrices become what fp8.h says; ERR_UNSUPPORTED: no fp8 here */
    bool has_library_gemm; /* products of large steps with prompts by the device's library: rounded
                              to bfloat16 (f32 weights: not), their bits depend on the step */
};

/* What a step works on. A token below zero is what row -1 - token of the head_draw before drew,
 * whether or not that step has ended. Position p of sequence s is slot p % 16 of block
 * block_table[s][p / 16]. Tokens of a sequence stand together, positions rising by one. Checked by
 * the caller. */
struct kern_step {
    uint32_t n_tok;
    const int32_t *token;
    const uint32_t *position, *seq;
    const uint32_t *const *block_table;
};

struct kern_norm { /* y = x / sqrt(mean(x^2) + eps) * weight (RMSNorm, arXiv 1910.07467) */
    const struct kern_vector *weight;
    float eps;
};

struct kern_ops {
    const char *name, *summary;
    bool (*is_here)(void); /* NULL: always; else whether this machine has such a device */

    /* Of the device's own memory, before open; NULL: it works in the machine's. */
    void (*memory)(size_t *free_bytes, size_t *total_bytes);
    MUST_USE int (*open)(struct kern_device **out, const struct kern_options *o, struct err *e);
    void (*close)(struct kern_device *d);
    uint32_t (*n_threads)(const struct kern_device *d);
    size_t (*weight_bytes)(const struct kern_device *d); /* resident */

    /* Stacks 1 to KERN_MAX_PARTS tensors. ERR_UNSUPPORTED: cols does not fit this backend. */
    MUST_USE int (*matrix)(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                           uint32_t n_parts, const struct kern_matrix **out, struct err *e);
    MUST_USE int (*vector)(struct kern_device *d, const float *data, uint32_t n,
                           const struct kern_vector **out, struct err *e);
    MUST_USE int (*buffer)(struct kern_device *d, uint32_t width, struct kern_buffer **out,
                           struct err *e);
    /* The shape is kept until close. ERR_UNSUPPORTED: d_head does not fit this backend. */
    MUST_USE int (*kv)(struct kern_device *d, const struct kern_attn_shape *shape,
                       struct kern_kv **out, struct err *e);
    size_t (*kv_block_bytes)(const struct kern_attn_shape *shape);
    /* One per device; before the first mix. NULL: this backend has no experts. */
    MUST_USE int (*mixer)(struct kern_device *d, const struct kern_mix_shape *shape,
                          struct kern_mixer **out, struct err *e);

    /* Runs body(arg), which calls the ops below, on the threads of the device; waits for it. An op
     * may return before its work is done; on the host read, write, each and head wait for it. */
    MUST_USE int (*run)(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e);

    /* run in two: start returns when body does, which must not wait for the device; finish waits
     * for the oldest started. At most two are under way, no run beside them. NULL: only run. */
    MUST_USE int (*start)(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e);
    MUST_USE int (*finish)(struct kern_device *d, struct err *e);
    bool (*can_overlap)(const struct kern_device *d); /* with start: a second one gains something */

    /* Host work inside run: fn(arg, i, thread), i below n, thread below n_threads. */
    void (*each)(struct kern_device *d, uint32_t n,
                 void (*fn)(void *arg, uint32_t i, uint32_t thread), void *arg);

    /* Block to[i] gets what block from[i] holds, in all layers; i = 0 first. Before begin. */
    void (*copy_blocks)(struct kern_device *d, struct kern_kv *kv, uint32_t n, const uint32_t *from,
                        const uint32_t *to);
    /* First op on a step's tokens. The step's arrays stay until run or start returns. */
    void (*begin)(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv);
    /* x[t] = scale * row token[t] of w. */
    void (*embed)(struct kern_device *d, const struct kern_matrix *w, float scale,
                  struct kern_buffer *x);
    /* y = w norm(x). norm NULL: y = w x. y is not x. */
    void (*project)(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w,
                    struct kern_buffer *y);
    /* x += w h. h is not x. */
    void (*project_add)(struct kern_device *d, const struct kern_buffer *h,
                        const struct kern_matrix *w, struct kern_buffer *x);
    /* x += norm(y). y is not x. */
    void (*add_norm)(struct kern_device *d, const struct kern_buffer *y,
                     const struct kern_norm *norm, struct kern_buffer *x);
    /* w has two parts of f rows, gate and up: h = g(gate norm(x)) * (up norm(x)), f wide. */
    void (*gate_up)(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w, enum kern_gate g,
                    struct kern_buffer *h);
    /* With n = norm(x): y = sum of p down(g(gate n) * (up n)) over the chosen experts, in the order
     * of their numbers. y is not x. */
    void (*mix)(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y);
    /* mix in two, for ranks that have rows of gate, up and down each: h[t][k] = g(gate n) * (up n)
     * of the k-th expert of token t, then y = sum of p down h of h with all columns. NULL where
     * join is there. */
    void (*mix_up)(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                   struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *h);
    void (*mix_down)(struct kern_device *d, const struct kern_buffer *h, struct kern_mixer *m,
                     const struct kern_experts *experts, struct kern_buffer *y);
    /* x += y. */
    void (*add)(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x);
    /* qkv: [n_tok, (n_head + 2 n_head_kv) d_head], overwritten. Turns q and k, stores k and v in
     * the KV cache, y = causal softmax(scale q k) v. */
    void (*attention)(struct kern_device *d, const struct kern_attn_layer *layer,
                      struct kern_buffer *qkv, struct kern_buffer *y);
    /* logits[r] = w norm(x[row[r]]), r < n_row, to the caller's memory [n_row, rows of w]. Last op
     * of a step; n_row may be 0, otherwise n_row <= max_tok. */
    void (*head)(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                 const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
                 float *logits);

    /* Room for head_draw of max_row rows of n_vocab logits; before the first. part: how many each
     * joined rank has; the first one draws, the others give draw NULL. Both NULL: this backend
     * draws nothing, the caller does. ERR_UNSUPPORTED: not for this vocabulary. */
    MUST_USE int (*draws)(struct kern_device *d, uint32_t n_vocab, const size_t *part,
                          uint32_t max_row, struct err *e);
    /* As head, but a token of each row (drawn[r], good when run or finish has returned) in place of
     * its logits, where draw[r] asks for no logits and its penalties' tokens have room: they are at
     * most DRAW_MAX_HISTORY a step. row and draw, with tokens, may go before. */
    void (*head_draw)(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                      const uint32_t *row, const struct kern_norm *norm,
                      const struct kern_matrix *w, const struct kern_draw *draw,
                      struct kern_drawn *drawn, float *logits);

    /* With the other ranks of a model, on the device, in the order of the ops (comm.h). join: once,
     * before the first step, by every rank; keeps host. NULL, as the next three: ranks talk through
     * host memory, by read and write, and have rows of every matrix, so that one sums as one
     * process does; where they join, columns of those that end a block. */
    MUST_USE int (*join)(struct kern_device *d, struct comm *host, struct err *e);
    /* to = sum over the ranks of from. Both may be one. */
    void (*sum)(struct kern_device *d, const struct kern_buffer *from, struct kern_buffer *to,
                uint32_t n_tok);
    /* x of rank 0, to all. */
    void (*share)(struct kern_device *d, struct kern_buffer *x, uint32_t n_tok);
    /* Time of both, of the calls that are done. */
    uint64_t (*comm_us)(const struct kern_device *d);

    /* Rows 0..n-1 of a buffer, host memory [n, width]. Inside run. */
    void (*write)(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n);
    void (*read)(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n);
};

extern const struct kern_ops KERN_REF, KERN_CPU, KERN_SIMT;
extern const struct kern_ops KERN_CUDA; /* in builds with CUDA */

/* NULL name: the first of the list that is here. ERR_NOT_FOUND lists the known ones. */
MUST_USE int kern_find(const char *name, const struct kern_ops **out, struct err *e);
/* i-th backend of this build, NULL past the end. */
const struct kern_ops *kern_at(uint32_t i);

#endif
