/* AVX-512 with VNNI: vpdpbusd multiplies unsigned weights by signed activations four at a time into
 * 32-bit lanes that are rows, so the loop has no horizontal sum. One weight unit is unpacked once
 * for up to eight tokens. The order of floating-point operations of a row and token is the same for
 * every tile width. */
#if defined(__x86_64__)
#include "kernels/dtype.h"

#include <immintrin.h>

#define BODY_HAS_TILES
#define BODY_HAS_HALF
#define BODY_HAS_ATTEND
#define BODY(name) avx512_##name
#include "kernels/cpu/body.h"

enum { PREFETCH_AHEAD = 2560 }; /* bytes; measured: CPU.md 5.1 of the design notes */

INLINE __m512 load_half(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

INLINE void prefetch_unit(const uint8_t *unit, size_t unit_bytes)
{
    for (size_t at = 0; at < unit_bytes; at += 64)
        _mm_prefetch((const char *)unit + PREFETCH_AHEAD + at, _MM_HINT_T0);
}

INLINE void unpack4(const uint8_t *unit, __m512i w[8])
{
    const __m512i mask = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; j++) {
        __m512i both = _mm512_loadu_si512(unit + 64 + 64 * j);
        w[j] = _mm512_and_si512(both, mask);
        w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    }
}

INLINE void unpack8(const uint8_t *unit, __m512i w[8])
{
    for (int j = 0; j < 8; j++)
        w[j] = _mm512_loadu_si512(unit + 64 + 64 * j);
}

INLINE __m512i unit_dot(const __m512i w[8], const int8_t *q)
{
    int32_t a[8];
    memcpy(a, q, sizeof a);
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int j = 0; j < 8; j += 2) {
        even = _mm512_dpbusd_epi32(even, w[j], _mm512_set1_epi32(a[j]));
        odd = _mm512_dpbusd_epi32(odd, w[j + 1], _mm512_set1_epi32(a[j + 1]));
    }
    return _mm512_add_epi32(even, odd);
}

/* N is a constant in every caller: the loops over tokens unroll and the sums stay in registers. */
INLINE void tile_n(const uint8_t *group, size_t unit_bytes, const struct cpu_acts *a,
                   uint32_t first, const uint32_t n, float out[TILE_TOKENS][LANES])
{
    uint32_t n_units = a->cols / UNIT;
    __m512 sums[TILE_TOKENS], offsets[TILE_TOKENS];
    for (uint32_t t = 0; t < n; t++)
        sums[t] = offsets[t] = _mm512_setzero_ps();
    for (uint32_t u = 0; u < n_units; u++, group += unit_bytes) {
        __m512i w[8];
        prefetch_unit(group, unit_bytes);
        if (unit_bytes == UNIT4_BYTES)
            unpack4(group, w);
        else
            unpack8(group, w);
        __m512 d = load_half(group), m = load_half(group + 32);
#pragma GCC unroll 8
        for (uint32_t t = 0; t < n; t++) {
            size_t at = (size_t)(first + t) * n_units + u;
            __m512 dot = _mm512_cvtepi32_ps(unit_dot(w, a->q + at * UNIT));
            __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(a->scale[at]));
            sums[t] = _mm512_fmadd_ps(dot, scale, sums[t]);
            offsets[t] = _mm512_fmadd_ps(m, _mm512_set1_ps(a->sum[at]), offsets[t]);
        }
    }
    for (uint32_t t = 0; t < n; t++)
        _mm512_storeu_ps(out[t], _mm512_add_ps(sums[t], offsets[t]));
}

INLINE void tile_any(const uint8_t *group, size_t unit_bytes, const struct cpu_acts *a,
                     uint32_t first, uint32_t n, float out[TILE_TOKENS][LANES])
{
    uint32_t done = 0;
    if (n == 8) {
        tile_n(group, unit_bytes, a, first, 8, out);
        return;
    }
    if (n >= 4) {
        tile_n(group, unit_bytes, a, first, 4, out);
        done = 4;
    }
    if (n - done >= 2) {
        tile_n(group, unit_bytes, a, first + done, 2, out + done);
        done += 2;
    }
    if (n - done == 1)
        tile_n(group, unit_bytes, a, first + done, 1, out + done);
}

static void avx512_tile4(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                         float out[TILE_TOKENS][LANES])
{
    tile_any(group, UNIT4_BYTES, a, first, n, out);
}

static void avx512_tile8(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                         float out[TILE_TOKENS][LANES])
{
    tile_any(group, UNIT8_BYTES, a, first, n, out);
}

