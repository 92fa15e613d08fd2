/* kernels/cuda/kv.h - keys and values in the cache: where they stand, eight of them in registers.
 */
#ifndef KERNELS_CUDA_KV_H
#define KERNELS_CUDA_KV_H

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/scale.h"

/* Index of (position of a sequence, head) among the cache's [block][head][position in block]. */
__device__ __forceinline__ size_t kv_slot(const step_view &s, unsigned seq, unsigned position,
                                          unsigned head, unsigned n_head_kv)
{
    unsigned block = s.table[(size_t)seq * s.table_stride + position / KV_BLOCK];
    return ((size_t)block * n_head_kv + head) * KV_BLOCK + position % KV_BLOCK;
}

enum { KV_PIECE = 32 }; /* dimensions */

/* Element of a slot's dimension. One byte each: a block's positions lie together piece by piece,
 * the last of d_head % KV_PIECE, so that neighbours fill sectors whatever d_head is. */
template <int BYTES>
__device__ __forceinline__ size_t kv_element(size_t slot, unsigned d_head, unsigned dim)
{
    if (BYTES == 2)
        return slot * d_head + dim;
    unsigned in_block = (unsigned)(slot % KV_BLOCK), piece = dim / KV_PIECE * KV_PIECE;
    unsigned width = min(d_head - piece, (unsigned)KV_PIECE);
    return (slot - in_block) * d_head + piece * KV_BLOCK + in_block * width + dim % KV_PIECE;
}

struct eight {
    float v[8];
};

template <class T> __device__ __forceinline__ eight eight_halves(const uint4 &u)
{
    eight e;
    const unsigned w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        e.v[2 * i] = to_float(T{(uint16_t)(w[i] & 0xFFFF)});
        e.v[2 * i + 1] = to_float(T{(uint16_t)(w[i] >> 16)});
    }
    return e;
}

__device__ __forceinline__ unsigned byte_of(const uint4 &u, int i)
{
    return (i < 4 ? u.x : u.y) >> (i % 4 * 8) & 255;
}

/* A format: what a lane loads of eight neighbouring dimensions, and their floats. */
template <int FORMAT> struct kv_type;
template <> struct kv_type<KV_F16> {
    enum { BYTES = 2, HAS_STEP = 0 };
    static __device__ __forceinline__ eight open(const uint4 &u, float)
    {
        return eight_halves<f16>(u);
    }
};
template <> struct kv_type<KV_BF16> {
    enum { BYTES = 2, HAS_STEP = 0 };
    static __device__ __forceinline__ eight open(const uint4 &u, float)
    {
        return eight_halves<bf16>(u);
    }
};
template <> struct kv_type<KV_FP8> {
    enum { BYTES = 1, HAS_STEP = 0 };
    static __device__ __forceinline__ eight open(const uint4 &u, float)
    {
        eight e;
#pragma unroll
        for (int i = 0; i < 8; i++)
            e.v[i] = to_float(fp8{(uint8_t)byte_of(u, i)});
        return e;
    }
};
template <> struct kv_type<KV_INT8> {
    enum { BYTES = 1, HAS_STEP = 1 };
    static __device__ __forceinline__ eight open(const uint4 &u, float step)
    {
        eight e;
#pragma unroll
        for (int i = 0; i < 8; i++)
            e.v[i] = (float)(signed char)byte_of(u, i) * step;
        return e;
    }
};

/* Eight dimensions from `first` of a slot; 8 or 16 bytes. */
template <int FORMAT>
__device__ __forceinline__ uint4 kv_load(const void *cache, size_t slot, unsigned d_head,
                                         unsigned first)
{
    enum { BYTES = kv_type<FORMAT>::BYTES };
    const char *p = (const char *)cache + kv_element<BYTES>(slot, d_head, first) * BYTES;
    if (BYTES == 2)
        return ld128(p);
    uint2 u = ld64(p);
    return {u.x, u.y, 0, 0};
}

/* The float16 step of a slot; 1 where the type has none. */
template <int FORMAT>
__device__ __forceinline__ float kv_step(const void *steps, size_t slot, bool is_real)
{
    return kv_type<FORMAT>::HAS_STEP && is_real ? half_at(steps, slot) : 1.0f;
}

/* The type of the products of a cache's values. */
template <int FORMAT> struct attend_type {
    typedef f16 T;
};
template <> struct attend_type<KV_BF16> {
    typedef bf16 T;
};

template <class T> __device__ __forceinline__ unsigned pack_pair(float low, float high)
{
    T a, b;
    from_float(a, low);
    from_float(b, high);
    return (unsigned)a.bits | (unsigned)b.bits << 16;
}

template <class T> __device__ __forceinline__ float sum_of_pair(unsigned pair)
{
    return to_float(T{(uint16_t)(pair & 0xFFFF)}) + to_float(T{(uint16_t)(pair >> 16)});
}

/* Eight opened dimensions as operands of products. */
template <int FORMAT> __device__ __forceinline__ uint4 kv_operand(const uint4 &raw, float step)
{
    if (kv_type<FORMAT>::BYTES == 2)
        return raw;
    eight e = kv_type<FORMAT>::open(raw, step);
    return {pack_pair<f16>(e.v[0], e.v[1]), pack_pair<f16>(e.v[2], e.v[3]),
            pack_pair<f16>(e.v[4], e.v[5]), pack_pair<f16>(e.v[6], e.v[7])};
}

/* Eight dimensions of a position, or zeros, to shared memory; two-byte types arrive with the next
 * cp_async_wait. */
template <int FORMAT>
__device__ __forceinline__ void kv_fetch(void *to, const void *cache, size_t slot, unsigned d_head,
                                         unsigned first, float step, bool is_real)
{
    if (kv_type<FORMAT>::BYTES == 2) {
        size_t at = is_real ? (slot * d_head + first) * 2 : 0;
        cp_async16(to, (const char *)cache + at, is_real ? 16 : 0);
        return;
    }
    uint4 v = {};
    if (is_real) /* past the end: a neighbour's, then zeros */
        v = kv_operand<FORMAT>(kv_load<FORMAT>(cache, slot, d_head, min(first, d_head - 8)), step);
    if (first >= d_head)
        v = {};
    st128(to, v);
}

#endif
