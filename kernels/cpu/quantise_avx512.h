/* kernels/cpu/quantise_avx512.h - largest words of a group of blocks, and its blocks, with shuffles
 * and masks of AVX-512 BW and DQ and the bit scatter of BMI2 (Intel intrinsics guide). What
 * quantise_each.h does block by block. Included by isa_avx512.c and isa_avx512zen.c only. */
#include "kernels/cpu/quantise.h"

INLINE v16 larger_magnitude(v16 a, v16 b)
{
    return _mm512_range_ps(a, b, 0x0B);
}

/* Of four blocks, from column `at`: 128-bit lane i has the largest magnitudes of their words i. */
INLINE v16 words_of_four(const float *const x[4], size_t at)
{
    v16 a = v_load(x[0] + at), b = v_load(x[1] + at), c = v_load(x[2] + at), d = v_load(x[3] + at);
    v16 ab = larger_magnitude(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    v16 cd = larger_magnitude(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512d p = _mm512_castps_pd(ab), q = _mm512_castps_pd(cd);
    return v_max(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)),
                 _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
}

/* Words of half the columns: k[i] has word i of all blocks. */
INLINE void words_of_half(const float *const x[LANES], size_t at, v16 k[4])
{
    v16 a = words_of_four(x, at), b = words_of_four(x + 4, at);
    v16 c = words_of_four(x + 8, at), d = words_of_four(x + 12, at);
    v16 ab = _mm512_shuffle_f32x4(a, b, 0x44), cd = _mm512_shuffle_f32x4(c, d, 0x44);
    k[0] = _mm512_shuffle_f32x4(ab, cd, 0x88);
    k[1] = _mm512_shuffle_f32x4(ab, cd, 0xDD);
    ab = _mm512_shuffle_f32x4(a, b, 0xEE);
    cd = _mm512_shuffle_f32x4(c, d, 0xEE);
    k[2] = _mm512_shuffle_f32x4(ab, cd, 0x88);
    k[3] = _mm512_shuffle_f32x4(ab, cd, 0xDD);
}

INLINE void words_of(const struct quant_group *g, v16 k[QUANT_WORDS])
{
    words_of_half(g->x, 0, k);
    words_of_half(g->x, LANES, k + 4);
}

/* One block but for what hangs on the sum of its integers, which come back in pairs added. Words
 * are in the order of wide_bit, which is theirs in a register of packed integers. */
INLINE i16 store_block(const struct quant_group *g, uint32_t b)
{
    const uint64_t words_times_8 = 0x3818301028082000;
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    struct quant_block *out = g->out[b];
    uint32_t wide = (uint32_t)g->wide[b];
    v16 inverse = v_set(g->inverse[b]);
    i16 low = v_to_i(v_mul(v_load(g->x[b]), inverse));
    i16 high = v_to_i(v_mul(v_load(g->x[b] + LANES), inverse));
    i16 q = _mm512_packs_epi32(low, high);
    i16 rounded = _mm512_add_epi16(q, _mm512_set1_epi16(64));
    i16 coarse = _mm512_maskz_srai_epi16(_pdep_u32(wide, 0x11111111) * 15, rounded, 7);
    i16 fine = _mm512_sub_epi16(q, _mm512_slli_epi16(coarse, 7));
    i16 both = _mm512_packs_epi16(fine, coarse);
    _mm256_storeu_si256((void *)out->fine,
                        _mm512_castsi512_si256(_mm512_permutexvar_epi32(in_order, both)));
    __mmask16 is_wide = (__mmask16)_pdep_u32(wide, 0xCCCC);
    _mm_storeu_si128((void *)out->coarse,
                     _mm512_castsi512_si128(_mm512_maskz_compress_epi32(is_wide, both)));
    uint64_t which = _pdep_u64(wide, 0x0101010101010101) * 255;
    uint32_t words = (uint32_t)_pext_u64(words_times_8, which);
    memcpy(out->word, &words, sizeof words);
    return _mm512_madd_epi16(q, _mm512_set1_epi16(1));
}

INLINE i16 add_pairs(i16 a, i16 b)
{
    return i_add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

INLINE i16 add_four(const i16 q[4])
{
    i16 ab = add_pairs(q[0], q[1]), cd = add_pairs(q[2], q[3]);
    return i_add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

INLINE i16 add_halves(i16 a, i16 b)
{
    return i_add(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
}

/* Lane i: the sum of all lanes of q[i]. */
INLINE i16 sums_of(const i16 q[LANES])
{
    i16 low = add_halves(add_four(q), add_four(q + 4));
    i16 high = add_halves(add_four(q + 8), add_four(q + 12));
    return i_add(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD));
}

/* The last sixteen bytes of all blocks: scale, sum, minus_sum, minus_eight_sums. */
INLINE void store_sums(const struct quant_group *g, i16 sum)
{
    i16 row[4];
    v16 step = v_load(g->step);
    i16 minus = _mm512_sub_epi32(i_zero(), sum), eight = _mm512_slli_epi32(minus, 3);
    i16 scale = _mm512_castps_si512(step), scaled = _mm512_castps_si512(v_mul(step, i_to_v(sum)));
    i16 a = _mm512_unpacklo_epi32(scale, scaled), b = _mm512_unpacklo_epi32(minus, eight);
    row[0] = _mm512_unpacklo_epi64(a, b);
    row[1] = _mm512_unpackhi_epi64(a, b);
    a = _mm512_unpackhi_epi32(scale, scaled);
    b = _mm512_unpackhi_epi32(minus, eight);
    row[2] = _mm512_unpacklo_epi64(a, b);
    row[3] = _mm512_unpackhi_epi64(a, b);
    uint32_t n = g->n;
    for (uint32_t i = 0; i < n; i++)
        memcpy(&g->out[i]->scale, (const char *)&row[i % 4] + 16 * (i / 4), 16);
}

INLINE void store_group(const struct quant_group *g)
{
    i16 q[LANES];
    uint32_t n = g->n;
    UNROLL(2)
    for (uint32_t b = 0; b < n; b++)
        q[b] = store_block(g, b);
    for (uint32_t b = n; b < LANES; b++)
        q[b] = i_zero();
    store_sums(g, sums_of(q));
}
