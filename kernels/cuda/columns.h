/* kernels/cuda/columns.h - what a block multiplies its rows of weights with: up to 8 * N columns,
 * each a row of activations as two bfloat16, of which split.cu made records in memory
 * (split_before; the other way: fused.h). */
#ifndef KERNELS_CUDA_COLUMNS_H
#define KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/split.h"
#include "kernels/cuda/tile.h"

enum { TILES = 2, SPLITS = 4, TILE_THREADS = 32 * TILES * SPLITS }; /* tiles.h */
#define NO_ROW 0xFFFFFFFFu

/* In shared memory: row of the activations and row of y, or NO_ROW. */
template <int N> struct tile_columns {
    unsigned source[8 * N], target[8 * N];
};

/* Tokens first and on of n. Both end with a barrier. */
template <int N>
__device__ __forceinline__ void choose_columns(tile_columns<N> &c, unsigned first, unsigned n)
{
    for (unsigned i = threadIdx.x; i < 8 * N; i += TILE_THREADS)
        c.source[i] = c.target[i] = first + i < n ? first + i : NO_ROW;
    __syncthreads();
}

/* Pairs of an expert. */
template <int N>
__device__ __forceinline__ void choose_columns(tile_columns<N> &c, const experts_args &e,
                                               const expert_tile &tile)
{
    for (unsigned i = threadIdx.x; i < 8 * N; i += TILE_THREADS) {
        unsigned pair = i < tile.n ? e.group.list[tile.first + i] : NO_ROW;
        c.target[i] = pair;
        c.source[i] = i < tile.n ? pair / e.share : NO_ROW;
    }
    __syncthreads();
}

/* Records of split.cu in memory. */
struct split_before {
    const product_args &a;
    const unsigned *source;

    template <class F> __device__ __forceinline__ void prepare() const
    {
        grid_wait();
    }

    __device__ __forceinline__ void load(unsigned column, unsigned block, uint4 &high,
                                         uint4 &low) const
    {
        if (source[column] == NO_ROW)
            return;
        size_t at = (size_t)source[column] * blocks_in(a.w) + block;
        const uint4 *p = (const uint4 *)a.split + at * SPLIT_RECORD + threadIdx.x % 4;
        high = ld128(p);
        low = ld128(p + 4);
    }

    /* sum += offset times the sum of the block's columns. */
    __device__ __forceinline__ void add(float offset, unsigned column, unsigned block,
                                        float &sum) const
    {
        size_t at = (size_t)source[column] * blocks_in(a.w) + block;
        if (source[column] != NO_ROW)
            sum = multiply_add(offset, a.sums[at], sum);
    }
};

#endif
