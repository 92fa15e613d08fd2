/* kernels/cuda/device.h - state of the device backends: `cuda`, and `simt`, which is the same code
 * on the emulator. Both differ in two tables only: the runtime (dev.h) and the kernels (kernels.h).
 *
 * Device memory is taken at load, never in a step. An op launches kernels on one stream and
 * returns; `run` waits for the stream. */
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include "common/arena.h"
#include "kernels/cuda/dev.h"
#include "kernels/cuda/graphs.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/steps.h"
#include "kernels/ops.h"
#include "kernels/threads.h"

struct kern_vector {
    uint32_t n;
    const float *data;
};

struct kern_matrix { /* neighbouring parts of one type are one panel */
    uint32_t cols, rows, n_panels;
    struct panel panel[KERN_MAX_PARTS];
    uint32_t first_row[KERN_MAX_PARTS];
};

struct kern_buffer {
    uint32_t width;
    float *data;
};

struct kern_kv {
    struct kern_attn_shape shape;
    enum kv_format format;
    struct kv_layer all; /* of the first layer; the others follow */
    size_t layer_bytes, layer_steps;
    const double *inv_freq[KERN_MAX_ROPES];
};

/* The other ranks of the model; alone: no comm. */
struct device_ranks {
    struct comm *comm; /* of device memory */
    struct err error;  /* the first: the group is over */
};

struct kern_device {
    const struct dev_ops *dev;
    const struct device_kernels *kernels;
    struct dev_stream *stream;
    struct team *team;
    struct arena arena; /* small host structs */
    void **taken;       /* device memory, released at close */
    size_t n_taken, max_taken;
    uint32_t index, max_tok; /* index: which of several devices */
    unsigned capability;     /* of that device */
    bool has_fp8_weights;
    size_t weight_bytes;
    const char *refusal; /* what an op could not do: told by run, then and later */
    struct kern_kv *kv;
    struct device_steps steps;
    uint32_t *stage; /* device: a step's arrays, at the offsets of the host's */
    struct step_view view;
    const int32_t *token;           /* device */
    uint32_t *pick;                 /* device: rows of the head */
    const uint32_t *single;         /* device: tokens of short runs, attended by themselves */
    const struct prompt_tile *tile; /* device: the others */
    uint32_t n_single, n_tiles;
    uint32_t max_chunks; /* of the step's longest sequence */
    void *split;         /* product_args.split and .sums of the widest product */
    float *sums;
    size_t split_blocks;
    float *logits; /* [LOGITS_ROWS, widest matrix] */
    float *both;   /* gate and up of matrices of two types */
    struct device_library library;
    size_t logits_width, both_width;
    float *part; /* of split attention */
    size_t part_floats;
    uint32_t *count;
    struct device_ranks ranks;
    struct draw_stage draw;
    struct device_graphs graphs;
};

enum { LOGITS_ROWS = 16 };
enum { MAX_PART_FLOATS = 16 << 20 }; /* attention works in slices of tokens that fit */

/* NULL: no memory, also when n * size overflows. Counted towards nothing; freed by close. */
void *device_take(struct kern_device *d, size_t n, size_t size);
/* Room for n rows of `cols` activations as tensor cores want them. While loading only. */
bool device_split_room(struct kern_device *d, size_t n, uint32_t cols);
/* ERR_NOMEM: what for, what is free and what may help. */
int device_no_memory(const struct kern_device *d, const char *what, struct err *e);
/* Blocks until the copy is done, so that src may go. */
MUST_USE int device_upload(struct kern_device *d, void *dst, const void *src, size_t n,
                           struct err *e);

/* pack.c: a matrix's panels, from GGUF blocks. */
MUST_USE int device_matrix(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                           uint32_t n_parts, const struct kern_matrix **out, struct err *e);

/* step.c */
MUST_USE int device_kv(struct kern_device *d, const struct kern_attn_shape *shape,
                       struct kern_kv **out, struct err *e);
size_t device_kv_block_bytes(const struct kern_attn_shape *shape);
void device_copy_blocks(struct kern_device *d, struct kern_kv *kv, uint32_t n, const uint32_t *from,
                        const uint32_t *to);
void device_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv);
void device_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                      struct kern_buffer *qkv, struct kern_buffer *y);
void device_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                 const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
                 float *logits);

/* product.c */
void device_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
                  struct kern_buffer *x);
void device_project(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w,
                    struct kern_buffer *y);
void device_project_add(struct kern_device *d, const struct kern_buffer *h,
                        const struct kern_matrix *w, struct kern_buffer *x);
