/* kernels/cpu/vec_avx512.h - sixteen lanes in one register; dot products by vpdpbusd (AVX-512 VNNI,
 * Intel intrinsics guide). Included by isa_avx512.c and isa_avx512zen.c only. */
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/inline.h"

enum {
    STRIP_GROUPS = 2,
    TILE_GROUPS = 4,
    TILE_TOKENS = 4,
    TILE_RUN = 4,
    CHUNK_BLOCKS = 18,
    FEW_BLOCKS = 9,
    LONE_BLOCKS = 6,
    ALL_FETCH = 1
};

typedef __m512 v16;
typedef __m512i i16;
typedef __m512i bytes;

INLINE v16 v_set(float x)
{
    return _mm512_set1_ps(x);
}
INLINE v16 v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void v_store(float *p, v16 a)
{
    _mm512_storeu_ps(p, a);
}
INLINE v16 v_add(v16 a, v16 b)
{
    return _mm512_add_ps(a, b);
}
INLINE v16 v_sub(v16 a, v16 b)
{
    return _mm512_sub_ps(a, b);
}
INLINE v16 v_mul(v16 a, v16 b)
{
    return _mm512_mul_ps(a, b);
}
INLINE v16 v_div(v16 a, v16 b)
{
    return _mm512_div_ps(a, b);
}
INLINE v16 v_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE v16 v_max(v16 a, v16 b)
{
    return _mm512_max_ps(a, b);
}
INLINE v16 v_min(v16 a, v16 b)
{
    return _mm512_min_ps(a, b);
}
INLINE v16 v_abs(v16 a)
{
    return _mm512_abs_ps(a);
}
INLINE v16 v_round(v16 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* a times 2 to a whole power from -126 to 127. */
INLINE v16 v_times_pow2(v16 a, v16 power)
{
    return _mm512_scalef_ps(a, power);
}
/* The lowest three bits replaced. */
INLINE v16 v_with_low_bits(v16 x, int bits)
{
    __m512i high = _mm512_andnot_si512(_mm512_set1_epi32(7), _mm512_castps_si512(x));
    return _mm512_castsi512_ps(_mm512_or_si512(high, _mm512_set1_epi32(bits)));
}
/* b where a > limit, else zero. */
INLINE v16 v_where_above(v16 a, v16 limit, v16 b)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, limit, _CMP_GT_OQ), b);
}
/* Lane i: from + i. */
INLINE v16 v_count(float from)
{
    return _mm512_add_ps(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_ps(from));
}
/* a where first <= at < end, else b. */
INLINE v16 v_where_within(v16 at, v16 first, v16 end, v16 a, v16 b)
{
    __mmask16 is_not_early = _mm512_cmp_ps_mask(at, first, _CMP_GE_OQ);
    __mmask16 is_within = _mm512_mask_cmp_ps_mask(is_not_early, at, end, _CMP_LT_OQ);
    return _mm512_mask_mov_ps(b, is_within, a);
}
INLINE float v_sum(v16 a)
{
    return _mm512_reduce_add_ps(a);
}
INLINE float v_largest(v16 a)
{
    return _mm512_reduce_max_ps(a);
}
/* (0,1) (2,3) ... change places. */
INLINE v16 v_swap_pairs(v16 a)
{
    return _mm512_permute_ps(a, 0xB1);
}
INLINE v16 v_load_half(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
/* bfloat16: the upper half of a float32. */
INLINE v16 v_load_bfloat(const void *p)
{
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
INLINE void v_store_half(uint16_t *p, v16 a)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
/* Whole values from -127 to 127. */
INLINE void v_store_int8(int8_t *p, v16 a)
{
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}

INLINE v16 v_load_int8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
