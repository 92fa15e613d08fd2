/* kernels/cpu/isa.h - the inner loops, one table per instruction set, chosen once at open.
 *
 * Weights are packed in groups of LANES rows, a group in units of UNIT columns, so that a result
 * vector's lanes are rows and nothing is summed across lanes. A unit holds w = d q + m:
 *   4 bits (UNIT4_BYTES): f16 d[16], f16 m[16], 4 x 64 bytes; byte 4 r + t of vector j holds row
 * r's elements 4 j + t (low nibble) and 16 + 4 j + t (high nibble) 8 bits (UNIT8_BYTES): f16 d[16],
 * f16 m[16], 8 x 64 bytes; byte 4 r + t of vector j holds row r's element 4 j + t, unsigned
 * Activations are int8 per 32 columns with a scale s: x = s a. With sum = s * (a_0 + ... + a_31),
 * a unit adds s d (q . a) + m sum to a row's result.
 *
 * Every function gives the same bits for a token whatever its neighbours are. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, UNIT = 32, UNIT4_BYTES = 320, UNIT8_BYTES = 576, TILE_TOKENS = 8 };

struct cpu_acts { /* quantised activations of one token after another */
    int8_t *q;    /* [n, cols] */
    float *scale; /* [n, cols / UNIT] */
    float *sum;   /* [n, cols / UNIT] */
    uint32_t cols;
};

/* One query row and the cache it attends to. Slot p of a block: K is [d_head][16] f16 (positions
 * are lanes), V is [16][d_head] f16; the group's query heads share them. */
struct cpu_attend {
    const float *q; /* [n_group, d_head] */
    float *y;       /* [n_group, d_head] */
    uint32_t n_group, d_head, n_position;
    const uint16_t *cache; /* this layer and KV head: block b at b * block_stride */
    size_t block_stride;   /* in uint16_t; V follows K at 16 * d_head */
    const uint32_t *table;
    float *score; /* scratch [n_group, n_position rounded up to 16] */
};

struct cpu_isa {
    const char *name;
    bool (*is_available)(void);
    /* out[t][lane] for n <= TILE_TOKENS tokens from token `first` of a. */
    void (*tile4)(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                  float out[TILE_TOKENS][LANES]);
    void (*tile8)(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                  float out[TILE_TOKENS][LANES]);
    /* Token t of a = x [cols], after the norm when gain is not NULL. */
    void (*quantize)(const float *x, const float *gain, float eps, struct cpu_acts *a, uint32_t t);
    /* out[i] = silu(g[i]) u[i], LANES of them. */
    void (*swiglu)(const float *g, const float *u, float *out);
    void (*attend)(const struct cpu_attend *j);
    /* n f32 to f16, round to nearest even, saturated at the largest finite value. */
    void (*to_half)(const float *x, uint16_t *out, uint32_t n, size_t stride);
};

extern const struct cpu_isa CPU_ISA_PLAIN;
#if defined(__x86_64__)
extern const struct cpu_isa CPU_ISA_AVX2, CPU_ISA_AVX512;
#endif

/* The best this machine runs, or by name (NULL when it cannot). */
const struct cpu_isa *cpu_isa_select(const char *name);

#endif
