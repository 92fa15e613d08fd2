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

INLINE float max_body(const float *x, size_t n)
{
    float lane[LANES], best = x[0];
    for (int j = 0; j < LANES; j++)
        lane[j] = x[0];
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + (size_t)j] > lane[j] ? x[i + (size_t)j] : lane[j];
    for (int j = 0; j < LANES; j++)
        best = lane[j] > best ? lane[j] : best;
    for (size_t i = whole; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* Lane sums stay in float for at most FLUSH rounds, so that rounding does not grow with n. */
enum { FLUSH = 64 };

INLINE double exp_body(const float *x, size_t n, float shift, float scale, float *out)
{
    double total = 0;
    size_t whole = n - n % LANES;
    for (size_t start = 0; start < whole; start += LANES * FLUSH) {
        size_t end = whole - start < LANES * FLUSH ? whole : start + LANES * FLUSH;
        float lane[LANES] = {0};
        for (size_t i = start; i < end; i += LANES)
            for (int j = 0; j < LANES; j++) {
                float v = exp_one((x[i + (size_t)j] - shift) * scale);
                if (out)
                    out[i + (size_t)j] = v;
                lane[j] += v;
            }
        for (int j = 0; j < LANES; j++)
            total += (double)lane[j];
    }
    for (size_t i = whole; i < n; i++) {
        float v = exp_one((x[i] - shift) * scale);
        if (out)
            out[i] = v;
        total += (double)v;
    }
    return total;
}

#define DEFINE_SET(suffix, attribute)                                                              \
    attribute static float max_##suffix(const float *x, size_t n)                                  \
    {                                                                                              \
        return max_body(x, n);                                                                     \
    }                                                                                              \
    attribute static double sum_##suffix(const float *x, size_t n, float shift, float scale)       \
    {                                                                                              \
        return exp_body(x, n, shift, scale, NULL);                                                 \
    }                                                                                              \
    attribute static double exp_##suffix(const float *x, size_t n, float shift, float scale,       \
                                         float *out)                                               \
    {                                                                                              \
        return exp_body(x, n, shift, scale, out);                                                  \
    }

DEFINE_SET(plain, )
#if defined(__x86_64__)
DEFINE_SET(avx2, __attribute__((target("avx2"))))
DEFINE_SET(avx512, __attribute__((target("avx512f"))))
#endif

static const struct softmax_ops TABLE[] = {
#if defined(__x86_64__)
    {"avx512", max_avx512, sum_avx512, exp_avx512},
    {"avx2", max_avx2, sum_avx2, exp_avx2},
#endif
    {"plain", max_plain, sum_plain, exp_plain},
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
