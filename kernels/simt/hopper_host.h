/* kernels/simt/hopper_host.h - the host bodies of the wrappers of kernels/cuda/hopper.h, which
 * includes it. */
#ifndef KERNELS_SIMT_HOPPER_HOST_H
#define KERNELS_SIMT_HOPPER_HOST_H

struct tensor_map { /* matrix of halves and the box of a copy */
    const void *base;
    size_t width, height, pitch_bytes;
    unsigned box_height;
};
struct mbarrier { /* 8 bytes, as the real one */
    uint16_t expected, pending;
    int16_t bytes_16; /* still to come, in 16-byte pieces */
    uint16_t phase;
};

namespace simt
{
/* What a warpgroup multiplies: tiles of shared memory, or `rows`, a's part in this thread. */
struct wgmma_operands {
    uint64_t a, b;
    const unsigned *rows;
    bool is_f16;
};
void mbarrier_open(mbarrier *b, int n);
void mbarrier_come(mbarrier *b, int bytes);
void mbarrier_stay(mbarrier *b, unsigned parity);
void mbarriers_fence();
void tensor_copy(void *dst, const tensor_map *map, int x, int y, mbarrier *b);
void proxy_fence();
void named_barrier(unsigned i, unsigned n_threads, const site *at);
uint64_t descriptor(const void *p);
void wgmma(float *d, const wgmma_operands &of, const site *at);
void wgmma_open();
void wgmma_close_group();
void wgmma_land(int keep);
} // namespace simt

#define mbarrier_init             simt::mbarrier_open
#define mbarrier_arrive(b)        simt::mbarrier_come(b, 0)
#define mbarrier_expect(b, bytes) simt::mbarrier_come(b, bytes)
#define mbarrier_wait             simt::mbarrier_stay
#define tensor_load               simt::tensor_copy
#define fence_proxy_async         simt::proxy_fence
#define fence_mbarrier_init       simt::mbarriers_fence
#define bar_sync(i, n)            simt::named_barrier(i, n, SIMT_HERE)
#define wgmma_fence               simt::wgmma_open
#define wgmma_commit              simt::wgmma_close_group
#define tile_descriptor           simt::descriptor
#define wgmma_tiles(d, a, b, type)                                                                 \
    simt::wgmma(d, {a, b, NULL, std::is_same<decltype(type), f16>::value}, SIMT_HERE)
#define wgmma_rows(d, a, b, type)                                                                  \
    simt::wgmma(d, {0, b, a, std::is_same<decltype(type), f16>::value}, SIMT_HERE)

template <int KEEP, int N> static inline void wgmma_wait(float (&)[N])
{
    simt::wgmma_land(KEEP);
}

static inline bool tensor_map_of(tensor_map *map, const void *base, unsigned width, size_t height,
                                 size_t pitch_bytes, unsigned box_height)
{
    *map = tensor_map{base, width, height, pitch_bytes, box_height};
    return true;
}

#endif
