/* Attention of many tokens of one sequence by a warpgroup, for sm_90a and two-byte caches
 * (prompt.h; FlashAttention-3, arXiv 2407.08608, without its second consumer).
 *
 * A producer thread copies units of 64 keys and values into two stages of shared memory: the cache
 * is a matrix of d_head columns whose rows are [block][head][position in block], so a page and 64
 * of its dimensions are one box of a tensor map, columns past d_head come as zeros, and the swizzle
 * is what wgmma wants. 128 threads multiply, 64 rows of queries from shared memory with the keys,
 * their weights from registers with the values, which are read transposed. A stage's mbarriers:
 * `full` counts the bytes of its copies, `empty` the threads that are done with it.
 *
 * Positions past the tile's last token may hold anything: pages past its page are that page again,
 * and values past it are zeroed in shared memory, since a weight of zero times NaN is NaN.
 * Bytes: as prompt.cu. */
#include "kernels/cuda/hopper.h"
#include "kernels/cuda/prompt.h"

namespace KERNEL_SPACE
{

enum { STAGES = 2, WIDE = 64 /* columns of a tile */, DEPTH = 16, PAGES = UNIT / KV_BLOCK };
enum { THREADS = PROMPT_THREADS + 32, CONSUMERS = 1 /* named barrier */ };

template <int D> struct unit_tiles {
    uint16_t key[D / WIDE][UNIT][WIDE], value[D / WIDE][UNIT][WIDE];
};
template <int D> struct wgmma_memory {
    uint16_t query[D / WIDE][PROMPT_ROWS][WIDE];
    unit_tiles<D> stage[STAGES];
    float kept[D / 2][PROMPT_THREADS];
    mbarrier full[STAGES], empty[STAGES];
};

template <int D> __device__ __forceinline__ void begin_barriers(wgmma_memory<D> &m)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&m.full[i], 1);
            mbarrier_init(&m.empty[i], PROMPT_THREADS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}

template <int D>
__device__ __forceinline__ void produce(const attend_args &a, const tensor_map &keys,
                                        const tensor_map &values, unsigned seq, unsigned last,
                                        const unit_range &all, wgmma_memory<D> &m)
{
    for (unsigned u = all.first; u <= all.last; u++) {
        unsigned i = u - all.first, stage = i % STAGES;
        unit_tiles<D> &to = m.stage[stage];
        if (i >= STAGES)
            mbarrier_wait(&m.empty[stage], i / STAGES % 2 ^ 1);
        mbarrier_expect(&m.full[stage], (int)sizeof to);
        for (unsigned p = 0; p < PAGES; p++) {
            unsigned position = min(u * UNIT + p * KV_BLOCK, last & ~(KV_BLOCK - 1u));
            int row = (int)kv_slot(a.step, seq, position, blockIdx.x, a.n_head_kv);
            for (int j = 0; j < D / WIDE; j++) {
                tensor_load(to.key[j][p * KV_BLOCK], &keys, j * WIDE, row, &m.full[stage]);
                tensor_load(to.value[j][p * KV_BLOCK], &values, j * WIDE, row, &m.full[stage]);
            }
        }
    }
}

/* What ordinary stores wrote is there for wgmma, in all consumers. */
__device__ __forceinline__ void show_stores()
{
    fence_proxy_async();
    bar_sync(CONSUMERS, PROMPT_THREADS);
}

/* The warpgroup's rows, scaled, as a tile: a lane has every fourth piece of eight dimensions. */
template <class T, int D>
__device__ __forceinline__ void put_query(const attend_args &a, const prompt_rows &rows,
                                          wgmma_memory<D> &m)
{
    unsigned first = threadIdx.x / 32 * TILE_QUERIES + threadIdx.x % 32 / 4;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned piece = threadIdx.x % 4; piece < D / 8; piece += 4) {
            unsigned row = first + 8 * i, j = piece / 8, at = (piece % 8 ^ row % 8) * 8;
            uint4 q = {};
            if (rows.query[i] && piece * 8 < a.d_head) {
                const float4 *from = (const float4 *)(rows.query[i] + piece * 8);
                float4 x = from[0], y = from[1];
                q = {pack_pair<T>(x.x * a.scale, x.y * a.scale),
                     pack_pair<T>(x.z * a.scale, x.w * a.scale),
                     pack_pair<T>(y.x * a.scale, y.y * a.scale),
                     pack_pair<T>(y.z * a.scale, y.w * a.scale)};
            }
            st128(&m.query[j][row][at], q);
        }
    }
    show_stores();
}

/* Positions of the unit past its `n` first. */
template <int D> __device__ __forceinline__ void zero_values(unit_tiles<D> &tiles, unsigned n)
{
    for (unsigned i = n * 8 + threadIdx.x; i < UNIT * 8; i += PROMPT_THREADS)
        for (unsigned j = 0; j < D / WIDE; j++)
            st128(&tiles.value[j][i / 8][i % 8 * 8], {});
    show_stores();
}

