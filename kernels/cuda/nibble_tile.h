/* kernels/cuda/nibble_tile.h - tiles of weights of 4 to 6 bits (tile.h). */
#ifndef KERNELS_CUDA_NIBBLE_TILE_H
#define KERNELS_CUDA_NIBBLE_TILE_H

#include "kernels/cuda/scale.h"

enum scale_kind { SCALE_ONE, SCALE_TWO, SCALE_K, SCALE_SIX };

/* What a lane loads of a group of one row. */
struct tile_piece {
    uint4 low, scale;
    uint2 high;
    float super;
};

__device__ __forceinline__ unsigned blocks_in(const panel &w)
{
    return (w.cols + 31) / 32;
}

/* Blocks of group i of a row. */
template <int BLOCKS> __device__ __forceinline__ unsigned group_size(const panel &w, unsigned i)
{
    unsigned left = blocks_in(w) - i * BLOCKS;
    return left < BLOCKS ? left : BLOCKS;
}

/* Where `row` has item `first` of its `per_row` in a stream whose groups hold n: the eight rows
 * around it stand together, group after group, so that a warp's load is one piece of memory. */
__device__ __forceinline__ size_t place_of(const panel &w, unsigned row, unsigned per_row,
                                           unsigned first, unsigned n)
{
    unsigned eight = row & ~(TILE_EIGHT - 1u), rows = w.rows - eight;
    rows = rows < TILE_EIGHT ? rows : (unsigned)TILE_EIGHT;
    return (size_t)eight * per_row + (size_t)first * rows + (row - eight) * n;
}

/* Half floats i to i + n - 1, n at most 4, two a word; four are aligned to 8 bytes. */
__device__ __forceinline__ uint2 four_halves(const void *p, size_t i, unsigned n)
{
    const uint16_t *h = (const uint16_t *)p + i;
    if (n == 4)
        return ld64(h);
    unsigned v[4] = {};
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        v[k] = k < n ? h[k] : 0;
    return {v[0] | v[1] << 16, v[2] | v[3] << 16};
}

__device__ __forceinline__ float half_of_four(const uint4 &v, int i)
{
    return to_float(f16{(uint16_t)((i < 2 ? v.x : v.y) >> (i % 2 * 16))});
}

/* Types of 4 to 6 bits. HIGH: bits above the nibble. ZERO: the value that stands for 0. Nibbles i
 * and i + 4 of a lane's word are its pair i. */
template <int HIGH, int KIND, int ZERO> struct nibble_tile {
    enum { BLOCKS = 4, HALVES = KIND == SCALE_SIX ? 2 : 1, HAS_STEP = 1 };
    enum { HAS_OFFSET = KIND == SCALE_TWO || KIND == SCALE_K };
    /* A K block's header serves two groups: one warp takes both. */
    enum { TOGETHER = KIND == SCALE_K ? 2 : 1, AHEAD = KIND != SCALE_K && HIGH ? 1 : 2 };

    static __device__ __forceinline__ uint4 load_low(const panel &w, size_t unit, unsigned n,
                                                     unsigned q)
    {
        const char *p = (const char *)w.low + unit * 16;
        if (n == BLOCKS)
            return ld128_stream(p + q * 16);
        const unsigned *word = (const unsigned *)p + q * n;
        return {word[0], n > 1 ? word[1] : 0, n > 2 ? word[2] : 0, 0};
    }

    static __device__ __forceinline__ uint2 load_high(const panel &w, size_t unit, unsigned n,
                                                      unsigned q)
    {
        const char *p = (const char *)w.high + unit * 4 * HIGH;
        if (HIGH == 2) /* rows of whole groups */
            return ld64(p + q * 8);
        if (n == BLOCKS)
            return {*(const unsigned *)(p + q * 4), 0};
        unsigned bits = 0;
        for (unsigned i = 0; i < n; i++)
            bits |= (unsigned)((const uint8_t *)p)[q * n + i] << (8 * i);
        return {bits, 0};
    }

    static __device__ __forceinline__ uint4 load_scale(const panel &w, size_t unit, unsigned n)
    {
        if (KIND != SCALE_TWO) {
            uint2 v = four_halves(w.scale, unit, n);
            return {v.x, v.y, 0, 0};
        }
        const unsigned *s = (const unsigned *)w.scale + unit;
        if (n == BLOCKS)
            return ld128(s);
        return {s[0], n > 1 ? s[1] : 0, n > 2 ? s[2] : 0, 0};
    }

    /* has_header: false where the caller has it from the group before. */
    static __device__ __forceinline__ tile_piece load(const panel &w, unsigned row, unsigned group,
                                                      unsigned q, bool has_header = true)
    {
        unsigned n = group_size<BLOCKS>(w, group), block = group / 2; /* of 256 */
        size_t unit = place_of(w, row, w.units, group * BLOCKS, n);
        tile_piece p = {};
        p.low = load_low(w, unit, n, q);
        if (HIGH)
            p.high = load_high(w, unit, n, q);
        if (KIND != SCALE_K)
            p.scale = load_scale(w, unit, n);
        else if (has_header)
            p.scale = ld128((const char *)w.scale + place_of(w, row, w.units / 8, block, 1) * 16);
        if (KIND == SCALE_SIX)
            p.super = half_at(w.super, place_of(w, row, w.units / 8, block, 1));
        return p;
    }

    static __device__ __forceinline__ void pairs(const tile_piece &p, int b, unsigned (&out)[4])
    {
        unsigned word = word_of(p.low, b), high = 0;
        if (HIGH == 1) {
            high = p.high.x >> (8 * b) & 255;
            high = (high | high << 12) & 0x000F000Fu;
        }
        if (HIGH == 2) {
            high = (b < 2 ? p.high.x : p.high.y) >> (b % 2 * 16) & 0xFFFF;
            high = (high | high << 8) & 0x00FF00FFu;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned v = word >> (4 * i) & 0x000F000Fu;
            if (HIGH == 1)
                v |= (high >> i & 0x00010001u) << 4;
            if (HIGH == 2)
                v |= (high >> (2 * i) & 0x00030003u) << 4;
            out[i] = exact_pair(v, ZERO);
        }
    }

    static __device__ __forceinline__ unit_scale scale(const tile_piece &p, unsigned group, int b)
    {
        if (KIND == SCALE_K)
            return scale_of_k(p.scale, (int)(group % 2) * 4 + b);
        if (KIND == SCALE_TWO) {
            unsigned both = word_of(p.scale, b);
            float step = to_float(f16{(uint16_t)(both & 0xFFFF)});
            return {{step, step}, to_float(f16{(uint16_t)(both >> 16)})};
        }
        if (KIND == SCALE_SIX) {
            unsigned both = (b < 2 ? p.scale.x : p.scale.y) >> (b % 2 * 16) & 0xFFFF;
            return {{p.super * exact_float((both & 255) ^ 128, 128),
                     p.super * exact_float((both >> 8) ^ 128, 128)},
                    0};
        }
        float step = half_of_four(p.scale, b);
        return {{step, step}, 0};
    }
};

#endif
