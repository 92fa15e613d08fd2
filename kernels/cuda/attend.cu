/* Attention of single tokens over the paged cache, split along the context (flash-decoding,
 * crfm.stanford.edu 2023/10/12), in the order of attend.h.
 *
 * A block works on one chunk of one token and up to 16 query heads of a KV head. Its values are on
 * their way to shared memory while each warp scores one unit of keys from registers; then each warp
 * takes a quarter of the dimensions through all units. The block that counts last puts a token's
 * chunks together in order. Bytes: every key and value of the context once for each 16 query heads;
 * the partial results are (d_head + 2) floats for each chunk and head. */
#include "kernels/cuda/attend.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = CHUNK_UNITS, THREADS = 32 * WARPS };

struct chunk_range {
    unsigned from, to, index, n_chunks; /* positions from..to-1 */
    unsigned base, first_unit, end_unit;
};

/* What chunk blockIdx.z of token t holds of the positions the token sees. */
__device__ __forceinline__ chunk_range range_of(const attend_args &a, unsigned t)
{
    sight v;
    see(v, 0, a.step.position[t], a.window);
    chunk_range r;
    r.index = blockIdx.z;
    unsigned first_chunk = v.first[0] / ATTEND_CHUNK;
    r.n_chunks = v.last[0] / ATTEND_CHUNK - first_chunk + 1;
    r.base = (first_chunk + r.index) * ATTEND_CHUNK;
    r.from = max(r.base, v.first[0]);
    r.to = min(r.base + ATTEND_CHUNK, v.last[0] + 1);
    r.first_unit = (r.from - r.base) / UNIT;
    r.end_unit = (r.to - r.base + UNIT - 1) / UNIT;
    return r;
}

/* Query heads of this block. */
struct head_range {
    unsigned kv, first, n;
};

__device__ __forceinline__ head_range heads_of(const attend_args &a)
{
    unsigned group = a.n_head / a.n_head_kv, tiles = (group + TILE_QUERIES - 1) / TILE_QUERIES;
    unsigned kv = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    return {kv, kv * group + tile * TILE_QUERIES,
            min(group - tile * TILE_QUERIES, (unsigned)TILE_QUERIES)};
}

/* The chunk's value steps to shared memory, one load of whole sectors. A barrier. */
template <int FORMAT>
__device__ __forceinline__ void fetch_steps(const attend_args &a, const chunk_range &r, unsigned t,
                                            unsigned head_kv, float (&step)[ATTEND_CHUNK])
{
    if (!kv_type<FORMAT>::HAS_STEP)
        return;
    for (unsigned i = threadIdx.x; i < ATTEND_CHUNK; i += THREADS) {
        unsigned p = r.base + i;
        bool is_real = p >= r.from && p < r.to;
        size_t slot = is_real ? kv_slot(a.step, a.step.seq[t], p, head_kv, a.n_head_kv) : 0;
        step[i] = kv_step<FORMAT>(a.kv.v_step, slot, is_real);
    }
    __syncthreads();
}

template <int FORMAT, int D>
__device__ __forceinline__ void fetch_values(const attend_args &a, const chunk_range &r, unsigned t,
                                             unsigned head_kv, const float (&step)[ATTEND_CHUNK],
                                             uint16_t *values)
{
    enum { PIECES = D / 8, STRIDE = D + 8 };
    unsigned first = r.first_unit * UNIT * PIECES, end = r.end_unit * UNIT * PIECES;
    for (unsigned i = first + threadIdx.x; i < end; i += THREADS) {
        unsigned key = i / PIECES, dim = i % PIECES * 8, first_dim = dim;
        if (kv_type<FORMAT>::BYTES == 1) { /* in the order of memory, a warp in one piece */
            unsigned in_block = i % (KV_BLOCK * PIECES);
            key = i / (KV_BLOCK * PIECES) * KV_BLOCK + in_block / 4 % KV_BLOCK;
            first_dim = in_block / (4 * KV_BLOCK) * KV_PIECE;
            dim = first_dim + in_block % 4 * 8;
        }
        unsigned p = r.base + key;
        bool is_real = p >= r.from && p < r.to && first_dim < a.d_head;
        size_t slot = is_real ? kv_slot(a.step, a.step.seq[t], p, head_kv, a.n_head_kv) : 0;
        kv_fetch<FORMAT>(values + key * STRIDE + dim, a.kv.v, slot, a.d_head, dim,
                         kv_type<FORMAT>::HAS_STEP ? step[key] : 1.0f, is_real);
    }
    cp_async_commit();
}

