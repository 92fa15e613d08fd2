/* kernels/ref/device.h - state of the reference backend: plain C, weights as in the file, float32
 * activations and KV cache (an int8 one holds the rounded values, in float32 too). Slow and simple:
 * the truth the others are compared with. */
#ifndef KERNELS_REF_DEVICE_H
#define KERNELS_REF_DEVICE_H

#include "common/arena.h"
#include "kernels/ops.h"
#include "kernels/threads.h"

struct kern_vector {
    uint32_t n;
    float *data;
};

struct kern_matrix {
    uint32_t cols, rows, n_parts;
    struct kern_part part[KERN_MAX_PARTS]; /* data is our copy */
    size_t row_bytes[KERN_MAX_PARTS];
};

struct kern_buffer {
    uint32_t width;
    float *data;
};

struct kern_mixer {
    struct kern_mix_shape shape;
    float *score, *part;       /* of one token: [n_expert], [d_model] */
    uint32_t *expert;          /* [max_tok][n_used] */
    float *weight;             /* likewise */
    struct kern_buffer hidden; /* [max_tok][n_used][d_ff] */
};

struct kern_kv {
    struct kern_attn_shape shape;
    float *k, *v; /* [n_layer][n_blocks][16][n_head_kv][d_head] */
};

struct kern_device {
    struct arena arena; /* everything below and all weights */
    struct team *team;
    uint32_t max_tok, max_cols;
    bool has_fp8_weights;
    size_t weight_bytes;
    const struct kern_step *step;
    struct kern_kv *kv;
    float *normed;       /* [max_tok, max_cols] */
    float *head_in;      /* rows picked for the head, [max_tok, max_cols] */
    float **row_scratch; /* per thread [max_cols] */
    double **score;      /* per thread [positions of the KV cache] */
};

/* One per op, in math.c. */
void ref_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x);
void ref_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y);
void ref_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x);
void ref_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h);
void ref_add_norm(struct kern_device *d, const struct kern_buffer *y, const struct kern_norm *norm,
                  struct kern_buffer *x);
void ref_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits);
/* mix.c */
MUST_USE int ref_mixer(struct kern_device *d, const struct kern_mix_shape *shape,
                       struct kern_mixer **out, struct err *e);
void ref_mix_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *h);
void ref_mix_down(struct kern_device *d, const struct kern_buffer *h, struct kern_mixer *m,
                  const struct kern_experts *experts, struct kern_buffer *y);
void ref_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y);
void ref_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x);
/* One row: y = w x; h = g(gate x) * (up x). */
void ref_product_row(struct kern_device *d, const float *x, const struct kern_matrix *w, float *y);
void ref_gate_row(struct kern_device *d, const float *x, const struct kern_matrix *w,
                  enum kern_gate g, float *h);
/* y = x / rms(x) * weight; y may be x. */
void ref_norm_row(const float *x, const float *weight, float eps, uint32_t n, float *y);
/* In attention.c. */
void ref_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y);

#endif
