/* kernels/cuda/attend.h - attention on tensor cores, shared by decode (attend.cu) and prompts
 * (prompt.cu), which give the same bits: both sum in this order.
 *
 * A row is a query head of a token; a warp's tile is 16 rows of one KV head. Positions stand in
 * chunks of ATTEND_CHUNK at fixed places, and those in units of UNIT. Within a chunk, starting from
 * nothing: a unit's scores, the new maximum, weights rounded to the type of the products, the sum
 * and output so far rescaled, the unit's added (online softmax, arXiv 1805.02867; FlashAttention-2,
 * arXiv 2307.08691). Chunks are then put together in their order. A unit or chunk in which a row
 * sees nothing changes no bit of it, so it does not matter which neighbours a row has.
 *
 * A product of 16 takes 16 neighbouring dimensions of two-byte caches, as a warpgroup's does
 * (prompt_wgmma.cu): lane q of a quad has 4 q to 4 q + 3 of them. Of fp8 and int8, which are opened
 * to f16 first, a lane has 8 q to 8 q + 7 of every 32, half of them in each of two products, so
 * that it loads eight bytes. bf16 caches take bf16 products, the others f16 ones. D: the head's
 * dimensions rounded up, the rest are zeros. */
#ifndef KERNELS_CUDA_ATTEND_H
#define KERNELS_CUDA_ATTEND_H

#include "kernels/cuda/kv.h"

enum { UNIT = 64, UNIT_TILES = UNIT / 8, CHUNK_UNITS = ATTEND_CHUNK / UNIT, TILE_QUERIES = 16 };
#define NOTHING (-INFINITY)

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2], f16)
{
    mma_f16(d, a, b);
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2], bf16)
{
    mma_bf16(d, a, b);
}

/* The first of the four dimensions that this lane has in product `half` of those of block j of 32.
 */
template <int FORMAT> __device__ __forceinline__ unsigned four_of(unsigned j, unsigned half)
{
    unsigned q = threadIdx.x % 4;
    return j * 32 + (kv_type<FORMAT>::BYTES == 2 ? 16 * half + 4 * q : 8 * q + 4 * half);
}

/* Which positions a lane's two rows see: from first to last, both included; none: first > last. */
struct sight {
    unsigned first[2], last[2];
};

__device__ __forceinline__ void see(sight &s, int r, unsigned position, unsigned window)
{
    s.last[r] = position;
    s.first[r] = window && position >= window ? position + 1 - window : 0;
}

/* A chunk's state of a lane's two rows: maximum and sum are the same in the lanes of a quad. */
struct softmax_state {
    float most[2], sum[2];
};

__device__ __forceinline__ void hide(float (&s)[UNIT_TILES][4], const sight &v, unsigned base)
{
    unsigned q = threadIdx.x % 4;
#pragma unroll
    for (unsigned n = 0; n < UNIT_TILES; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned at = base + n * 8 + q * 2 + i % 2;
            if (at < v.first[i / 2] || at > v.last[i / 2])
                s[n][i] = NOTHING;
        }
}

__device__ __forceinline__ void maximum_of(const float (&s)[UNIT_TILES][4], float (&most)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        most[r] = NOTHING;
#pragma unroll
        for (int n = 0; n < UNIT_TILES; n++)
            most[r] = fmaxf(most[r], fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        most[r] = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFFu, most[r], 1));
        most[r] = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFFu, most[r], 2));
    }
}

__device__ __forceinline__ float weight_of(float score, float most)
{
    return score == NOTHING ? 0.0f : __expf(score - most);
}

/* Weights of a unit as the first operands of four products of 16 positions, and their sums. */
template <class T>
__device__ __forceinline__ void weigh(const float (&s)[UNIT_TILES][4], const float (&most)[2],
                                      unsigned (&p)[UNIT_TILES / 2][4], float (&sum)[2])
{
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int n = 0; n < UNIT_TILES; n++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            unsigned pair =
                pack_pair<T>(weight_of(s[n][2 * r], most[r]), weight_of(s[n][2 * r + 1], most[r]));
            p[n / 2][n % 2 * 2 + r] = pair;
            sum[r] += sum_of_pair<T>(pair);
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], 2);
    }
}

/* Two neighbouring tiles of eight output dimensions += 16 weights times 16 values; `at`: the
 * values' first position and dimension in shared memory, rows of `stride` elements. */
template <class T>
__device__ __forceinline__ void add_values(float (&o)[2][4], const unsigned (&p)[4],
                                           const uint16_t *at, unsigned stride)
{
    unsigned lane = threadIdx.x % 32, v[4];
    ldmatrix_x4_trans(v, at + (lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8);
    const unsigned left[2] = {v[0], v[1]}, right[2] = {v[2], v[3]};
    multiply(o[0], p, left, T());
    multiply(o[1], p, right, T());
}

template <int N>
__device__ __forceinline__ void rescale(float (&o)[N][2][4], const float (&factor)[2])
{
#pragma unroll
    for (int n = 0; n < 2 * N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            o[n / 2][n % 2][i] *= factor[i / 2];
}

/* The state of several chunks, or of none: most is NOTHING. */
struct joined {
    float most, sum;
};

/* Factors of what was there and of the chunk's, and both put together. */
__device__ __forceinline__ float2 join(joined &all, float most, float sum)
{
    float2 factor = {1, 0};
    if (most == NOTHING)
        return factor;
    float top = fmaxf(all.most, most);
    factor = {weight_of(all.most, top), __expf(most - top)};
    all.sum = multiply_add(sum, factor.y, all.sum * factor.x);
    all.most = top;
    return factor;
}

/* Query rows as first operands of block j's two products: of a lane's two rows, scaled. */
template <int FORMAT>
__device__ __forceinline__ void load_query(const float *const (&row)[2], unsigned j,
                                           unsigned d_head, float scale, unsigned (&a)[2][4])
{
    typedef typename attend_type<FORMAT>::T T;
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
#pragma unroll
        for (unsigned r = 0; r < 2; r++) {
            unsigned first = four_of<FORMAT>(j, h);
            a[h][r] = a[h][r + 2] = 0;
            if (!row[r] || first >= d_head)
                continue;
            float4 x = *(const float4 *)(row[r] + first);
            a[h][r] = pack_pair<T>(x.x * scale, x.y * scale);
            a[h][r + 2] = pack_pair<T>(x.z * scale, x.w * scale);
        }
}

#endif
