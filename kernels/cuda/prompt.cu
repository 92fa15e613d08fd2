/* Attention of many tokens of one sequence over the paged cache (FlashAttention-2, arXiv
 * 2307.08691), in the order of attend.h.
 *
 * A block works on up to PROMPT_ROWS rows, neighbouring tokens times the query heads that share a
 * KV head, 16 rows a warp. Units of 64 keys and values come through shared memory, one on its way
 * while the last is used. At the end of a chunk a thread puts its share of the output to what it
 * keeps of the chunks before. Bytes: keys and values once for each block of rows, so 4 *
 * PROMPT_ROWS * d_head products for each 4 * d_head bytes of a position. */
#include "kernels/cuda/attend.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = PROMPT_ROWS / TILE_QUERIES, THREADS = 32 * WARPS };

template <int D> struct prompt_memory {
    enum { STRIDE = D + 8 /* banks */, STAGES = D <= 128 ? 2 : 1 };
    uint16_t key[STAGES][UNIT * STRIDE], value[STAGES][UNIT * STRIDE];
    uint4 query[WARPS][D / 32][2][32];
    float kept[D / 2][THREADS]; /* of the chunks before, each thread its own */
};

struct prompt_rows { /* of a lane; absent ones see nothing */
    sight sees;
    const float *query[2];
    float *y[2];
};

struct unit_range { /* units that some row of the block or of the warp sees */
    unsigned first, last;
};

__device__ __forceinline__ prompt_rows rows_of(const attend_args &a, const prompt_tile &tile)
{
    prompt_rows p = {{{1, 1}, {0, 0}}, {NULL, NULL}, {NULL, NULL}};
    unsigned group = a.n_head / a.n_head_kv, width = (a.n_head + 2 * a.n_head_kv) * a.d_head;
    for (unsigned i = 0; i < 2; i++) {
        unsigned row = threadIdx.x / 32 * TILE_QUERIES + threadIdx.x % 32 / 4 + 8 * i;
        if (row >= tile.n * group)
            continue;
        size_t t = tile.first + row / group;
        unsigned head = blockIdx.x * group + row % group;
        see(p.sees, (int)i, a.step.position[t], a.window);
        p.query[i] = a.qkv + t * width + head * a.d_head;
        p.y[i] = a.y + (t * a.n_head + head) * a.d_head;
    }
    return p;
}

/* Positions rise with the rows: the first row sees furthest back, the last furthest on. */
__device__ __forceinline__ unit_range units_of(const attend_args &a, const prompt_tile &tile,
                                               unsigned first_row, unsigned end_row)
{
    unsigned group = a.n_head / a.n_head_kv;
    sight v;
    if (first_row >= tile.n * group)
        return {1, 0};
    end_row = min(end_row, tile.n * group);
    see(v, 0, a.step.position[tile.first + first_row / group], a.window);
    see(v, 1, a.step.position[tile.first + (end_row - 1) / group], a.window);
    return {v.first[0] / UNIT, v.last[1] / UNIT};
}

template <int FORMAT, int D>
__device__ __forceinline__ void fetch_unit(const attend_args &a, unsigned seq, unsigned unit,
                                           unsigned last, prompt_memory<D> &m)
{
    enum { PIECES = D / 8, STRIDE = prompt_memory<D>::STRIDE };
    unsigned stage = unit % prompt_memory<D>::STAGES;
    for (unsigned i = threadIdx.x; i < UNIT * PIECES; i += THREADS) {
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

template <int D> struct prompt_state {
    softmax_state chunk;
    float o[D / 16][2][4];
    joined all[2];
    bool has_kept;
};

template <class T, int D>
__device__ __forceinline__ void score_unit(const prompt_memory<D> &m, unsigned stage,
                                           float (&s)[UNIT_TILES][4])
{
    unsigned lane = threadIdx.x % 32;
    const uint16_t *key = m.key[stage] + lane / 4 * (D + 8) + lane % 4 * 8;
#pragma unroll
    for (int n = 0; n < UNIT_TILES * 4; n++)
        s[n / 4][n % 4] = 0;
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        uint4 x = ld128(&m.query[threadIdx.x / 32][j][0][lane]);
        uint4 y = ld128(&m.query[threadIdx.x / 32][j][1][lane]);
        const unsigned first[4] = {x.x, x.y, x.z, x.w}, second[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int n = 0; n < UNIT_TILES; n++) {
            uint4 k = ld128(key + n * 8 * (D + 8) + j * 32);
            const unsigned left[2] = {k.x, k.y}, right[2] = {k.z, k.w};
            multiply(s[n], first, left, T());
            multiply(s[n], second, right, T());
        }
    }
}

template <class T, int D>
__device__ __forceinline__ void meet_unit(const prompt_memory<D> &m, const sight &sees,
                                          unsigned unit, prompt_state<D> &state)
{
    float s[UNIT_TILES][4], mine[2], sum[2], factor[2];
    unsigned p[UNIT_TILES / 2][4], stage = unit % prompt_memory<D>::STAGES;
    softmax_state &c = state.chunk;
    score_unit<T, D>(m, stage, s);
    hide(s, sees, unit * UNIT);
    maximum_of(s, mine);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        mine[r] = fmaxf(c.most[r], mine[r]);
        factor[r] = weight_of(c.most[r], mine[r]);
        c.most[r] = mine[r];
    }
    weigh<T>(s, mine, p, sum);
#pragma unroll
    for (int r = 0; r < 2; r++)
        c.sum[r] = multiply_add(c.sum[r], factor[r], sum[r]);
    rescale(state.o, factor);
#pragma unroll
    for (int k = 0; k < UNIT_TILES / 2; k++)
#pragma unroll
        for (int i = 0; i < D / 16; i++)
            add_values<T>(state.o[i], p[k], m.value[stage] + k * 16 * (D + 8) + i * 16, D + 8);
}

