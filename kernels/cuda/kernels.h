/* kernels/cuda/kernels.h - the kernels as the backend sees them: one C function each, that launches
 * on a stream and returns. Two tables of the same source: compiled by nvcc, and for the emulator.
 *
 * Pointers are device memory. Activations are float32 rows. Callers check shapes. The result for a
 * token depends on its own row only, whatever n_tok is: every kernel sums in an order fixed by the
 * shapes of the model. */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include "kernels/cuda/draw.h"
#include "kernels/cuda/panel.h"
#include "kernels/cuda/peers.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dev_stream;

enum product_mode { PRODUCT_STORE, PRODUCT_ADD, PRODUCT_GATE };
enum gate_kind { GATE_SILU, GATE_GELU };

/* y[t, first_row + r] = (or +=) panel norm(x[row of t]). GATE: the panel has gate and up stacked;
 * y[t, r] = g(gate r) * (up r), r below rows / 2. */
struct product_args {
    struct panel w;
    const float *x;
    const uint32_t *pick; /* token t reads row pick[t] of x; NULL: row t */
    const float *norm;    /* [cols]; NULL: none */
    float *y;
    uint32_t x_stride, y_stride, first_row, n_tok;
    uint32_t mode, gate;
    float eps;
    /* Normed rows as the tensor cores want them: made by `split`, read by product. NULL: product
     * reads x, norms and splits it itself; fused_bytes must be at most FUSED_BYTES. */
    void *split;
    float *sums; /* [n_tok][blocks of 32 columns] of them */
};

enum { MAX_EXPERTS = 256, MAX_USED = 32, EXPERT_TILE_SMALL = 8, EXPERT_TILE_LARGE = 64 };

/* Pairs of one expert that meet its weights together: list[first] and on. */
struct expert_tile {
    uint32_t expert, first, n;
};

/* The (token, chosen expert) pairs in the order of their experts, each expert's in tiles of at most
 * `width`; tiles past the last have n = 0. */
struct group_args {
    const uint32_t *expert;   /* [n_pairs] */
    uint32_t *list;           /* [n_pairs] */
    struct expert_tile *tile; /* [n_tiles]: as many as there can be */
    uint32_t n_pairs, n_expert, width, n_tiles;
};

/* A product for each (token, chosen expert) with that expert's panel: row `pair` of y from row
 * pair / share of x. p.w is unused, p.n_tok counts pairs. All panels have one shape; a kernel
 * launched for a format leaves the experts of others alone. */
struct experts_args {
    struct product_args p;
    struct group_args group;
    uint32_t share, format;
    uint32_t most; /* pairs of an expert there can be, where p.split is NULL */
    struct panel panel[MAX_EXPERTS];
};

/* The n_used largest of softmax(logits[t]) (equal: the lower number), in the order of their
 * numbers; is_normed: divided by their sum. */
struct route_args {
    const float *logits; /* [n_tok, n_expert] */
    uint32_t *expert;    /* [n_tok, n_used] */
    float *weight;       /* the same */
    uint32_t n_tok, n_expert, n_used, is_normed;
};

struct combine_args { /* y[t] = sum over s of weight[t, s] of_pair[t, s] */
    const float *of_pair, *weight;
    float *y;
    uint32_t width, n_tok, n_used;
};

struct add_args {
    const float *y;
    float *x;
    uint32_t n;
};

struct embed_args {
    struct panel w;
    const int32_t *token;            /* as kern_step.token */
    const struct kern_drawn *before; /* rows of the step before */
    float *x;
    uint32_t n_tok;
    float scale;
};

struct add_norm_args { /* x[t] += norm(y[t]) */
    const float *y, *norm;
    float *x;
    uint32_t width, n_tok;
    float eps;
};

struct gate_args { /* h[t, i] = g(both[t, i]) * both[t, width + i] */
    const float *both;
    float *h;
    uint32_t width, h_stride, n_tok, gate;
};

/* For products by the device's library: rows first .. first + n_rows - 1 as bfloat16 in the order
 * of their columns, padded with zeros to blocks of 32. */
