/* The products of few rows (device_is_fused): every block norms and splits the rows of
 * activations itself, in shared memory, so that no kernel before has to: a launch less for each.
 * The same tiles, and the same bits, as product_mma.cu and experts_mma.cu. */
#include "kernels/cuda/fused.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tiles.h"

namespace KERNEL_SPACE
{

template <int FORMAT>
__global__ void __launch_bounds__(TILE_THREADS)
    product_fused(const __grid_constant__ product_args a)
{
    SMEM(tile_columns<1>, columns, [1]);
    SMEM_DYN(uint4, record);
    grid_release();
    choose_columns(columns[0], 0, a.n_tok);
    const split_here x = {a, columns[0].source, a.n_tok, record};
    multiply_tiles<tile_of<FORMAT>, 1>(a, columns[0], x);
}

template <int FORMAT>
__global__ void __launch_bounds__(TILE_THREADS)
    experts_fused(const __grid_constant__ experts_args e)
{
    SMEM(tile_columns<1>, columns, [1]);
    SMEM_DYN(uint4, record);
    const expert_tile tile = e.group.tile[blockIdx.y];
    if (tile.n == 0 || e.panel[tile.expert].format != FORMAT)
        return;
    choose_columns(columns[0], e, tile);
    product_args a = e.p;
    a.w = e.panel[tile.expert];
    const split_here x = {a, columns[0].source, tile.n, record};
    multiply_tiles<tile_of<FORMAT>, 1>(a, columns[0], x);
}

template <int FORMAT> struct launches {
    static void product(const product_args &a, dev_stream *s)
    {
        KERNEL_LAUNCH_EARLY(product_fused<FORMAT>, dim3(tile_blocks(a, a.w)), dim3(TILE_THREADS),
                            fused_bytes(&a.w, a.n_tok), s, a);
    }

    static void experts(const experts_args &e, dev_stream *s)
    {
        const dim3 grid(tile_blocks(e.p, e.panel[0]), e.group.n_tiles);
        KERNEL_LAUNCH(experts_fused<FORMAT>, grid, dim3(TILE_THREADS),
                      fused_bytes(&e.panel[0], e.most), s, e);
    }
};

static const struct {
    void (*product)(const product_args &, dev_stream *);
    void (*experts)(const experts_args &, dev_stream *);
} BY_FORMAT[N_PANEL_FORMATS] = {
#define BOTH(format)                                                                               \
    {                                                                                              \
        launches<format>::product, launches<format>::experts                                       \
    }
    {},
    {},
    BOTH(PANEL_BF16),
    BOTH(PANEL_Q8_0),
    BOTH(PANEL_Q4_0),
    BOTH(PANEL_Q4_1),
    BOTH(PANEL_Q5_0),
    BOTH(PANEL_Q5_1),
    BOTH(PANEL_Q4_K),
    BOTH(PANEL_Q5_K),
    BOTH(PANEL_Q6_K),
    BOTH(PANEL_FP8),
};

void launch_product_fused(const product_args *a, dev_stream *s)
{
    BY_FORMAT[a->w.format].product(*a, s);
}

void launch_experts_fused(const experts_args *e, dev_stream *s)
{
    BY_FORMAT[e->format].experts(*e, s);
}

} // namespace KERNEL_SPACE
