/* Activations for the products on tensor cores (split.h), where a step has too many rows for each
 * block to split them itself: computed once here, and read by every block of a product's rows.
 *
 * A row is a record of 128 bytes for each 32 columns: for each lane q of a quad the high parts of
 * its eight, then all low parts alike; columns past the end are zeros. And a float for each 32
 * columns, their sum. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/split.h"

namespace KERNEL_SPACE
{

enum { THREADS = 32 * SPLIT_WARPS };

__global__ void __launch_bounds__(THREADS) split(const __grid_constant__ product_args a)
{
    unsigned t = blockIdx.x, blocks = (a.w.cols + 31) / 32;
    grid_release(); /* the product's weights come meanwhile */
    const float *x = a.x + (size_t)(a.pick ? a.pick[t] : t) * a.x_stride;
    uint4 *row = (uint4 *)a.split + (size_t)t * blocks * SPLIT_RECORD;
    float factor = norm_factor<SPLIT_WARPS>(a, x);
    for (unsigned first = 0; first < blocks * 4; first += THREADS) {
        unsigned i = first + threadIdx.x, block = i / 4, q = i % 4;
        split_eight s = {};
        if (block < blocks) {
            unsigned column = block * 32 + q * 4;
            s = split_of(normed_four(a, x, factor, column), normed_four(a, x, factor, column + 16));
            uint4 *to = row + block * SPLIT_RECORD + q;
            st128(to, s.high);
            st128(to + 4, s.low);
        }
        float sum = warp_sum(s.sum, 4);
        if (q == 0 && block < blocks)
            a.sums[(size_t)t * blocks + block] = sum;
    }
}

void launch_split(const product_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(split, dim3(a->n_tok), dim3(THREADS), 0, s, *a);
}

} // namespace KERNEL_SPACE