struct unpack_args {
    struct panel w;
    uint32_t first, n_rows;
    void *to;
};

enum { KV_BLOCK = 16, ATTEND_CHUNK = 256 };
enum kv_format { KV_F16, KV_BF16, KV_FP8, KV_INT8, N_KV_FORMATS };

/* One layer's keys and values: [block][head][position in block][d_head], of one-byte types in
 * pieces of 32 dimensions [block][head][piece][position in block][32 or what is left]; for int8 a
 * float16 step for each [block][head][position]. */
struct kv_layer {
    void *k, *v, *k_step, *v_step;
};

/* What the tokens of a step are: position p of sequence s is in block table[s * table_stride + p /
 * 16]. */
struct step_view {
    const uint32_t *position, *seq, *table;
    uint32_t table_stride, n_tok;
};

struct heads_args { /* bias, norms of heads, rotation; keys and values into the cache */
    struct step_view step;
    struct kv_layer kv;
    float *qkv;
    const float *bias, *q_norm, *k_norm; /* NULL: none */
    const double *inv_freq;              /* [n_rot / 2] */
    uint32_t n_head, n_head_kv, d_head, n_rot, kv_format;
    float eps;
};

enum { PROMPT_ROWS = 64 }; /* tokens times query heads of a KV head */
struct prompt_tile {       /* neighbouring tokens of one sequence */
    uint32_t first, n;
};

/* y = softmax(scale q k) v over the positions a token sees, in chunks of ATTEND_CHUNK positions.
 * attend: tokens token[0..n_rows - 1], each by itself; the block that finishes a token's last chunk
 * puts them together in order. prompt: those of tiles. The same bits from both. */
struct attend_args {
    struct step_view step;
    const uint32_t *token;
    const struct prompt_tile *tile;
    uint32_t n_rows, n_tiles;
    struct kv_layer kv;
    const float *qkv;
    float *y;
    float *part;     /* [n_rows][n_head][max_chunks][d_head + 2] */
    uint32_t *count; /* [n_rows][n_head], zero before and after */
    uint32_t n_head, n_head_kv, d_head, kv_format, window, max_chunks, n_blocks; /* of the cache */
    float scale;
};

struct device_kernels {
    void (*split)(const struct product_args *a, struct dev_stream *s); /* of w: cols only */
    void (*group)(const struct group_args *a, struct dev_stream *s);
    void (*product)(const struct product_args *a, struct dev_stream *s);
    void (*product_of_experts)(const struct experts_args *a, struct dev_stream *s);
    void (*route)(const struct route_args *a, struct dev_stream *s);
    void (*combine)(const struct combine_args *a, struct dev_stream *s);
    void (*add)(const struct add_args *a, struct dev_stream *s);
    void (*embed)(const struct embed_args *a, struct dev_stream *s);
    void (*add_norm)(const struct add_norm_args *a, struct dev_stream *s);
    void (*gate)(const struct gate_args *a, struct dev_stream *s);
    void (*heads)(const struct heads_args *a, struct dev_stream *s);
    void (*attend)(const struct attend_args *a, struct dev_stream *s);
    void (*prompt)(const struct attend_args *a, struct dev_stream *s);
    /* The same by warpgroups (sm_90a). False: no cache of two bytes, or no tensor maps: not done */
    bool (*prompt_wgmma)(const struct attend_args *a, struct dev_stream *s);
    void (*draw)(const struct draw_args *a, struct dev_stream *s);
    void (*sum_of_peers)(const struct peers_ranks *a, struct dev_stream *s);
    /* As split, but rows [n_tok][cols padded as the weights'] to a.split: of float32 for weights of
     * f32, else of bfloat16. */
    void (*plain)(const struct product_args *a, struct dev_stream *s);
    void (*unpack)(const struct unpack_args *a, struct dev_stream *s); /* any format but f32 */
};

extern const struct device_kernels KERNELS_SIMT;
extern const struct device_kernels KERNELS_CUDA; /* where built WITH_CUDA */

#ifdef __cplusplus
}
#endif
#endif
