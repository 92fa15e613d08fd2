/* kernels/cpu/dot_avx2.h - the integer half of vec_avx2.h: dot products by vpdpbusd where the
 * includer is compiled for AVX-VNNI, else by vpmaddubsw. Included by isa_avx2.c and isa_avxvnni.c
 * only, after it. */
INLINE i16 i_zero(void)
{
    return (i16){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
INLINE i16 i_set(int32_t x)
{
    return (i16){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
INLINE i16 i_add(i16 a, i16 b)
{
    return (i16){_mm256_add_epi32(a.a, b.a), _mm256_add_epi32(a.b, b.b)};
}
/* 128 * coarse + fine */
INLINE i16 i_join(i16 coarse, i16 fine)
{
    return (i16){_mm256_add_epi32(_mm256_slli_epi32(coarse.a, 7), fine.a),
                 _mm256_add_epi32(_mm256_slli_epi32(coarse.b, 7), fine.b)};
}
INLINE i16 i_times_128(i16 x)
{
    return (i16){_mm256_slli_epi32(x.a, 7), _mm256_slli_epi32(x.b, 7)};
}
#define i_few_times_128 i_times_128
INLINE v16 i_to_v(i16 x)
{
    return (v16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
/* To the nearest whole numbers, halves to even. */
INLINE i16 v_to_i(v16 x)
{
    return (i16){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
INLINE void i_store(int32_t *p, i16 x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 8), x.b);
}
/* 32 of them as bytes, cut off at -128 and 127. */
INLINE void i_store_bytes(int8_t *p, i16 x, i16 y)
{
    __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(words, order));
}
INLINE int32_t i_sum(i16 x)
{
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xB1)));
}
INLINE bytes b_load(const uint8_t *p)
{
    const __m256i *w = (const void *)p;
    return (bytes){_mm256_loadu_si256(w), _mm256_loadu_si256(w + 1)};
}
#define b_kept(w) (w)
INLINE bytes b_low(bytes w)
{
    const __m256i mask = _mm256_set1_epi8(15);
    return (bytes){_mm256_and_si256(w.a, mask), _mm256_and_si256(w.b, mask)};
}
INLINE bytes b_high(bytes w)
{
    return b_low((bytes){_mm256_srli_epi16(w.a, 4), _mm256_srli_epi16(w.b, 4)});
}
/* The low nibbles, or with shift 4 the high ones. */
INLINE bytes b_nibbles(bytes w, uint32_t shift)
{
    const __m256i n = _mm256_set1_epi32((int)shift);
    return b_low((bytes){_mm256_srlv_epi32(w.a, n), _mm256_srlv_epi32(w.b, n)});
}
/* Of each byte, bit j as 16. */
INLINE bytes b_fifth(bytes bits, uint32_t j)
{
    const __m256i n = _mm256_set1_epi32((int)j), one = _mm256_set1_epi8(1);
    return (bytes){_mm256_slli_epi32(_mm256_and_si256(_mm256_srlv_epi32(bits.a, n), one), 4),
                   _mm256_slli_epi32(_mm256_and_si256(_mm256_srlv_epi32(bits.b, n), one), 4)};
}
INLINE bytes b_or(bytes x, bytes y)
{
    return (bytes){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
INLINE void b_store(uint8_t *p, bytes w)
{
    _mm256_storeu_si256((__m256i *)(void *)p, w.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), w.b);
}
INLINE __m256i broadcast_word(const int8_t *a)
{
    int32_t word;
    memcpy(&word, a, sizeof word);
    return _mm256_set1_epi32(word);
}
#if defined(__AVXVNNI__)
/* sum + 128 * x; x within 16 bits. */
INLINE i16 i_add_times_128(i16 sum, i16 x)
{
    const __m256i f = _mm256_set1_epi32(128);
    return (i16){_mm256_dpwssd_avx_epi32(sum.a, x.a, f), _mm256_dpwssd_avx_epi32(sum.b, x.b, f)};
}
/* Lane r gains the dot product of its four unsigned bytes with the four signed ones at a. */
INLINE i16 i_dot(i16 sum, bytes w, const int8_t *a)
{
    const __m256i x = broadcast_word(a);
    return (i16){_mm256_dpbusd_avx_epi32(sum.a, w.a, x), _mm256_dpbusd_avx_epi32(sum.b, w.b, x)};
}
#define i_dot_nibbles i_dot
/* The high nibbles times 16, and what sums of their products are. */
INLINE bytes b_high_scaled(bytes w)
{
    const __m256i mask = _mm256_set1_epi8((char)0xF0);
    return (bytes){_mm256_and_si256(w.a, mask), _mm256_and_si256(w.b, mask)};
}
INLINE i16 i_high_sum(i16 x)
{
    return (i16){_mm256_srai_epi32(x.a, 4), _mm256_srai_epi32(x.b, 4)};
}
#else
/* sum + 128 * x; x within 16 bits. */
INLINE i16 i_add_times_128(i16 sum, i16 x)
{
    return i_add(sum, i_times_128(x));
}
INLINE i16 dot_scaled(i16 sum, bytes w, const int8_t *a, int16_t factor)
{
    const __m256i x = broadcast_word(a), f = _mm256_set1_epi16(factor);
    return (i16){_mm256_add_epi32(sum.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.a, x), f)),
                 _mm256_add_epi32(sum.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.b, x), f))};
}
/* Lane r gains the dot product of its four unsigned bytes, at most 31, with four signed ones. */
INLINE i16 i_dot_nibbles(i16 sum, bytes w, const int8_t *a)
{
    return dot_scaled(sum, w, a, 1);
}
/* Bytes up to 255 would saturate vpmaddubsw's 16 bits, so their nibbles go one by one. */
INLINE i16 i_dot(i16 sum, bytes w, const int8_t *a)
{
    return dot_scaled(dot_scaled(sum, b_low(w), a, 1), b_high(w), a, 16);
}
/* The high nibbles as they are, for the same reason. */
#define b_high_scaled b_high
INLINE i16 i_high_sum(i16 x)
{
    return x;
}
#endif
/* Stays where it is; compilers bunch the intrinsic's. */
INLINE void v_prefetch(const uint8_t *p)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*p));
}
INLINE void v_prefetch_far(const uint8_t *p)
{
    __asm__ volatile("prefetcht1 %0" : : "m"(*p));
}
