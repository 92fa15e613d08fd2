/* kernels/cuda/scale.h - scales of weights: half floats, the six-bit ones of K blocks, and integers
 * as exact floats. */
#ifndef KERNELS_CUDA_SCALE_H
#define KERNELS_CUDA_SCALE_H

#include "kernels/cuda/arithmetic.h"

struct unit_scale {
    float step[2]; /* of the unit's halves */
    float offset;
};

__device__ __forceinline__ float exact_float(unsigned q, float zero)
{
    return __uint_as_float(q | 0x4B000000u) - (8388608.0f + zero);
}

__device__ __forceinline__ float half_at(const void *p, size_t i)
{
    return to_float(((const f16 *)p)[i]);
}

__device__ __forceinline__ unsigned word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Six-bit scale and minimum of sub-block j of a K block (ggml: block_q4_K): p is its header. */
__device__ __forceinline__ unit_scale scale_of_k(const uint4 &p, int j)
{
    int shift = j % 4 * 8;
    unsigned first = p.y >> shift, second = p.z >> shift, third = p.w >> shift;
    unsigned s = j < 4 ? first & 63 : (third & 15) | (first >> 6 & 3) << 4;
    unsigned m = j < 4 ? second & 63 : (third >> 4 & 15) | (second >> 6 & 3) << 4;
    float d = to_float(f16{(uint16_t)(p.x & 0xFFFF)}),
          minimum = to_float(f16{(uint16_t)(p.x >> 16)});
    float step = d * exact_float(s, 0);
    return {{step, step}, -minimum * exact_float(m, 0)};
}

#endif
