/* Drawing a token from a row of logits: one block a row, everything a row needs in one launch.
 *
 * Exponentials, and their sums over blocks of 256 by sixteen lanes, are those of
 * engine/sample/softmax.c bit by bit. Nothing is sorted: the token at which the sum of the sorted
 * weights passes a limit is found by digits of its place in that order (draw_search.h).
 * Reads the row four to six times, out of the L2 cache: about 25 us for 151k tokens by the
 * bandwidth of one multiprocessor. */
#include "kernels/cuda/draw_search.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { LANES = 16, HALF_WARPS = BLOCK_THREADS / LANES };
static const uint32_t IN_PROMPT = 0x80000000u;

struct view { /* of one row */
    const float *logits;
    float *weight, *most;
    double *sum;
    unsigned long long *key;
    uint32_t *count;
    unsigned n, n_blocks;
};

/* As exp_one of engine/sample/softmax.c (Cody and Waite, 1980): no operation is contracted. */
__device__ __forceinline__ float exp_of(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    float wanted = __fmul_rn(x, 1.44269504f);
    float t = wanted < -126.0f ? -126.0f : wanted;
    t = t > 127.0f ? 127.0f : t;
    float shifted = __fadd_rn(t, magic), f = __fadd_rn(t, -__fadd_rn(shifted, -magic));
    float p = 1.5403530e-4f;
    p = __fadd_rn(__fmul_rn(p, f), 1.33335581e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 9.61812911e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 5.55041087e-2f);
    p = __fadd_rn(__fmul_rn(p, f), 2.40226507e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 6.93147181e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 1.0f);
    float scale = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3F800000u);
    return wanted < -126.0f ? 0.0f : __fmul_rn(p, scale);
}

__device__ __forceinline__ unsigned length_of(const view &v, unsigned block)
{
    unsigned from = block * DRAW_BLOCK;
    return from >= v.n ? 0 : min(v.n - from, (unsigned)DRAW_BLOCK);
}

/* Largest of x, and of each block of it in v.most. A half-warp takes a block. */
__device__ __forceinline__ float find_largest(const view &v, const float *x)
{
    unsigned lane = threadIdx.x % LANES;
    float all = -INFINITY;
    for (unsigned b = threadIdx.x / LANES; b < v.n_blocks + b % 2; b += HALF_WARPS) {
        float most = -INFINITY;
        for (unsigned i = lane, n = length_of(v, b); i < n; i += LANES)
            most = fmaxf(most, x[b * DRAW_BLOCK + i]);
        for (int d = LANES / 2; d > 0; d /= 2)
            most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, d));
        if (lane == 0 && b < v.n_blocks)
            v.most[b] = most;
        all = fmaxf(all, most);
    }
    return block_largest(all);
}

/* Sum of a block's exponentials, in every lane of the half-warp; to `out` unless NULL. */
__device__ __forceinline__ double exp_block(const float *x, unsigned n, float shift, float scale,
                                            float *out)
{
    unsigned lane = threadIdx.x % LANES, first = threadIdx.x & 16u, whole = n - n % LANES;
    float of_lane = 0, of_tail = 0;
    double total = 0;
    for (unsigned i = lane; i < n; i += LANES) {
        float w = exp_of(__fmul_rn(__fadd_rn(x[i], -shift), scale));
        if (out)
            out[i] = w;
        if (i < whole)
            of_lane = __fadd_rn(of_lane, w);
        else
            of_tail = w;
    }
    for (unsigned j = 0; j < LANES; j++)
        total = __dadd_rn(total, (double)__shfl_sync(0xFFFFFFFFu, of_lane, (int)(first + j)));
    for (unsigned j = 0; j < LANES; j++) /* zeros where the block has no tail */
        total = __dadd_rn(total, (double)__shfl_sync(0xFFFFFFFFu, of_tail, (int)(first + j)));
    return total;
}

