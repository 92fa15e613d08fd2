/* kernels/cpu/device.h - state of the fast CPU backend.
 *
 * Weights are panels (isa.h) in huge pages; activations float32 between ops, int8 inside a product
 * with quantised weights; KV cache f16, per block and layer [n_head_kv][K 16 x d | V 16 x d]. */
#ifndef KERNELS_CPU_DEVICE_H
#define KERNELS_CPU_DEVICE_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/memory.h"
#include "kernels/ops.h"
#include "kernels/threads.h"

enum { TILE_SEQ_TOKENS = 8 }; /* tokens of one sequence that share a pass over its KV blocks */

struct kern_vector {
    const float *data;
};

struct kern_matrix {
    uint32_t cols, rows, n_parts;
    struct panel part[KERN_MAX_PARTS];
    uint32_t first_row[KERN_MAX_PARTS], first_unit[KERN_MAX_PARTS];
    uint32_t n_units; /* of two groups, over all parts */
    bool has_quant, has_float;
};

struct kern_buffer {
    uint32_t width;
    float *data;
};

struct kern_kv {
    struct kern_attn_shape shape;
    uint16_t *data;
    size_t layer_halves, block_halves; /* of one block: in one layer, in all */
};

struct seq_tile { /* consecutive tokens of one sequence */
    uint32_t first, n;
};

struct thread_scratch {
    struct activations one; /* a single token's, made by each thread for itself */
    uint64_t job;           /* whose `one` it is */
    float *score;           /* [MAX_QUERIES][score_stride] */
};

struct kern_device {
    struct team *team;
    const struct cpu_isa *isa;
    struct memory memory; /* everything below and all weights */
    uint32_t max_tok, max_cols;
    size_t weight_bytes, score_stride;
    const struct kern_step *step;
    struct kern_kv *kv;
    struct activations shared; /* [max_tok] rows */
    struct thread_scratch *scratch;
    float *turn;           /* [n_rope][max_tok][2][n_rot], see isa.h */
    struct seq_tile *tile; /* [max_tok] */
    uint32_t n_tiles;
    uint64_t serial; /* of the last product */
};

/* pack.c: an empty panel for a tensor (ERR_NOMEM, ERR_UNSUPPORTED); groups `from` to `to` of it,
 * each by any one thread; row `row` as float32. */
MUST_USE int cpu_panel_open(struct memory *m, const struct kern_part *part, uint32_t cols,
                            struct panel *out, struct err *e);
void cpu_pack_groups(const struct panel *p, const struct kern_part *part, uint32_t from,
                     uint32_t to);
void cpu_unpack_row(const struct panel *p, uint32_t row, float *dst);

/* product.c */
void cpu_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x);
void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y);
void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x);
void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h);
void cpu_add_norm(struct kern_device *d, const struct kern_buffer *y, const struct kern_norm *norm,
                  struct kern_buffer *x);
void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits);

/* attention.c */
void cpu_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv);
void cpu_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y);

#endif
