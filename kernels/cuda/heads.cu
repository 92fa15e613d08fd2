/* Between the qkv product and attention: bias, norms of heads, rotation (RoPE, arXiv 2104.09864),
 * and keys and values into the cache. One warp a head of a token; lanes hold pairs of dimensions.
 * Moves the qkv row twice and writes each new key and value once, in whole sectors
 * (tests/kernels/simt/traffic_test.c): nothing beside the weights. */
#include "kernels/cuda/kv.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS, MAX_PAIRS = 4 /* a lane: heads of up to 256 */ };

struct head_pairs {
    float a[MAX_PAIRS], b[MAX_PAIRS];
};

/* Sine and cosine of a large angle: turned into (-pi, pi] in double, then short of a slow path. */
__device__ __forceinline__ void turn(double angle, float &a, float &b)
{
    double turns = angle * 0.15915494309189535;
    float rest = (float)((turns - rint(turns)) * 6.283185307179586), s, c;
    __sincosf(rest, &s, &c);
    float old = a;
    a = old * c - b * s;
    b = old * s + b * c;
}

__device__ __forceinline__ void norm_head(const heads_args &g, const float *weight, head_pairs &p)
{
    unsigned lane = threadIdx.x % 32;
    float squares = 0;
    for (int i = 0; i < MAX_PAIRS; i++)
        squares += p.a[i] * p.a[i] + p.b[i] * p.b[i];
    float factor = rsqrtf(warp_sum(squares) / (float)g.d_head + g.eps);
    for (unsigned i = 0; i < MAX_PAIRS; i++) {
        unsigned pair = i * 32 + lane;
        if (2 * pair >= g.d_head)
            break;
        p.a[i] *= factor * weight[2 * pair];
        p.b[i] *= factor * weight[2 * pair + 1];
    }
}

/* Step of an int8 head: whole multiples of the largest / 127, rounded to float16. */
__device__ __forceinline__ float step_of(const head_pairs &p)
{
    float largest = 0;
    for (int i = 0; i < MAX_PAIRS; i++)
        largest = fmaxf(largest, fmaxf(fabsf(p.a[i]), fabsf(p.b[i])));
    f16 step;
    from_float(step, warp_max(largest) / 127.0f);
    return to_float(step);
}

/* A lane's two values as one store, so that a warp writes whole sectors. */
template <class T>
__device__ __forceinline__ void put_halves(void *cache, size_t at, float a, float b)
{
    T low, high;
    from_float(low, a);
    from_float(high, b);
    *(unsigned *)((T *)cache + at) = (unsigned)low.bits | (unsigned)high.bits << 16;
}

__device__ __forceinline__ void put_bytes(void *cache, size_t at, unsigned a, unsigned b)
{
    *(uint16_t *)((char *)cache + at) = (uint16_t)((a & 255) | (b & 255) << 8);
}

__device__ __forceinline__ unsigned fp8_of(float v)
{
    fp8 f;
    from_float(f, v);
    return f.bits;
}

__device__ __forceinline__ unsigned int8_of(float v, float step)
{
    return step > 0 ? (unsigned)(int)fminf(fmaxf(rintf(v / step), -127.0f), 127.0f) : 0;
}

template <int FORMAT>
__device__ __forceinline__ void append(const heads_args &g, const head_pairs &p, void *cache,
                                       void *steps, size_t slot)
{
    unsigned lane = threadIdx.x % 32;
    float step = 0;
    if (FORMAT == KV_INT8) {
        step = step_of(p);
        if (lane == 0)
            from_float(((f16 *)steps)[slot], step);
    }
    for (unsigned i = 0; i < MAX_PAIRS; i++) {
        unsigned pair = i * 32 + lane;
        if (2 * pair >= g.d_head)
            break;
        size_t at = kv_element<kv_type<FORMAT>::BYTES>(slot, g.d_head, 2 * pair);
        if (FORMAT == KV_F16)
            put_halves<f16>(cache, at, p.a[i], p.b[i]);
        else if (FORMAT == KV_BF16)
            put_halves<bf16>(cache, at, p.a[i], p.b[i]);
        else if (FORMAT == KV_FP8)
            put_bytes(cache, at, fp8_of(p.a[i]), fp8_of(p.b[i]));
        else
            put_bytes(cache, at, int8_of(p.a[i], step), int8_of(p.b[i], step));
    }
}

