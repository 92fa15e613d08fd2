/* Matrix of f32 or f16 times a few rows of activations, in float32: routers, and the weights whose
 * values a bfloat16 does not hold. The others: product_mma.cu and product_fused.cu.
 *
 * A warp takes ROWS rows of weights; its lanes load 16 bytes each of AHEAD units, so that
 * ROWS * AHEAD loads are in flight while the last are multiplied. Activations, normed, stand in
 * shared memory in an order in which neither their stores nor the lanes' loads share a bank. Bytes:
 * each weight byte is loaded once per TOKENS tokens; per step at one token the panel's bytes, which
 * tests/kernels/simt/traffic_test.c holds against the emulator's count. */
#include "kernels/cuda/format.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/normed.h"

namespace KERNEL_SPACE
{

enum { WARPS = 8, THREADS = 32 * WARPS, ROWS = 4 };

/* Where four activations of unit u, from its element 4 j, stand among a chunk's. */
template <class F> __device__ __forceinline__ int slot_of(int u, int j)
{
    return (u / 32 * (F::UNIT / 4) + j) * 32 + ((u ^ j) & 31);
}

/* 1 / rms of each token's row, or 1. */
template <int TOKENS>
__device__ __forceinline__ void norm_factors(const product_args &a, const float *const (&x)[TOKENS],
                                             float (&factor)[TOKENS])
{
    for (int t = 0; t < TOKENS; t++) {
        factor[t] = 1;
        if (!a.norm)
            continue;
        float squares = 0;
        for (unsigned i = threadIdx.x * 4; x[t] && i < a.w.cols; i += THREADS * 4) {
            float4 v = load_four(x[t], i, a.w.cols);
            squares += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
        }
        factor[t] = rsqrtf(block_sum<WARPS>(squares) / (float)a.w.cols + a.eps);
    }
}

template <class F, int TOKENS>
__device__ __forceinline__ void stage(const product_args &a, const float *const (&x)[TOKENS],
                                      const float (&factor)[TOKENS], unsigned first, float4 *to)
{
    enum { CHUNK = 32 * F::UNIT * F::AHEAD };
    for (int i = (int)threadIdx.x; i < CHUNK / 4; i += THREADS) {
        unsigned column = first + (unsigned)i * 4;
        int at = slot_of<F>(i * 4 / F::UNIT, i * 4 % F::UNIT / 4);
        float4 w = {1, 1, 1, 1};
        if (a.norm)
            w = load_four(a.norm, column, a.w.cols);
        for (int t = 0; t < TOKENS; t++) {
            float4 v = {0, 0, 0, 0};
            if (x[t])
                v = load_four(x[t], column, a.w.cols);
            to[t * CHUNK / 4 + at] = {v.x * factor[t] * w.x, v.y * factor[t] * w.y,
                                      v.z * factor[t] * w.z, v.w * factor[t] * w.w};
        }
    }
}

template <class F>
__device__ __forceinline__ void load_units(const panel &w, const unsigned (&row)[ROWS],
                                           unsigned first_unit,
                                           typename F::unit (&u)[ROWS][F::AHEAD])
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int p = 0; p < F::AHEAD; p++)
            u[r][p] = F::load(w, row[r], first_unit + (unsigned)p * 32 + lane);
}

/* One unit of each row times all tokens' activations, CHUNK apart in shared memory. */
template <class F, int TOKENS>
__device__ __forceinline__ void multiply_unit(const typename F::unit (&u)[ROWS][F::AHEAD], int p,
                                              const float4 *x, float (&sum)[TOKENS][ROWS])
{
    enum { CHUNK = 32 * F::UNIT * F::AHEAD };
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < F::UNIT / 4; j++) {
        float4 w[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            w[r] = F::four(u[r][p], j);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            float4 v = x[t * CHUNK / 4 + slot_of<F>(p * 32 + lane, j)];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float &d = sum[t][r];
                d = multiply_add(w[r].x, v.x, d);
                d = multiply_add(w[r].y, v.y, d);
                d = multiply_add(w[r].z, v.z, d);
                d = multiply_add(w[r].w, v.w, d);
            }
        }
    }
}

__device__ __forceinline__ void put(const product_args &a, unsigned t, unsigned row, float v)
{
    float *y = a.y + (size_t)t * a.y_stride + a.first_row + row;
    *y = a.mode == PRODUCT_ADD ? *y + v : v;
}

/* Lane r stores the warp's row r (GATE: lanes 0 and 1 a pair each). */
__device__ __forceinline__ void put_rows(const product_args &a, unsigned t, unsigned first,
                                         const float (&sum)[ROWS])
{
    unsigned lane = threadIdx.x % 32;
    float mine = sum[0], up = sum[1];
#pragma unroll
    for (int r = 1; r < ROWS; r++)
        mine = lane == (unsigned)r ? sum[r] : mine;
    if (a.mode != PRODUCT_GATE) {
        if (lane < ROWS && first + lane < a.w.rows)
            put(a, t, first + lane, mine);
        return;
    }
    mine = lane == 1 ? sum[2] : sum[0];
    up = lane == 1 ? sum[3] : sum[1];
    if (lane < ROWS / 2 && first + lane < a.w.rows / 2)
        put(a, t, first + lane, gated(a.gate, mine) * up);
}

