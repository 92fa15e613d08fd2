/* Attention of single tokens over the paged cache, split along the context (flash-decoding,
 * crfm.stanford.edu 2023/10/12; online softmax, arXiv 1805.02867).
 *
 * A block works on one chunk of ATTEND_CHUNK positions of one token and up to HEADS query heads
 * that share a KV head. LANES lanes hold a key, eight dimensions each, so that a warp meets 32 /
 * LANES keys at once with 16-byte loads, two in flight. Chunks lie at fixed positions: the sums do
 * not depend on what else is in the batch. The block that counts last puts a token's chunks
 * together in order. Bytes a token: 2 * positions * n_head_kv * (d_head * bytes of a value, + 2 for
 * int8), each once for HEADS query heads (tests/kernels/simt/traffic_test.c: 0.999 of what moves);
 * the partial sums are (d_head + 2) floats for each chunk and head. */
#include "kernels/cuda/kv.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS, AHEAD = 2 };
#define NOTHING (-INFINITY)

struct chunk_range {
    unsigned from, to, index, first_chunk, n_chunks; /* positions from..to-1 */
};

/* What chunk blockIdx.z of token t holds of the positions the token sees; empty: from >= to. */
__device__ __forceinline__ chunk_range range_of(const attend_args &a, unsigned t)
{
    unsigned last = a.step.position[t], first = 0;
    if (a.window && last >= a.window)
        first = last + 1 - a.window;
    chunk_range r;
    r.index = blockIdx.z;
    r.first_chunk = first / ATTEND_CHUNK;
    r.n_chunks = last / ATTEND_CHUNK - r.first_chunk + 1;
    unsigned from = (r.first_chunk + r.index) * ATTEND_CHUNK, to = from + ATTEND_CHUNK;
    r.from = from < first ? first : from;
    r.to = to > last + 1 ? last + 1 : to;
    return r;
}

template <int HEADS> struct softmax_state {
    float most[HEADS], sum[HEADS], out[HEADS][8];
};

/* One more key and value for every head: LANES neighbouring lanes share the key. */
template <int HEADS, int LANES>
__device__ __forceinline__ void meet(const float (&q)[HEADS][8], const eight &k, const eight &v,
                                     bool is_real, softmax_state<HEADS> &s)
{
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        float score = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            score = multiply_add(q[h][i], k.v[i], score);
        score = warp_sum(score, LANES);
        if (!is_real)
            score = NOTHING;
        float most = fmaxf(s.most[h], score);
        if (most == NOTHING)
            continue;
        float old = __expf(s.most[h] - most), p = __expf(score - most);
        s.most[h] = most;
        s.sum[h] = s.sum[h] * old + p;
#pragma unroll
        for (int i = 0; i < 8; i++)
            s.out[h][i] = multiply_add(p, v.v[i], s.out[h][i] * old);
    }
}

/* The states of a block's key groups, side by side in shared memory, then one sum in their order.
 */
template <int HEADS> struct block_state {
    float *most, *sum, *out; /* [GROUPS][HEADS], the same, [GROUPS][HEADS][d_head] */
};

/* Steps of the KV block at `slot`: of its keys in lanes 0 to 15, of its values in the others. One
 * load of two sectors in place of one for each key. */
template <int FORMAT>
__device__ __forceinline__ float load_steps(const attend_args &a, const chunk_range &r,
                                            unsigned start, size_t slot)
{
    unsigned lane = threadIdx.x % 32, i = lane % KV_BLOCK, p = start + i;
    if (!kv_type<FORMAT>::HAS_STEP || p < r.from || p >= r.to)
        return 1;
    return to_float(((const f16 *)(lane < KV_BLOCK ? a.kv.k_step : a.kv.v_step))[slot + i]);
}

