/* kernels/cuda/dialect.h - the CUDA C that our kernels are written in; first include of every .cu.
 *
 * nvcc compiles it as a thin layer over CUDA; any other compiler gets the same names from the
 * emulator (kernels/simt), which runs each CUDA thread as a fiber and checks what a GPU would not.
 * Rules, checked by tests/lint/check_dialect.sh:
 *   shared memory only as SMEM(type, name, [dims]) and SMEM_DYN(type, name); launches only as
 *   KERNEL_LAUNCH, or KERNEL_LAUNCH_TOGETHER where blocks wait for each other and
 * KERNEL_LAUNCH_EARLY for those that may start before the kernel ahead of them ends (grid_wait);
 * vector accesses as ld128, ld64 and st128 (a host compiler splits others into words, which spoils
 * the count of sectors); warp operations name their mask; a loop that waits for another thread
 * contains SPIN_HINT(); asm only in the wrappers of ptx.h and hopper.h. No CUB, thrust, cooperative
 *   groups or device printf.
 * A warp is never in lockstep: what lanes exchange goes through *_sync or __syncwarp. */
#ifndef KERNELS_CUDA_DIALECT_H
#define KERNELS_CUDA_DIALECT_H

#include <stdint.h>
#include <string.h>

struct dev_stream;
enum launch_kind { LAUNCH_PLAIN, LAUNCH_TOGETHER, LAUNCH_EARLY };

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#define KERNEL_SPACE           milepost_cuda
#define SMEM(type, name, dims) __shared__ __align__(16) type name dims
#define SMEM_DYN(type, name)                                                                       \
    extern __shared__ __align__(1024) unsigned char dynamic_shared[];                              \
    type *name = (type *)dynamic_shared
#define SPIN_HINT() __nanosleep(20)
#define KERNEL_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                              \
    launch_kernel(kernel, grid, block, shared_bytes, stream, LAUNCH_PLAIN, __VA_ARGS__)
#define KERNEL_LAUNCH_TOGETHER(kernel, grid, block, shared_bytes, stream, ...)                     \
    launch_kernel(kernel, grid, block, shared_bytes, stream, LAUNCH_TOGETHER, __VA_ARGS__)
#define KERNEL_LAUNCH_EARLY(kernel, grid, block, shared_bytes, stream, ...)                        \
    launch_kernel(kernel, grid, block, shared_bytes, stream, LAUNCH_EARLY, __VA_ARGS__)

/* Errors of a launch stay with the runtime until the stream is waited for (dev_cuda.c). */
template <class... P, class... A>
static inline void launch_kernel(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                                 struct dev_stream *stream, launch_kind kind, A... args)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)stream;
    if (shared_bytes > 48 * 1024)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared_bytes);
    attribute.id = kind == LAUNCH_EARLY ? cudaLaunchAttributeProgrammaticStreamSerialization
                                        : cudaLaunchAttributeCooperative;
    if (kind == LAUNCH_EARLY)
        attribute.val.programmaticStreamSerializationAllowed = 1;
    else
        attribute.val.cooperative = 1;
    config.attrs = &attribute;
    config.numAttrs = kind != LAUNCH_PLAIN;
    cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}
#else
#include "kernels/simt/dialect_host.h"
#define KERNEL_SPACE milepost_simt
#endif

#include "kernels/cuda/number.h"
#include "kernels/cuda/ptx.h"

#endif
