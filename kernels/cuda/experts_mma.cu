/* Products of a mixture of experts on tensor cores: the pairs of a step are put in the order of
 * their experts, and those of one expert meet its weights in tiles (tiles.h). A step's bytes: the
 * weights of every chosen expert once for each tile of its pairs; experts nobody chose are not
 * touched. The host does not know what was chosen: it launches the most tiles there can be, and
 * blocks without one end at once. */
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tiles.h"

namespace KERNEL_SPACE
{

/* Thread x looks for expert x: pairs of an expert stay in their order. */
__global__ void __launch_bounds__(MAX_EXPERTS) group(const __grid_constant__ group_args g)
{
    SMEM(unsigned, counts, [MAX_EXPERTS]);
    unsigned x = threadIdx.x, n = 0, first = 0, tile = 0, all = 0;
    for (unsigned i = 0; i < g.n_pairs; i++)
        n += g.expert[i] == x;
    counts[x] = n;
    __syncthreads();
    for (unsigned e = 0; e < MAX_EXPERTS; e++) {
        unsigned tiles = (counts[e] + g.width - 1) / g.width;
        first += e < x ? counts[e] : 0;
        tile += e < x ? tiles : 0;
        all += tiles;
    }
    for (unsigned i = 0, at = first; i < g.n_pairs && at < first + n; i++)
        if (g.expert[i] == x)
            g.list[at++] = i;
    for (unsigned i = 0; i < n; i += g.width, tile++)
        g.tile[tile] = {x, first + i, min(n - i, (unsigned)g.width)};
    for (unsigned i = all + x; i < g.n_tiles; i += MAX_EXPERTS)
        g.tile[i] = {0, 0, 0};
}

template <int FORMAT, int N>
__global__ void __launch_bounds__(TILE_THREADS) experts_mma(const __grid_constant__ experts_args e)
{
    SMEM(tile_columns<N>, columns, [1]);
    const expert_tile tile = e.group.tile[blockIdx.y];
    if (tile.n == 0 || e.panel[tile.expert].format != FORMAT)
        return;
    choose_columns(columns[0], e, tile);
    product_args a = e.p;
    a.w = e.panel[tile.expert];
    multiply_tiles<tile_of<FORMAT>, N>(a, columns[0], split_before{a, columns[0].source});
}

void launch_group(const group_args *g, dev_stream *s)
{
    KERNEL_LAUNCH(group, dim3(1), dim3(MAX_EXPERTS), 0, s, *g);
}

template <int FORMAT> static void launch(const experts_args &e, dev_stream *s)
{
    const dim3 grid(tile_blocks(e.p, e.panel[0]), e.group.n_tiles);
    if (e.group.width == EXPERT_TILE_SMALL)
        KERNEL_LAUNCH((experts_mma<FORMAT, EXPERT_TILE_SMALL / 8>), grid, dim3(TILE_THREADS), 0, s,
                      e);
    else
        KERNEL_LAUNCH((experts_mma<FORMAT, EXPERT_TILE_LARGE / 8>), grid, dim3(TILE_THREADS), 0, s,
                      e);
}

void launch_experts_mma(const experts_args *e, dev_stream *s)
{
    static void (*const BY_FORMAT[N_PANEL_FORMATS])(const experts_args &,
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
    BY_FORMAT[e->format](*e, s);
}

} // namespace KERNEL_SPACE