/* A warp takes every WARPS-th KV block of the chunk and meets its positions in order. */
template <int FORMAT, int HEADS, int LANES>
__device__ __forceinline__ void walk(const attend_args &a, const chunk_range &r, unsigned t,
                                     unsigned head_kv, const float (&q)[HEADS][8],
                                     softmax_state<HEADS> &s)
{
    enum { KEYS = 32 / LANES };
    static_assert(KV_BLOCK % (KEYS * AHEAD) == 0, "whole rounds in a block");
    unsigned lane = threadIdx.x % 32, seq = a.step.seq[t], first = lane % LANES * 8;
    bool has_dims = first < a.d_head;
    unsigned start = (r.from / KV_BLOCK + threadIdx.x / 32) * KV_BLOCK;
    for (; start < r.to; start += WARPS * KV_BLOCK) {
        size_t slot = kv_slot(a.step, seq, start, head_kv, a.n_head_kv);
        float steps = load_steps<FORMAT>(a, r, start, slot);
        for (unsigned round = 0; round < KV_BLOCK; round += KEYS * AHEAD) {
            uint4 k[AHEAD] = {}, v[AHEAD] = {};
            bool is_real[AHEAD];
#pragma unroll
            for (unsigned i = 0; i < AHEAD; i++) {
                unsigned key = round + i * KEYS + lane / LANES, p = start + key;
                is_real[i] = p >= r.from && p < r.to;
                if (!is_real[i] || !has_dims)
                    continue;
                k[i] = kv_load<FORMAT>(a.kv.k, slot + key, a.d_head, first);
                v[i] = kv_load<FORMAT>(a.kv.v, slot + key, a.d_head, first);
            }
#pragma unroll
            for (unsigned i = 0; i < AHEAD; i++) {
                int key = (int)(round + i * KEYS + lane / LANES);
                float k_step = 1, v_step = 1;
                if (kv_type<FORMAT>::HAS_STEP) {
                    k_step = __shfl_sync(0xFFFFFFFFu, steps, key);
                    v_step = __shfl_sync(0xFFFFFFFFu, steps, KV_BLOCK + key);
                }
                meet<HEADS, LANES>(q, kv_type<FORMAT>::open(k[i], k_step),
                                   kv_type<FORMAT>::open(v[i], v_step), is_real[i], s);
            }
        }
    }
}

template <int HEADS, int LANES>
__device__ __forceinline__ void keep(const attend_args &a, const softmax_state<HEADS> &s,
                                     const block_state<HEADS> &b)
{
    unsigned group = threadIdx.x / LANES, first = threadIdx.x % LANES * 8;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        unsigned at = group * HEADS + (unsigned)h;
        if (first == 0) {
            b.most[at] = s.most[h];
            b.sum[at] = s.sum[h];
        }
        if (first >= a.d_head)
            continue;
        float4 *out = (float4 *)(b.out + (size_t)at * a.d_head + first);
        out[0] = {s.out[h][0], s.out[h][1], s.out[h][2], s.out[h][3]};
        out[1] = {s.out[h][4], s.out[h][5], s.out[h][6], s.out[h][7]};
    }
}

/* Puts n states with `stride` floats between them together for dimension d; the last two floats of
 * a state, at `tail`, are its maximum and its sum. */
struct joined {
    float most, sum, out;
};
__device__ __forceinline__ joined join(const float *most, const float *sum, const float *out,
                                       unsigned n, size_t small_stride, size_t out_stride)
{
    joined j = {NOTHING, 0, 0};
    for (unsigned i = 0; i < n; i++)
        j.most = fmaxf(j.most, most[i * small_stride]);
    for (unsigned i = 0; i < n; i++) {
        float m = most[i * small_stride];
        if (m == NOTHING)
            continue;
        float w = __expf(m - j.most);
        j.sum += sum[i * small_stride] * w;
        j.out += out[i * out_stride] * w;
    }
    return j;
}

