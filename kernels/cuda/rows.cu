/* Kernels over rows of activations: embedding, addition of a normed row, gate of a pair. They move
 * a few kilobytes a token; none matters for speed beyond its launch. */
#include "kernels/cuda/format.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tile.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS };

template <int FORMAT> __global__ void embed_floats(const __grid_constant__ embed_args a)
{
    typedef format_of<FORMAT> F;
    float *x = a.x + (size_t)blockIdx.x * a.w.cols;
    unsigned row = (unsigned)token_of(a.token[blockIdx.x], a.before);
    for (unsigned i = threadIdx.x; i < a.w.units; i += THREADS) {
        typename F::unit u = F::load(a.w, row, i);
        for (int j = 0; j < F::UNIT / 4; j++) {
            float4 v = F::four(u, j);
            const float w[4] = {v.x, v.y, v.z, v.w};
            for (unsigned k = 0; k < 4; k++) {
                unsigned column = i * F::UNIT + (unsigned)j * 4 + k;
                if (column < a.w.cols)
                    x[column] = w[k] * a.scale;
            }
        }
    }
}

/* Pair i of a lane is columns 4 q + 2 i and the next of 16, or of the next 16. */
template <int FORMAT> __global__ void embed_tiles(const __grid_constant__ embed_args a)
{
    typedef tile_of<FORMAT> F;
    unsigned row = (unsigned)token_of(a.token[blockIdx.x], a.before);
    unsigned blocks = blocks_in(a.w), groups = (blocks + F::BLOCKS - 1) / F::BLOCKS;
    float *x = a.x + (size_t)blockIdx.x * a.w.cols;
    float step = row_step<F>(a.w, row);
    for (unsigned i = threadIdx.x; i < groups * 4; i += THREADS) {
        unsigned group = i / 4, q = i % 4, word[4];
        tile_piece p = F::load(a.w, row, group, q);
        for (unsigned b = 0; b < group_size<F::BLOCKS>(a.w, group); b++) {
            unit_scale s = F::scale(p, group, (int)b);
            F::pairs(p, (int)b, word);
            for (unsigned k = 0; k < 8; k++) {
                unsigned column = (group * F::BLOCKS + b) * 32 + k / 4 * 16 + q * 4 + k % 4;
                float v = k % 2 ? high_bf16(word[k / 2]) : low_bf16(word[k / 2]);
                if (column < a.w.cols)
                    x[column] = (s.step[k / 4 % F::HALVES] * v + s.offset) * (step * a.scale);
            }
        }
    }
}

__global__ void add_norm(const __grid_constant__ add_norm_args a)
{
    const float *y = a.y + (size_t)blockIdx.x * a.width;
    float *x = a.x + (size_t)blockIdx.x * a.width, squares = 0;
    grid_release(); /* the product that follows has its weights come meanwhile */
    for (unsigned i = threadIdx.x; i < a.width; i += THREADS)
        squares += y[i] * y[i];
    float factor = rsqrtf(block_sum<WARPS>(squares) / (float)a.width + a.eps);
    for (unsigned i = threadIdx.x; i < a.width; i += THREADS)
        x[i] += y[i] * factor * a.norm[i];
}

__global__ void gate(const __grid_constant__ gate_args a)
{
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    const float *both = a.both + (size_t)blockIdx.y * 2 * a.width;
    grid_release();
    if (i < a.width)
        a.h[(size_t)blockIdx.y * a.h_stride + i] = gated(a.gate, both[i]) * both[a.width + i];
}

__global__ void add(const __grid_constant__ add_args a)
{
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    grid_release();
    if (i < a.n)
        a.x[i] += a.y[i];
}

template <int FORMAT> static void launch_floats(const embed_args &a, dev_stream *s)
{
    KERNEL_LAUNCH(embed_floats<FORMAT>, dim3(a.n_tok), dim3(THREADS), 0, s, a);
}

template <int FORMAT> static void launch_tiles(const embed_args &a, dev_stream *s)
{
    KERNEL_LAUNCH(embed_tiles<FORMAT>, dim3(a.n_tok), dim3(THREADS), 0, s, a);
}

void launch_embed(const embed_args *a, dev_stream *s)
{
    static void (*const BY_FORMAT[N_PANEL_FORMATS])(const embed_args &, dev_stream *) = {
        launch_floats<PANEL_F32>, launch_floats<PANEL_F16>, launch_tiles<PANEL_BF16>,
        launch_tiles<PANEL_Q8_0>, launch_tiles<PANEL_Q4_0>, launch_tiles<PANEL_Q4_1>,
        launch_tiles<PANEL_Q5_0>, launch_tiles<PANEL_Q5_1>, launch_tiles<PANEL_Q4_K>,
        launch_tiles<PANEL_Q5_K>, launch_tiles<PANEL_Q6_K>, launch_tiles<PANEL_FP8>};
    BY_FORMAT[a->w.format](*a, s);
}

void launch_add_norm(const add_norm_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(add_norm, dim3(a->n_tok), dim3(THREADS), 0, s, *a);
}

void launch_gate(const gate_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(gate, dim3((a->width + THREADS - 1) / THREADS, a->n_tok), dim3(THREADS), 0, s,
                  *a);
}

void launch_add(const add_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(add, dim3((a->n + THREADS - 1) / THREADS), dim3(THREADS), 0, s, *a);
}

} // namespace KERNEL_SPACE
