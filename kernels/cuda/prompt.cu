/* Attention of many tokens of one sequence over the paged cache (FlashAttention-2, arXiv
 * 2307.08691), by the warps of a block each on its own (prompt.h): of every cache.
 *
 * Units of 64 keys and values come through shared memory, one on its way while the last is used. At
 * the end of a chunk a thread puts its share of the output to what it keeps of the chunks before.
 * Bytes: keys and values once for each block of rows, so 4 * PROMPT_ROWS * d_head products for each
 * 4 * d_head bytes of a position. */
#include "kernels/cuda/prompt.h"

namespace KERNEL_SPACE
{

template <int D> struct prompt_memory {
    enum { STRIDE = D + 8 /* banks */, STAGES = D <= 128 ? 2 : 1 };
    uint16_t key[STAGES][UNIT * STRIDE], value[STAGES][UNIT * STRIDE];
    uint4 query[PROMPT_WARPS][D / 32][2][32];
    float kept[D / 2][PROMPT_THREADS];
};

template <int FORMAT, int D>
__device__ __forceinline__ void fetch_unit(const attend_args &a, unsigned seq, unsigned unit,
                                           unsigned last, prompt_memory<D> &m)
{
    enum { PIECES = D / 8, STRIDE = prompt_memory<D>::STRIDE };
    unsigned stage = unit % prompt_memory<D>::STAGES;
    for (unsigned i = threadIdx.x; i < UNIT * PIECES; i += PROMPT_THREADS) {
        unsigned at = i / PIECES, dim = i % PIECES * 8, p = unit * UNIT + at;
        bool is_real = p <= last && dim < a.d_head;
        size_t slot = is_real ? kv_slot(a.step, seq, p, blockIdx.x, a.n_head_kv) : 0;
        kv_fetch<FORMAT>(&m.key[stage][at * STRIDE + dim], a.kv.k, slot, a.d_head, dim,
                         kv_step<FORMAT>(a.kv.k_step, slot, is_real), is_real);
        kv_fetch<FORMAT>(&m.value[stage][at * STRIDE + dim], a.kv.v, slot, a.d_head, dim,
                         kv_step<FORMAT>(a.kv.v_step, slot, is_real), is_real);
    }
    cp_async_commit();
}

/* The lane's eight dimensions of block j of the key at `row`. */
template <int FORMAT> __device__ __forceinline__ uint4 key_of(const uint16_t *row, unsigned j)
{
    if (kv_type<FORMAT>::BYTES == 1)
        return ld128(row + four_of<FORMAT>(j, 0));
    uint2 left = ld64(row + four_of<FORMAT>(j, 0)), right = ld64(row + four_of<FORMAT>(j, 1));
    return {left.x, left.y, right.x, right.y};
}

template <int FORMAT, int D>
__device__ __forceinline__ void score_unit(const prompt_memory<D> &m, unsigned stage,
                                           float (&s)[UNIT_TILES][4])
{
    typedef typename attend_type<FORMAT>::T T;
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < UNIT_TILES * 4; n++)
        s[n / 4][n % 4] = 0;
#pragma unroll
    for (unsigned j = 0; j < D / 32; j++) {
        uint4 x = ld128(&m.query[threadIdx.x / 32][j][0][lane]);
        uint4 y = ld128(&m.query[threadIdx.x / 32][j][1][lane]);
        const unsigned first[4] = {x.x, x.y, x.z, x.w}, second[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (unsigned n = 0; n < UNIT_TILES; n++) {
            uint4 k = key_of<FORMAT>(m.key[stage] + (n * 8 + lane / 4) * (D + 8), j);
            const unsigned left[2] = {k.x, k.y}, right[2] = {k.z, k.w};
            multiply(s[n], first, left, T());
            multiply(s[n], second, right, T());
        }
    }
}

template <int FORMAT, int D>
__device__ __forceinline__ void meet_unit(const prompt_memory<D> &m, const sight &sees,
                                          unsigned unit, prompt_state<D> &state)
{
    typedef typename attend_type<FORMAT>::T T;
    float s[UNIT_TILES][4];
    unsigned p[UNIT_TILES / 2][4], stage = unit % prompt_memory<D>::STAGES;
    score_unit<FORMAT, D>(m, stage, s);
    weigh_unit<T, D>(s, sees, unit, p, state);
#pragma unroll
    for (int k = 0; k < UNIT_TILES / 2; k++)
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            add_values<T>(*(float(*)[2][4])(state.o + 8 * i), p[k],
                          m.value[stage] + k * 16 * (D + 8) + i * 16, D + 8);
}

template <int FORMAT, int D>
__device__ __forceinline__ void put_query(const attend_args &a, const prompt_rows &rows,
                                          prompt_memory<D> &m)
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned j = 0; j < D / 32; j++) {
        unsigned q[2][4];
        load_query<FORMAT>(rows.query, j, a.d_head, a.scale, q);
        for (int h = 0; h < 2; h++)
            st128(&m.query[threadIdx.x / 32][j][h][lane], {q[h][0], q[h][1], q[h][2], q[h][3]});
    }
}

