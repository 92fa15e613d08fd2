/* kernels/cpu/device.h - state of the fast CPU backend.
 *
 * Weights are panels (panel.h) in huge pages; activations float32 between ops, int8 inside a
 * product with quantised weights; KV cache [block][layer][KV head], layouts of a head in isa.h. */
#ifndef KERNELS_CPU_DEVICE_H
#define KERNELS_CPU_DEVICE_H

#include "kernels/cpu/isa.h"
#include "kernels/cpu/memory.h"
#include "kernels/ops.h"
#include "kernels/threads.h"

struct kern_vector {
    const float *data;
};

struct kern_matrix {
    uint32_t cols, rows, n_parts;
    struct panel part[KERN_MAX_PARTS];
    uint32_t first_row[KERN_MAX_PARTS], first_unit[KERN_MAX_PARTS];
    uint32_t n_units; /* of two groups, over all parts */
    bool has_quant, has_float;
    const struct kern_matrix *next; /* loaded after it; NULL: the last */
};

/* Float32 [., width], or in the same place what gate_up leaves for a quantised matrix to read:
 * blocks of n_quant tokens, placed as in struct activations. */
struct kern_buffer {
    uint32_t width, n_quant; /* 0: float32 */
    float *data;
};

struct kern_kv {
    struct kern_attn_shape shape;
    uint8_t *data;
    size_t head_bytes, layer_bytes, block_bytes; /* of one block: in a KV head, a layer, all */
};

/* Tokens whose queries share a pass over KV blocks: one section of sequences that have the same
 * blocks there, or every section of neighbours in one sequence. */
struct span {
    uint32_t member, n; /* its tokens are member[member .. member + n) */
    uint32_t section;   /* or EVERY_SECTION */
    uint32_t cost;
};
enum { EVERY_SECTION = UINT32_MAX, MAX_SPLIT_TOKENS = 256 };

struct attention {      /* of the step, made by attend_plan.c; arrays are sized by kv.c */
    float *turn;        /* [n_rope][max_tok][2][n_rot], see isa.h */
    int8_t *quant;      /* [max_tok][n_head][2 d_head] turned queries, for int8 keys */
    float *quant_scale; /* [max_tok][n_head][2] scale and bias */
    struct span *span;
    uint32_t *member;     /* [max_members] */
    uint32_t *split;      /* tokens whose sections are computed apart, [MAX_SPLIT_TOKENS] */
    uint32_t *first_part; /* [max_tok]; parts of such a token: [n_head][its sections] */
    bool *is_taken;       /* [MAX_SPLIT_TOKENS] scratch of the plan */
    float *part;          /* [max_parts][d_head + PART_EXTRA] */
    uint32_t n_spans, n_members, n_split, n_parts, max_parts;
};

/* Of gate and up's result, that become struct quant_block at once. */
enum { BATCH_BLOCKS = 4 * LANES };

struct thread_scratch {
    struct activations own; /* of a single token, made by each thread for itself */
    uint64_t job;           /* whose they are */
    uint64_t run_job;
    struct team_range run; /* units of that job that are the thread's own */
    float *gated;          /* rows of gate_up on their way into blocks: see product.c */
    float *score;          /* [MAX_QUERIES][SECTION_TOKENS] */
    uint32_t *words;       /* [2 * d_head][MAX_QUERIES] */
    float *part;           /* [2 * MAX_QUERIES][d_head + PART_EXTRA] */
};

/* Of a span of tokens whose activations are made for all threads: pieces of it. */
struct progress {
    _Alignas(64) _Atomic uint32_t begun;
    _Atomic uint32_t done;
};

struct kern_device {
    struct team *team;
    const struct cpu_isa *isa;
    struct memory memory;         /* weights and KV cache, in huge pages */
    struct memory scratch_memory; /* everything else */
    uint32_t max_tok, max_cols;
    size_t weight_bytes, cache_bytes; /* the largest cache's */
    bool is_zen;
    struct kern_matrix *last_matrix; /* loaded so far */
    const struct kern_step *step;
    struct kern_kv *kv;
    struct activations shared; /* [max_tok] rows */
    struct thread_scratch *scratch;
    struct progress *made; /* of a thread's span; two, for a product and the next one */
    struct attention attention;
    uint64_t serial; /* of the last product */
};

/* pack.c: a panel for a tensor, without data (ERR_UNSUPPORTED); groups `from` to `to` of it, each
 * by any one thread; row `row` as float32. */
MUST_USE int cpu_panel_shape(const struct cpu_isa *isa, const struct kern_part *part, uint32_t cols,
                             struct panel *out, struct err *e);
void cpu_pack_groups(const struct panel *p, const struct kern_part *part, uint32_t from,
                     uint32_t to);
void cpu_unpack_row(const struct panel *p, uint32_t row, float *dst);

/* device.c */
struct fetch cpu_fetch(const struct kern_device *d);
bool cpu_take_buffer(struct kern_device *d, uint32_t width, struct kern_buffer *out);

/* product.c; cpu_row: row `t` of a buffer as float32. */
void cpu_row(const struct kern_device *d, const struct kern_buffer *b, uint32_t t, float *y);
void cpu_project(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, struct kern_buffer *y);
void cpu_project_add(struct kern_device *d, const struct kern_buffer *h,
                     const struct kern_matrix *w, struct kern_buffer *x);
void cpu_gate_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                 const struct kern_matrix *w, enum kern_gate g, struct kern_buffer *h);
void cpu_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
              const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
              float *logits);

/* rows.c */
void cpu_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
               struct kern_buffer *x);
void cpu_add_norm(struct kern_device *d, const struct kern_buffer *y, const struct kern_norm *norm,
                  struct kern_buffer *x);

/* mix.c */
MUST_USE int cpu_mixer(struct kern_device *d, const struct kern_mix_shape *shape,
                       struct kern_mixer **out, struct err *e);
void cpu_mix_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *h);
void cpu_mix_down(struct kern_device *d, const struct kern_buffer *h, struct kern_mixer *m,
                  const struct kern_experts *experts, struct kern_buffer *y);
void cpu_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y);
void cpu_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x);

/* kv.c */
size_t cpu_kv_block_bytes(const struct kern_attn_shape *s);
MUST_USE int cpu_kv(struct kern_device *d, const struct kern_attn_shape *shape,
                    struct kern_kv **out, struct err *e);
void cpu_copy_blocks(struct kern_device *d, struct kern_kv *kv, uint32_t n, const uint32_t *from,
                     const uint32_t *to);

/* attend_plan.c: the spans of d->step. */
void cpu_plan_attention(struct kern_device *d);

/* attention.c */
void cpu_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv);
void cpu_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y);

#endif