/* exp((x - shift) * scale) of a row to `out` (NULL: not wanted; may be x); v.sum of each block. */
__device__ __forceinline__ double exp_all(const view &v, const float *x, float shift, float scale,
                                          float *out)
{
    double all = 0;
    for (unsigned b = threadIdx.x / LANES; b < v.n_blocks + b % 2; b += HALF_WARPS) {
        unsigned n = length_of(v, b), from = n ? b * DRAW_BLOCK : 0;
        double sum = exp_block(x + from, n, shift, scale, out ? out + from : NULL);
        if (threadIdx.x % LANES == 0 && b < v.n_blocks)
            v.sum[b] = sum;
        all = __dadd_rn(all, threadIdx.x % LANES == 0 ? sum : 0.0);
    }
    double total;
    block_scan(all, &total);
    return total;
}

/* Lowest id with the row's largest value; v.most is of the row. */
__device__ __forceinline__ unsigned first_of(const view &v, const float *row, float largest)
{
    unsigned mine = UINT32_MAX;
    for (unsigned b = threadIdx.x; b < v.n_blocks && mine == UINT32_MAX; b += BLOCK_THREADS)
        mine = v.most[b] == largest ? b : UINT32_MAX;
    unsigned block = block_first(mine), i = block * DRAW_BLOCK + threadIdx.x;
    unsigned first = block_first(i < v.n && row[i] == largest ? i : UINT32_MAX);
    return first < v.n ? first : 0; /* a broken row has none */
}

/* Rises with the logit, and among equal ones with falling id. */
__device__ __forceinline__ unsigned long long rank_of(float logit, unsigned id)
{
    unsigned bits = __float_as_uint(__fadd_rn(logit, 0.0f)); /* both zeros alike */
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | (0xFFFFFFFFu - id);
}

/* Best of a block's ranks below `limit`. */
__device__ __forceinline__ unsigned long long best_below(const view &v, unsigned block,
                                                         unsigned long long limit)
{
    unsigned i = block * DRAW_BLOCK + threadIdx.x;
    unsigned long long rank = threadIdx.x < DRAW_BLOCK && i < v.n ? rank_of(v.logits[i], i) : 0;
    return block_largest(rank < limit ? rank : 0);
}

/* The n best logits: each block keeps a bound of what is left of it, and the block with the highest
 * bound has the next one. v.most is of the logits. */
__device__ __forceinline__ void find_top(const view &v, unsigned n, kern_drawn *out)
{
    for (unsigned b = threadIdx.x; b < v.n_blocks; b += BLOCK_THREADS)
        v.key[b] = rank_of(v.most[b], b * DRAW_BLOCK);
    unsigned long long last = ~0ull;
    for (unsigned k = 0; k < n; k++) {
        unsigned long long bound = 0;
        for (unsigned b = threadIdx.x; b < v.n_blocks; b += BLOCK_THREADS)
            bound = max(bound, v.key[b]);
        bound = block_largest(bound);
        unsigned block = min((0xFFFFFFFFu - (unsigned)bound) / DRAW_BLOCK, v.n_blocks - 1);
        last = best_below(v, block, last);
        unsigned long long next = best_below(v, block, last);
        if (threadIdx.x == 0) {
            unsigned id = 0xFFFFFFFFu - (unsigned)last;
            v.key[block] = next;
            out->top[k] = (int32_t)id;
            out->top_logit[k] = v.logits[id < v.n ? id : 0]; /* NaN beside values: none is left */
        }
        __syncthreads();
    }
}

__device__ __forceinline__ float penalised(const draw_row &r, float logit, uint32_t count)
{
    logit = logit > 0 ? logit / r.repetition : __fmul_rn(logit, r.repetition);
    uint32_t times = count & ~IN_PROMPT;
    if (times)
        logit =
            __fadd_rn(logit, -(float)__dadd_rn(__dmul_rn(r.frequency, (double)times), r.presence));
    return logit;
}

/* The row with penalties, to v.weight. Each token of the history is counted, and the first thread
 * that comes back to it takes the count. */
__device__ __forceinline__ void penalise(const view &v, const draw_row &r, const draw_args &a)
{
    const int32_t *token = a.history + r.first;
    unsigned n = r.n_prompt + r.n_output;
    for (unsigned i = threadIdx.x; i < v.n; i += BLOCK_THREADS)
        v.weight[i] = v.logits[i];
    for (unsigned i = threadIdx.x; i < n; i += BLOCK_THREADS) {
        uint32_t *count = &v.count[token_of(token[i], a.before)];
        if (i < r.n_prompt)
            atomicOr(count, IN_PROMPT);
        else
            atomicAdd(count, 1u);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += BLOCK_THREADS) {
        int32_t id = token_of(token[i], a.before);
        uint32_t count = atomicExch(&v.count[id], 0u);
        if (count)
            v.weight[id] = penalised(r, v.weight[id], count);
    }
    __syncthreads();
}