__device__ __forceinline__ head_pairs load_pairs(const heads_args &g, const float *row, unsigned h)
{
    unsigned lane = threadIdx.x % 32;
    head_pairs p = {};
    for (unsigned i = 0; i < MAX_PAIRS && 2 * (i * 32 + lane) < g.d_head; i++) {
        unsigned at = 2 * (i * 32 + lane);
        p.a[i] = row[at] + (g.bias ? g.bias[h * g.d_head + at] : 0);
        p.b[i] = row[at + 1] + (g.bias ? g.bias[h * g.d_head + at + 1] : 0);
    }
    return p;
}

__device__ __forceinline__ void store_pairs(const heads_args &g, const head_pairs &p, float *row)
{
    unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < MAX_PAIRS && 2 * (i * 32 + lane) < g.d_head; i++) {
        row[2 * (i * 32 + lane)] = p.a[i];
        row[2 * (i * 32 + lane) + 1] = p.b[i];
    }
}

template <int FORMAT>
__device__ __forceinline__ void one_head(const heads_args &g, unsigned t, unsigned h)
{
    unsigned lane = threadIdx.x % 32, width = (g.n_head + 2 * g.n_head_kv) * g.d_head;
    bool is_query = h < g.n_head, is_value = h >= g.n_head + g.n_head_kv;
    float *row = g.qkv + (size_t)t * width + (size_t)h * g.d_head;
    const float *norm = is_query ? g.q_norm : is_value ? NULL : g.k_norm;
    head_pairs p = load_pairs(g, row, h);
    if (norm)
        norm_head(g, norm, p);
    unsigned position = g.step.position[t];
    for (unsigned i = 0; !is_value && i < MAX_PAIRS && 2 * (i * 32 + lane) < g.n_rot; i++)
        turn((double)position * g.inv_freq[i * 32 + lane], p.a[i], p.b[i]);
    if (is_query) {
        store_pairs(g, p, row);
        return;
    }
    unsigned head = h - g.n_head - (is_value ? g.n_head_kv : 0);
    size_t slot = kv_slot(g.step, g.step.seq[t], position, head, g.n_head_kv);
    append<FORMAT>(g, p, is_value ? g.kv.v : g.kv.k, is_value ? g.kv.v_step : g.kv.k_step, slot);
}

template <int FORMAT> __global__ void heads(const __grid_constant__ heads_args g)
{
    unsigned n = g.n_head + 2 * g.n_head_kv;
    for (unsigned h = blockIdx.y * WARPS + threadIdx.x / 32; h < n; h += gridDim.y * WARPS)
        one_head<FORMAT>(g, blockIdx.x, h);
}

template <int FORMAT> static void launch(const heads_args &g, dev_stream *s)
{
    unsigned n = g.n_head + 2 * g.n_head_kv;
    KERNEL_LAUNCH(heads<FORMAT>, dim3(g.step.n_tok, (n + WARPS - 1) / WARPS), dim3(THREADS), 0, s,
                  g);
}

void launch_heads(const heads_args *g, dev_stream *s)
{
    static void (*const BY_FORMAT[N_KV_FORMATS])(const heads_args &, dev_stream *) = {
        launch<KV_F16>, launch<KV_BF16>, launch<KV_FP8>, launch<KV_INT8>};
    BY_FORMAT[g->kv_format](*g, s);
}

} // namespace KERNEL_SPACE
