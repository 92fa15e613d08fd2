/* exp by range reduction 2^n * 2^f and a degree-6 Taylor polynomial of 2^f on |f| <= 1/2
 * (Cody and Waite, "Software Manual for the Elementary Functions", 1980): relative error below
 * 2e-7. Sixteen accumulators give the compiler lanes and fix the order of the sum; the same body is
 * compiled for three instruction sets, chosen at run time. */
#include "engine/sample/softmax.h"

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

#define INLINE static inline __attribute__((always_inline))

INLINE float exp_one(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    float wanted = x * 1.44269504f;
    float t = wanted < -126.0f ? -126.0f : wanted; /* NaN compares false and goes through */
    t = t > 127.0f ? 127.0f : t;
    float shifted = t + magic;
    float f = t - (shifted - magic);
    float p = 1.5403530e-4f;
    p = p * f + 1.33335581e-3f;
    p = p * f + 9.61812911e-3f;
    p = p * f + 5.55041087e-2f;
    p = p * f + 2.40226507e-1f;
    p = p * f + 6.93147181e-1f;
    p = p * f + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3F800000u; /* low bits of `shifted` hold n */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return wanted < -126.0f ? 0.0f : p * scale; /* a banned token must have no chance at all */
}

/* GCC's vectors: a loop over an array of lanes would become sixteen scalar maxima. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

INLINE float max_body(const float *x, size_t n)
{
    float best = x[0], lane[LANES];
    size_t whole = n - n % LANES;
    lanes most = x[0] - (lanes){0}, v;
    for (size_t i = 0; i < whole; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        lane_bits is_larger = v > most; /* all bits or none; NaN compares false */
        most = (lanes)(((lane_bits)v & is_larger) | ((lane_bits)most & ~is_larger));
    }
    memcpy(lane, &most, sizeof lane);
    for (int j = 0; j < LANES; j++)
        best = lane[j] > best ? lane[j] : best;
    for (size_t i = whole; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

INLINE void block_max_body(const float *x, size_t n, float *most)
{
    for (size_t from = 0; from < n; from += SOFTMAX_BLOCK)
        *most++ = max_body(x + from, n - from < SOFTMAX_BLOCK ? n - from : SOFTMAX_BLOCK);
}

/* Lane sums stay in float within a block, so that rounding does not grow with n. */
INLINE double exp_block(const float *x, size_t n, float shift, float scale, float *out)
{
    size_t whole = n - n % LANES;
    float lane[LANES] = {0};
    double total = 0;
    for (size_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = exp_one((x[i + (size_t)j] - shift) * scale);
            if (out)
                out[i + (size_t)j] = v;
            lane[j] += v;
        }
    for (int j = 0; j < LANES; j++)
        total += (double)lane[j];
    for (size_t i = whole; i < n; i++) {
        float v = exp_one((x[i] - shift) * scale);
        if (out)
            out[i] = v;
        total += (double)v;
    }
    return total;
}

INLINE double exp_body(const float *x, size_t n, float shift, float scale, float *out, double *sums)
{
    double total = 0;
    for (size_t from = 0; from < n; from += SOFTMAX_BLOCK) {
        size_t length = n - from < SOFTMAX_BLOCK ? n - from : SOFTMAX_BLOCK;
        double sum = out ? exp_block(x + from, length, shift, scale, out + from)
                         : exp_block(x + from, length, shift, scale, NULL);
        if (sums)
            sums[from / SOFTMAX_BLOCK] = sum;
        total += sum;
    }
    return total;
}

#define DEFINE_SET(suffix, attribute)                                                              \
    attribute static float max_##suffix(const float *x, size_t n)                                  \
    {                                                                                              \
        return max_body(x, n);                                                                     \
    }                                                                                              \
    attribute static void block_max_##suffix(const float *x, size_t n, float *most)                \
    {                                                                                              \
        block_max_body(x, n, most);                                                                \
    }                                                                                              \
    attribute static double exp_##suffix(const float *x, size_t n, float shift, float scale,       \
                                         float *out, double *sums)                                 \
    {                                                                                              \
        return exp_body(x, n, shift, scale, out, sums);                                            \
    }

DEFINE_SET(plain, )
#if defined(__x86_64__)
DEFINE_SET(avx2, __attribute__((target("avx2"))))
DEFINE_SET(avx512, __attribute__((target("avx512f"))))
#endif

static const struct softmax_ops TABLE[] = {
#if defined(__x86_64__)
    {"avx512", max_avx512, block_max_avx512, exp_avx512},
    {"avx2", max_avx2, block_max_avx2, exp_avx2},
#endif
    {"plain", max_plain, block_max_plain, exp_plain},
};
enum { N_TABLE = sizeof TABLE / sizeof *TABLE };

const struct softmax_ops *softmax_at(size_t i)
{
    return i < N_TABLE ? &TABLE[i] : NULL;
}

const struct softmax_ops *softmax_select(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return &TABLE[0];
    if (__builtin_cpu_supports("avx2"))
        return &TABLE[1];
#endif
    return &TABLE[N_TABLE - 1];
}