/* Steps of keys lane and lane + 32 of the unit at `base`. */
template <int FORMAT>
__device__ __forceinline__ float2 key_steps(const attend_args &a, const chunk_range &r, unsigned t,
                                            unsigned head_kv, unsigned base)
{
    float step[2] = {1, 1};
    for (unsigned i = 0; i < 2 && kv_type<FORMAT>::HAS_STEP; i++) {
        unsigned p = base + i * 32 + threadIdx.x % 32;
        if (p >= r.from && p < r.to)
            step[i] = kv_step<FORMAT>(
                a.kv.k_step, kv_slot(a.step, a.step.seq[t], p, head_kv, a.n_head_kv), true);
    }
    return {step[0], step[1]};
}

/* The lane's eight dimensions of block j of a key. Past the end: a neighbour's, then zeros. */
template <int FORMAT>
__device__ __forceinline__ uint4 load_key(const void *keys, size_t slot, unsigned d_head,
                                          unsigned j)
{
    unsigned first = four_of<FORMAT>(j, 0), second = four_of<FORMAT>(j, 1);
    if (kv_type<FORMAT>::BYTES == 1) {
        uint4 key = kv_load<FORMAT>(keys, slot, d_head, min(first, d_head - 8));
        return first < d_head ? key : uint4{};
    }
    const char *row = (const char *)keys + slot * d_head * 2;
    uint2 left = ld64(row + min(first, d_head - 4) * 2), right = {};
    if (j * 32 + 16 < d_head)
        right = ld64(row + min(second, d_head - 4) * 2);
    if (first >= d_head)
        left = {};
    if (second >= d_head)
        right = {};
    return {left.x, left.y, right.x, right.y};
}

/* Scores of the 64 positions at `base`. */
template <int FORMAT, int D>
__device__ __forceinline__ void score(const attend_args &a, const chunk_range &r, unsigned t,
                                      const head_range &h, unsigned base, float (&s)[UNIT_TILES][4])
{
    typedef typename attend_type<FORMAT>::T T;
    unsigned lane = threadIdx.x % 32, row_width = (a.n_head + 2 * a.n_head_kv) * a.d_head;
    const float *row[2] = {NULL, NULL};
    unsigned query[D / 32][2][4];
    for (unsigned i = 0; i < 2; i++)
        if (lane / 4 + 8 * i < h.n)
            row[i] = a.qkv + (size_t)t * row_width + (h.first + lane / 4 + 8 * i) * a.d_head;
#pragma unroll
    for (unsigned j = 0; j < D / 32; j++)
        load_query<FORMAT>(row, j, a.d_head, a.scale, query[j]);
    float2 steps = key_steps<FORMAT>(a, r, t, h.kv, base);
#pragma unroll
    for (unsigned n = 0; n < UNIT_TILES; n++) {
        unsigned p = base + n * 8 + lane / 4;
        bool is_real = p >= r.from && p < r.to;
        size_t slot = is_real ? kv_slot(a.step, a.step.seq[t], p, h.kv, a.n_head_kv) : 0;
        uint4 key[D / 32] = {};
        float step = 1;
        if (kv_type<FORMAT>::HAS_STEP)
            step = __shfl_sync(0xFFFFFFFFu, n < 4 ? steps.x : steps.y, n % 4 * 8 + lane / 4);
#pragma unroll
        for (unsigned j = 0; j < D / 32; j++)
            if (is_real && j * 32 < a.d_head)
                key[j] = kv_operand<FORMAT>(load_key<FORMAT>(a.kv.k, slot, a.d_head, j), step);
        for (int i = 0; i < 4; i++)
            s[n][i] = 0;
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            const unsigned left[2] = {key[j].x, key[j].y}, right[2] = {key[j].z, key[j].w};
            multiply(s[n], query[j][0], left, T());
            multiply(s[n], query[j][1], right, T());
        }
    }
}