template <class T, int D>
__device__ __forceinline__ void score_tiles(const wgmma_memory<D> &m, const unit_tiles<D> &tiles,
                                            float (&s)[UNIT_TILES][4])
{
    float(&d)[UNIT_TILES * 4] = *(float(*)[UNIT_TILES * 4]) s;
#pragma unroll
    for (int i = 0; i < UNIT_TILES * 4; i++)
        d[i] = 0;
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < D / WIDE; j++)
#pragma unroll
        for (int k = 0; k < WIDE; k += DEPTH)
            wgmma_tiles(d, tile_descriptor(&m.query[j][0][k]), tile_descriptor(&tiles.key[j][0][k]),
                        T());
    wgmma_commit();
    wgmma_wait<0>(d);
}

template <class T, int D>
__device__ __forceinline__ void add_tiles(const unit_tiles<D> &tiles,
                                          const unsigned (&p)[UNIT_TILES / 2][4], float (&o)[D / 2])
{
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < UNIT / DEPTH; k++)
#pragma unroll
        for (int j = 0; j < D / WIDE; j++)
            wgmma_rows(*(float(*)[WIDE / 2])(o + j * WIDE / 2), p[k],
                       tile_descriptor(tiles.value[j][k * DEPTH]), T());
    wgmma_commit();
    wgmma_wait<0>(o);
}

template <class T, int D>
__device__ __forceinline__ void consume(const attend_args &a, const prompt_tile &tile,
                                        unsigned last, const unit_range &all, wgmma_memory<D> &m)
{
    prompt_rows rows = rows_of(a, tile);
    prompt_state<D> state = no_state<D>();
    put_query<T, D>(a, rows, m);
    for (unsigned u = all.first; u <= all.last; u++) {
        unsigned i = u - all.first, stage = i % STAGES, p[UNIT_TILES / 2][4];
        float s[UNIT_TILES][4];
        mbarrier_wait(&m.full[stage], i / STAGES % 2);
        if (u == all.last)
            zero_values<D>(m.stage[stage], last % UNIT + 1);
        score_tiles<T, D>(m, m.stage[stage], s);
        weigh_unit<T, D>(s, rows.sees, u, p, state);
        add_tiles<T, D>(m.stage[stage], p, state.o);
        mbarrier_arrive(&m.empty[stage]);
        if (ends_chunk(u, all))
            end_chunk<D>(m.kept, state);
    }
    put_rows<D>(a, rows, m.kept, state);
}

template <int FORMAT, int D>
__global__ void __launch_bounds__(THREADS, D <= 128 ? 2 : 1)
    prompt_wgmma(const __grid_constant__ attend_args a, const __grid_constant__ tensor_map keys,
                 const __grid_constant__ tensor_map values)
{
    SMEM_DYN(wgmma_memory<D>, m);
    const prompt_tile tile = {a.tile[blockIdx.y].first, a.tile[blockIdx.y].n};
    unsigned last = a.step.position[tile.first + tile.n - 1];
    unit_range all = units_of(a, tile, 0, PROMPT_ROWS);
    begin_barriers<D>(m[0]);
    if (threadIdx.x < PROMPT_THREADS)
        consume<typename attend_type<FORMAT>::T, D>(a, tile, last, all, m[0]);
    else if (threadIdx.x == PROMPT_THREADS)
        produce<D>(a, keys, values, a.step.seq[tile.first], last, all, m[0]);
}

template <int FORMAT, int D> static bool launch(const attend_args &a, dev_stream *s)
{
    tensor_map keys, values;
    size_t rows = (size_t)a.n_blocks * a.n_head_kv * KV_BLOCK, pitch = a.d_head * sizeof(uint16_t);
    if (!tensor_map_of(&keys, a.kv.k, a.d_head, rows, pitch, KV_BLOCK) ||
        !tensor_map_of(&values, a.kv.v, a.d_head, rows, pitch, KV_BLOCK))
        return false;
    KERNEL_LAUNCH((prompt_wgmma<FORMAT, D>), dim3(a.n_head_kv, a.n_tiles), dim3(THREADS),
                  sizeof(wgmma_memory<D>), s, a, keys, values);
    return true;
}

template <int FORMAT> static bool launch_format(const attend_args &a, dev_stream *s)
{
    if (a.d_head <= 64)
        return launch<FORMAT, 64>(a, s);
    if (a.d_head <= 128)
        return launch<FORMAT, 128>(a, s);
    return launch<FORMAT, 256>(a, s);
}

bool launch_prompt_wgmma(const attend_args *a, dev_stream *s)
{
    if (a->kv_format == KV_F16)
        return launch_format<KV_F16>(*a, s);
    return a->kv_format == KV_BF16 && launch_format<KV_BF16>(*a, s);
}

} // namespace KERNEL_SPACE
