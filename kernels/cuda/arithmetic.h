/* kernels/cuda/arithmetic.h - sums over warps and blocks in a fixed order, and the gates. */
#ifndef KERNELS_CUDA_ARITHMETIC_H
#define KERNELS_CUDA_ARITHMETIC_H

#include "kernels/cuda/dialect.h"
#include "kernels/cuda/kernels.h"

/* a * b + c in one rounding on a device; the host's fmaf would be a call. */
__device__ __forceinline__ float multiply_add(float a, float b, float c)
{
#ifdef __CUDACC__
    return __fmaf_rn(a, b, c);
#else
    return a * b + c;
#endif
}

/* Every lane gets the sum over lanes whose numbers differ in bits below `width` (a power of two).
 */
__device__ __forceinline__ float warp_sum(float v, int width = 32)
{
    for (int x = width / 2; x > 0; x /= 2)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, x);
    return v;
}

__device__ __forceinline__ float warp_max(float v)
{
    for (int x = 16; x > 0; x /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xFFFFFFFFu, v, x));
    return v;
}

/* Sum over a block of WARPS warps; every thread gets it. Two barriers, the first also ends any use
 * of memory before. */
template <int WARPS> __device__ __forceinline__ float block_sum(float v)
{
    SMEM(float, of_warp, [WARPS]);
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < WARPS; i++)
        sum += of_warp[i];
    return sum;
}

/* GELU's tanh form is x * sigmoid(2 z), since 1 + tanh(z) = 2 sigmoid(2 z) (arXiv 1606.08415). */
__device__ __forceinline__ float gated(unsigned gate, float g)
{
    float twice_z = g;
    if (gate == GATE_GELU)
        twice_z = 1.5957691216057308f * (g + 0.044715f * g * g * g);
    return g / (1.0f + expf(-twice_z));
}

#endif
