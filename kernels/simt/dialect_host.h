/* kernels/simt/dialect_host.h - CUDA C names for a host compiler (cuda/dialect.h includes it).
 *
 * A CUDA thread is a fiber; a warp operation is a rendezvous: each lane leaves its arguments, the
 * last lane of the mask computes for all. A place in the source is known by the address of its
 * `site`, so that lanes that meet at different places are told apart. */
#ifndef KERNELS_SIMT_DIALECT_HOST_H
#define KERNELS_SIMT_DIALECT_HOST_H

#include <math.h>
#include <stddef.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __constant__
#define __grid_constant__

struct uint2 {
    unsigned x, y;
} __attribute__((aligned(8)));
struct uint4 {
    unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct float2 {
    float x, y;
} __attribute__((aligned(8)));
struct float4 {
    float x, y, z, w;
} __attribute__((aligned(16)));
struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace simt
{
struct site {
    const char *file;
    int line;
};
struct place { /* what a thread knows about itself */
    uint3 thread, block;
    unsigned lane;
};
struct launch_shape {
    dim3 grid, block;
    unsigned char *dynamic_shared;
};
extern const place *here;
extern launch_shape shape;

typedef void collective_fn(void **calls, uint32_t mask);
void warp_call(uint32_t mask, collective_fn *fn, void *call, const site *at);
void block_barrier(const site *at);
void spin();
void fence(bool is_device_wide);
void note_atomic(const void *p, size_t n);
void *shared_variable(const char *key, size_t bytes, const char *name);
void launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, dev_stream *stream,
            launch_kind kind, void (*run)(void *closure), void *closure,
            void (*destroy)(void *closure));

struct lane_call {
    uint64_t value, out;
    int source; /* lane to read */
};
void shuffle_body(void **calls, uint32_t mask);
void ballot_body(void **calls, uint32_t mask);
void match_body(void **calls, uint32_t mask);
void sync_body(void **calls, uint32_t mask);

template <class T> T shuffle(uint32_t mask, T v, int source, const site *at)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "a shuffled type");
    lane_call c = {0, 0, source};
    memcpy(&c.value, &v, sizeof v);
    warp_call(mask, shuffle_body, &c, at);
    memcpy(&v, &c.out, sizeof v);
    return v;
}

inline uint32_t vote(uint32_t mask, uint64_t v, collective_fn *fn, const site *at)
{
    lane_call c = {v, 0, 0};
    warp_call(mask, fn, &c, at);
    return (uint32_t)c.out;
}

/* One OS thread: a plain read, change, write is atomic. */
template <class T, class F>
__attribute__((noinline, no_sanitize("thread"))) T read_change_write(T *p, F change)
{
    note_atomic(p, sizeof *p);
    T old, next;
    memcpy(&old, p, sizeof old);
    next = change(old);
    __builtin_memcpy((void *)p, &next, sizeof next);
    return old;
}

template <class... P, class... A>
void launch_kernel(const char *name, dim3 grid, dim3 block, size_t shared_bytes, dev_stream *stream,
                   launch_kind kind, void (*kernel)(P...),
                   A... args) /* arguments convert as in a real launch */
{
    auto call = [=]() { kernel(static_cast<P>(args)...); };
    using closure = decltype(call);
    launch(
        name, grid, block, shared_bytes, stream, kind, [](void *c) { (*(closure *)c)(); },
        new closure(call), [](void *c) { delete (closure *)c; });
}
} // namespace simt

#define SIMT_HERE                                                                                  \
    ([]() -> const simt::site * {                                                                  \
        static const simt::site at = {__FILE__, __LINE__};                                         \
        return &at;                                                                                \
    }())
#define SMEM(type, name, dims)                                                                     \
    static const char name##_key = 0;                                                              \
    typedef type name##_type dims;                                                                 \
    name##_type &name =                                                                            \
        *(name##_type *)simt::shared_variable(&name##_key, sizeof(name##_type), #name)
#define SMEM_DYN(type, name) type *name = (type *)simt::shape.dynamic_shared
#define SPIN_HINT()          simt::spin()
#define KERNEL_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                              \
    simt::launch_kernel(#kernel, grid, block, shared_bytes, stream, LAUNCH_PLAIN, kernel,          \
                        __VA_ARGS__)
#define KERNEL_LAUNCH_TOGETHER(kernel, grid, block, shared_bytes, stream, ...)                     \
    simt::launch_kernel(#kernel, grid, block, shared_bytes, stream, LAUNCH_TOGETHER, kernel,       \
                        __VA_ARGS__)
#define KERNEL_LAUNCH_EARLY(kernel, grid, block, shared_bytes, stream, ...)                        \
    simt::launch_kernel(#kernel, grid, block, shared_bytes, stream, LAUNCH_EARLY, kernel,          \
                        __VA_ARGS__)

#define threadIdx                (simt::here->thread)
#define blockIdx                 (simt::here->block)
#define blockDim                 (simt::shape.block)
#define gridDim                  (simt::shape.grid)
#define SIMT_LANE                ((int)simt::here->lane)
#define __syncthreads()          simt::block_barrier(SIMT_HERE)
#define __syncwarp(...)          simt::warp_call(simt_mask(__VA_ARGS__), simt::sync_body, NULL, SIMT_HERE)
#define __shfl_sync(m, v, s)     simt::shuffle(m, v, (s)&31, SIMT_HERE)
#define __shfl_xor_sync(m, v, x) simt::shuffle(m, v, SIMT_LANE ^ (x), SIMT_HERE)
#define __shfl_down_sync(m, v, d)                                                                  \
    simt::shuffle(m, v, simt_lane_or_own(SIMT_LANE + (int)(d)), SIMT_HERE)
#define __shfl_up_sync(m, v, d)                                                                    \
    simt::shuffle(m, v, simt_lane_or_own(SIMT_LANE - (int)(d)), SIMT_HERE)
#define __ballot_sync(m, p)    simt::vote(m, !!(p), simt::ballot_body, SIMT_HERE)
#define __any_sync(m, p)       (__ballot_sync(m, p) != 0)
#define __all_sync(m, p)       (__ballot_sync(m, p) == (m))
#define __match_any_sync(m, v) simt::vote(m, (uint64_t)(v), simt::match_body, SIMT_HERE)
#define __expf(x)              expf(x)

static inline uint32_t simt_mask(uint32_t mask = 0xFFFFFFFFu)
{
    return mask;
}
static inline int simt_lane_or_own(int lane)
{
    return lane < 0 || lane > 31 ? SIMT_LANE : lane;
}
static inline void __threadfence()
{
    simt::fence(true);
}
static inline void __threadfence_block()
{
    simt::fence(false);
}
#include "kernels/simt/intrinsics.h"

#endif
