/* Kernels that only show what the card can do: a stream that is read once, and nothing at all. */
#include "kernels/cuda/dialect.h"

namespace KERNEL_SPACE
{

enum { THREADS = 512, BLOCKS = 132 * 4, AHEAD = 8 };

__global__ void read_all(const uint4 *p, size_t n, float *out)
{
    size_t step = (size_t)gridDim.x * THREADS, i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    unsigned sum = 0;
    for (; i + (AHEAD - 1) * step < n; i += AHEAD * step) {
        uint4 v[AHEAD];
        for (int k = 0; k < AHEAD; k++)
            v[k] = ld128_stream(p + i + (size_t)k * step);
        for (int k = 0; k < AHEAD; k++)
            sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    for (; i < n; i += step)
        sum += ld128_stream(p + i).x;
    if (sum == 0x5EED) /* hardly ever: keeps the loads */
        out[blockIdx.x] = (float)sum;
}

__global__ void nothing(int) {}

} // namespace KERNEL_SPACE

using namespace KERNEL_SPACE;

extern "C" void ceil_read_cuda(const void *p, size_t n, float *out, dev_stream *s)
{
    KERNEL_LAUNCH(read_all, dim3(BLOCKS), dim3(THREADS), 0, s, (const uint4 *)p, n, out);
}

extern "C" void ceil_nothing_cuda(dev_stream *s)
{
    KERNEL_LAUNCH(nothing, dim3(1), dim3(32), 0, s, 0);
}
