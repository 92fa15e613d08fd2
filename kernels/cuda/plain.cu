/* What a product by the device's library reads (library.c): rows of activations, normed, and rows
 * of weights, both in the order of their columns, as float32 or bfloat16, the last columns zeros.
 */
#include "kernels/cuda/format.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/normed.h"
#include "kernels/cuda/tile.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS };

__global__ void __launch_bounds__(THREADS) plain_floats(const __grid_constant__ product_args a)
{
    const float *x = a.x + (size_t)blockIdx.x * a.x_stride;
    float factor = norm_factor<WARPS>(a, x);
    uint4 *to = (uint4 *)a.split + (size_t)blockIdx.x * a.w.units;
    for (unsigned i = threadIdx.x; i < a.w.units; i += THREADS) {
        float4 v = normed_four(a, x, factor, i * 4);
        st128(to + i, {__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z),
                       __float_as_uint(v.w)});
    }
}

__global__ void __launch_bounds__(THREADS) plain_halves(const __grid_constant__ product_args a)
{
    unsigned eights = (a.w.cols + 31) / 32 * 4;
    const float *x = a.x + (size_t)blockIdx.x * a.x_stride;
    float factor = norm_factor<WARPS>(a, x);
    uint4 *to = (uint4 *)a.split + (size_t)blockIdx.x * eights;
    for (unsigned i = threadIdx.x; i < eights; i += THREADS) {
        float4 u = normed_four(a, x, factor, i * 8), v = normed_four(a, x, factor, i * 8 + 4);
        st128(to + i,
              {pack_bf16(u.x, u.y), pack_bf16(u.z, u.w), pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)});
    }
}

__global__ void __launch_bounds__(THREADS) unpack_f16(const __grid_constant__ unpack_args a)
{
    typedef format_of<PANEL_F16> F;
    unsigned eights = (a.w.cols + 31) / 32 * 4;
    uint4 *to = (uint4 *)a.to + (size_t)blockIdx.x * eights;
    for (unsigned i = threadIdx.x; i < eights; i += THREADS) {
        F::unit w = F::load(a.w, a.first + blockIdx.x, i);
        float4 u = F::four(w, 0), v = F::four(w, 1);
        st128(to + i,
              {pack_bf16(u.x, u.y), pack_bf16(u.z, u.w), pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)});
    }
}

/* A lane's eight columns of a block: 4 q to 4 q + 3, and 16 further. */
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) unpack_tiles(const __grid_constant__ unpack_args a)
{
    typedef tile_of<FORMAT> F;
    unsigned row = a.first + blockIdx.x, blocks = blocks_in(a.w);
    unsigned groups = (blocks + F::BLOCKS - 1) / F::BLOCKS;
    unsigned *to = (unsigned *)a.to + (size_t)blockIdx.x * blocks * 16;
    float step = row_step<F>(a.w, row);
    for (unsigned i = threadIdx.x; i < groups * 4; i += THREADS) {
        unsigned group = i / 4, q = i % 4, word[4];
        tile_piece p = F::load(a.w, row, group, q);
        for (unsigned b = 0; b < group_size<F::BLOCKS>(a.w, group); b++) {
            unit_scale s = F::scale(p, group, (int)b);
            F::pairs(p, (int)b, word);
            for (unsigned k = 0; k < 4; k++) {
                float scale = s.step[k / 2 % F::HALVES];
                unsigned at = (group * F::BLOCKS + b) * 16 + k / 2 * 8 + q * 2 + k % 2;
                to[at] = pack_bf16((scale * low_bf16(word[k]) + s.offset) * step,
                                   (scale * high_bf16(word[k]) + s.offset) * step);
            }
        }
    }
}

template <int FORMAT> static void launch(const unpack_args &a, dev_stream *s)
{
    KERNEL_LAUNCH(unpack_tiles<FORMAT>, dim3(a.n_rows), dim3(THREADS), 0, s, a);
}

static void launch_f16(const unpack_args &a, dev_stream *s)
{
    KERNEL_LAUNCH(unpack_f16, dim3(a.n_rows), dim3(THREADS), 0, s, a);
}

void launch_plain(const product_args *a, dev_stream *s)
{
    if (a->w.format == PANEL_F32)
        KERNEL_LAUNCH(plain_floats, dim3(a->n_tok), dim3(THREADS), 0, s, *a);
    else
        KERNEL_LAUNCH(plain_halves, dim3(a->n_tok), dim3(THREADS), 0, s, *a);
}

void launch_unpack(const unpack_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_PANEL_FORMATS])(const unpack_args &,
                                                    dev_stream *) = {NULL,
                                                                     launch_f16,
                                                                     launch<PANEL_BF16>,
                                                                     launch<PANEL_Q8_0>,
                                                                     launch<PANEL_Q4_0>,
                                                                     launch<PANEL_Q4_1>,
                                                                     launch<PANEL_Q5_0>,
                                                                     launch<PANEL_Q5_1>,
                                                                     launch<PANEL_Q4_K>,
                                                                     launch<PANEL_Q5_K>,
                                                                     launch<PANEL_Q6_K>,
                                                                     launch<PANEL_FP8>};
    BY_FORMAT[a->w.format](*a, s);
}

} // namespace KERNEL_SPACE