/* Rows of a warp: ROWS neighbours, or pairs of gate and up. Beyond the end: the last row again. */
__device__ __forceinline__ unsigned choose_rows(const product_args &a, unsigned (&row)[ROWS])
{
    unsigned warp = blockIdx.x * WARPS + threadIdx.x / 32, is_gate = a.mode == PRODUCT_GATE;
    unsigned step = is_gate ? ROWS / 2 : ROWS, first = warp * step;
    unsigned end = is_gate ? a.w.rows / 2 : a.w.rows;
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
        unsigned at = first + (is_gate ? r / 2 : r);
        at = at < end ? at : end - 1;
        row[r] = is_gate && r % 2 ? end + at : at;
    }
    return first;
}

/* Rows of this block for TOKENS rows of x (NULL: none), to rows first_tok and on of y. */
template <int FORMAT, int TOKENS>
__device__ __forceinline__ void multiply(const product_args &a, const float *const (&x)[TOKENS],
                                         unsigned first_tok)
{
    typedef format_of<FORMAT> F;
    enum { CHUNK = 32 * F::UNIT * F::AHEAD };
    SMEM(float4, staged, [TOKENS * CHUNK / 4]);
    typename F::unit now[ROWS][F::AHEAD], next[ROWS][F::AHEAD];
    float factor[TOKENS], sum[TOKENS][ROWS] = {};
    unsigned row[ROWS], first = choose_rows(a, row);
    load_units<F>(a.w, row, 0, next);
    norm_factors<TOKENS>(a, x, factor);
    for (unsigned c = 0; c < a.w.units * F::UNIT; c += CHUNK) {
        __syncthreads();
        stage<F, TOKENS>(a, x, factor, c, staged);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int p = 0; p < F::AHEAD; p++)
                now[r][p] = next[r][p];
        load_units<F>(a.w, row, (c + CHUNK) / F::UNIT, next);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < F::AHEAD; p++)
            multiply_unit<F, TOKENS>(now, p, staged, sum);
    }
#pragma unroll
    for (unsigned t = 0; t < TOKENS; t++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[t][r] = warp_sum(sum[t][r]);
        if (x[t])
            put_rows(a, first_tok + t, first, sum[t]);
    }
}

template <int FORMAT, int TOKENS>
__global__ void __launch_bounds__(THREADS) product(const __grid_constant__ product_args a)
{
    const float *x[TOKENS];
    unsigned first_tok = blockIdx.y * TOKENS;
    for (unsigned t = 0; t < TOKENS; t++) {
        unsigned at = first_tok + t;
        x[t] = NULL;
        if (at < a.n_tok)
            x[t] = a.x + (size_t)(a.pick ? a.pick[at] : at) * a.x_stride;
    }
    multiply<FORMAT, TOKENS>(a, x, first_tok);
}

template <int FORMAT>
__global__ void __launch_bounds__(THREADS) product_of_expert(const __grid_constant__ experts_args e)
{
    unsigned pair = blockIdx.y, expert = e.group.expert[pair];
    product_args a = e.p;
    a.w = e.panel[expert];
    if (a.w.format != FORMAT)
        return;
    const float *x[1] = {a.x + (size_t)(pair / e.share) * a.x_stride};
    multiply<FORMAT, 1>(a, x, pair);
}

static unsigned blocks_of(const product_args &a, const panel &w)
{
    unsigned rows = a.mode == PRODUCT_GATE ? w.rows / 2 : w.rows;
    unsigned per_block = WARPS * (a.mode == PRODUCT_GATE ? ROWS / 2 : ROWS);
    return (rows + per_block - 1) / per_block;
}

template <int FORMAT> static void launch(const product_args &a, dev_stream *s)
{
    enum { MANY = 4 };
    unsigned blocks = blocks_of(a, a.w);
    if (a.n_tok == 1)
        KERNEL_LAUNCH((product<FORMAT, 1>), dim3(blocks), dim3(THREADS), 0, s, a);
    else
        KERNEL_LAUNCH((product<FORMAT, MANY>), dim3(blocks, (a.n_tok + MANY - 1) / MANY),
                      dim3(THREADS), 0, s, a);
}

void launch_product(const product_args *a, dev_stream *s)
{
    if (a->w.format == PANEL_F32)
        launch<PANEL_F32>(*a, s);
    else if (a->w.format == PANEL_F16)
        launch<PANEL_F16>(*a, s);
    else if (a->split)
        launch_product_mma(a, s);
    else
        launch_product_fused(a, s);
}

template <int FORMAT> static void launch_experts(const experts_args &e, dev_stream *s)
{
    KERNEL_LAUNCH(product_of_expert<FORMAT>, dim3(blocks_of(e.p, e.panel[0]), e.p.n_tok),
                  dim3(THREADS), 0, s, e);
}

void launch_product_of_experts(const experts_args *e, dev_stream *s)
{
    if (e->format == PANEL_F32)
        launch_experts<PANEL_F32>(*e, s);
    else if (e->format == PANEL_F16)
        launch_experts<PANEL_F16>(*e, s);
    else if (e->p.split)
        launch_experts_mma(e, s);
    else
        launch_experts_fused(e, s);
}

} // namespace KERNEL_SPACE
