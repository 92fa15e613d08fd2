/* kernels/cpu/dot_plain.h - the integer half of vec_plain.h.
 * Included by isa_plain.c only, after it. */
INLINE i16 i_zero(void)
{
    EACH_LANE(i16, 0);
}
INLINE i16 i_set(int32_t x)
{
    EACH_LANE(i16, x);
}
INLINE i16 i_add(i16 a, i16 b)
{
    EACH_LANE(i16, a.x[i] + b.x[i]);
}
/* 128 * coarse + fine */
INLINE i16 i_join(i16 coarse, i16 fine)
{
    EACH_LANE(i16, 128 * coarse.x[i] + fine.x[i]);
}
INLINE i16 i_times_128(i16 a)
{
    EACH_LANE(i16, 128 * a.x[i]);
}
#define i_few_times_128 i_times_128
/* sum + 128 * x; x within 16 bits. */
INLINE i16 i_add_times_128(i16 sum, i16 x)
{
    EACH_LANE(i16, sum.x[i] + 128 * x.x[i]);
}
INLINE v16 i_to_v(i16 a)
{
    EACH_LANE(v16, (float)a.x[i]);
}
/* To the nearest whole numbers, halves to even; NaN and what is too large for the caller give 0. */
INLINE i16 v_to_i(v16 a)
{
    EACH_LANE(i16, fabsf(a.x[i]) < 1e6f ? (int32_t)rintf(a.x[i]) : 0);
}
INLINE void i_store(int32_t *p, i16 a)
{
    memcpy(p, a.x, sizeof a.x);
}
/* 32 of them as bytes, cut off at -128 and 127. */
INLINE void i_store_bytes(int8_t *p, i16 a, i16 b)
{
    for (int i = 0; i < 32; i++) {
        int32_t n = i < 16 ? a.x[i] : b.x[i - 16];
        p[i] = (int8_t)(n < -128 ? -128 : n > 127 ? 127 : n);
    }
}
INLINE int32_t i_sum(i16 a)
{
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += a.x[i];
    return sum;
}
INLINE bytes b_load(const uint8_t *p)
{
    bytes w;
    memcpy(w.x, p, sizeof w.x);
    return w;
}
#define b_kept(w) (w)
INLINE bytes b_low(bytes w)
{
    for (int i = 0; i < 64; i++)
        w.x[i] &= 15;
    return w;
}
INLINE bytes b_high(bytes w)
{
    for (int i = 0; i < 64; i++)
        w.x[i] >>= 4;
    return w;
}
/* The low nibbles, or with shift 4 the high ones. */
INLINE bytes b_nibbles(bytes w, uint32_t shift)
{
    for (int i = 0; i < 64; i++)
        w.x[i] = w.x[i] >> shift & 15;
    return w;
}
/* Of each byte, bit j as 16. */
INLINE bytes b_fifth(bytes bits, uint32_t j)
{
    for (int i = 0; i < 64; i++)
        bits.x[i] = (uint8_t)((bits.x[i] >> j & 1) << 4);
    return bits;
}
INLINE bytes b_or(bytes a, bytes b)
{
    for (int i = 0; i < 64; i++)
        a.x[i] |= b.x[i];
    return a;
}
INLINE void b_store(uint8_t *p, bytes w)
{
    memcpy(p, w.x, sizeof w.x);
}
/* Lane r gains the dot product of its four unsigned bytes with the four signed ones at a. */
INLINE i16 i_dot(i16 sum, bytes w, const int8_t *a)
{
    EACH_LANE(i16, sum.x[i] + w.x[4 * i] * a[0] + w.x[4 * i + 1] * a[1] + w.x[4 * i + 2] * a[2] +
                       w.x[4 * i + 3] * a[3]);
}
#define i_dot_nibbles i_dot
#define b_high_scaled b_high
INLINE i16 i_high_sum(i16 a)
{
    return a;
}
INLINE void v_prefetch(const uint8_t *p)
{
    __builtin_prefetch(p);
}
INLINE void v_prefetch_far(const uint8_t *p)
{
    __builtin_prefetch(p, 0, 2);
}
