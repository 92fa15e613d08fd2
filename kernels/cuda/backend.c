/* The backend `cuda`. */
#include "kernels/cuda/device.h"

static bool cuda_is_here(void)
{
    return DEV_CUDA.is_here();
}

static void cuda_memory(size_t *free_bytes, size_t *total_bytes)
{
    DEV_CUDA.memory(free_bytes, total_bytes);
}

static int cuda_backend_open(struct kern_device **out, const struct kern_options *o, struct err *e)
{
    return device_open(out, o, &DEV_CUDA, &KERNELS_CUDA, e);
}

const struct kern_ops KERN_CUDA = {
    .name = "cuda",
    .summary = "an NVIDIA GPU of compute capability 9.0 or later",
    .is_here = cuda_is_here,
    .memory = cuda_memory,
    .open = cuda_backend_open,
    .join = device_join_nccl,
    DEVICE_OPS,
};
