/* kernels/cuda/tile.h - weights as the M side of mma.m16n8k16, dequantised in registers.
 *
 * A row's `low` stream is groups of 64 bytes (pack.c): lane q of a quad loads piece q, 16 bytes,
 * and has in it elements 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3 of every block of 32 columns
 * of the group. Their order within 16 columns is the mma's own; activations stand in the same
 * (split.cu). A group at the end of a row has fewer blocks and pieces as much shorter. Groups of
 * eight rows stand side by side, and so do their steps: a warp's load has no idle byte.
 *
 * Quantised weights become bfloat16 before scaling, which is exact for integers of eight bits: the
 * steps are applied to the sums of a block. AHEAD: groups that a lane keeps in flight; TOGETHER: of
 * them, those that are neighbours. */
#ifndef KERNELS_CUDA_TILE_H
#define KERNELS_CUDA_TILE_H

#include "kernels/cuda/nibble_tile.h"

#include <type_traits>

/* Q8_0: two blocks a group, eight bytes of each in a piece. */
struct byte_tile {
    enum { BLOCKS = 2, HALVES = 1, HAS_STEP = 1, HAS_OFFSET = 0, TOGETHER = 1, AHEAD = 2 };

    static __device__ __forceinline__ tile_piece load(const panel &w, unsigned row, unsigned group,
                                                      unsigned q, bool = true)
    {
        unsigned n = group_size<BLOCKS>(w, group);
        size_t block = place_of(w, row, w.units / 2, group * BLOCKS, n);
        const char *p = (const char *)w.low + block * 32;
        const uint16_t *step = (const uint16_t *)w.scale + block;
        tile_piece v = {};
        if (n == BLOCKS) {
            v.low = ld128_stream(p + q * 16);
            v.scale.x = *(const unsigned *)step;
        } else {
            uint2 half = ld64(p + q * 8);
            v.low = {half.x, half.y, 0, 0};
            v.scale.x = *step;
        }
        return v;
    }

    static __device__ __forceinline__ void pairs(const tile_piece &p, int b, unsigned (&out)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned word = (word_of(p.low, 2 * b + i / 2) ^ 0x80808080u) >> (i % 2 * 16);
            out[i] = pack_bf16(exact_float(word & 255, 128), exact_float(word >> 8 & 255, 128));
        }
    }

    static __device__ __forceinline__ unit_scale scale(const tile_piece &p, unsigned, int b)
    {
        float step = half_of_four(p.scale, b);
        return {{step, step}, 0};
    }
};

struct bf16_tile {
    enum { BLOCKS = 1, HALVES = 1, HAS_STEP = 0, HAS_OFFSET = 0, TOGETHER = 1, AHEAD = 2 };

    static __device__ __forceinline__ tile_piece load(const panel &w, unsigned row, unsigned group,
                                                      unsigned q, bool = true)
    {
        tile_piece v = {};
        size_t unit = place_of(w, row, w.units, group * 4, 4);
        v.low = ld128_stream((const char *)w.low + (unit + q) * 16);
        return v;
    }

    static __device__ __forceinline__ void pairs(const tile_piece &p, int, unsigned (&out)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = word_of(p.low, i);
    }

    static __device__ __forceinline__ unit_scale scale(const tile_piece &, unsigned, int)
    {
        return {{1, 1}, 0};
    }
};

/* e4m3 bytes, placed as Q8_0's; the row's step is applied to its whole sum. */
struct fp8_tile {
    enum { BLOCKS = 2, HALVES = 1, HAS_STEP = 0, HAS_OFFSET = 0, TOGETHER = 1, AHEAD = 2 };

    static __device__ __forceinline__ tile_piece load(const panel &w, unsigned row, unsigned group,
                                                      unsigned q, bool = true)
    {
        unsigned n = group_size<BLOCKS>(w, group);
        const char *p = (const char *)w.low + place_of(w, row, w.units / 2, group * BLOCKS, n) * 32;
        tile_piece v = {};
        if (n == BLOCKS) {
            v.low = ld128_stream(p + q * 16);
        } else {
            uint2 half = ld64(p + q * 8);
            v.low = {half.x, half.y, 0, 0};
        }
        return v;
    }

    static __device__ __forceinline__ void pairs(const tile_piece &p, int b, unsigned (&out)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = pair_of_fp8(word_of(p.low, 2 * b + i / 2) >> (i % 2 * 16));
    }

    static __device__ __forceinline__ unit_scale scale(const tile_piece &, unsigned, int)
    {
        return {{1, 1}, 0};
    }
};

template <int FORMAT> struct tile_of;
template <> struct tile_of<PANEL_BF16> : bf16_tile {
};
template <> struct tile_of<PANEL_FP8> : fp8_tile {
};
template <> struct tile_of<PANEL_Q8_0> : byte_tile {
};
template <> struct tile_of<PANEL_Q4_0> : nibble_tile<0, SCALE_ONE, 8> {
};
template <> struct tile_of<PANEL_Q4_1> : nibble_tile<0, SCALE_TWO, 0> {
};
template <> struct tile_of<PANEL_Q5_0> : nibble_tile<1, SCALE_ONE, 16> {
};
template <> struct tile_of<PANEL_Q5_1> : nibble_tile<1, SCALE_TWO, 0> {
};
template <> struct tile_of<PANEL_Q4_K> : nibble_tile<0, SCALE_K, 0> {
};
template <> struct tile_of<PANEL_Q5_K> : nibble_tile<1, SCALE_K, 0> {
};
template <> struct tile_of<PANEL_Q6_K> : nibble_tile<2, SCALE_SIX, 32> {
};

/* What a row's sum is multiplied with. */
template <class F> __device__ __forceinline__ float row_step(const panel &w, unsigned row)
{
    return std::is_base_of<fp8_tile, F>::value ? ((const float *)w.scale)[row] : 1;
}

#endif
