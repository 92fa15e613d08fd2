/* Each case is one block. What is expected follows the register layouts of the PTX ISA 9.0
 * (9.7.14.5.8 mma, 9.7.14.5.15 ldmatrix, 9.7.15.5 wgmma, 5.5.7 the swizzle of tensor copies). */
#include "kernels/cuda/dialect.h"
#include "kernels/cuda/hopper.h"
#include "tests/kernels/simt/ptx_cases.h"

#include <type_traits>

#ifdef __CUDACC__
#define TABLE PTX_CASES_CUDA
#else
#define TABLE PTX_CASES_SIMT
#endif

namespace KERNEL_SPACE
{

enum { TILE = 64, TILE_WORDS = TILE * TILE / 2, TILE_BYTES = TILE * TILE * 2, ACCUMULATORS = 32 };
enum { WIDE = 72, HIGH = 20, BOX_HIGH = 16, AT_X = 32, AT_Y = 8 }; /* the tensor of tensor_load */

/* ---- loads and stores ---- */

__global__ void vectors(const uint32_t *in, uint32_t *out)
{
    unsigned t = threadIdx.x;
    uint4 a = ld128(in + 4 * t), b = ld128_stream(in + 128 + 4 * t);
    st128(out + 4 * t, b);
    st128(out + 128 + 4 * t, a);
}

void expect_vectors(const uint32_t *in, uint32_t *out)
{
    memcpy(out, in + 128, 512);
    memcpy(out + 128, in, 512);
}

__global__ void acquire(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = ld_acquire(in + threadIdx.x);
    st_release_system(out + 32 + threadIdx.x, ld_acquire_system(in + (threadIdx.x ^ 1)));
}

void expect_acquire(const uint32_t *in, uint32_t *out)
{
    memcpy(out, in, 128);
    for (int t = 0; t < 32; t++)
        out[32 + t] = in[t ^ 1];
}

/* Sixteen bytes of which 0, 4, 8 or all are there, in two groups. */
__host__ __device__ inline unsigned valid_bytes(unsigned t)
{
    return t % 4 * 4 + (t % 4 == 3) * 4;
}

__global__ void async_copies(const uint32_t *in, uint32_t *out)
{
    SMEM(uint32_t, tile, [256]);
    unsigned t = threadIdx.x;
    cp_async16(tile + 4 * t, in + 4 * t, (int)valid_bytes(t));
    cp_async_commit();
    cp_async16(tile + 128 + 4 * t, in + 128 + 4 * t, 16);
    cp_async_commit();
    cp_async_wait<1>();
    st128(out + 4 * t, ld128(tile + 4 * t));
    cp_async_wait<0>();
    st128(out + 128 + 4 * t, ld128(tile + 128 + 4 * t));
}

void expect_async_copies(const uint32_t *in, uint32_t *out)
{
    memset(out, 0, 512);
    for (unsigned t = 0; t < 32; t++)
        memcpy(out + 4 * t, in + 4 * t, valid_bytes(t));
    memcpy(out + 128, in + 128, 512);
}

/* ---- a warp's matrices ---- */

template <bool TRANSPOSED> __global__ void matrices(const uint32_t *in, uint32_t *out)
{
    SMEM(uint32_t, tile, [128]);
    unsigned t = threadIdx.x, r[4];
    st128(tile + 4 * t, ld128(in + 4 * t));
    __syncwarp();
    if (TRANSPOSED)
        ldmatrix_x4_trans(r, tile + 4 * t);
    else
        ldmatrix_x4(r, tile + 4 * t);
    for (int i = 0; i < 4; i++)
        out[4 * t + (unsigned)i] = r[i];
}

/* Row r of matrix j is 16 bytes of lane 8 j + r; a lane gets columns 2 (l % 4) and the next of row
 * l / 4, or where transposed those rows of that column. */
template <bool TRANSPOSED> void expect_matrices(const uint32_t *in, uint32_t *out)
{
    const uint16_t *half = (const uint16_t *)in;
    for (int l = 0; l < 32; l++) {
        for (int j = 0; j < 4; j++) {
            uint32_t pair = 0;
            for (int i = 0; i < 2; i++) {
                int row = TRANSPOSED ? l % 4 * 2 + i : l / 4;
                int column = TRANSPOSED ? l / 4 : l % 4 * 2 + i;
                pair |= (uint32_t)half[(8 * j + row) * 8 + column] << (16 * i);
            }
            out[4 * l + j] = pair;
        }
    }
}

/* Pairs of bfloat16, for products of float16 as those. */
__device__ __forceinline__ unsigned operand(unsigned pair, bf16)
{
    return pair;
}
__device__ __forceinline__ unsigned operand(unsigned pair, f16)
{
    f16 low, high;
    from_float(low, low_bf16(pair));
    from_float(high, high_bf16(pair));
    return (unsigned)low.bits | (unsigned)high.bits << 16;
}

/* in: a [16][16], b [8][16] as pairs, both row after row; out: d [16][8]. */
template <class T> __global__ void product(const uint32_t *in, uint32_t *out)
{
    int l = (int)threadIdx.x, g = l / 4, t = l % 4;
    const uint32_t *b = in + 128;
    unsigned a[4] = {operand(in[g * 8 + t], T()), operand(in[(g + 8) * 8 + t], T()),
                     operand(in[g * 8 + t + 4], T()), operand(in[(g + 8) * 8 + t + 4], T())};
    unsigned both[2] = {operand(b[g * 8 + t], T()), operand(b[g * 8 + t + 4], T())};
    float d[4] = {1, 2, 3, 4};
    if (std::is_same<T, bf16>::value)
        mma_bf16(d, a, both);
    else
        mma_f16(d, a, both);
    for (int e = 0; e < 4; e++)
        out[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = __float_as_uint(d[e]);
}

static float small_at(const uint32_t *pairs, int i)
{
    uint32_t bits = pairs[i / 2] >> (i % 2 * 16) << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put_float(uint32_t *out, float f)
{
    memcpy(out, &f, sizeof f);
}

void expect_product(const uint32_t *in, uint32_t *out)
{
    for (int r = 0; r < 16; r++) {
        for (int c = 0; c < 8; c++) {
            float sum = (float)(1 + r / 8 * 2 + c % 2);
            for (int k = 0; k < 16; k++)
                sum += small_at(in, r * 16 + k) * small_at(in + 128, c * 16 + k);
            put_float(out + r * 8 + c, sum);
        }
    }
}

/* ---- votes and shuffles ---- */

__global__ void votes(const uint32_t *in, uint32_t *out)
{
    unsigned t = threadIdx.x, v = in[t], *to = out + 8 * t;
    to[0] = __shfl_sync(~0u, v, (int)(v & 31));
    to[1] = __shfl_xor_sync(~0u, v, 9);
    to[2] = __shfl_down_sync(~0u, v, 3);
    to[3] = __shfl_up_sync(~0u, v, 5);
    to[4] = __ballot_sync(~0u, v & 1);
    to[5] = __match_any_sync(~0u, v % 5);
    to[6] = __byte_perm(v, in[t ^ 1], (v >> 8) & 0x7777u);
    to[7] = (uint32_t)__popc(v) | (uint32_t)__clz((int)v) << 8 | (uint32_t)__ffs((int)v) << 16;
}

/* ---- numbers ---- */

__global__ void to_numbers(const uint32_t *in, uint32_t *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    float v = __uint_as_float(in[i]);
    f16 half;
    bf16 brain;
    fp8 byte;
    from_float(half, v);
    from_float(brain, v);
    from_float(byte, v);
    out[2 * i] = (uint32_t)half.bits | (uint32_t)brain.bits << 16;
    out[2 * i + 1] = byte.bits;
}

/* NaN payloads are free: a NaN counts as one. */
__device__ __forceinline__ uint32_t plain_bits(float v)
{
    return v != v ? 0x7FC00000u : __float_as_uint(v);
}

__global__ void from_numbers(const uint32_t *in, uint32_t *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    out[3 * i] = plain_bits(to_float(f16{(uint16_t)in[i]}));
    out[3 * i + 1] = plain_bits(to_float(bf16{(uint16_t)(in[i] >> 8)}));
    out[3 * i + 2] = plain_bits(to_float(fp8{(uint8_t)(in[i] >> 16)}));
}

__global__ void pairs_of_fp8(const uint32_t *in, uint32_t *out)
{
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    out[i] = pair_of_fp8(in[i] & 0xFFFF);
}

/* What would be NaN counts as the number that follows 448. */
void expect_pairs_of_fp8(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 1024; i++) {
        uint32_t half[2];
        for (int j = 0; j < 2; j++) {
            unsigned b = in[i] >> (8 * j) & 255;
            int exponent = (int)(b >> 3 & 15), fraction = (int)(b & 7);
            float v = exponent ? ldexpf((float)(8 + fraction), exponent - 10)
                               : ldexpf((float)fraction, -9);
            put_float(&half[j], b & 0x80 ? -v : v);
        }
        out[i] = half[0] >> 16 | half[1];
    }
}

/* ---- dependent launches ---- */

__global__ void ahead(const uint32_t *in, uint32_t *out)
{
    grid_release();
    out[128 + threadIdx.x] = in[threadIdx.x] + 1;
}

__global__ void early(uint32_t *out)
{
    grid_wait();
    out[threadIdx.x] = out[128 + threadIdx.x] + 1;
}

void run_dependent(const uint32_t *in, uint32_t *out, dev_stream *s)
{
    KERNEL_LAUNCH(ahead, dim3(1), dim3(128), 0, s, in, out);
    KERNEL_LAUNCH_EARLY(early, dim3(1), dim3(128), 0, s, out);
}

void expect_dependent(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 128; i++) {
        out[i] = in[i] + 2;
        out[128 + i] = in[i] + 1;
    }
}

/* ---- tensor copies, mbarriers, wgmma ---- */

__global__ void tensor_box(const __grid_constant__ tensor_map map, uint32_t *out)
{
    SMEM_DYN(unsigned char, tile);
    SMEM(mbarrier, landed, [1]);
    if (threadIdx.x == 0) {
        mbarrier_init(landed, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int i = 0; i < 2; i++) { /* both parities */
        if (threadIdx.x == 0) {
            mbarrier_expect(landed, BOX_HIGH * 128);
            tensor_load(tile + i * BOX_HIGH * 128, &map, AT_X * i, AT_Y * i, landed);
        }
        mbarrier_wait(landed, (unsigned)i);
    }
    for (unsigned i = threadIdx.x; i < 2 * BOX_HIGH * 8; i += 128)
        st128(out + 4 * i, ld128(tile + 16 * i));
}

void expect_tensor_box(const uint32_t *in, uint32_t *out)
{
    const uint16_t *from = (const uint16_t *)in;
    uint16_t *to = (uint16_t *)out;
    for (int i = 0; i < 2; i++) {
        for (int r = 0; r < BOX_HIGH; r++) {
            for (int c = 0; c < TILE; c++) {
                int x = AT_X * i + c, y = AT_Y * i + r, piece = (c / 8) ^ (r % 8);
                to[(i * BOX_HIGH + r) * TILE + piece * 8 + c % 8] =
                    x < WIDE && y < HIGH ? from[y * WIDE + x] : (uint16_t)0;
            }
        }
    }
}

/* in: a and b [64][64]; out: d [64][64] = a b^T, or a b with a in registers. */
template <class T, bool IS_ROWS> __global__ void tiles(const uint32_t *in, uint32_t *out)
{
    SMEM_DYN(unsigned char, tile);
    unsigned t = threadIdx.x;
    for (unsigned i = t; i < 2 * TILE * 8; i += 128) {
        unsigned r = i / 8, at = r * 128 + ((i % 8) ^ (r & 7)) * 16;
        for (unsigned j = 0; j < 4; j++)
            *(unsigned *)(tile + at + 4 * j) = operand(in[4 * i + j], T());
    }
    fence_proxy_async();
    bar_sync(1, 128);
    float d[ACCUMULATORS];
    unsigned a[4][4];
    for (int i = 0; i < ACCUMULATORS; i++)
        d[i] = 0;
    for (unsigned i = 0; i < 16; i++) {
        unsigned row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8, k = i / 4 * 8 + t % 4 + i / 2 % 2 * 4;
        a[i / 4][i % 4] = operand(in[row * (TILE / 2) + k], T());
    }
    wgmma_fence();
    for (int k = 0; k < 4; k++) {
        if (IS_ROWS)
            wgmma_rows(d, a[k], tile_descriptor(tile + TILE_BYTES + k * 2048), T());
        else
            wgmma_tiles(d, tile_descriptor(tile + k * 32),
                        tile_descriptor(tile + TILE_BYTES + k * 32), T());
    }
    wgmma_commit();
    wgmma_wait<0>(d);
    for (unsigned e = 0; e < ACCUMULATORS; e++) {
        unsigned row = t / 32 * 16 + t % 32 / 4 + e % 4 / 2 * 8,
                 column = e / 4 * 8 + t % 4 * 2 + e % 2;
        out[row * TILE + column] = __float_as_uint(d[e]);
    }
}

template <bool IS_ROWS> void expect_tiles(const uint32_t *in, uint32_t *out)
{
    for (int r = 0; r < TILE; r++) {
        for (int c = 0; c < TILE; c++) {
            float sum = 0;
            for (int k = 0; k < TILE; k++)
                sum += small_at(in, r * TILE + k) *
                       small_at(in + TILE_WORDS, IS_ROWS ? k * TILE + c : c * TILE + k);
            put_float(out + r * TILE + c, sum);
        }
    }
}

/* Eight rounds of two halves of a block that hand a word over through two mbarriers. */
__global__ void handover(const uint32_t *in, uint32_t *out)
{
    SMEM(mbarrier, full, [1]);
    SMEM(mbarrier, empty, [1]);
    SMEM(uint32_t, slot, [64]);
    unsigned t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(full, 64);
        mbarrier_init(empty, 64);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (unsigned i = 0; i < 8; i++) {
        if (t < 64) {
            if (i > 0)
                mbarrier_wait(empty, (i - 1) & 1);
            slot[t] = in[i * 64 + t];
            mbarrier_arrive(full);
        } else {
            mbarrier_wait(full, i & 1);
            out[i * 64 + t - 64] = slot[(t - 63) % 64];
            mbarrier_arrive(empty);
        }
    }
}

void expect_handover(const uint32_t *in, uint32_t *out)
{
    for (int i = 0; i < 8; i++)
        for (int t = 0; t < 64; t++)
            out[i * 64 + t] = in[i * 64 + (t + 1) % 64];
}

template <void (*KERNEL)(const uint32_t *, uint32_t *), int BLOCKS, int THREADS, int SHARED>
void run(const uint32_t *in, uint32_t *out, dev_stream *s)
{
    KERNEL_LAUNCH(KERNEL, dim3(BLOCKS), dim3(THREADS), SHARED, s, in, out);
}

void run_tensor_box(const uint32_t *in, uint32_t *out, dev_stream *s)
{
    tensor_map map;
    if (tensor_map_of(&map, in, WIDE, HIGH, WIDE * 2,
                      BOX_HIGH)) /* else out stays as it was, which is wrong */
        KERNEL_LAUNCH(tensor_box, dim3(1), dim3(128), 2 * BOX_HIGH * 128, s, map, out);
}

} // namespace KERNEL_SPACE

using namespace KERNEL_SPACE;

extern "C" const ptx_case TABLE[] = {
    {"ld128, ld128_stream, st128", PTX_BITS, 256, 256, run<vectors, 1, 32, 0>, expect_vectors},
    {"ld_acquire, st_release", PTX_BITS, 32, 64, run<acquire, 1, 32, 0>, expect_acquire},
    {"cp_async16", PTX_BITS, 256, 256, run<async_copies, 1, 32, 0>, expect_async_copies},
    {"ldmatrix_x4", PTX_BITS, 128, 128, run<matrices<false>, 1, 32, 0>, expect_matrices<false>},
    {"ldmatrix_x4_trans", PTX_BITS, 128, 128, run<matrices<true>, 1, 32, 0>, expect_matrices<true>},
    {"mma_bf16", PTX_SMALL, 192, 128, run<product<bf16>, 1, 32, 0>, expect_product},
    {"mma_f16", PTX_SMALL, 192, 128, run<product<f16>, 1, 32, 0>, expect_product},
    {"votes and shuffles", PTX_BITS, 32, 256, run<votes, 1, 32, 0>, NULL},
    {"from_float", PTX_FLOATS, 1024, 2048, run<to_numbers, 8, 128, 0>, NULL},
    {"to_float", PTX_BITS, 1024, 3072, run<from_numbers, 8, 128, 0>, NULL},
    {"mbarrier", PTX_BITS, 512, 512, run<handover, 1, 128, 0>, expect_handover},
    {"tensor_load", PTX_BITS, WIDE *HIGH / 2, 2 * BOX_HIGH * 32, run_tensor_box, expect_tensor_box},
    {"pair_of_fp8", PTX_BITS, 1024, 1024, run<pairs_of_fp8, 8, 128, 0>, expect_pairs_of_fp8},
    {"grid_wait, grid_release", PTX_BITS, 128, 256, run_dependent, expect_dependent},
    {"wgmma_tiles bf16, bar_sync", PTX_SMALL, 2 * TILE_WORDS, TILE *TILE,
     run<tiles<bf16, false>, 1, 128, 2 * TILE_BYTES>, expect_tiles<false>},
    {"wgmma_tiles f16", PTX_SMALL, 2 * TILE_WORDS, TILE *TILE,
     run<tiles<f16, false>, 1, 128, 2 * TILE_BYTES>, expect_tiles<false>},
    {"wgmma_rows bf16", PTX_SMALL, 2 * TILE_WORDS, TILE *TILE,
     run<tiles<bf16, true>, 1, 128, 2 * TILE_BYTES>, expect_tiles<true>},
    {"wgmma_rows f16", PTX_SMALL, 2 * TILE_WORDS, TILE *TILE,
     run<tiles<f16, true>, 1, 128, 2 * TILE_BYTES>, expect_tiles<true>},
    {NULL, PTX_BITS, 0, 0, NULL, NULL},
};
