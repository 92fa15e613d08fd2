/* Planted defects. Every kernel is right with bug = 0; bug = 1 leaves out one barrier, fence, wait
 * or bound. The host part allocates, runs and compares; the caller counts the reports. */
#include "tests/kernels/simt/defects.h"

#include "kernels/cuda/hopper.h"

#include <stdio.h>
#include <vector>

namespace
{

enum { N = 128, BLOCKS = 8 };

struct buffers {
    float *in, *out;
    unsigned *flag;
};

__global__ void exchange(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    s[t] = b.in[t];
    if (!bug)
        __syncthreads();
    b.out[t] = s[(t + 32) % N];
}

__global__ void exchange_in_warp(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    s[t] = b.in[t];
    if (!bug)
        __syncwarp();
    b.out[t] = s[t ^ 31];
}

__global__ void beyond_shared(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    s[t] = b.in[t];
    __syncthreads();
    float v = s[bug && t == 0 ? N + 4 : t];
    b.out[t] = v;
}

__global__ void beyond_global(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    b.out[t] = b.in[bug && t == N - 1 ? N + 1 : t];
}

__global__ void misaligned(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    if (t % 4 == 0 && t < N - 4) {
        uint4 v = ld128(b.in + t + (bug ? 1 : 0));
        st128(b.out + t, v);
    } else if (t >= N - 4) {
        b.out[t] = b.in[t];
    }
}

__global__ void uninitialised(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    if (!bug || t < N / 2)
        s[t] = b.in[t];
    __syncthreads();
    b.out[t] = s[t];
}

/* Each counts for another; atomics among themselves need no order. */
__global__ void counted(buffers b, int bug)
{
    SMEM(unsigned, count, [N]);
    int t = (int)threadIdx.x;
    count[t] = 0;
    __syncthreads();
    atomicAdd(&count[N - 1 - t], 1u);
    atomicAdd(&count[t / 2], 1u);
    if (!bug)
        __syncthreads();
    b.out[t] = b.in[t] + (count[t] == (t < N / 2 ? 3u : 1u) ? 0.0f : 1.0f);
}

__global__ void diverged(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    b.out[t] = b.in[t];
    if (bug && t < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void absent_lanes(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    if (t % 32 >= 16) {
        b.out[t] = b.in[t];
        return;
    }
    float v = __shfl_xor_sync(bug ? 0xFFFFFFFFu : 0xFFFFu, b.in[t], 1);
    b.out[t] = v - b.in[t ^ 1] + b.in[t];
}

__global__ void lane_outside_mask(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    float v = 0;
    if (t % 32 < 16)
        v = __shfl_sync(0xFFFFu, b.in[t], bug ? 20 : t % 16) - b.in[t];
    b.out[t] = b.in[t] + v;
}

/* The last of the blocks adds what all have written (CUDA C Programming Guide, memory fences). */
__global__ void last_block(buffers b, int no_release, int no_acquire)
{
    SMEM(unsigned, is_last, [1]);
    int t = (int)threadIdx.x, n = (int)gridDim.x;
    b.out[N + blockIdx.x * N + t] = b.in[t];
    if (!no_release)
        __threadfence();
    __syncthreads();
    if (t == 0)
        is_last[0] = atomicAdd(b.flag, 1u) == (unsigned)n - 1;
    __syncthreads();
    if (!is_last[0])
        return;
    if (!no_acquire)
        __threadfence();
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += b.out[N + i * N + t];
    b.out[t] = sum / (float)n;
}

__global__ void copied(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    if (t < N / 4)
        cp_async16(s + 4 * t, b.in + 4 * t, 16);
    cp_async_commit();
    if (!bug)
        cp_async_wait<0>();
    __syncthreads();
    b.out[t] = s[t];
}

__global__ void missed_barrier(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    b.out[t] = b.in[t];
    if (!bug || t >= 32) {
        __syncthreads();
        return;
    }
    while (ld_acquire(b.flag) == 0)
        SPIN_HINT();
}

__global__ void named(buffers b, int bug)
{
    SMEM(float, s, [N]);
    int t = (int)threadIdx.x;
    if (t >= 64) {
        b.out[t] = b.in[t];
        return;
    }
    s[t] = b.in[t];
    if (!bug)
        bar_sync(1, 64);
    b.out[t] = s[63 - t] - b.in[63 - t] + b.in[t];
}

/* May run beside the kernel that writes what it reads. */
__global__ void started_early(buffers b, int bug)
{
    int t = (int)threadIdx.x;
    if (!bug)
        grid_wait();
    b.out[t] = b.in[t];
}

enum { TILE = 64, STAGES = 2, STEPS = 5, TILE_BYTES = TILE * TILE * 2 };

__device__ void store_tile(float *out, const float (&d)[32])
{
    int t = (int)threadIdx.x;
    for (int e = 0; e < 32; e++)
        out[(t / 32 * 16 + t % 32 / 4 + e % 4 / 2 * 8) * TILE + e / 4 * 8 + t % 4 * 2 + e % 2] =
            d[e];
}

/* What `pipelined` leaves out. */
enum pipeline_bug {
    NO_EMPTY_WAIT = 1,
    NO_FULL_WAIT,
    NO_LAST_WAIT,
    NO_PROXY_FENCE, /* of `stored` */
    NO_INIT_FENCE,
    NO_WGMMA_FENCE,
    EARLY_ARRIVE,
    NO_STORE_FENCE,
    NO_BARRIER,
};
typedef mbarrier stage_barriers[STAGES];

__device__ void begin_stages(unsigned char *tiles, stage_barriers &full, stage_barriers &empty,
                             int bug)
{
    int t = (int)threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], 128);
        }
        if (bug != NO_INIT_FENCE)
            fence_mbarrier_init();
    }
    for (int i = t; i < STAGES * 2 * TILE_BYTES / 16; i += 160)
        st128(tiles + i * 16, {}); /* what copies write over */
    if (bug != NO_STORE_FENCE)
        fence_proxy_async();
    if (bug != NO_BARRIER)
        __syncthreads();
}