/* The chunk's state to those before it; the next starts from nothing. */
template <int D>
__device__ __forceinline__ void end_chunk(prompt_memory<D> &m, prompt_state<D> &state)
{
    float2 factor[2];
    for (int r = 0; r < 2; r++)
        factor[r] = join(state.all[r], state.chunk.most[r], state.chunk.sum[r]);
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &o = state.o[n / 2][n % 2][i], &kept = m.kept[n * 4 + i][threadIdx.x];
            float old = state.has_kept ? kept : 0;
            const float2 &f = factor[i / 2];
            kept = state.chunk.most[i / 2] == NOTHING ? old : multiply_add(o, f.y, old * f.x);
            o = 0;
        }
    state.chunk = {{NOTHING, NOTHING}, {0, 0}};
    state.has_kept = true;
}

template <int D>
__device__ __forceinline__ void put_rows(const attend_args &a, const prompt_rows &rows,
                                         const prompt_memory<D> &m, const prompt_state<D> &state)
{
    for (int r = 0; r < 2; r++) {
        if (!rows.y[r])
            continue;
#pragma unroll
        for (unsigned n = 0; n < D / 8; n++) {
            unsigned dim = n * 8 + threadIdx.x % 4 * 2, at = n * 4 + 2 * (unsigned)r;
            if (dim < a.d_head)
                *(float2 *)(rows.y[r] + dim) = {m.kept[at][threadIdx.x] / state.all[r].sum,
                                                m.kept[at + 1][threadIdx.x] / state.all[r].sum};
        }
    }
}

template <class T, int D>
__device__ __forceinline__ void put_query(const attend_args &a, const prompt_rows &rows,
                                          prompt_memory<D> &m)
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned j = 0; j < D / 32; j++) {
        unsigned q[2][4];
        load_query<T>(rows.query, j * 32 + lane % 4 * 8, a.d_head, a.scale, q);
        for (int h = 0; h < 2; h++)
            st128(&m.query[threadIdx.x / 32][j][h][lane], {q[h][0], q[h][1], q[h][2], q[h][3]});
    }
}

template <int FORMAT, int D>
__global__ void __launch_bounds__(THREADS, 1) prompt(const __grid_constant__ attend_args a)
{
    typedef typename attend_type<FORMAT>::T T;
    enum { STAGES = prompt_memory<D>::STAGES };
    SMEM_DYN(prompt_memory<D>, m);
    const prompt_tile tile = a.tile[blockIdx.y];
    unsigned seq = a.step.seq[tile.first], first_row = threadIdx.x / 32 * TILE_QUERIES;
    unsigned last = a.step.position[tile.first + tile.n - 1];
    prompt_rows rows = rows_of(a, tile);
    unit_range all = units_of(a, tile, 0, PROMPT_ROWS);
    unit_range mine = units_of(a, tile, first_row, first_row + TILE_QUERIES);
    prompt_state<D> state = {};
    state.chunk = {{NOTHING, NOTHING}, {0, 0}};
    state.all[0] = state.all[1] = {NOTHING, 0};
    put_query<T, D>(a, rows, m[0]);
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
            meet_unit<T, D>(m[0], rows.sees, u, state);
        if (u % CHUNK_UNITS == CHUNK_UNITS - 1 || u == all.last)
            end_chunk<D>(m[0], state);
        __syncthreads();
    }
    put_rows<D>(a, rows, m[0], state);
}

template <int FORMAT, int D> static void launch(const attend_args &a, dev_stream *s)
{
    KERNEL_LAUNCH((prompt<FORMAT, D>), dim3(a.n_head_kv, a.n_tiles), dim3(THREADS),
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