/* What the warps tell each other of their units. */
struct unit_board {
    float most[CHUNK_UNITS][TILE_QUERIES], sum[CHUNK_UNITS][TILE_QUERIES];
    uint4 weights[CHUNK_UNITS][UNIT_TILES / 2][32];
};

/* The maxima after each unit, of a lane's two rows. */
__device__ __forceinline__ void running_maxima(const unit_board &b, float (&most)[CHUNK_UNITS][2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = NOTHING;
#pragma unroll
        for (int u = 0; u < CHUNK_UNITS; u++) {
            top = fmaxf(top, b.most[u][threadIdx.x % 32 / 4 + 8 * (unsigned)r]);
            most[u][r] = top;
        }
    }
}

/* most[unit][r]. Chosen, as an array with an index that is not known lies in local memory. */
__device__ __forceinline__ float most_of(const float (&most)[CHUNK_UNITS][2], unsigned unit, int r)
{
    float v = most[0][r];
#pragma unroll
    for (unsigned u = 1; u < CHUNK_UNITS; u++)
        v = u == unit ? most[u][r] : v;
    return v;
}

/* This warp's unit: its scores become weights on the board. Two barriers. */
template <int FORMAT, int D>
__device__ __forceinline__ void do_unit(const attend_args &a, const chunk_range &r, unsigned t,
                                        const head_range &h, unit_board &b,
                                        float (&most)[CHUNK_UNITS][2])
{
    typedef typename attend_type<FORMAT>::T T;
    unsigned unit = threadIdx.x / 32, lane = threadIdx.x % 32, base = r.base + unit * UNIT;
    bool is_mine = unit >= r.first_unit && unit < r.end_unit;
    float s[UNIT_TILES][4], mine[2] = {NOTHING, NOTHING}, sum[2] = {};
    unsigned p[UNIT_TILES / 2][4];
    if (is_mine) {
        score<FORMAT, D>(a, r, t, h, base, s);
        hide(s, {{r.from, r.from}, {r.to - 1, r.to - 1}}, base);
        maximum_of(s, mine);
    }
    for (int i = 0; i < 2; i++)
        if (lane % 4 == 0)
            b.most[unit][lane / 4 + 8 * (unsigned)i] = mine[i];
    __syncthreads();
    running_maxima(b, most);
    if (is_mine) {
        const float top[2] = {most_of(most, unit, 0), most_of(most, unit, 1)};
        weigh<T>(s, top, p, sum);
        for (int k = 0; k < UNIT_TILES / 2; k++)
            st128(&b.weights[unit][k][lane], {p[k][0], p[k][1], p[k][2], p[k][3]});
    }
    for (int i = 0; i < 2; i++)
        if (lane % 4 == 0)
            b.sum[unit][lane / 4 + 8 * (unsigned)i] = sum[i];
    cp_async_wait<0>();
    __syncthreads();
}

/* The warp's quarter of the dimensions, in pairs of tiles of eight, through all units. */
template <int FORMAT, int D>
__device__ __forceinline__ void gather(const chunk_range &r, const unit_board &b,
                                       const float (&most)[CHUNK_UNITS][2], const uint16_t *values,
                                       float (&o)[D / 64][2][4], softmax_state &all)
{
    typedef typename attend_type<FORMAT>::T T;
    unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * (D / 4);
    for (unsigned u = r.first_unit; u < r.end_unit; u++) {
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float top = most_of(most, u, i), sum = b.sum[u][lane / 4 + 8 * (unsigned)i];
            factor[i] = u == r.first_unit ? 0 : weight_of(all.most[i], top);
            all.sum[i] = multiply_add(all.sum[i], factor[i], sum);
            all.most[i] = top;
        }
        rescale(o, factor);
        for (unsigned k = 0; k < UNIT_TILES / 2; k++) {
            uint4 w = ld128(&b.weights[u][k][lane]);
            const unsigned p[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (unsigned i = 0; i < D / 64; i++)
                add_values<T>(o[i], p, values + (u * UNIT + k * 16) * (D + 8) + first + i * 16,
                              D + 8);
        }
    }
}

