/* kernels/cuda/ptx.h - instructions without a CUDA C spelling, each as one named wrapper with its
 * asm body here and its host body in kernels/simt (PTX ISA 9.0; section in each comment). That both
 * do the same is checked on a device by ptx-test (tests/gpu). */
#ifndef KERNELS_CUDA_PTX_H
#define KERNELS_CUDA_PTX_H

#ifdef __CUDACC__

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ uint4 ld128(const void *p)
{
    return *(const uint4 *)p;
}

__device__ __forceinline__ uint2 ld64(const void *p)
{
    return *(const uint2 *)p;
}

__device__ __forceinline__ void st128(void *p, uint4 v)
{
    *(uint4 *)p = v;
}

/* Read once, by nobody else soon: kept out of L1 (9.7.9.8). For weights. */
__device__ __forceinline__ uint4 ld128_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* 9.7.9.8: orders what follows after the writes that the value's writer released. */
__device__ __forceinline__ unsigned ld_acquire(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* The same between devices of a machine, and the writer's side (9.7.9.12): what this block wrote
 * before its last barrier, and this thread before, is seen by who acquires the value. */
__device__ __forceinline__ unsigned ld_acquire_system(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void st_release_system(unsigned *p, unsigned v)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/* 9.7.13.16, programmatic dependent launch: what the launch before wrote is there from here on; and
 * all of it is asked for that a launch after this one may start early. Before its grid_wait a
 * dependent kernel (KERNEL_LAUNCH_EARLY) touches nothing that a kernel writes. */
__device__ __forceinline__ void grid_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ void grid_release()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* 9.7.9.25: 16 bytes of which the first `valid` are copied and the others zeroed. */
__device__ __forceinline__ void cp_async16(void *shared, const void *global, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(valid)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int KEEP> __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(KEEP) : "memory");
}

/* 9.7.14.5.15: four 8x8 matrices of 16 bits; lane l gives the address of row l % 8 of l / 8. */
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* 9.7.14.5.14: d[16 x 8] += a[16 x 16] b[16 x 8], bfloat16 in, float32 sums. */
__device__ __forceinline__ void mma_bf16(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The same of float16. */
__device__ __forceinline__ void mma_f16(float (&d)[4], const unsigned (&a)[4],
                                        const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else
#include "kernels/simt/ptx_host.h"
#endif
#endif
