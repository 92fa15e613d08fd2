/* kernels/cuda/prompt.h - attention of many tokens of one sequence, what its two kernels share:
 * which rows a block has, what they see, and how units become chunks and chunks the output, in the
 * order of attend.h. prompt.cu multiplies by warps, prompt_wgmma.cu by a warpgroup; both give a
 * lane the same rows and columns, and the same bits.
 *
 * A block has up to PROMPT_ROWS rows, neighbouring tokens times the query heads that share a KV
 * head, 16 rows a warp. */
#ifndef KERNELS_CUDA_PROMPT_H
#define KERNELS_CUDA_PROMPT_H

#include "kernels/cuda/attend.h"
#include "kernels/cuda/launchers.h"

enum { PROMPT_WARPS = PROMPT_ROWS / TILE_QUERIES, PROMPT_THREADS = 32 * PROMPT_WARPS };

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

/* Of a thread; o[4 n] and on: its part of output dimensions 8 n to 8 n + 7. */
template <int D> struct prompt_state {
    softmax_state chunk;
    float o[D / 2];
    joined all[2];
    bool has_kept;
};

template <int D> __device__ __forceinline__ prompt_state<D> no_state()
{
    prompt_state<D> state = {};
    state.chunk = {{NOTHING, NOTHING}, {0, 0}};
    state.all[0] = state.all[1] = {NOTHING, 0};
    return state;
}

/* A unit's scores become weights, and what was there before is scaled for them. */
template <class T, int D>
__device__ __forceinline__ void weigh_unit(float (&s)[UNIT_TILES][4], const sight &sees,
                                           unsigned unit, unsigned (&p)[UNIT_TILES / 2][4],
                                           prompt_state<D> &state)
{
    float mine[2], sum[2], factor[2];
    softmax_state &c = state.chunk;
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
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        state.o[i] *= factor[i % 4 / 2];
}

/* The chunk's state to those before it; the next starts from nothing. `keep`: output of the chunks
 * before, each thread its own. */
template <int D>
__device__ __forceinline__ void end_chunk(float (&keep)[D / 2][PROMPT_THREADS],
                                          prompt_state<D> &state)
{
    float2 factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++)
        factor[r] = join(state.all[r], state.chunk.most[r], state.chunk.sum[r]);
#pragma unroll
    for (int i = 0; i < D / 2; i++) {
        float &kept = keep[i][threadIdx.x], old = state.has_kept ? kept : 0;
        const float2 &f = factor[i % 4 / 2];
        kept =
            state.chunk.most[i % 4 / 2] == NOTHING ? old : multiply_add(state.o[i], f.y, old * f.x);
        state.o[i] = 0;
    }
    state.chunk = {{NOTHING, NOTHING}, {0, 0}};
    state.has_kept = true;
}

template <int D>
__device__ __forceinline__ void put_rows(const attend_args &a, const prompt_rows &rows,
                                         const float (&keep)[D / 2][PROMPT_THREADS],
                                         const prompt_state<D> &state)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if (!rows.y[r])
            continue;
#pragma unroll
        for (unsigned n = 0; n < D / 8; n++) {
            unsigned dim = n * 8 + threadIdx.x % 4 * 2, at = n * 4 + 2 * (unsigned)r;
            if (dim < a.d_head)
                *(float2 *)(rows.y[r] + dim) = {keep[at][threadIdx.x] / state.all[r].sum,
                                                keep[at + 1][threadIdx.x] / state.all[r].sum};
        }
    }
}

__device__ __forceinline__ bool ends_chunk(unsigned unit, const unit_range &all)
{
    return unit % CHUNK_UNITS == CHUNK_UNITS - 1 || unit == all.last;
}

#endif
