/* kernels/cuda/tiles.h - a block's part of W x on tensor cores: TILES times 16 rows of weights, 8 *
 * N columns of activations, shared by the plain product and the one of experts.
 *
 * Two warps take a tile of rows each; SPLITS pairs of warps take every SPLITS-th group of columns
 * and their sums are added in order at the end. Activations are two bfloat16 each (split.cu), so a
 * block of 32 columns is four mma. A token's sums depend on the shape of W alone, not on N or on
 * its neighbours.
 *
 * Bytes: each weight byte once for 8 * N tokens, 16 bytes a lane, 4 * AHEAD loads in flight: of one
 * token rows * cols / 32 times 18 (Q4_0, Q4_K), 20 (Q4_1), 22 (Q5_0, Q5_K), 24 (Q5_1), 26.25
 * (Q6_K), 34 (Q8_0), 32 (fp8) or 64 (bf16), at least 0.97 of what moves
 * (tests/kernels/simt/traffic_test.c); a token's activations, 4 bytes a column, are read by each
 * block of rows from L1 and L2. */
#ifndef KERNELS_CUDA_TILES_H
#define KERNELS_CUDA_TILES_H

#include "kernels/cuda/columns.h"

enum { TILE_ROWS = 16, BLOCK_ROWS = TILES * TILE_ROWS, PART_STRIDE = BLOCK_ROWS + 4 /* banks */ };

/* Rows of a lane: l / 4 of the tile and eight after. Beyond the end: the last row. */
__device__ __forceinline__ void lane_rows(const product_args &a, unsigned (&row)[2])
{
    unsigned warp = threadIdx.x / 32, tile = warp % TILES, is_gate = a.mode == PRODUCT_GATE;
    unsigned end = is_gate ? a.w.rows / 2 : a.w.rows;
    unsigned first = blockIdx.x * (is_gate ? TILE_ROWS : BLOCK_ROWS);
    for (unsigned i = 0; i < 2; i++) {
        unsigned at = first + threadIdx.x % 32 / 4 + 8 * i + (is_gate ? 0 : tile * TILE_ROWS);
        at = at < end ? at : end - 1;
        row[i] = is_gate && tile ? end + at : at;
    }
}

/* 32 columns of 16 rows and 8 * N tokens. */
template <class F, int N, class X>
__device__ __forceinline__ void multiply_block(const X &x, const tile_piece (&p)[2], unsigned group,
                                               int b, float (&sum)[N][4])
{
    unsigned lane = threadIdx.x % 32, q = lane % 4;
    unsigned block = group * F::BLOCKS + (unsigned)b, top[4], bottom[4];
    F::pairs(p[0], b, top);
    F::pairs(p[1], b, bottom);
    const unsigned first[4] = {top[0], bottom[0], top[1], bottom[1]};
    const unsigned second[4] = {top[2], bottom[2], top[3], bottom[3]};
    const unit_scale scale[2] = {F::scale(p[0], group, b), F::scale(p[1], group, b)};
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint4 high = {}, low = {};
        x.load(n * 8 + lane / 4, block, high, low);
        const unsigned high_x[2][2] = {{high.x, high.y}, {high.z, high.w}};
        const unsigned low_x[2][2] = {{low.x, low.y}, {low.z, low.w}};
        float part[2][4] = {}, (&d)[4] = F::HAS_STEP ? part[0] : sum[n];
        float(&e)[4] = F::HALVES == 2 ? part[1] : d;
        mma_bf16(d, first, high_x[0]);
        mma_bf16(d, first, low_x[0]);
        mma_bf16(e, second, high_x[1]);
        mma_bf16(e, second, low_x[1]);
#pragma unroll
        for (int i = 0; i < 4 && F::HAS_STEP; i++) {
            const unit_scale &s = scale[i / 2];
            sum[n][i] = multiply_add(s.step[0], part[0][i], sum[n][i]);
            if (F::HALVES == 2)
                sum[n][i] = multiply_add(s.step[1], part[1][i], sum[n][i]);
            if (F::HAS_OFFSET)
                x.add(s.offset, (unsigned)(n * 8 + (int)q * 2 + i % 2), block, sum[n][i]);
        }
    }
}

/* The i-th group in flight of a warp whose first one is `first`. */
template <class F> __device__ __forceinline__ unsigned group_at(unsigned first, unsigned i)
{
    return first + i / F::TOGETHER * SPLITS * F::TOGETHER + i % F::TOGETHER;
}

