/* kernels/cpu/vec_avx2.h - sixteen lanes in two registers, dot products by vpmaddubsw. Included by
 * isa_avx2.c only. */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/inline.h"

enum { TILE_GROUPS = 1 };

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
/* 2 to a whole power from -126 to 127. */
INLINE v16 v_pow2(v16 x)
{
    return (v16){pow2_half(x.a), pow2_half(x.b)};
}
INLINE __m256 word_keys_half(__m256 x, int first)
{
    const __m256i number =
        _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    __m256 a = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 pair = _mm256_max_ps(a, _mm256_permute_ps(a, 0xB1));
    __m256 word = _mm256_max_ps(pair, _mm256_permute_ps(pair, 0x4E));
    __m256i high = _mm256_andnot_si256(_mm256_set1_epi32(7), _mm256_castps_si256(word));
    return _mm256_castsi256_ps(_mm256_or_si256(high, number));
}
/* Of each word of four the largest absolute value, in its lanes; the lowest three bits number the
 * words from `first`, so that no two are equal. */
INLINE v16 v_word_keys(v16 x, int first)
{
    return (v16){word_keys_half(x.a, first), word_keys_half(x.b, first + 2)};
}
/* The largest of lanes that are alike in fours, in every lane. */
INLINE v16 v_largest_word(v16 x)
{
    __m256 most = _mm256_max_ps(x.a, x.b);
    most = _mm256_max_ps(most, _mm256_permute2f128_ps(most, most, 1));
    return (v16){most, most};
}
INLINE float v_first(v16 x)
{
    return _mm256_cvtss_f32(x.a);
}
/* Lanes equal to x's become zero. */
INLINE v16 v_drop(v16 a, v16 x)
{
    return (v16){_mm256_and_ps(a.a, _mm256_cmp_ps(a.a, x.a, _CMP_NEQ_UQ)),
                 _mm256_and_ps(a.b, _mm256_cmp_ps(a.b, x.b, _CMP_NEQ_UQ))};
}
/* b where a > limit, else zero. */
INLINE v16 v_where_above(v16 a, v16 limit, v16 b)
{
    return (v16){_mm256_and_ps(b.a, _mm256_cmp_ps(a.a, limit.a, _CMP_GT_OQ)),
                 _mm256_and_ps(b.b, _mm256_cmp_ps(a.b, limit.b, _CMP_GT_OQ))};
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