/* The block at which the sum of v.sum passes the target, else the last; *before: the sum of those
 * before it. */
__device__ __forceinline__ unsigned find_block(const view &v, double u, double *before,
                                               double *target)
{
    SMEM(double, sum_before, [1]);
    unsigned each = (v.n_blocks + BLOCK_THREADS - 1) / BLOCK_THREADS, from = threadIdx.x * each;
    double mine = 0, all;
    for (unsigned b = from; b < from + each && b < v.n_blocks; b++)
        mine = __dadd_rn(mine, v.sum[b]);
    double sum = block_scan(mine, &all) - mine;
    *target = fmin(u * all, nextafter(all, 0.0));
    unsigned found = UINT32_MAX;
    for (unsigned b = from; b < from + each && b < v.n_blocks; b++) {
        double next = __dadd_rn(sum, v.sum[b]);
        if (next > *target || b + 1 == v.n_blocks) {
            found = b;
            break;
        }
        sum = next;
    }
    unsigned block = block_first(found);
    if (found == block)
        sum_before[0] = sum;
    __syncthreads();
    *before = sum_before[0];
    return block;
}

/* In the order of ids. */
__device__ __forceinline__ unsigned draw_from_all(const view &v, double u)
{
    double before, target, all;
    unsigned block = find_block(v, u, &before, &target);
    unsigned i = block * DRAW_BLOCK + threadIdx.x;
    float w = i < v.n ? v.weight[i] : 0;
    double sum = __dadd_rn(before, block_scan((double)w, &all));
    unsigned first = block_first(sum > target ? i : UINT32_MAX);
    unsigned last = block_largest(w > 0 ? i : 0u);
    return first < v.n ? first : last;
}

__device__ __forceinline__ unsigned draw_weighted(const view &v, const draw_row &r, double total)
{
    if (r.top_k == 0 && r.top_p >= 1 && r.min_p <= 0)
        return draw_from_all(v, r.u);
    const limits l = {r.top_k ? r.top_k : v.n, r.top_p, r.min_p, r.u, total};
    return draw_filtered(v.weight, v.n, v.key, l);
}

__device__ __forceinline__ unsigned pick_token(const view &v, const draw_args &a, const draw_row &r,
                                               float largest, double total)
{
    const float *row = v.logits;
    if (r.has_penalties) {
        penalise(v, r, a);
        row = v.weight;
        largest = find_largest(v, row);
    }
    if (r.scale == 0)
        return first_of(v, row, largest);
    if (r.has_penalties || r.scale != 1)
        total = exp_all(v, row, largest, r.scale, v.weight);
    return draw_weighted(v, r, total);
}

__global__ void __launch_bounds__(BLOCK_THREADS) draw(const __grid_constant__ draw_args a)
{
    const draw_row &r = a.row[blockIdx.x];
    unsigned blocks = (a.n_vocab + DRAW_BLOCK - 1) / DRAW_BLOCK;
    size_t row = (size_t)blockIdx.x * a.n_vocab, of_blocks = (size_t)blockIdx.x * blocks;
    const view v = {a.logits + row, a.weight + row, a.most + of_blocks, a.sum + of_blocks,
                    a.key + row,    a.count + row,  a.n_vocab,          blocks};
    kern_drawn *out = a.out + blockIdx.x;
    if (r.is_skipped)
        return;
    float largest = find_largest(v, v.logits);
    bool is_plain = r.scale == 1 && !r.has_penalties;
    double total = exp_all(v, v.logits, largest, 1, is_plain ? v.weight : NULL);
    find_top(v, r.n_top, out);
    unsigned token = pick_token(v, a, r, largest, total);
    if (threadIdx.x == 0) {
        out->token = (int32_t)token;
        out->logit = v.logits[token];
        out->largest = largest;
        out->n_top = r.n_top;
        out->total = total;
    }
}

void launch_draw(const draw_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(draw, dim3(a->n_row), dim3(BLOCK_THREADS), 0, s, *a);
}

} // namespace KERNEL_SPACE
