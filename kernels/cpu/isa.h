/* kernels/cpu/isa.h - inner loops of the CPU backend, once per instruction set.
 *
 * The loops are written once (body_*.h) on a vector of sixteen floats (vec_*.h) and compiled in
 * isa_plain.c, isa_avx2.c, isa_avxvnni.c, isa_avx512.c and isa_avx512zen.c. All functions are pure
 * but for their outputs; any thread. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include "kernels/cpu/panel.h"
#include "kernels/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_TOKENS = 16, MAX_GROUPS = 4 };
enum { SECTION_TOKENS = 128, MAX_QUERIES = 12, PART_EXTRA = 16 };
enum { SECTION_BLOCKS = SECTION_TOKENS / BLOCK_TOKENS };

/* A block of 32 columns as every step of several tokens reads it: nibbles as bytes, then, of all
 * quantised layouts, the scales and the offsets as float32. */
enum { SCALES_AT = BLOCK_BYTES, UNPACKED_BYTES = SCALES_AT + 2 * WORD_BYTES };

/* Steps of a number in two bytes, 128 * coarse + fine. */
#define QUANT_STEPS (127.0f * 128.0f)

/* 32 columns of one token for a product with quantised weights, a cache line: x = scale * q, where
 * q is `fine`, but in the three words of four columns with the largest values 128 * coarse + fine.
 * So the fourth largest word sets the step, and outliers do not spoil their neighbours
 * (kernels/README.md has what this gains). sum = scale * sum of q. */
enum { WIDE_WORDS = 3 };
struct quant_block {
    int8_t fine[QUANT];
    int8_t coarse[WIDE_WORDS][4];
    uint8_t word[WIDE_WORDS + 1]; /* which words they are, times 8; 0 */
    float scale, sum;
    int32_t minus_sum, minus_eight_sums; /* of q */
};
_Static_assert(sizeof(struct quant_block) == 64, "a cache line");

/* Tokens go through a product in tiles of nearly equal size, at most `most` (struct cpu_isa). */
static inline uint32_t tile_count(uint32_t n_tok, uint32_t most)
{
    return (n_tok + most - 1) / most;
}
/* First token of a tile; of tile_count: n_tok. */
static inline uint32_t tile_start(uint32_t n_tok, uint32_t most, uint32_t tile)
{
    return (uint32_t)((uint64_t)n_tok * tile / tile_count(n_tok, most));
}
static inline uint32_t tile_of(uint32_t n_tok, uint32_t most, uint32_t token)
{
    return (uint32_t)((((uint64_t)token + 1) * tile_count(n_tok, most) - 1) / n_tok);
}

/* Rows of activations ready for a product: float32 for float weights, blocks for the others. */
struct activations {
    float *value;              /* [n, cols] */
    struct quant_block *quant; /* [tile][cols / 32][tile_tokens] */
};

enum product_mode {
    PRODUCT_STORE,
    PRODUCT_ADD,
    PRODUCT_GATE_SILU, /* groups are gate, then as many of up: out = silu(gate) * up */
    PRODUCT_GATE_GELU  /* gelu(gate) * up */
};

/* How the weights of a step are fetched before they are read. */
struct fetch {
    uint32_t n_bytes; /* for one token, so many before; 0: those of two groups */
    bool is_far;      /* into the second cache, not the first */
};

/* Groups that go through a product together: neighbours of one panel, or some of gate and as many
 * of up after them. Where strips have two groups the first of each panel has
 * an even number. */
struct groups {
    uint32_t n;
    const struct panel *panel[MAX_GROUPS];
    uint32_t group[MAX_GROUPS];
};

/* One to MAX_GROUPS groups of 16 rows, of as many columns, against n_tok tokens; or, of a single
 * token, runs of such groups. */
struct product {
    enum product_mode mode;
    struct groups now, next; /* next: what the thread reads after them */
    uint32_t n_runs; /* of one token with quantised weights: so many on end, each of the groups
                        two further on; whole strips, but for an odd number's last group */
    uint32_t n_rows[MAX_GROUPS]; /* of the last run's groups that exist, 1..16 */
    float *out[MAX_GROUPS];      /* of the group's first row and token 0 */
    size_t out_stride;           /* floats from token to token */
    const struct activations *x;
    uint32_t n_tok;
    struct team_range tiles; /* of n_tok's, those that are computed */
    struct fetch fetch;
};

