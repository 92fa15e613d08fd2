/* kernels/cuda/normed.h - rows of activations as a block of a product's first kernel reads them:
 * four columns at a time, and the factor of their norm. */
#ifndef KERNELS_CUDA_NORMED_H
#define KERNELS_CUDA_NORMED_H

#include "kernels/cuda/arithmetic.h"

/* Columns i to i + 3; zeros past the end. */
__device__ __forceinline__ float4 load_four(const float *x, unsigned i, unsigned n)
{
    if (i + 3 < n && n % 4 == 0)
        return *(const float4 *)(x + i);
    float v[4];
    for (unsigned k = 0; k < 4; k++)
        v[k] = i + k < n ? x[i + k] : 0;
    return {v[0], v[1], v[2], v[3]};
}

template <int WARPS>
__device__ __forceinline__ float norm_factor(const product_args &a, const float *x)
{
    float squares = 0;
    if (!a.norm)
        return 1;
    for (unsigned i = threadIdx.x * 4; i < a.w.cols; i += WARPS * 32 * 4) {
        float4 v = load_four(x, i, a.w.cols);
        squares += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
    }
    return rsqrtf(block_sum<WARPS>(squares) / (float)a.w.cols + a.eps);
}

/* Columns i to i + 3, normed. */
__device__ __forceinline__ float4 normed_four(const product_args &a, const float *x, float factor,
                                              unsigned i)
{
    float4 v = load_four(x, i, a.w.cols), w = {1, 1, 1, 1};
    if (a.norm)
        w = load_four(a.norm, i, a.w.cols);
    return {v.x * factor * w.x, v.y * factor * w.y, v.z * factor * w.z, v.w * factor * w.w};
}

#endif
