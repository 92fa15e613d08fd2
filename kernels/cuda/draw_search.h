/* kernels/cuda/draw_search.h - top_k, top_p, min_p and the draw among what they leave, without
 * sorting.
 *
 * A token's key is its place in the order of falling weight, equal ones by id: 30 bits of how far
 * the weight's bits are below those of 1 (the largest), then 20 of the id. A limit is a key, and is
 * found ten bits at a time: a histogram of count and weight over the keys that begin alike, and the
 * digit at which the sum passes. The weights in a bucket share their exponent, so that its sum is
 * exact in double and atomics in any order give the same bits. */
#ifndef KERNELS_CUDA_DRAW_SEARCH_H
#define KERNELS_CUDA_DRAW_SEARCH_H

#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace KERNEL_SPACE
{

typedef unsigned long long draw_key;
enum { DIGIT_BITS = 10, DIGITS = 5, ID_BITS = 20, FIRST_SHIFT = DIGIT_BITS * (DIGITS - 1) };
static const uint32_t BITS_OF_ONE = 0x3F800000u;
static const uint32_t BUCKET_MASK = (1u << DIGIT_BITS) - 1; /* a bucket a thread */

struct limits {
    unsigned top_k; /* n or more: off */
    double top_p, min_p, u, total;
};

struct histogram { /* in shared memory */
    uint32_t *count;
    double *mass;
};

struct keys {
    const draw_key *key;
    unsigned n;
    histogram h;
};

enum search_kind { NTH, REACHES, PASSES }; /* count >= target; mass >= target; mass > target */

__device__ __forceinline__ draw_key key_of(float weight, unsigned id)
{
    uint32_t bits = __float_as_uint(weight);
    return (draw_key)(bits < BITS_OF_ONE ? BITS_OF_ONE - bits : 0) << ID_BITS | id;
}

__device__ __forceinline__ double weight_of(draw_key key)
{
    return (double)__uint_as_float(BITS_OF_ONE - (uint32_t)(key >> ID_BITS));
}

/* Only the thread of a bucket has read it. */
__device__ __forceinline__ void clear(const histogram &h)
{
    h.count[threadIdx.x] = 0;
    h.mass[threadIdx.x] = 0;
    __syncthreads();
}

__device__ __forceinline__ void put(const histogram &h, unsigned digit, double weight)
{
    atomicAdd(&h.count[digit], 1u);
    atomicAdd(&h.mass[digit], weight);
}

/* First bucket at which the sum over buckets, after `before`, meets the target, else the last that
 * holds anything; *before grows by the buckets before it. All threads; the histogram is filled. */
__device__ __forceinline__ unsigned find_bucket(const histogram &h, search_kind kind, double target,
                                                double *before)
{
    SMEM(double, sum_before, [1]);
    double all, own = kind == NTH ? (double)h.count[threadIdx.x] : h.mass[threadIdx.x];
    double sum = *before + block_scan(own, &all);
    bool is_met = kind == PASSES ? sum > target : sum >= target, is_any = h.count[threadIdx.x] > 0;
    unsigned found = block_first(is_any && is_met ? threadIdx.x : UINT32_MAX);
    unsigned last = block_largest(is_any ? threadIdx.x : 0u);
    found = found == UINT32_MAX ? last : found;
    if (threadIdx.x == 0 && found == 0)
        sum_before[0] = *before;
    if (threadIdx.x + 1 == found)
        sum_before[0] = sum;
    __syncthreads();
    *before = sum_before[0];
    return found;
}

/* The first key, in order, at which the count or mass of keys up to it meets the target; only keys
 * up to `limit` are there. */
__device__ __forceinline__ draw_key search(const keys &k, search_kind kind, double target,
                                           draw_key limit)
{
    draw_key prefix = 0;
    double before = 0;
    for (int shift = FIRST_SHIFT; shift >= 0; shift -= DIGIT_BITS) {
        clear(k.h);
        for (unsigned i = threadIdx.x; i < k.n; i += BLOCK_THREADS) {
            draw_key key = k.key[i];
            if (key <= limit && key >> (shift + DIGIT_BITS) == prefix)
                put(k.h, (unsigned)(key >> shift) & BUCKET_MASK, weight_of(key));
        }
        __syncthreads();
        prefix = prefix << DIGIT_BITS | find_bucket(k.h, kind, target, &before);
    }
    return prefix;
}

/* Of the keys up to the limit: exact sums of buckets, in their order. */
__device__ __forceinline__ double mass_up_to(const keys &k, draw_key limit)
{
    double all;
    clear(k.h);
    for (unsigned i = threadIdx.x; i < k.n; i += BLOCK_THREADS)
        if (k.key[i] <= limit)
            put(k.h, (unsigned)(k.key[i] >> FIRST_SHIFT) & BUCKET_MASK, weight_of(k.key[i]));
    __syncthreads();
    block_scan(k.h.mass[threadIdx.x], &all);
    return all;
}

/* Last key with a weight of at least min_p times the largest, which is 1. */
__device__ __forceinline__ draw_key min_p_limit(double min_p)
{
    float least = (float)min_p;
    if ((double)least < min_p)
        least = __uint_as_float(__float_as_uint(least) + 1);
    return key_of(least, (1u << ID_BITS) - 1);
}

/* Digit up to which keys can survive, from a histogram of the whole row. */
__device__ __forceinline__ unsigned last_digit(const float *weight, unsigned n, const histogram &h,
                                               const limits &l)
{
    double before = 0;
    unsigned digit = BUCKET_MASK;
    clear(h);
    for (unsigned i = threadIdx.x; i < n; i += BLOCK_THREADS)
        put(h, (unsigned)(key_of(weight[i], 0) >> FIRST_SHIFT), (double)weight[i]);
    __syncthreads();
    if (l.top_k < n)
        digit = find_bucket(h, NTH, (double)l.top_k, &before);
    else if (l.top_p < 1)
        digit = find_bucket(h, REACHES, l.top_p * l.total, &before);
    draw_key most = min_p_limit(l.min_p) >> FIRST_SHIFT;
    bool needs_all_k = l.top_k < n && l.top_p < 1; /* for the mass of which top_p is a share */
    return most < digit && !needs_all_k ? (unsigned)most : digit;
}

/* Keys up to that digit, in no order, to `key`; returns their number. */
__device__ __forceinline__ unsigned collect(const float *weight, unsigned n, unsigned digit,
                                            draw_key *key)
{
    SMEM(unsigned, count, [1]);
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        count[0] = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i - lane < n; i += BLOCK_THREADS) {
        draw_key mine = i < n ? key_of(weight[i], i) : ~0ull;
        bool is_in = mine >> FIRST_SHIFT <= digit;
        unsigned mask = __ballot_sync(0xFFFFFFFFu, is_in), at = 0;
        if (lane == 0 && mask)
            at = atomicAdd(&count[0], (unsigned)__popc(mask));
        at = __shfl_sync(0xFFFFFFFFu, at, 0) + (unsigned)__popc(mask & ((1u << lane) - 1));
        if (is_in)
            key[at] = mine;
    }
    __syncthreads();
    return count[0];
}

/* The token; `key` is scratch as long as the row. Order as in engine/sample/filters.c: top_k, top_p
 * of what it leaves, min_p. */
__device__ __forceinline__ unsigned draw_filtered(const float *weight, unsigned n, draw_key *key,
                                                  const limits &l)
{
    SMEM(uint32_t, count, [1 << DIGIT_BITS]);
    SMEM(double, mass, [1 << DIGIT_BITS]);
    const histogram h = {count, mass};
    unsigned digit = last_digit(weight, n, h, l);
    const keys k = {key, collect(weight, n, digit, key), h};
    draw_key last = ~0ull;
    if (l.top_k < n)
        last = search(k, NTH, (double)l.top_k, last);
    if (l.top_p < 1) {
        double whole = l.top_k < n ? mass_up_to(k, last) : l.total;
        draw_key reached = search(k, REACHES, l.top_p * whole, last);
        last = min(last, reached);
    }
    last = min(last, min_p_limit(l.min_p));
    return (unsigned)search(k, PASSES, l.u * mass_up_to(k, last), last) & ((1u << ID_BITS) - 1);
}

} // namespace KERNEL_SPACE

#endif