__device__ void copy_stages(unsigned char *tiles, stage_barriers &full, stage_barriers &empty,
                            const tensor_map &a, const tensor_map &b, int bug)
{
    for (int i = 0; i < STEPS; i++) {
        unsigned char *at = tiles + i % STAGES * 2 * TILE_BYTES;
        if (i >= STAGES && bug != NO_EMPTY_WAIT)
            mbarrier_wait(&empty[i % STAGES], (unsigned)(i / STAGES & 1) ^ 1);
        mbarrier_expect(&full[i % STAGES], 2 * TILE_BYTES);
        tensor_load(at, &a, i * TILE, 0, &full[i % STAGES]);
        tensor_load(at + TILE_BYTES, &b, i * TILE, 0, &full[i % STAGES]);
    }
}

__device__ void multiply_stage(const unsigned char *at, float (&d)[32], int bug)
{
    if (bug != NO_WGMMA_FENCE)
        wgmma_fence();
    for (int k = 0; k < 4; k++)
        wgmma_tiles(d, tile_descriptor(at + k * 32), tile_descriptor(at + TILE_BYTES + k * 32),
                    bf16());
    wgmma_commit();
}

/* One 64 x 64 product over STEPS tiles: thread 128 copies, the first 128 multiply. */
__global__ void pipelined(float *out, const __grid_constant__ tensor_map a,
                          const __grid_constant__ tensor_map b, int bug)
{
    SMEM_DYN(unsigned char, tiles);
    SMEM(mbarrier, full, [STAGES]);
    SMEM(mbarrier, empty, [STAGES]);
    begin_stages(tiles, full, empty, bug);
    if (threadIdx.x == 128)
        copy_stages(tiles, full, empty, a, b, bug);
    if (threadIdx.x >= 128)
        return;
    float d[32];
    for (int i = 0; i < 32; i++)
        d[i] = 0;
    for (int i = 0; i < STEPS; i++) {
        if (bug != NO_FULL_WAIT)
            mbarrier_wait(&full[i % STAGES], (unsigned)(i / STAGES & 1));
        multiply_stage(tiles + i % STAGES * 2 * TILE_BYTES, d, bug);
        if (bug == EARLY_ARRIVE)
            mbarrier_arrive(&empty[i % STAGES]);
        if (bug != NO_LAST_WAIT || i + 1 < STEPS)
            wgmma_wait<0>(d);
        if (bug != EARLY_ARRIVE)
            mbarrier_arrive(&empty[i % STAGES]);
    }
    store_tile(out, d);
    if (bug == NO_LAST_WAIT)
        wgmma_wait<0>(d);
}