static void avx512_to_half(const float *x, uint16_t *out, uint32_t n, size_t stride)
{
    const __m512 most = _mm512_set1_ps(65504.0f), least = _mm512_set1_ps(-65504.0f);
    for (uint32_t i = 0; i < n; i += LANES) {
        uint32_t left = n - i < LANES ? n - i : LANES;
        __mmask16 mask = (__mmask16)((1u << left) - 1);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        v = _mm512_min_ps(_mm512_max_ps(v, least), most);
        uint16_t half[LANES];
        _mm256_storeu_si256((void *)half,
                            _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        for (uint32_t k = 0; k < left; k++)
            out[(i + k) * stride] = half[k];
    }
}

enum { MAX_SHARED = 4 }; /* query heads that share a load of K or V */

/* Scores of `n` query heads over all blocks. */
INLINE void scores_n(const struct cpu_attend *j, uint32_t head, const uint32_t n, uint32_t padded)
{
    for (uint32_t from = 0; from < j->n_position; from += LANES) {
        const uint16_t *key = j->cache + j->table[from / LANES] * j->block_stride;
        __m512 sum[MAX_SHARED];
        for (uint32_t i = 0; i < n; i++)
            sum[i] = _mm512_setzero_ps();
        for (uint32_t d = 0; d < j->d_head; d++) {
            __m512 k = load_half(key + d * LANES);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < n; i++)
                sum[i] =
                    _mm512_fmadd_ps(k, _mm512_set1_ps(j->q[(head + i) * j->d_head + d]), sum[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            _mm512_storeu_ps(j->score + (size_t)(head + i) * padded + from, sum[i]);
    }
}

/* LANES dimensions from d of `n` query heads; d_head - d >= LANES. */
INLINE void values_n(const struct cpu_attend *j, uint32_t head, const uint32_t n, uint32_t padded,
                     uint32_t d, const float *inverse)
{
    __m512 sum[MAX_SHARED];
    for (uint32_t i = 0; i < n; i++)
        sum[i] = _mm512_setzero_ps();
    for (uint32_t p = 0; p < j->n_position; p++) {
        const uint16_t *v = j->cache + j->table[p / LANES] * j->block_stride +
                            (size_t)(LANES + p % LANES) * j->d_head + d;
        __m512 value = load_half(v);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < n; i++)
            sum[i] = _mm512_fmadd_ps(
                value, _mm512_set1_ps(j->score[(size_t)(head + i) * padded + p]), sum[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        _mm512_storeu_ps(j->y + (size_t)(head + i) * j->d_head + d,
                         _mm512_mul_ps(sum[i], _mm512_set1_ps(inverse[i])));
}

INLINE void attend_n(const struct cpu_attend *j, uint32_t head, const uint32_t n)
{
    uint32_t padded = (j->n_position + LANES - 1) / LANES * LANES;
    float scale = 1.0f / sqrtf((float)j->d_head), inverse[MAX_SHARED];
    scores_n(j, head, n, padded);
    for (uint32_t i = 0; i < n; i++)
        inverse[i] =
            softmax_row(j->score + (size_t)(head + i) * padded, j->n_position, padded, scale);
    for (uint32_t d = 0; d + LANES <= j->d_head; d += LANES)
        values_n(j, head, n, padded, d, inverse);
}

/* Heads narrower than a vector, or not a multiple of one, take the plain loop for V. */
static void attend_odd(const struct cpu_attend *j)
{
    uint32_t padded = (j->n_position + LANES - 1) / LANES * LANES;
    float scale = 1.0f / sqrtf((float)j->d_head);
    for (uint32_t from = 0; from < j->n_position; from += LANES)
        block_scores(j, j->cache + j->table[from / LANES] * j->block_stride, from);
    for (uint32_t i = 0; i < j->n_group; i++) {
        float *score = j->score + (size_t)i * padded;
        float inverse = softmax_row(score, j->n_position, padded, scale);
        add_values(j, i, score, inverse);
    }
}

static void avx512_attend(const struct cpu_attend *j)
{
    uint32_t head = 0;
    if (j->d_head % LANES != 0) {
        attend_odd(j);
        return;
    }
    for (; head + 4 <= j->n_group; head += 4)
        attend_n(j, head, 4);
    if (j->n_group - head == 3)
        attend_n(j, head, 3);
    else if (j->n_group - head == 2)
        attend_n(j, head, 2);
    else if (j->n_group - head == 1)
        attend_n(j, head, 1);
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

const struct cpu_isa CPU_ISA_AVX512 = BODY_TABLE("avx512", has_avx512);
#else
typedef int kernels_cpu_isa_avx512_is_empty;
#endif
