/* kernels/cpu/dot_avx512.h - the integer half of vec_avx512.h: dot products by vpdpbusd (AVX-512
 * VNNI). Included by isa_avx512.c and isa_avx512zen.c only, after it. */
INLINE i16 i_zero(void)
{
    return _mm512_setzero_si512();
}
INLINE i16 i_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
INLINE i16 i_add(i16 a, i16 b)
{
    return _mm512_add_epi32(a, b);
}
/* 128 * coarse + fine */
INLINE i16 i_join(i16 coarse, i16 fine)
{
    return _mm512_add_epi32(_mm512_slli_epi32(coarse, 7), fine);
}
INLINE i16 i_times_128(i16 a)
{
    return _mm512_slli_epi32(a, 7);
}
/* The same of what fits 16 bits. Intel's cores have two ports for all of this, of which a shift can
 * take one only; AMD's shift where they do not multiply. */
INLINE i16 i_few_times_128(i16 a)
{
#ifdef OTHER_UNITS_SHIFT
    return _mm512_slli_epi32(a, 7);
#else
    return _mm512_madd_epi16(a, _mm512_set1_epi32(128));
#endif
}
/* sum + 128 * x; x within 16 bits. */
INLINE i16 i_add_times_128(i16 sum, i16 x)
{
    return _mm512_dpwssd_epi32(sum, x, _mm512_set1_epi32(128));
}
INLINE v16 i_to_v(i16 a)
{
    return _mm512_cvtepi32_ps(a);
}
/* To the nearest whole numbers, halves to even. */
INLINE i16 v_to_i(v16 a)
{
    return _mm512_cvtps_epi32(a);
}
INLINE void i_store(int32_t *p, i16 a)
{
    _mm512_storeu_si512(p, a);
}
INLINE bytes b_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}
/* In a register: for two uses compilers load twice, and loads are what a single token waits for
 * (from memory 36 to 41 GB/s, then 43; one core of Zen 5). */
INLINE bytes b_kept(bytes w)
{
    __asm__("" : "+v"(w));
    return w;
}
INLINE bytes b_low(bytes w)
{
    return _mm512_and_si512(w, _mm512_set1_epi8(15));
}
INLINE bytes b_high(bytes w)
{
    return _mm512_and_si512(_mm512_srli_epi16(w, 4), _mm512_set1_epi8(15));
}
/* The high nibbles times 16, and what sums of their products are. */
INLINE bytes b_high_scaled(bytes w)
{
    return _mm512_and_si512(w, _mm512_set1_epi8((char)0xF0));
}
INLINE i16 i_high_sum(i16 a)
{
    return _mm512_srai_epi32(a, 4);
}
/* The low nibbles, or with shift 4 the high ones. */
INLINE bytes b_nibbles(bytes w, uint32_t shift)
{
    return b_low(_mm512_srlv_epi32(w, _mm512_set1_epi32((int)shift)));
}
/* Of each byte, bit j as 16. */
INLINE bytes b_fifth(bytes bits, uint32_t j)
{
    const __m512i turn = _mm512_set1_epi32((int)(4 - j));
    return _mm512_and_si512(_mm512_rolv_epi32(bits, turn), _mm512_set1_epi8(16));
}
INLINE bytes b_or(bytes a, bytes b)
{
    return _mm512_or_si512(a, b);
}
INLINE void b_store(uint8_t *p, bytes w)
{
    _mm512_storeu_si512(p, w);
}
/* Lane r gains the dot product of its four unsigned bytes with the four signed ones at a. */
INLINE i16 i_dot(i16 sum, bytes w, const int8_t *a)
{
    int32_t word;
    memcpy(&word, a, sizeof word);
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(word));
}
#define i_dot_nibbles i_dot
/* Stays where it is; compilers bunch the intrinsic's. */
INLINE void v_prefetch(const uint8_t *p)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*p));
}
INLINE void v_prefetch_far(const uint8_t *p)
{
    __asm__ volatile("prefetcht1 %0" : : "m"(*p));
}
