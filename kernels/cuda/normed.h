/* kernels/cuda/normed.h - rows of activations as a block of a product's first kernel reads them:
 * four columns at a time, and the factor of their norm. */
#ifndef KERNELS_CUDA_NORMED_H
#define KERNELS_CUDA_NORMED_H

#include "kernels/cuda/arithmetic.h"

__device__ __forceinline__ float4 floats_of(const uint4 &v)
{
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
}

/* Columns i to i + 3; zeros past the end. */
__device__ __forceinline__ float4 load_four(const float *x, unsigned i, unsigned n)
{
    if (i + 3 < n && n % 4 == 0)
        return floats_of(ld128(x + i));
    float v[4];
    for (unsigned k = 0; k < 4; k++)
        v[k] = i + k < n ? x[i + k] : 0;
    return {v[0], v[1], v[2], v[3]};
}

/* No product here becomes part of another's sum, so that every kernel rounds alike. */
__device__ __forceinline__ float sum_of_squares(const float4 &v)
{
    return multiply_add(v.x, v.x, v.y * v.y) + multiply_add(v.z, v.z, v.w * v.w);
}

__device__ __forceinline__ float factor_of(const product_args &a, float squares)
{
    return rsqrtf(squares / (float)a.w.cols + a.eps);
}

__device__ __forceinline__ float4 scaled(const float4 &v, float factor, const float4 &w)
{
    return {__fmul_rn(__fmul_rn(v.x, factor), w.x), __fmul_rn(__fmul_rn(v.y, factor), w.y),
            __fmul_rn(__fmul_rn(v.z, factor), w.z), __fmul_rn(__fmul_rn(v.w, factor), w.w)};
}

/* Weights of the norm of columns i to i + 3. */
__device__ __forceinline__ float4 norm_four(const product_args &a, unsigned i)
{
    return a.norm ? load_four(a.norm, i, a.w.cols) : float4{1, 1, 1, 1};
}

template <int WARPS>
__device__ __forceinline__ float norm_factor(const product_args &a, const float *x)
{
    float squares = 0;
    if (!a.norm)
        return 1;
    for (unsigned i = threadIdx.x * 4; i < a.w.cols; i += WARPS * 32 * 4)
        squares += sum_of_squares(load_four(x, i, a.w.cols));
    return factor_of(a, block_sum<WARPS>(squares));
}

/* Columns i to i + 3, normed. */
__device__ __forceinline__ float4 normed_four(const product_args &a, const float *x, float factor,
                                              unsigned i)
{
    return scaled(load_four(x, i, a.w.cols), factor, norm_four(a, i));
}

#endif