/* Tiles written by ordinary stores, swizzled by hand. */
__global__ void stored(float *out, const bf16 *a, const bf16 *b, int pitch, int bug)
{
    SMEM_DYN(unsigned char, tiles);
    int t = (int)threadIdx.x;
    for (int i = t; i < TILE * 8; i += 128) {
        int r = i / 8, q = i % 8, at = r * 128 + (q ^ (r & 7)) * 16;
        st128(tiles + at, ld128(a + r * pitch + q * 8));
        st128(tiles + TILE_BYTES + at, ld128(b + r * pitch + q * 8));
    }
    if (!bug)
        fence_proxy_async();
    __syncthreads();
    float d[32];
    for (int i = 0; i < 32; i++)
        d[i] = 0;
    wgmma_fence();
    for (int k = 0; k < 4; k++)
        wgmma_tiles(d, tile_descriptor(tiles + k * 32),
                    tile_descriptor(tiles + TILE_BYTES + k * 32), bf16());
    wgmma_commit();
    wgmma_wait<0>(d);
    store_tile(out, d);
}

const dev_ops *const DEV = &DEV_SIMT;

template <class T> struct on_device {
    T *p;
    on_device(const std::vector<T> &v, dev_stream *s) : p((T *)DEV->alloc(v.size() * sizeof(T)))
    {
        DEV->copy(p, v.data(), v.size() * sizeof(T), DEV_TO_DEVICE, s);
        (void)!DEV->sync(s, NULL);
    }
    explicit on_device(size_t n) : p((T *)DEV->alloc(n * sizeof(T))) {}
    ~on_device()
    {
        DEV->release(p);
    }
    std::vector<T> get(size_t n, dev_stream *s)
    {
        std::vector<T> v(n);
        DEV->copy(v.data(), p, n * sizeof(T), DEV_TO_HOST, s);
        (void)!DEV->sync(s, NULL);
        return v;
    }
};

std::vector<float> ramp(size_t n)
{
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)i + 1;
    return v;
}

template <void (*KERNEL)(buffers, int)>
bool run_simple(dev_stream *s, int bug, unsigned (*expected)(unsigned))
{
    on_device<float> in(ramp(N), s), out((size_t)N * (BLOCKS + 1));
    on_device<unsigned> flag(std::vector<unsigned>(1), s);
    KERNEL_LAUNCH(KERNEL, dim3(1), dim3(N), 0, s, buffers{in.p, out.p, flag.p}, bug);
    std::vector<float> got = out.get(N, s);
    for (unsigned i = 0; i < N; i++)
        if (got[i] != (float)expected(i) + 1)
            return false;
    return true;
}

unsigned same(unsigned i)
{
    return i;
}
unsigned next_warp(unsigned i)
{
    return (i + 32) % N;
}
unsigned mirrored(unsigned i)
{
    return i ^ 31;
}

template <void (*KERNEL)(buffers, int), unsigned (*EXPECTED)(unsigned)>
bool simple(dev_stream *s, int bug)
{
    return run_simple<KERNEL>(s, bug, EXPECTED);
}

template <int RELEASE, int ACQUIRE> bool between_blocks(dev_stream *s, int bug)
{
    on_device<float> in(ramp(N), s), out((size_t)N * (BLOCKS + 1));
    on_device<unsigned> flag(std::vector<unsigned>(1), s);
    KERNEL_LAUNCH(last_block, dim3(BLOCKS), dim3(N), 0, s, buffers{in.p, out.p, flag.p},
                  bug * RELEASE, bug * ACQUIRE);
    return out.get(N, s) == ramp(N);
}

