/* kernels/cpu/device.h - state of the cpu backend: packed weights, int8 activations, f16 cache. */
#ifndef KERNELS_CPU_DEVICE_H
#define KERNELS_CPU_DEVICE_H

#include "common/arena.h"
#include "kernels/cpu/isa.h"
#include "kernels/ops.h"
#include "kernels/threads.h"

struct kern_vector {
    uint32_t n;
    float *data;
};

/* Each part starts a group of its own, so a group's rows never straddle two tensors. */
struct kern_matrix {
    uint32_t cols, rows, n_groups, n_parts;
    size_t unit_bytes, group_bytes;
    uint8_t *packed; /* [n_groups][cols / UNIT][unit_bytes] */
    struct {
        uint32_t rows, first_row, first_group;
    } part[KERN_MAX_PARTS];
};

struct kern_buffer {
    uint32_t width;
    float *data; /* [max_tok, width] */
};

struct kern_kv {
    struct kern_attn_shape shape;
    uint16_t *data; /* [n_layer][n_head_kv][n_blocks][K 16 d_head, V 16 d_head] */
    size_t block_values, head_values, layer_values;
};

struct kern_device {
    struct arena arena; /* small things; the big ones are in `maps` */
    struct team *team;
    const struct cpu_isa *isa;
    uint32_t max_tok, max_cols;
    size_t weight_bytes;
    const struct kern_step *step;
    struct kern_kv *kv;
    struct cpu_acts acts;   /* [max_tok, max_cols] */
    struct cpu_acts *alone; /* per thread, one token: saves a join when a step has one */
    float **score;          /* per thread: attention scratch */
    float *rope;            /* [max_tok, n_rot]: cos, sin of each pair at each token's position */
    struct big *maps;       /* large allocations, for close */
};

/* In pack.c: 64-byte aligned, huge pages asked for; freed by close. NULL when memory is out. */
void *cpu_big_alloc(struct kern_device *d, size_t bytes);
void cpu_big_free_all(struct kern_device *d);
MUST_USE int cpu_pack(struct kern_device *d, struct kern_matrix *m, const struct kern_part *parts,
                      struct err *e);
void cpu_unpack_row(const struct kern_matrix *m, uint32_t row, float *out);

/* One per op. In product.c: */
void cpu_embed(struct kern_device *d, const struct kern_matrix *w, struct kern_buffer *x);
void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y);
void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x);
void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *h);
void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits);
/* In attention.c: */
void cpu_attention(struct kern_device *d, uint32_t layer, struct kern_buffer *qkv,
                   struct kern_buffer *y);

#endif
