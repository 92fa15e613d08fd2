/* kernels/cuda/hopper.h - sm_90a: mbarriers, tensor-map copies (TMA), warpgroup products, named
 * barriers; asm here, host models in kernels/simt (hopper.cc, wgmma.cc; PTX ISA 9.0, sections
 * named).
 *
 * Tiles are rows of 64 halves of either type (128 bytes) under the 128-byte swizzle: the 16-byte
 * piece q of row r lies at piece q ^ (r % 8). Targets are aligned to 1024 bytes. */
#ifndef KERNELS_CUDA_HOPPER_H
#define KERNELS_CUDA_HOPPER_H

#include "kernels/cuda/dialect.h"

#ifdef __CUDACC__
#include <cuda.h> /* CUtensorMap only; its encoder is looked up at run time */

typedef CUtensorMap tensor_map;
typedef unsigned long long mbarrier;

/* A matrix of halves in device memory, and boxes of 64 columns and `box_height` rows of it; the
 * pitch is a multiple of 16 bytes. False: this driver cannot. */
static inline bool tensor_map_of(tensor_map *map, const void *base, unsigned width, size_t height,
                                 size_t pitch_bytes, unsigned box_height)
{
    typedef CUresult encoder(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                             const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                             const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                             CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void *f = NULL;
    cudaDriverEntryPointQueryResult found;
    const cuuint64_t size[2] = {width, height}, pitch[1] = {pitch_bytes};
    const cuuint32_t box[2] = {64, box_height}, step[2] = {1, 1};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess ||
        !f)
        return false;
    return ((encoder *)f)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)base, size, pitch, box,
                          step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

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
/* All but the last KEEP groups are done; of their results, those in d may be used: the compiler
 * knows of no other reason to read them below. */
template <int KEEP, int N> __device__ __forceinline__ void wgmma_wait(float (&d)[N])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(KEEP) : "memory");
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
/* 9.7.15.5.1: 128-byte swizzle, 1024 bytes between groups of eight rows. For operands whose rows
 * are rows of the product (K-major), and for transposed ones whose rows are its inner dimension. */
__device__ __forceinline__ uint64_t tile_descriptor(const void *p)
{
    return (uint64_t)((shared_address(p) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define WGMMA(type, operands)                                                                      \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," \
    "%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"    \
    " " operands ";"
#define EIGHT_OF(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define ALL_OF(d)    EIGHT_OF(d, 0), EIGHT_OF(d, 8), EIGHT_OF(d, 16), EIGHT_OF(d, 24)
#define REGISTERS(a) "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

/* d[64 x 64] += a[64 x 16] b[64 x 16]^T (9.7.15.5.2); layout of d as in mma, 16 rows a warp. */
__device__ __forceinline__ void wgmma_tiles(float (&d)[32], uint64_t a, uint64_t b, bf16)
{
    asm volatile(WGMMA("bf16", "%32, %33, 1, 1, 1, 0, 0") : ALL_OF(d) : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_tiles(float (&d)[32], uint64_t a, uint64_t b, f16)
{
    asm volatile(WGMMA("f16", "%32, %33, 1, 1, 1, 0, 0") : ALL_OF(d) : "l"(a), "l"(b));
}
/* d[64 x 64] += a[64 x 16] b[16 x 64]: a in registers as in mma, 16 rows a warp. */
__device__ __forceinline__ void wgmma_rows(float (&d)[32], const unsigned (&a)[4], uint64_t b, bf16)
{
    asm volatile(WGMMA("bf16", "{%32,%33,%34,%35}, %36, 1, 1, 1, 1")
                 : ALL_OF(d)
                 : REGISTERS(a), "l"(b));
}
__device__ __forceinline__ void wgmma_rows(float (&d)[32], const unsigned (&a)[4], uint64_t b, f16)
{
    asm volatile(WGMMA("f16", "{%32,%33,%34,%35}, %36, 1, 1, 1, 1")
                 : ALL_OF(d)
                 : REGISTERS(a), "l"(b));
}
#undef WGMMA
#undef EIGHT_OF
#undef ALL_OF
#undef REGISTERS

#else
#include "kernels/simt/hopper_host.h"
#endif

#endif
