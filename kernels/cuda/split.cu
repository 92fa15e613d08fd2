/* Activations for the products on tensor cores: rows, normed, each value as the sum of two
 * bfloat16, which keeps 16 bits of it. They are computed once here and read by every block of a
 * product's rows.
 *
 * A row is a record of 128 bytes for each 32 columns: for each lane q of a quad the high parts of
 * columns 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3, then all low parts alike; columns past the
 * end are zeros. And a float for each 32 columns, their sum, for types of weights with an offset.
 */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/normed.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS, RECORD = 8 /* pieces of 16 bytes */ };

struct split_four {
    unsigned high[2], low[2];
    float sum;
};

__device__ __forceinline__ split_four split_of(const product_args &a, const float *x, float factor,
                                               unsigned column)
{
    float4 v = normed_four(a, x, factor, column);
    const float y[4] = {v.x, v.y, v.z, v.w};
    split_four s = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        s.high[i] = pack_bf16(y[2 * i], y[2 * i + 1]);
        s.low[i] = pack_bf16(y[2 * i] - low_bf16(s.high[i]), y[2 * i + 1] - high_bf16(s.high[i]));
        s.sum += low_bf16(s.high[i]) + low_bf16(s.low[i]);
        s.sum += high_bf16(s.high[i]) + high_bf16(s.low[i]);
    }
    return s;
}

__global__ void __launch_bounds__(THREADS) split(const __grid_constant__ product_args a)
{
    unsigned t = blockIdx.x, blocks = (a.w.cols + 31) / 32;
    grid_release(); /* the product's weights come meanwhile */
    const float *x = a.x + (size_t)(a.pick ? a.pick[t] : t) * a.x_stride;
    uint4 *row = (uint4 *)a.split + (size_t)t * blocks * RECORD;
    float factor = norm_factor<WARPS>(a, x);
    for (unsigned first = 0; first < blocks * 4; first += THREADS) {
        unsigned i = first + threadIdx.x, block = i / 4, q = i % 4;
        split_four s[2] = {};
        if (block < blocks) {
            s[0] = split_of(a, x, factor, block * 32 + q * 4);
            s[1] = split_of(a, x, factor, block * 32 + 16 + q * 4);
            uint4 *to = row + block * RECORD + q;
            st128(to, {s[0].high[0], s[0].high[1], s[1].high[0], s[1].high[1]});
            st128(to + 4, {s[0].low[0], s[0].low[1], s[1].low[0], s[1].low[1]});
        }
        float sum = warp_sum(s[0].sum + s[1].sum, 4);
        if (q == 0 && block < blocks)
            a.sums[(size_t)t * blocks + block] = sum;
    }
}

void launch_split(const product_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(split, dim3(a->n_tok), dim3(THREADS), 0, s, *a);
}

} // namespace KERNEL_SPACE