bool after_free(dev_stream *s, int bug)
{
    on_device<float> in(ramp(N), s), out(N);
    on_device<unsigned> flag(std::vector<unsigned>(1), s);
    float *freed = (float *)DEV->alloc(N * sizeof(float));
    DEV->copy(freed, in.p, N * sizeof(float), DEV_ON_DEVICE, s);
    (void)!DEV->sync(s, NULL);
    if (bug)
        DEV->release(freed);
    KERNEL_LAUNCH(beyond_global, dim3(1), dim3(N), 0, s, buffers{freed, out.p, flag.p}, 0);
    bool is_right = out.get(N, s) == ramp(N);
    if (!bug)
        DEV->release(freed);
    return is_right;
}

/* The second stream reads what the first writes. */
bool missing_event(dev_stream *s, int bug)
{
    dev_stream *other = DEV->stream_open();
    dev_event *done = DEV->event_open();
    on_device<float> in(ramp(N), s), middle(N), out(N);
    on_device<unsigned> flag(std::vector<unsigned>(1), s);
    KERNEL_LAUNCH(exchange, dim3(1), dim3(N), 0, s, buffers{in.p, middle.p, flag.p}, 0);
    DEV->record(done, s);
    if (!bug)
        DEV->wait(other, done);
    KERNEL_LAUNCH(exchange, dim3(1), dim3(N), 0, other, buffers{middle.p, out.p, flag.p}, 0);
    std::vector<float> got = out.get(N, other), want = ramp(N);
    (void)!DEV->sync(s, NULL);
    DEV->event_close(done);
    DEV->stream_close(other);
    for (unsigned i = 0; i < N; i++)
        if (got[i] != want[(i + 64) % N])
            return false;
    return true;
}

bool missing_grid_wait(dev_stream *s, int bug)
{
    on_device<float> in(ramp(N), s), middle(N), out(N);
    KERNEL_LAUNCH(exchange_in_warp, dim3(1), dim3(N), 0, s, buffers{in.p, middle.p, NULL}, 0);
    KERNEL_LAUNCH_EARLY(started_early, dim3(1), dim3(N), 0, s, buffers{middle.p, out.p, NULL}, bug);
    std::vector<float> got = out.get(N, s);
    for (unsigned i = 0; i < N; i++)
        if (got[i] != (float)mirrored(i) + 1)
            return false;
    return true;
}

std::vector<bf16> small_numbers(size_t n, unsigned seed)
{
    std::vector<bf16> v(n);
    for (size_t i = 0; i < n; i++)
        from_float(v[i], (float)((i * 7 + seed) % 13) - 6);
    return v;
}

bool is_product(const std::vector<float> &got, const std::vector<bf16> &a,
                const std::vector<bf16> &b, int k)
{
    for (int r = 0; r < TILE; r++) {
        for (int c = 0; c < TILE; c++) {
            float sum = 0;
            for (int i = 0; i < k; i++)
                sum += to_float(a[(size_t)(r * k + i)]) * to_float(b[(size_t)(c * k + i)]);
            if (got[(size_t)(r * TILE + c)] != sum)
                return false;
        }
    }
    return true;
}

template <int BUG> bool tiles(dev_stream *s, int bug)
{
    int k = BUG == NO_PROXY_FENCE ? TILE : TILE * STEPS;
    std::vector<bf16> ha = small_numbers((size_t)(TILE * k), 3),
                      hb = small_numbers((size_t)(TILE * k), 5);
    on_device<bf16> a(ha, s), b(hb, s);
    on_device<float> out(TILE * TILE);
    tensor_map ma, mb;
    if (!tensor_map_of(&ma, a.p, (unsigned)k, TILE, (size_t)k * 2, TILE) ||
        !tensor_map_of(&mb, b.p, (unsigned)k, TILE, (size_t)k * 2, TILE))
        return false;
    if (BUG == NO_PROXY_FENCE)
        KERNEL_LAUNCH(stored, dim3(1), dim3(128), 2 * TILE_BYTES, s, out.p, a.p, b.p, k, bug);
    else
        KERNEL_LAUNCH(pipelined, dim3(1), dim3(160), 2 * STAGES * TILE_BYTES, s, out.p, ma, mb,
                      bug * BUG);
    return is_product(out.get(TILE * TILE, s), ha, hb, k);
}

