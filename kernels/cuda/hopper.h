/* kernels/cuda/hopper.h - sm_90a: mbarriers, tensor-map copies (TMA), warpgroup products, named
 * barriers; asm here, host models in kernels/simt/hopper.cc (PTX ISA 9.0, sections named).
 *
 * Tiles are rows of 64 bfloat16 (128 bytes) under the 128-byte swizzle: the 16-byte piece q of row
 * r lies at piece q ^ (r % 8). Targets are aligned to 1024 bytes. */
#ifndef KERNELS_CUDA_HOPPER_H
#define KERNELS_CUDA_HOPPER_H

#include "kernels/cuda/dialect.h"

#ifdef __CUDACC__
#include <cuda.h> /* CUtensorMap only; its encoder is looked up at run time */

typedef CUtensorMap tensor_map;
typedef unsigned long long mbarrier;

__device__ __forceinline__ void mbarrier_init(mbarrier *b, int n) /* 9.7.13.15.9 */
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(n));
}
__device__ __forceinline__ void mbarrier_arrive(mbarrier *b) /* 9.7.13.15.13 */
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void mbarrier_expect(mbarrier *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void mbarrier_wait(mbarrier *b, unsigned parity) /* 9.7.13.15.16 */
{
    unsigned is_done;
    do
        asm volatile("{ .reg .pred p; "
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(shared_address(b)), "r"(parity)
                     : "memory");
    while (!is_done);
}
/* Box of the map at column x, row y; outside the tensor: zeros (9.7.9.27.5.2). */
__device__ __forceinline__ void tensor_load(void *dst, const tensor_map *map, int x, int y,
                                            mbarrier *b)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(dst)),
                 "l"(map), "r"(x), "r"(y), "r"(shared_address(b))
                 : "memory");
}
__device__ __forceinline__ void fence_proxy_async() /* 9.7.13.4 */
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Barrier i (1 to 15) of n threads, whole warps (9.7.13.1). */
__device__ __forceinline__ void bar_sync(unsigned i, unsigned n)
{
    asm volatile("bar.sync %0, %1;" ::"r"(i), "r"(n) : "memory");
}
__device__ __forceinline__ void wgmma_fence() /* 9.7.15.7 */
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int KEEP> __device__ __forceinline__ void wgmma_wait(float (&d)[32])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(KEEP) : "memory");
    for (int i = 0; i < 32; i++)
        asm volatile("" : "+f"(d[i])::"memory"); /* keeps the reads below the wait */
}
/* 9.7.15.5.1: K-major tile, 128-byte swizzle, 1024 bytes between groups of eight rows. */
__device__ __forceinline__ uint64_t tile_descriptor(const void *p)
{
    return (uint64_t)((shared_address(p) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
/* d[64 x 64] += a[64 x 16] b[64 x 16]^T (9.7.15.5.2); layout of d as in mma, 16 rows a warp. */
__device__ __forceinline__ void wgmma_64x64x16(float (&d)[32], uint64_t a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

#else

struct tensor_map { /* bfloat16 matrix and the box of a copy */
    const void *base;
    int width, height;
    long pitch_bytes;
    int box_width, box_height;
};
struct mbarrier { /* 8 bytes, as the real one */
    uint16_t expected, pending;
    int16_t bytes_16; /* still to come, in 16-byte pieces */
    uint16_t phase;
};

namespace simt
{
void mbarrier_open(mbarrier *b, int n);
void mbarrier_come(mbarrier *b, int bytes);
void mbarrier_stay(mbarrier *b, unsigned parity);
void tensor_copy(void *dst, const tensor_map *map, int x, int y, mbarrier *b);
void proxy_fence();
void named_barrier(unsigned i, unsigned n_threads, const site *at);
uint64_t descriptor(const void *p);
void wgmma(float *d, uint64_t a, uint64_t b, int n, const site *at);
void wgmma_close_group();
void wgmma_land(int keep);
} // namespace simt

#define mbarrier_init             simt::mbarrier_open
#define mbarrier_arrive(b)        simt::mbarrier_come(b, 0)
#define mbarrier_expect(b, bytes) simt::mbarrier_come(b, bytes)
#define mbarrier_wait             simt::mbarrier_stay
#define tensor_load               simt::tensor_copy
#define fence_proxy_async         simt::proxy_fence
#define fence_mbarrier_init()     ((void)0)
#define bar_sync(i, n)            simt::named_barrier(i, n, SIMT_HERE)
#define wgmma_fence()             ((void)0)
#define wgmma_commit              simt::wgmma_close_group
#define tile_descriptor           simt::descriptor
#define wgmma_64x64x16(d, a, b)   simt::wgmma(d, a, b, 64, SIMT_HERE)
template <int KEEP> static inline void wgmma_wait(float (&)[32])
{
    simt::wgmma_land(KEEP);
}

#endif
#endif
