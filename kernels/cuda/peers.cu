/* The one-shot sum over the ranks' memory, with what follows it in a layer: every rank reads all
 * ranks' parts itself and adds them in the order of the ranks, so that all get the same bits (as
 * custom all-reduces of serving systems do for small messages: one trip over the link in place of
 * two).
 *
 * A block tells each rank's block of the same number that its rank has come to this turn, and waits
 * for theirs. A rank that has come has written its parts of this turn and has read all of the turn
 * before, both by earlier kernels of its stream: so parts alternate between two buffers, and no
 * second wait is needed. All blocks of a launch must be resident: those of one rank wait for those
 * of another. */
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/launchers.h"

namespace KERNEL_SPACE
{

enum { WARPS = 8, THREADS = 32 * WARPS };

static __device__ __forceinline__ void meet(const peers_args &a)
{
    unsigned r = threadIdx.x;
    if (r < a.n_rank)
        st_release_system(a.flag[r] + blockIdx.x * MAX_PEERS + a.rank, a.turn);
    if (r < a.n_rank)
        while ((int)(ld_acquire_system(a.flag[a.rank] + blockIdx.x * MAX_PEERS + r) - a.turn) < 0)
            SPIN_HINT();
    __syncthreads();
}

static __device__ __forceinline__ float4 at4(const float *p)
{
    uint4 v = ld128(p);
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
}

static __device__ __forceinline__ void put4(float *p, float4 v)
{
    st128(p,
          {__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)});
}

__global__ void __launch_bounds__(THREADS) sum_of_peers(const __grid_constant__ peers_ranks ranks)
{
    const peers_args &a = ranks.rank[blockIdx.y];
    meet(a);
    for (unsigned t = blockIdx.x; t < a.n_tok; t += gridDim.x) {
        size_t row = (size_t)t * a.width;
        float squares = 0;
        for (unsigned i = threadIdx.x * 4; i < a.width; i += THREADS * 4) {
            float4 sum = at4(a.part[0] + row + i), x = at4(a.x + row + i);
            for (unsigned r = 1; r < a.n_rank; r++) {
                float4 p = at4(a.part[r] + row + i);
                sum = {sum.x + p.x, sum.y + p.y, sum.z + p.z, sum.w + p.w};
            }
            x = {x.x + sum.x, x.y + sum.y, x.z + sum.z, x.w + sum.w};
            put4(a.x + row + i, x);
            squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
        }
        if (!a.y)
            continue;
        float factor = rsqrtf(block_sum<WARPS>(squares) / (float)a.width + a.eps);
        for (unsigned i = threadIdx.x * 4; i < a.width; i += THREADS * 4) {
            float4 x = at4(a.x + row + i), w = at4(a.norm + i);
            put4(a.y + row + i,
                 {x.x * factor * w.x, x.y * factor * w.y, x.z * factor * w.z, x.w * factor * w.w});
        }
    }
}

void launch_sum_of_peers(const peers_ranks *a, dev_stream *s)
{
    unsigned n = a->rank[0].n_tok < PEER_BLOCKS ? a->rank[0].n_tok : (unsigned)PEER_BLOCKS;
    KERNEL_LAUNCH_TOGETHER(sum_of_peers, dim3(n, a->n_here), dim3(THREADS), 0, s, *a);
}

} // namespace KERNEL_SPACE