/* The chunk's results to device memory; true in the block that is the last of the token's chunks.
 */
template <int D>
__device__ __forceinline__ bool hand_over(const attend_args &a, const chunk_range &r,
                                          const head_range &h, const float (&o)[D / 64][2][4],
                                          const softmax_state &all)
{
    SMEM(unsigned, is_last, [1]);
    unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * (D / 4);
    for (unsigned i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        if (row >= h.n)
            continue;
        size_t at = ((size_t)blockIdx.y * a.n_head + h.first + row) * a.max_chunks + r.index;
        float *part = a.part + at * (a.d_head + 2);
#pragma unroll
        for (unsigned j = 0; j < D / 64 * 2; j++) {
            unsigned dim = first + j * 8 + lane % 4 * 2;
            if (dim < a.d_head)
                *(float2 *)(part + dim) = {o[j / 2][j % 2][2 * i], o[j / 2][j % 2][2 * i + 1]};
        }
        if (threadIdx.x / 32 == 0 && lane % 4 == 0)
            *(float2 *)(part + a.d_head) = {all.most[i], all.sum[i]};
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *count = a.count + (size_t)blockIdx.y * a.n_head + h.first;
        is_last[0] = atomicAdd(count, 1u) == r.n_chunks - 1;
        if (is_last[0])
            *count = 0;
    }
    __syncthreads();
    __threadfence();
    return is_last[0];
}

__device__ __forceinline__ void finish(const attend_args &a, const chunk_range &r, unsigned t,
                                       const head_range &h)
{
    size_t width = a.d_head + 2;
    for (unsigned i = threadIdx.x; i < h.n * a.d_head; i += THREADS) {
        unsigned head = h.first + i / a.d_head, d = i % a.d_head;
        const float *part = a.part + ((size_t)blockIdx.y * a.n_head + head) * a.max_chunks * width;
        joined all = {NOTHING, 0};
        float out = 0;
        for (unsigned c = 0; c < r.n_chunks; c++, part += width) {
            float2 factor = join(all, part[a.d_head], part[a.d_head + 1]);
            out = multiply_add(part[d], factor.y, out * factor.x);
        }
        a.y[((size_t)t * a.n_head + head) * a.d_head + d] = out / all.sum;
    }
}

template <int FORMAT, int D>
__global__ void __launch_bounds__(THREADS) attend(const __grid_constant__ attend_args a)
{
    SMEM_DYN(uint16_t, values);
    SMEM(unit_board, board, [1]);
    SMEM(float, step, [ATTEND_CHUNK]);
    unsigned t = a.token[blockIdx.y];
    grid_release(); /* the product that follows has its weights come meanwhile */
    head_range h = heads_of(a);
    chunk_range r = range_of(a, t);
    if (r.index >= r.n_chunks)
        return;
    float most[CHUNK_UNITS][2], o[D / 64][2][4] = {};
    softmax_state all = {{NOTHING, NOTHING}, {0, 0}};
    fetch_steps<FORMAT>(a, r, t, h.kv, step);
    fetch_values<FORMAT, D>(a, r, t, h.kv, step, values);
    do_unit<FORMAT, D>(a, r, t, h, board[0], most);
    gather<FORMAT, D>(r, board[0], most, values, o, all);
    if (hand_over<D>(a, r, h, o, all))
        finish(a, r, t, h);
}

template <int FORMAT, int D> static void launch(const attend_args &a, dev_stream *s)
{
    unsigned group = a.n_head / a.n_head_kv, tiles = (group + TILE_QUERIES - 1) / TILE_QUERIES;
    size_t shared = (size_t)ATTEND_CHUNK * (D + 8) * sizeof(uint16_t);
    KERNEL_LAUNCH((attend<FORMAT, D>), dim3(a.n_head_kv * tiles, a.n_rows, a.max_chunks),
                  dim3(THREADS), shared, s, a);
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

void launch_attend(const attend_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_KV_FORMATS])(const attend_args &, dev_stream *) = {
        launch_format<KV_F16>, launch_format<KV_BF16>, launch_format<KV_FP8>,
        launch_format<KV_INT8>};
    BY_FORMAT[a->kv_format](*a, s);
}

} // namespace KERNEL_SPACE
