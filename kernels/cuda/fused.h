/* kernels/cuda/fused.h - columns of a block (columns.h) that it norms and splits itself, so that no
 * kernel has to before: the bits of split.cu. */
#ifndef KERNELS_CUDA_FUSED_H
#define KERNELS_CUDA_FUSED_H

#include "kernels/cuda/columns.h"

__device__ __forceinline__ uint4 bits_of(const float4 &v)
{
    return {__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)};
}

/* Records in shared memory: n of them, of the rows source[0] to source[n - 1]. The rows come there
 * as float32, all loads in flight at once, and become records in place: what was 16 bytes of
 * columns is the high or the low part of eight. Halves of a record are swapped in every other one,
 * so that neither the stores of neighbouring blocks nor the loads of neighbouring columns share a
 * bank. */
struct split_here {
    const product_args &a;
    const unsigned *source;
    unsigned n;
    uint4 *record;

    /* Where piece i of a column's row is. 4 pieces further in a block: that ^ 4; an even number of
     * blocks further: as many pieces. */
    __device__ __forceinline__ unsigned place_in(unsigned column, unsigned i) const
    {
        unsigned block = i / SPLIT_RECORD, swap = (column + block) % 2 * 4;
        return (column * blocks_in(a.w) + block) * SPLIT_RECORD + (i % SPLIT_RECORD ^ swap);
    }

    __device__ __forceinline__ float &sum_of(unsigned column, unsigned block) const
    {
        return ((float *)(record + n * blocks_in(a.w) * SPLIT_RECORD))[block * n + column];
    }

    __device__ __forceinline__ void load(unsigned column, unsigned block, uint4 &high,
                                         uint4 &low) const
    {
        if (column >= n)
            return;
        unsigned at = place_in(column, block * SPLIT_RECORD + threadIdx.x % 4);
        high = ld128(record + at);
        low = ld128(record + (at ^ 4));
    }

    __device__ __forceinline__ void add(float offset, unsigned column, unsigned block,
                                        float &sum) const
    {
        if (column < n)
            sum = multiply_add(offset, sum_of(column, block), sum);
    }

    __device__ __forceinline__ void fetch() const
    {
        unsigned cols = a.w.cols, pieces = blocks_in(a.w) * SPLIT_RECORD;
        for (unsigned c = 0; c < n; c++) {
            unsigned row = a.pick ? a.pick[source[c]] : source[c];
            const float *x = a.x + (size_t)row * a.x_stride;
            uint4 *to = record + place_in(c, threadIdx.x);
            for (unsigned i = threadIdx.x; i < pieces; i += TILE_THREADS, to += TILE_THREADS) {
                bool is_inside = i * 4 < cols;
                if (cols % 4 == 0)
                    cp_async16(to, is_inside ? x + i * 4 : x, is_inside ? 16 : 0);
                else
                    st128(to, bits_of(load_four(x, i * 4, cols)));
            }
        }
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
    }

    /* 1 / rms of each row, in the order of norm_factor: SPLIT_WARPS take a row. */
    __device__ __forceinline__ void norm(float *factor) const
    {
        enum { ROW_THREADS = 32 * SPLIT_WARPS };
        SMEM(float, of_warp, [8 * SPLIT_WARPS]);
        unsigned first = threadIdx.x % ROW_THREADS;
        for (unsigned c = threadIdx.x / ROW_THREADS; c < n; c += TILE_THREADS / ROW_THREADS) {
            float squares = 0;
            const uint4 *from = record + place_in(c, first);
            for (unsigned i = first; i * 4 < a.w.cols; i += ROW_THREADS, from += ROW_THREADS)
                squares += sum_of_squares(floats_of(ld128(from)));
            squares = warp_sum(squares);
            if (threadIdx.x % 32 == 0)
                of_warp[c * SPLIT_WARPS + first / 32] = squares;
        }
        __syncthreads();
        if (threadIdx.x < n) {
            float squares = 0;
            for (unsigned i = 0; i < SPLIT_WARPS; i++)
                squares += of_warp[threadIdx.x * SPLIT_WARPS + i];
            factor[threadIdx.x] = factor_of(a, squares);
        }
        __syncthreads();
    }

    /* A thread's eight columns of a block, in place. */
    template <class F>
    __device__ __forceinline__ void split_block(unsigned column, unsigned block, float factor,
                                                const float4 (&w)[2]) const
    {
        unsigned q = threadIdx.x % 4;
        split_eight s = {};
        if (block < blocks_in(a.w)) {
            unsigned at = place_in(column, block * SPLIT_RECORD + q);
            uint4 *high = record + at, *low = record + (at ^ 4);
            s = split_of(scaled(floats_of(ld128(high)), factor, w[0]),
                         scaled(floats_of(ld128(low)), factor, w[1]));
            st128(high, s.high);
            st128(low, s.low);
        }
        if (!F::HAS_OFFSET)
            return;
        float sum = warp_sum(s.sum, 4);
        if (q == 0 && block < blocks_in(a.w))
            sum_of(column, block) = sum;
    }

    /* The norm's weights are on their way before the wait. Ends with a barrier. */
    template <class F> __device__ __forceinline__ void prepare() const
    {
        SMEM(float, factor, [8]);
        unsigned q = threadIdx.x % 4, blocks = blocks_in(a.w), block = threadIdx.x / 4;
        float4 w[2] = {norm_four(a, block * 32 + q * 4), norm_four(a, block * 32 + q * 4 + 16)};
        grid_wait();
        fetch();
        if (a.norm)
            norm(factor);
        for (unsigned first = 0; first < blocks;
             first += TILE_THREADS / 4, block += TILE_THREADS / 4) {
            for (unsigned c = 0; c < n; c++)
                split_block<F>(c, block, a.norm ? factor[c] : 1, w);
            for (unsigned i = 0; i < 2; i++)
                w[i] = norm_four(a, (block + TILE_THREADS / 4) * 32 + q * 4 + i * 16);
        }
        __syncthreads();
    }
};

#endif
