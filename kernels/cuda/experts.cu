/* The router of a mixture of experts, and the sum of what the chosen gave (arXiv 2101.03961). One
 * warp a token; a lane holds every 32nd expert. Small beside the experts' weights. */
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = 4, THREADS = 32 * WARPS, PER_LANE = MAX_EXPERTS / 32 };
#define TAKEN (-1.0f)

/* Shares of this lane's experts, to be divided by the sum of all, which is returned. A score that
 * is no number has the share zero, so that shares can be compared whatever the weights gave; so
 * have experts that do not exist, and never come before one that does, whose number is lower. */
__device__ __forceinline__ float shares(const route_args &a, unsigned t, float (&p)[PER_LANE])
{
    const float *logits = a.logits + (size_t)t * a.n_expert;
    unsigned lane = threadIdx.x % 32;
    float most = -INFINITY, sum = 0;
#pragma unroll
    for (unsigned i = 0; i < PER_LANE; i++) {
        p[i] = i * 32 + lane < a.n_expert ? logits[i * 32 + lane] : -INFINITY;
        most = fmaxf(most, p[i]);
    }
    most = warp_max(most);
#pragma unroll
    for (unsigned i = 0; i < PER_LANE; i++) {
        p[i] = fmaxf(expf(p[i] - most), 0.0f);
        sum += p[i];
    }
    return warp_sum(sum);
}

/* The largest p not taken yet, of all lanes; equal ones: the lower number. */
__device__ __forceinline__ unsigned best_of(const float (&p)[PER_LANE])
{
    unsigned lane = threadIdx.x % 32, best = lane;
    float most = p[0];
#pragma unroll
    for (unsigned i = 1; i < PER_LANE; i++) {
        if (p[i] > most) {
            most = p[i];
            best = i * 32 + lane;
        }
    }
    for (int x = 16; x > 0; x /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, most, x);
        unsigned at = __shfl_xor_sync(0xFFFFFFFFu, best, x);
        if (other > most || (other == most && at < best)) {
            most = other;
            best = at;
        }
    }
    return best;
}

__global__ void route(const __grid_constant__ route_args a)
{
    unsigned t = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32, place = 0;
    if (t >= a.n_tok)
        return;
    float p[PER_LANE], chosen[PER_LANE], sum = 0, all = shares(a, t, p);
#pragma unroll
    for (unsigned i = 0; i < PER_LANE; i++)
        chosen[i] = TAKEN;
    for (unsigned k = 0; k < a.n_used; k++) {
        unsigned best = best_of(p);
#pragma unroll
        for (unsigned i = 0; i < PER_LANE; i++) {
            if (i * 32 + lane != best)
                continue;
            chosen[i] = p[i];
            sum += p[i];
            p[i] = TAKEN;
        }
    }
    sum = a.is_normed ? warp_sum(sum) : all;
    for (unsigned i = 0; i < PER_LANE; i++) {
        unsigned mask = __ballot_sync(0xFFFFFFFFu, chosen[i] != TAKEN);
        if (chosen[i] != TAKEN) {
            size_t at = (size_t)t * a.n_used + place + (unsigned)__popc(mask & ((1u << lane) - 1));
            a.expert[at] = i * 32 + lane;
            a.weight[at] = chosen[i] / sum;
        }
        place += (unsigned)__popc(mask);
    }
}

__global__ void combine(const __grid_constant__ combine_args a)
{
    unsigned i = blockIdx.x * THREADS + threadIdx.x, t = blockIdx.y;
    if (i >= a.width)
        return;
    float sum = 0;
    for (unsigned s = 0; s < a.n_used; s++) {
        size_t pair = (size_t)t * a.n_used + s;
        sum = multiply_add(a.weight[pair], a.of_pair[pair * a.width + i], sum);
    }
    a.y[(size_t)t * a.width + i] = sum;
}

void launch_route(const route_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(route, dim3((a->n_tok + WARPS - 1) / WARPS), dim3(THREADS), 0, s, *a);
}

void launch_combine(const combine_args *a, dev_stream *s)
{
    KERNEL_LAUNCH(combine, dim3((a->width + THREADS - 1) / THREADS, a->n_tok), dim3(THREADS), 0, s,
                  *a);
}

} // namespace KERNEL_SPACE