template <class F>
__device__ __forceinline__ void load_groups(const panel &w, const unsigned (&row)[2],
                                            unsigned first, tile_piece (&p)[F::AHEAD][2])
{
    unsigned groups = (blocks_in(w) + F::BLOCKS - 1) / F::BLOCKS;
#pragma unroll
    for (unsigned i = 0; i < F::AHEAD; i++) {
        unsigned group = group_at<F>(first, i);
        bool is_first = i % F::TOGETHER == 0;
        if (group >= groups)
            continue;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            p[i][r] = F::load(w, row[r], group, threadIdx.x % 4, is_first);
            if (!is_first)
                p[i][r].scale = p[i - 1][r].scale;
        }
    }
}

template <class F, int N, class X>
__device__ __forceinline__ void multiply_rows(const product_args &a, const X &x, float (&sum)[N][4])
{
    unsigned row[2], groups = (blocks_in(a.w) + F::BLOCKS - 1) / F::BLOCKS;
    tile_piece now[F::AHEAD][2] = {}, next[F::AHEAD][2] = {};
    unsigned first = threadIdx.x / 32 / TILES * F::TOGETHER;
    lane_rows(a, row);
    load_groups<F>(a.w, row, first, next);
    x.template prepare<F>(); /* waits for the kernel before */
    for (; first < groups; first += SPLITS * F::AHEAD) {
#pragma unroll
        for (int i = 0; i < F::AHEAD; i++)
            for (int r = 0; r < 2; r++)
                now[i][r] = next[i][r];
        load_groups<F>(a.w, row, first + SPLITS * F::AHEAD, next);
#pragma unroll
        for (unsigned i = 0; i < F::AHEAD; i++) {
            unsigned group = group_at<F>(first, i);
            if (group >= groups)
                break;
#pragma unroll
            for (unsigned b = 0; b < F::BLOCKS; b++)
                if (b < group_size<F::BLOCKS>(a.w, group))
                    multiply_block<F, N>(x, now[i], group, (int)b, sum);
        }
    }
}

template <int N>
__device__ __forceinline__ float sum_of_splits(const float *part, unsigned column, unsigned row)
{
    float sum = 0;
#pragma unroll
    for (unsigned s = 0; s < SPLITS; s++)
        sum += part[(s * 8 * N + column) * PART_STRIDE + row];
    return sum;
}

/* The columns must be complete in shared memory before. */
template <class F, int N, class X>
__device__ __forceinline__ void multiply_tiles(const product_args &a, const tile_columns<N> &c,
                                               const X &x)
{
    SMEM(float, part, [SPLITS * 8 * N * PART_STRIDE]);
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned is_gate = a.mode == PRODUCT_GATE, end = is_gate ? a.w.rows / 2 : a.w.rows;
    unsigned n_rows = is_gate ? TILE_ROWS : BLOCK_ROWS;
    float sum[N][4] = {};
    multiply_rows<F, N>(a, x, sum);
#pragma unroll
    for (unsigned n = 0; n < N; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned column = warp / TILES * 8 * N + n * 8 + lane % 4 * 2 + i % 2;
            part[column * PART_STRIDE + warp % TILES * TILE_ROWS + lane / 4 + i / 2 * 8] =
                sum[n][i];
        }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n_rows * 8 * N; i += TILE_THREADS) {
        unsigned r = i % n_rows, column = i / n_rows, row = blockIdx.x * n_rows + r;
        if (c.target[column] == NO_ROW || row >= end)
            continue;
        float *y = a.y + (size_t)c.target[column] * a.y_stride + a.first_row + row;
        float v = sum_of_splits<N>(part, column, r) * row_step<F>(a.w, row);
        if (is_gate)
            *y = gated(a.gate, v) *
                 (sum_of_splits<N>(part, column, r + TILE_ROWS) * row_step<F>(a.w, end + row));
        else
            *y = a.mode == PRODUCT_ADD ? *y + v : v;
    }
}

/* Blocks of rows. */
static inline unsigned tile_blocks(const product_args &a, const panel &w)
{
    unsigned rows = a.mode == PRODUCT_GATE ? w.rows / 2 : w.rows;
    unsigned of_block = a.mode == PRODUCT_GATE ? TILE_ROWS : BLOCK_ROWS;
    return (rows + of_block - 1) / of_block;
}

#endif
