/* kernels/cpu/vec_plain.h - sixteen lanes as an array, for any machine. Included by isa_plain.c
 * only. */
#include "kernels/dtype.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/inline.h"

/* Arrays stay in memory whatever is unrolled, and the compiler would take minutes. */
#undef UNROLL
#define UNROLL(n)

enum {
    STRIP_GROUPS = 1,
    TILE_GROUPS = 1,
    TILE_TOKENS = 6,
    TILE_RUN = 1,
    CHUNK_BLOCKS = 24,
    FEW_BLOCKS = 24,
    LONE_BLOCKS = 24,
    ALL_FETCH = 0
};
enum { NEAR_TOKENS = 1 << 30 }; /* few groups ahead: the first cache has place for them */

typedef struct {
    float x[16];
} v16;
typedef struct {
    int32_t x[16];
} i16;
typedef struct {
    uint8_t x[64];
} bytes;

#define EACH_LANE(type, expression)                                                                \
    type r;                                                                                        \
    for (int i = 0; i < 16; i++)                                                                   \
        r.x[i] = (expression);                                                                     \
    return r

INLINE v16 v_set(float a)
{
    EACH_LANE(v16, a);
}
INLINE v16 v_load(const float *p)
{
    EACH_LANE(v16, p[i]);
}
INLINE void v_store(float *p, v16 a)
{
    memcpy(p, a.x, sizeof a.x);
}
INLINE v16 v_add(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] + b.x[i]);
}
INLINE v16 v_sub(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] - b.x[i]);
}
INLINE v16 v_mul(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] * b.x[i]);
}
INLINE v16 v_div(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] / b.x[i]);
}
INLINE v16 v_fma(v16 a, v16 b, v16 c)
{
    EACH_LANE(v16, a.x[i] * b.x[i] + c.x[i]);
}
INLINE v16 v_max(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] > b.x[i] ? a.x[i] : b.x[i]);
}
INLINE v16 v_min(v16 a, v16 b)
{
    EACH_LANE(v16, a.x[i] < b.x[i] ? a.x[i] : b.x[i]);
}
INLINE v16 v_abs(v16 a)
{
    EACH_LANE(v16, fabsf(a.x[i]));
}
INLINE v16 v_round(v16 a)
{
    EACH_LANE(v16, rintf(a.x[i]));
}
/* a times 2 to a whole power from -126 to 127. */
INLINE v16 v_times_pow2(v16 a, v16 power)
{
    EACH_LANE(v16, ldexpf(a.x[i], (int)power.x[i]));
}
/* Of each word of four columns of two vectors the largest magnitude: eight. */
INLINE void v_store_words(float *p, v16 x, v16 y)
{
    for (int i = 0; i < 8; i++) {
        const float *word = i < 4 ? x.x + 4 * i : y.x + 4 * (i - 4);
        p[i] = 0;
        for (int j = 0; j < 4; j++)
            p[i] = fabsf(word[j]) > p[i] ? fabsf(word[j]) : p[i];
    }
}
INLINE v16 v_load_every_eighth(const float *p)
{
    EACH_LANE(v16, p[8 * i]);
}
/* The lowest three bits replaced. */
INLINE v16 v_with_low_bits(v16 x, int bits)
{
    for (int i = 0; i < 16; i++) {
        uint32_t b;
        memcpy(&b, &x.x[i], sizeof b);
        b = (b & ~7u) | (uint32_t)bits;
        memcpy(&x.x[i], &b, sizeof b);
    }
    return x;
}
/* b where a > limit, else zero. */
INLINE v16 v_where_above(v16 a, v16 limit, v16 b)
{
    EACH_LANE(v16, a.x[i] > limit.x[i] ? b.x[i] : 0.0f);
}
/* Lane i: from + i. */
INLINE v16 v_count(float from)
{
    EACH_LANE(v16, from + (float)i);
}
/* a where first <= at < end, else b. */
INLINE v16 v_where_within(v16 at, v16 first, v16 end, v16 a, v16 b)
{
    EACH_LANE(v16, at.x[i] >= first.x[i] && at.x[i] < end.x[i] ? a.x[i] : b.x[i]);
}
INLINE float v_sum(v16 a)
{
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            a.x[i] += a.x[i + n];
    return a.x[0];
}
INLINE float v_largest(v16 a)
{
    for (int i = 1; i < 16; i++)
        a.x[0] = a.x[i] > a.x[0] ? a.x[i] : a.x[0];
    return a.x[0];
}
/* (0,1) (2,3) ... change places. */
INLINE v16 v_swap_pairs(v16 a)
{
    EACH_LANE(v16, a.x[i ^ 1]);
}
INLINE v16 v_load_half(const void *p)
{
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    EACH_LANE(v16, f16_to_f32(h[i]));
}
/* bfloat16: the upper half of a float32. */
INLINE v16 v_load_bfloat(const void *p)
{
    uint16_t h[16];
    v16 r;
    memcpy(h, p, sizeof h);
    for (int i = 0; i < 16; i++) {
        uint32_t bits = (uint32_t)h[i] << 16;
        memcpy(&r.x[i], &bits, sizeof bits);
    }
    return r;
}
INLINE void v_store_half(uint16_t *p, v16 a)
{
    for (int i = 0; i < 16; i++)
        p[i] = f32_to_f16(a.x[i]);
}
/* Whole values from -127 to 127; NaN gives 0. */
INLINE void v_store_int8(int8_t *p, v16 a)
{
    for (int i = 0; i < 16; i++)
        p[i] = a.x[i] >= -128.0f && a.x[i] <= 127.0f ? (int8_t)a.x[i] : 0;
}

INLINE v16 v_load_int8(const void *p)
{
    const int8_t *n = p;
    EACH_LANE(v16, (float)n[i]);
}
