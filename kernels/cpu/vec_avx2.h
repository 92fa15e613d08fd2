/* kernels/cpu/vec_avx2.h - sixteen lanes in two registers. Included by isa_avx2.c and
 * isa_avxvnni.c only. */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/inline.h"

enum {
    STRIP_GROUPS = 1,
    TILE_GROUPS = 1,
    TILE_TOKENS = 6,
    TILE_RUN = 3,
    CHUNK_BLOCKS = 24,
    FEW_BLOCKS = 24,
    LONE_BLOCKS = 24,
    ALL_FETCH = 0
};
enum { NEAR_TOKENS = 1 << 30 }; /* few groups ahead: the first cache has place for them */

typedef struct {
    __m256 a, b;
} v16;
typedef struct {
    __m256i a, b;
} i16;
typedef i16 bytes;

INLINE v16 v_set(float x)
{
    return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
INLINE v16 v_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
INLINE void v_store(float *p, v16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
INLINE v16 v_add(v16 x, v16 y)
{
    return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
INLINE v16 v_sub(v16 x, v16 y)
{
    return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
INLINE v16 v_mul(v16 x, v16 y)
{
    return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
INLINE v16 v_div(v16 x, v16 y)
{
    return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
INLINE v16 v_fma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
INLINE v16 v_max(v16 x, v16 y)
{
    return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
INLINE v16 v_min(v16 x, v16 y)
{
    return (v16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
INLINE v16 v_abs(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
INLINE v16 v_round(v16 x)
{
    return (v16){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
INLINE __m256 pow2_half(__m256 x)
{
    __m256i n = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}
/* x times 2 to a whole power from -126 to 127. */
INLINE v16 v_times_pow2(v16 x, v16 power)
{
    return v_mul(x, (v16){pow2_half(power.a), pow2_half(power.b)});
}
INLINE __m256 larger_pairs(__m256 a, __m256 b)
{
    __m256 half = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    return _mm256_max_ps(half, _mm256_permute_ps(half, 0x4E)); /* a, b, a, b of each word */
}
/* Of each word of four columns of two vectors the largest magnitude: eight. */
INLINE void v_store_words(float *p, v16 x, v16 y)
{
    v16 a = v_abs(x), b = v_abs(y);
    __m256 low = larger_pairs(a.a, b.a), high = larger_pairs(a.b, b.b);
    __m256 four = _mm256_shuffle_ps(_mm256_permute2f128_ps(low, high, 0x20),
                                    _mm256_permute2f128_ps(low, high, 0x31), 0x44);
    four = _mm256_permute_ps(four, 0xD8); /* words 0, 1 of a, of b; 2, 3 of a, of b */
    _mm256_storeu_ps(p, _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(four), 0xD8)));
}
INLINE v16 v_load_every_eighth(const float *p)
{
    const __m256i at = _mm256_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56);
    return (v16){_mm256_i32gather_ps(p, at, sizeof *p), _mm256_i32gather_ps(p + 64, at, sizeof *p)};
}
INLINE __m256 low_bits_half(__m256 x, int bits)
{
    __m256i high = _mm256_andnot_si256(_mm256_set1_epi32(7), _mm256_castps_si256(x));
    return _mm256_castsi256_ps(_mm256_or_si256(high, _mm256_set1_epi32(bits)));
}
/* The lowest three bits replaced. */
INLINE v16 v_with_low_bits(v16 x, int bits)
{
    return (v16){low_bits_half(x.a, bits), low_bits_half(x.b, bits)};
}
/* b where a > limit, else zero. */
INLINE v16 v_where_above(v16 a, v16 limit, v16 b)
{
    return (v16){_mm256_and_ps(b.a, _mm256_cmp_ps(a.a, limit.a, _CMP_GT_OQ)),
                 _mm256_and_ps(b.b, _mm256_cmp_ps(a.b, limit.b, _CMP_GT_OQ))};
}
/* Lane i: from + i. */
INLINE v16 v_count(float from)
{
    const __m256 lanes = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
    return (v16){_mm256_add_ps(lanes, _mm256_set1_ps(from)),
                 _mm256_add_ps(lanes, _mm256_set1_ps(from + 8))};
}
INLINE __m256 within_half(__m256 at, __m256 first, __m256 end, __m256 a, __m256 b)
{
    __m256 is_within =
        _mm256_and_ps(_mm256_cmp_ps(at, first, _CMP_GE_OQ), _mm256_cmp_ps(at, end, _CMP_LT_OQ));
    return _mm256_blendv_ps(b, a, is_within);
}
/* a where first <= at < end, else b. */
INLINE v16 v_where_within(v16 at, v16 first, v16 end, v16 a, v16 b)
{
    return (v16){within_half(at.a, first.a, end.a, a.a, b.a),
                 within_half(at.b, first.b, end.b, a.b, b.b)};
}
INLINE float v_sum(v16 x)
{
    __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}
INLINE float v_largest(v16 x)
{
    __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_shuffle_ps(h, h, 1)));
}
/* (0,1) (2,3) ... change places. */
INLINE v16 v_swap_pairs(v16 x)
{
    return (v16){_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
}
INLINE v16 v_load_half(const void *p)
{
    const __m128i *h = p;
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
INLINE __m256 bfloat_half(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
/* bfloat16: the upper half of a float32. */
INLINE v16 v_load_bfloat(const void *p)
{
    const __m128i *h = p;
    return (v16){bfloat_half(_mm_loadu_si128(h)), bfloat_half(_mm_loadu_si128(h + 1))};
}
INLINE void v_store_half(uint16_t *p, v16 x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
/* Whole values from -127 to 127. */
INLINE void v_store_int8(int8_t *p, v16 x)
{
    __m256i n = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    n = _mm256_permute4x64_epi64(n, 0xD8);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packs_epi16(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1)));
}

INLINE v16 v_load_int8(const void *p)
{
    __m128i n = _mm_loadu_si128(p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(n)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(n, 8)))};
}
