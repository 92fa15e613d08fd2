/* kernels/attention.h - shapes of a model's attention and of its KV cache (ops.h). Pure data. */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "common/err.h"

#include <stdint.h>

enum { KERN_BLOCK_TOKENS = 16, KERN_MAX_ROPES = 2 };

struct kern_vector;

/* How keys and values are kept. f16: half precision or better. int8: bytes with a scale for each
 * position and head. bf16: as wide, with float32's range. fp8: e4m3 (arXiv 2209.05433), a byte
 * without a scale, at most 448. Backends may lack the last two. */
enum kern_kv_type { KERN_KV_F16, KERN_KV_INT8, KERN_KV_BF16, KERN_KV_FP8 };

/* Attention of one model. Query head h reads KV head h / (n_head / n_head_kv). Dimensions 2i and
 * 2i+1 of a head, 2i < n_rot, turn by position * inv_freq[rope][i] (RoPE, arXiv 2104.09864); a
 * model that pairs i with i + n_rot / 2 reorders the rows of q and k when it loads them. */
struct kern_attn_shape {
    uint32_t n_layer, n_head, n_head_kv, d_head, n_rot, n_rope;
    const double *inv_freq[KERN_MAX_ROPES]; /* [n_rope][n_rot / 2], kept by the caller */
    float scale;                            /* of q k */
    uint32_t n_blocks;                      /* of KERN_BLOCK_TOKENS positions */
    uint32_t max_position;                  /* positions are below this */
    enum kern_kv_type kv_type;
};

/* What differs from layer to layer, in the order it is applied to qkv. */
struct kern_attn_layer {
    uint32_t index;                            /* below n_layer */
    const struct kern_vector *bias;            /* added to qkv, as wide; NULL: none */
    const struct kern_vector *q_norm, *k_norm; /* RMSNorm of each head, [d_head]; NULL: none */
    float eps;                                 /* of these norms */
    uint32_t rope;                             /* which inv_freq */
    uint32_t window; /* a query sees this many positions, its own the last; 0: all */
};

/* ERR_UNSUPPORTED for a cache that backends without bf16 and fp8 lack; says what there is. */
MUST_USE int attention_refuse_kv(const char *backend, const struct kern_attn_shape *shape,
                                 struct err *e);

#endif
