/* kernels/cpu/quantise.h - rows of activations on their way to struct quant_block (isa.h). */
#ifndef KERNELS_CPU_QUANTISE_H
#define KERNELS_CPU_QUANTISE_H

#include "kernels/cpu/isa.h"

/* Up to QUANT_ROWS rows that become blocks; with a weight what norm makes of them, on the way. cols
 * is a multiple of 32; block i of a row goes to out[i * tile_tokens]. */
enum { QUANT_ROWS = 16 };
struct quant_rows {
    uint32_t n, cols;
    const float *const *x;
    struct quant_block *const *out;
    const float *weight; /* may be NULL */
    float eps;
};

enum { QUANT_WORDS = QUANT / 4 };

/* Blocks on their way, a lane for each. */
struct quant_group {
    uint32_t n;
    const float *x[LANES]; /* of n blocks; while they are ranked the last one fills the rest */
    struct quant_block *out[LANES];
    _Alignas(64) float normed[LANES][QUANT]; /* where x points to if rows are normed */
    float step[LANES], inverse[LANES];
    int32_t wide[LANES]; /* wide_bit of each word with two bytes a column */
};

/* Words 0, 4, 1, 5, 2, 6, 3, 7 in turn: as packing two registers of integers leaves them. */
static inline uint32_t wide_bit(uint32_t word)
{
    return 2 * (word % 4) + word / 4;
}

#endif