template <int FORMAT, int D>
__global__ void __launch_bounds__(PROMPT_THREADS, 1) prompt(const __grid_constant__ attend_args a)
{
    enum { STAGES = prompt_memory<D>::STAGES };
    SMEM_DYN(prompt_memory<D>, m);
    const prompt_tile tile = a.tile[blockIdx.y];
    unsigned seq = a.step.seq[tile.first], first_row = threadIdx.x / 32 * TILE_QUERIES;
    unsigned last = a.step.position[tile.first + tile.n - 1];
    prompt_rows rows = rows_of(a, tile);
    unit_range all = units_of(a, tile, 0, PROMPT_ROWS);
    unit_range mine = units_of(a, tile, first_row, first_row + TILE_QUERIES);
    prompt_state<D> state = no_state<D>();
    put_query<FORMAT, D>(a, rows, m[0]);
    if (STAGES > 1)
        fetch_unit<FORMAT, D>(a, seq, all.first, last, m[0]);
    for (unsigned u = all.first; u <= all.last; u++) {
        if (STAGES == 1)
            fetch_unit<FORMAT, D>(a, seq, u, last, m[0]);
        else if (u < all.last)
            fetch_unit<FORMAT, D>(a, seq, u + 1, last, m[0]);
        if (STAGES > 1 && u < all.last)
            cp_async_wait<1>();
        else
            cp_async_wait<0>();
        __syncthreads();
        if (u >= mine.first && u <= mine.last)
            meet_unit<FORMAT, D>(m[0], rows.sees, u, state);
        if (ends_chunk(u, all))
            end_chunk<D>(m[0].kept, state);
        __syncthreads();
    }
    put_rows<D>(a, rows, m[0].kept, state);
}

template <int FORMAT, int D> static void launch(const attend_args &a, dev_stream *s)
{
    KERNEL_LAUNCH((prompt<FORMAT, D>), dim3(a.n_head_kv, a.n_tiles), dim3(PROMPT_THREADS),
                  sizeof(prompt_memory<D>), s, a);
}

template <int FORMAT> static void launch_format(const attend_args &a, dev_stream *s)
{
    if (a.d_head <= 64)
        launch<FORMAT, 64>(a, s);
    else if (a.d_head <= 128)
        launch<FORMAT, 128>(a, s);
    else
        launch<FORMAT, 256>(a, s);
}

void launch_prompt(const attend_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_KV_FORMATS])(const attend_args &, dev_stream *) = {
        launch_format<KV_F16>, launch_format<KV_BF16>, launch_format<KV_FP8>,
        launch_format<KV_INT8>};
    BY_FORMAT[a->kv_format](*a, s);
}

} // namespace KERNEL_SPACE