void device_gate_up(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w, enum kern_gate g,
                    struct kern_buffer *h);
void device_add_norm(struct kern_device *d, const struct kern_buffer *y,
                     const struct kern_norm *norm, struct kern_buffer *x);
/* Whether a product splits its rows of x itself; n_pairs: tokens times experts of a token. */
bool device_is_fused(const struct panel *w, uint32_t rows, uint32_t n_tok, uint32_t n_pairs);
/* All panels of w for n_tok rows of x, with the activations split for those that want it. */
void device_products(struct kern_device *d, struct product_args a, const struct kern_matrix *w);

/* Which rows of x the head reads. */
void device_pick(struct kern_device *d, const uint32_t *row, uint32_t n_row);
void device_logits(struct kern_device *d, const struct kern_buffer *x, uint32_t first,
                   uint32_t n_row, const struct kern_norm *norm, const struct kern_matrix *w);

/* draw.c */
MUST_USE int device_draws(struct kern_device *d, uint32_t n_vocab, const size_t *part,
                          uint32_t max_row, struct err *e);
void device_keep_drawn(struct kern_device *d);
void device_head_draw(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                      const uint32_t *row, const struct kern_norm *norm,
                      const struct kern_matrix *w, const struct kern_draw *draw,
                      struct kern_drawn *drawn, float *logits);

/* experts.c */
MUST_USE int device_mixer(struct kern_device *d, const struct kern_mix_shape *shape,
                          struct kern_mixer **out, struct err *e);
void device_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y);
void device_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x);

/* ranks.c; _nccl: by NCCL, or through the host where that cannot be. */
MUST_USE int device_join(struct kern_device *d, struct comm *host, struct err *e);
MUST_USE int device_join_nccl(struct kern_device *d, struct comm *host, struct err *e);
void device_leave(struct kern_device *d);
void device_sum(struct kern_device *d, const struct kern_buffer *from, struct kern_buffer *to,
                uint32_t n_tok);
void device_share(struct kern_device *d, struct kern_buffer *x, uint32_t n_tok);
/* Rows of logits whose columns the ranks have, on the first of them; NULL on the others. */
const float *device_gather(struct kern_device *d, uint32_t n_row, uint32_t n_mine);
uint64_t device_comm_us(const struct kern_device *d);
bool device_can_overlap(const struct kern_device *d);
/* Waits for the collectives before `end`; the group's error, then and later. */
MUST_USE int device_ranks_finish(struct kern_device *d, struct dev_event *end, struct err *e);

/* The backend's functions, the same for every device. */
MUST_USE int device_open(struct kern_device **out, const struct kern_options *o,
                         const struct dev_ops *dev, const struct device_kernels *kernels,
                         struct err *e);
void device_close(struct kern_device *d);
uint32_t device_n_threads(const struct kern_device *d);
size_t device_weight_bytes(const struct kern_device *d);
MUST_USE int device_vector(struct kern_device *d, const float *data, uint32_t n,
                           const struct kern_vector **out, struct err *e);
MUST_USE int device_buffer(struct kern_device *d, uint32_t width, struct kern_buffer **out,
                           struct err *e);
MUST_USE int device_run(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e);
MUST_USE int device_start(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e);
MUST_USE int device_finish(struct kern_device *d, struct err *e);
void device_each(struct kern_device *d, uint32_t n,
                 void (*fn)(void *arg, uint32_t i, uint32_t thread), void *arg);
void device_write(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n);
void device_read(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n);

#define DEVICE_OPS                                                                                 \
    .close = device_close, .n_threads = device_n_threads, .weight_bytes = device_weight_bytes,     \
    .matrix = device_matrix, .vector = device_vector, .buffer = device_buffer, .kv = device_kv,    \
    .kv_block_bytes = device_kv_block_bytes, .run = device_run, .start = device_start,             \
    .finish = device_finish, .each = device_each, .copy_blocks = device_copy_blocks,               \
    .begin = device_begin, .embed = device_embed, .project = device_project,                       \
    .project_add = device_project_add, .add_norm = device_add_norm, .gate_up = device_gate_up,     \
    .mixer = device_mixer, .mix = device_mix, .add = device_add, .attention = device_attention,    \
    .head = device_head, .draws = device_draws, .head_draw = device_head_draw,                     \
    .write = device_write, .read = device_read, .sum = device_sum, .share = device_share,          \
    .comm_us = device_comm_us, .can_overlap = device_can_overlap

#endif
