/* kernels/cuda/split.h - activations as the tensor cores want them: each the sum of two bfloat16,
 * which keeps 16 bits of it, and for types of weights with an offset the sum of 32 columns. */
#ifndef KERNELS_CUDA_SPLIT_H
#define KERNELS_CUDA_SPLIT_H

#include "kernels/cuda/normed.h"

/* Warps that sum a row's squares; pieces of 16 bytes that 32 columns of a row become. */
enum { SPLIT_WARPS = 4, SPLIT_RECORD = 8 };

/* Columns 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3 of a block of 32: lane q's of a quad. */
struct split_eight {
    uint4 high, low;
    float sum;
};

__device__ __forceinline__ void split_pair(float x, float y, unsigned &high, unsigned &low,
                                           float &sum)
{
    high = pack_bf16(x, y);
    low = pack_bf16(x - low_bf16(high), y - high_bf16(high));
    sum += low_bf16(high) + low_bf16(low);
    sum += high_bf16(high) + high_bf16(low);
}

__device__ __forceinline__ split_eight split_of(const float4 &u, const float4 &v)
{
    split_eight s = {};
    float second = 0;
    split_pair(u.x, u.y, s.high.x, s.low.x, s.sum);
    split_pair(u.z, u.w, s.high.y, s.low.y, s.sum);
    split_pair(v.x, v.y, s.high.z, s.low.z, second);
    split_pair(v.z, v.w, s.high.w, s.low.w, second);
    s.sum += second;
    return s;
}

#endif
