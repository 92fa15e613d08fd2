/* kernels/cuda/block.h - what a block of 1024 threads finds out together: sums in the order of the
 * threads, and a largest key. Every call has two barriers; the first also ends any use of shared
 * memory before. */
#ifndef KERNELS_CUDA_BLOCK_H
#define KERNELS_CUDA_BLOCK_H

#include "kernels/cuda/dialect.h"

namespace KERNEL_SPACE
{

enum { BLOCK_THREADS = 1024, BLOCK_WARPS = BLOCK_THREADS / 32 };

/* Sum of v over the threads before this one, and itself; *all: over all threads. */
__device__ __forceinline__ double block_scan(double v, double *all)
{
    SMEM(double, of_warp, [BLOCK_WARPS]);
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned d = 1; d < 32; d *= 2) {
        double before = __shfl_up_sync(0xFFFFFFFFu, v, d);
        if (lane >= d)
            v = __dadd_rn(v, before);
    }
    __syncthreads();
    if (lane == 31)
        of_warp[warp] = v;
    __syncthreads();
    double sum = 0, before = 0;
    for (unsigned w = 0; w < BLOCK_WARPS; w++) {
        before = w == warp ? sum : before;
        sum = __dadd_rn(sum, of_warp[w]);
    }
    *all = sum;
    return __dadd_rn(before, v);
}

template <class T> __device__ __forceinline__ T block_largest(T v)
{
    SMEM(T, of_warp, [BLOCK_WARPS]);
    for (int x = 16; x > 0; x /= 2) {
        T other = __shfl_xor_sync(0xFFFFFFFFu, v, x);
        v = other > v ? other : v;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < BLOCK_WARPS; w++)
        v = of_warp[w] > v ? of_warp[w] : v;
    return v;
}

/* The smallest of v: UINT32_MAX where a thread has none. */
__device__ __forceinline__ unsigned block_first(unsigned v)
{
    return ~block_largest(~v);
}

} // namespace KERNEL_SPACE

#endif