/* Keys and values of one KV head in one block, by kern_kv_type:
 * f16: K [d_head][16 positions], V [16 positions][d_head], float16.
 * int8: K [d_head / 4][16 positions][4] as unsigned bytes q + 128, V [16 positions][d_head] signed
 * bytes, then float16 scales of K and of V [16 positions]; a number is scale * q. */
enum { KV_TYPES = 2 };

/* Blocks of a section of one KV head that the thread reads next; their keys are fetched. */
struct kv_ahead {
    const uint8_t *kv; /* as in struct attend */
    const uint32_t *table;
    uint32_t n; /* may be 0 */
};

/* Up to MAX_QUERIES query heads that read one KV head in one section (SECTION_TOKENS positions from
 * section * SECTION_TOKENS on) of sequences whose blocks there are the same. Its block b starts at
 * kv + table[b] * block_stride. A query is float32 [d_head], turned; for int8 two bytes a
 * dimension, [d_head] coarse and [d_head] fine (QUANT_STEPS), with a scale for all.
 *
 * part[i], PART_EXTRA floats more than d_head: sum of weight * value, [d_head] the sum of weights,
 * [d_head + 1] the largest score, where weight = 2^(score - largest). A section without a visible
 * position has weights of sum 0. */
struct attend {
    uint32_t n, d_head, section;
    const void *query[MAX_QUERIES];
    float query_scale[MAX_QUERIES]; /* of all its products, with log2(e) in it */
    float query_bias[MAX_QUERIES];  /* int8: 128 * sum of the integers */
    float *part[MAX_QUERIES];
    uint32_t first[MAX_QUERIES], end[MAX_QUERIES]; /* a query sees first .. end - 1 */
    const uint8_t *kv;
    size_t block_stride;
    const uint32_t *table;
    struct kv_ahead next;
    float *score;    /* scratch [MAX_QUERIES][SECTION_TOKENS] */
    uint32_t *words; /* scratch [2 * d_head][MAX_QUERIES]: the queries side by side */
};

struct quant_rows;
struct cpu_isa {
    const char *name;
    uint32_t strip_groups, tile_groups, tile_tokens; /* a strip; a full tile */
    /* y = x / rms(x) * weight; y may be x. */
    void (*norm)(const float *x, const float *weight, float eps, uint32_t n, float *y);
    void (*quantise)(const struct quant_rows *rows); /* quantise.h */
    /* n blocks of 32 numbers, each to its place. */
    void (*quantise_blocks)(const float *x, uint32_t n, struct quant_block *const *out);
    void (*product)(const struct product *p);
    /* turn: [2][n]: cosines, each twice, then sines, each as -s, s. */
    void (*rotate)(float *head, const float *turn, uint32_t n);
    /* By kern_kv_type: a key, turned as by rotate, and a value of one position into slot 0..15 of a
     * block. k is not kept. */
    void (*store_kv[KV_TYPES])(float *k, const float *turn, uint32_t n_rot, const float *v,
                               uint8_t *block, uint32_t slot, uint32_t d_head);
    /* gather, once the queries are set; then attend, for each section. */
    void (*gather[KV_TYPES])(const struct attend *a);
    void (*attend[KV_TYPES])(const struct attend *a);
    /* into = both parts as one; y = values / sum of weights. */
    void (*fold)(float *into, const float *part, uint32_t d_head);
    void (*finish)(const float *part, float *y, uint32_t d_head);
    /* A query head for int8 keys: integers [2 * d_head], its scale and 128 * their sum. */
    void (*quantise_query)(const float *q, uint32_t d_head, int8_t *quant, float *scale,
                           float *bias);
};

extern const struct cpu_isa ISA_PLAIN;
#if defined(__x86_64__)
extern const struct cpu_isa ISA_AVX2, ISA_AVXVNNI, ISA_AVX512, ISA_AVX512ZEN;
#endif

#endif