const defect DEFECTS[] = {
    {"missing __syncthreads", "shared read", DEFECT_SEEN_BY_ALL, simple<exchange, next_warp>},
    {"missing __syncwarp", "shared read", DEFECT_SEEN_BY_ALL, simple<exchange_in_warp, mirrored>},
    {"shared out of bounds", "out-of-bounds shared", DEFECT_OUT_OF_BOUNDS,
     simple<beyond_shared, same>},
    {"global out of bounds", "out-of-bounds", DEFECT_OUT_OF_BOUNDS, simple<beyond_global, same>},
    {"use after free", "freed", DEFECT_OUT_OF_BOUNDS, after_free},
    {"misaligned access", "misaligned", DEFECT_SEEN_BY_ALL, simple<misaligned, same>},
    {"uninitialised shared", "nothing wrote", DEFECT_SEEN_BY_ALL, simple<uninitialised, same>},
    {"atomic and a plain read", "unsynchronised", DEFECT_SEEN_BY_CHECK, simple<counted, same>},
    {"divergent barrier", "divergent", DEFECT_SEEN_BY_ALL, simple<diverged, same>},
    {"mask of absent lanes", "returned", DEFECT_SEEN_BY_ALL, simple<absent_lanes, same>},
    {"shfl outside the mask", "outside mask", DEFECT_SEEN_BY_ALL, simple<lane_outside_mask, same>},
    {"missing release fence", "unsynchronised", DEFECT_SEEN_BY_CHECK, between_blocks<1, 0>},
    {"missing acquire fence", "unsynchronised", DEFECT_SEEN_BY_CHECK, between_blocks<0, 1>},
    {"cp.async without wait", "", DEFECT_SEEN_BY_ALL, simple<copied, same>},
    {"barrier never reached", "deadlock", DEFECT_SEEN_BY_ALL, simple<missed_barrier, same>},
    {"missing named barrier", "shared read", DEFECT_SEEN_BY_ALL, simple<named, same>},
    {"missing event", "", DEFECT_SEEN_BY_ALL, missing_event},
    {"missing grid wait", "grid_wait", DEFECT_SEEN_BY_CHECK, missing_grid_wait},
    {"slot reused too early", "", DEFECT_SEEN_BY_ALL, tiles<NO_EMPTY_WAIT>},
    {"slot read too early", "", DEFECT_SEEN_BY_ALL, tiles<NO_FULL_WAIT>},
    {"accumulator in flight", "", DEFECT_SEEN_BY_ALL, tiles<NO_LAST_WAIT>},
    {"missing proxy fence", "proxy", DEFECT_SEEN_BY_CHECK, tiles<NO_PROXY_FENCE>},
    {"missing fence of mbarriers", "init", DEFECT_SEEN_BY_ALL, tiles<NO_INIT_FENCE>},
    {"missing wgmma fence", "wgmma_fence", DEFECT_SEEN_BY_ALL, tiles<NO_WGMMA_FENCE>},
    {"slot handed back before the wait", "unsynchronised", DEFECT_SEEN_BY_CHECK,
     tiles<EARLY_ARRIVE>},
    {"copy over ordinary stores", "proxy", DEFECT_SEEN_BY_CHECK, tiles<NO_STORE_FENCE>},
    {"mbarrier used before its init", "", DEFECT_SEEN_BY_CHECK, tiles<NO_BARRIER>},
};

} // namespace

const defect *defect_at(unsigned i)
{
    return i < sizeof DEFECTS / sizeof *DEFECTS ? &DEFECTS[i] : NULL;
}
