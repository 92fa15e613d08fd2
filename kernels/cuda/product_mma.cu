/* Matrix times rows of activations on tensor cores, for one token as for many: a token's result is
 * the same bits in any batch (tiles.h). Up to 8, 16 or 64 tokens meet the weights in one pass.
 * The kernel after this one may start when all blocks have: it has its first weights on their way
 * when this one ends. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tiles.h"

namespace KERNEL_SPACE
{

template <int FORMAT, int N>
__global__ void __launch_bounds__(TILE_THREADS) product_mma(const __grid_constant__ product_args a)
{
    SMEM(tile_columns<N>, columns, [1]);
    grid_release();
    choose_columns(columns[0], blockIdx.y * 8 * N, a.n_tok);
    multiply_tiles<tile_of<FORMAT>, N>(a, columns[0], split_before{a, columns[0].source});
}

template <int FORMAT, int N> static void launch_width(const product_args &a, dev_stream *s)
{
    KERNEL_LAUNCH_EARLY((product_mma<FORMAT, N>),
                        dim3(tile_blocks(a, a.w), (a.n_tok + 8 * N - 1) / (8 * N)),
                        dim3(TILE_THREADS), 0, s, a);
}

template <int FORMAT> static void launch(const product_args &a, dev_stream *s)
{
    if (a.n_tok <= 8)
        launch_width<FORMAT, 1>(a, s);
    else if (a.n_tok <= 16)
        launch_width<FORMAT, 2>(a, s);
    else
        launch_width<FORMAT, 8>(a, s);
}

void launch_product_mma(const product_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_PANEL_FORMATS])(const product_args &,
                                                    dev_stream *) = {NULL,
                                                                     NULL,
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
