/* The backend `simt`: the code of kernels/cuda on the emulator. For tests and for tracing a wrong
 * result; hundreds of times slower than `cpu`. */
#include "kernels/cuda/device.h"

static void simt_memory(size_t *free_bytes, size_t *total_bytes)
{
    DEV_SIMT.memory(free_bytes, total_bytes);
}

static int simt_backend_open(struct kern_device **out, const struct kern_options *o, struct err *e)
{
    return device_open(out, o, &DEV_SIMT, &KERNELS_SIMT, e);
}

const struct kern_ops KERN_SIMT = {
    .name = "simt",
    .summary = "the CUDA kernels on an emulator: very slow, for tests",
    .memory = simt_memory,
    .open = simt_backend_open,
    .join = device_join,
    DEVICE_OPS,
};