/* The chunk's sums to device memory; true in the block that is the last of the token's chunks. */
template <int HEADS, int GROUPS>
__device__ __forceinline__ bool hand_over(const attend_args &a, const chunk_range &r, unsigned t,
                                          unsigned first_head, unsigned n,
                                          const block_state<HEADS> &b)
{
    SMEM(unsigned, is_last, [1]);
    unsigned width = a.d_head + 2;
    for (unsigned i = threadIdx.x; i < n * a.d_head; i += THREADS) {
        unsigned h = i / a.d_head, d = i % a.d_head;
        joined j = join(b.most + h, b.sum + h, b.out + h * a.d_head + d, GROUPS, HEADS,
                        (size_t)HEADS * a.d_head);
        size_t at = ((size_t)t * a.n_head + first_head + h) * a.max_chunks + r.index;
        float *part = a.part + at * width;
        part[d] = j.out;
        if (d == 0) {
            part[a.d_head] = j.most;
            part[a.d_head + 1] = j.sum;
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *count = a.count + (size_t)t * a.n_head + first_head;
        is_last[0] = atomicAdd(count, 1u) == r.n_chunks - 1;
        if (is_last[0])
            *count = 0;
    }
    __syncthreads();
    __threadfence();
    return is_last[0];
}

__device__ __forceinline__ void finish(const attend_args &a, const chunk_range &r, unsigned t,
                                       unsigned first_head, unsigned n)
{
    size_t width = a.d_head + 2;
    for (unsigned i = threadIdx.x; i < n * a.d_head; i += THREADS) {
        unsigned h = first_head + i / a.d_head, d = i % a.d_head;
        const float *part = a.part + ((size_t)t * a.n_head + h) * a.max_chunks * width;
        joined j = join(part + a.d_head, part + a.d_head + 1, part + d, r.n_chunks, width, width);
        a.y[((size_t)t * a.n_head + h) * a.d_head + d] = j.out / j.sum;
    }
}

template <int FORMAT, int HEADS, int LANES>
__global__ void __launch_bounds__(THREADS) attend(const __grid_constant__ attend_args a)
{
    enum { GROUPS = THREADS / LANES };
    SMEM_DYN(float, shared);
    unsigned group = a.n_head / a.n_head_kv, tiles = (group + HEADS - 1) / HEADS;
    unsigned head_kv = blockIdx.x / tiles, tile = blockIdx.x % tiles, t = blockIdx.y;
    unsigned first_head = head_kv * group + tile * HEADS,
             n = min(group - tile * HEADS, (unsigned)HEADS);
    chunk_range r = range_of(a, t);
    if (r.index >= r.n_chunks)
        return;
    block_state<HEADS> b = {shared, shared + GROUPS * HEADS, shared + 2 * GROUPS * HEADS};
    float q[HEADS][8] = {};
    unsigned first = threadIdx.x % LANES * 8;
    softmax_state<HEADS> s = {};
    for (unsigned h = 0; h < HEADS; h++) {
        s.most[h] = NOTHING;
        if (h >= n || first >= a.d_head)
            continue;
        size_t row = (size_t)t * (a.n_head + 2 * a.n_head_kv) + first_head + h;
        const float4 *from = (const float4 *)(a.qkv + row * a.d_head + first);
        float4 low = from[0], high = from[1];
        const float all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        for (int i = 0; i < 8; i++)
            q[h][i] = all[i] * a.scale;
    }
    walk<FORMAT, HEADS, LANES>(a, r, t, head_kv, q, s);
    keep<HEADS, LANES>(a, s, b);
    __syncthreads();
    if (hand_over<HEADS, GROUPS>(a, r, t, first_head, n, b))
        finish(a, r, t, first_head, n);
}

template <int FORMAT, int HEADS, int LANES> static void launch(const attend_args &a, dev_stream *s)
{
    enum { GROUPS = THREADS / LANES };
    unsigned group = a.n_head / a.n_head_kv, tiles = (group + HEADS - 1) / HEADS;
    size_t shared = (size_t)GROUPS * HEADS * (a.d_head + 2) * sizeof(float);
    KERNEL_LAUNCH((attend<FORMAT, HEADS, LANES>),
                  dim3(a.n_head_kv * tiles, a.step.n_tok, a.max_chunks), dim3(THREADS), shared, s,
                  a);
}

template <int FORMAT, int HEADS> static void launch_heads_of(const attend_args &a, dev_stream *s)
{
    unsigned lanes = (a.d_head + 7) / 8;
    if (lanes <= 4)
        launch<FORMAT, HEADS, 4>(a, s);
    else if (lanes <= 8)
        launch<FORMAT, HEADS, 8>(a, s);
    else if (lanes <= 16)
        launch<FORMAT, HEADS, 16>(a, s);
    else
        launch<FORMAT, HEADS, 32>(a, s);
}

template <int FORMAT> static void launch_format(const attend_args &a, dev_stream *s)
{
    unsigned group = a.n_head / a.n_head_kv;
    if (group == 1)
        launch_heads_of<FORMAT, 1>(a, s);
    else if (group <= 4)
        launch_heads_of<FORMAT, 4>(a, s);
    else
        launch_heads_of<FORMAT, 8>(a, s);
}

void launch_attend(const attend_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_KV_FORMATS])(const attend_args &, dev_stream *) = {
        launch_format<KV_F16>, launch_format<KV_BF16>, launch_format<KV_FP8>,
        launch_format<KV_INT8>};
    BY_FORMAT[a->kv_format](*a, s);
}

} // namespace KERNEL_SPACE
