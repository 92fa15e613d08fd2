/* kernels/cpu/vec_plain.h - sixteen lanes as an array, for any machine. Included by isa_plain.c
 * only. */
#include "kernels/dtype.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/inline.h"

enum { TILE_GROUPS = 1, TILE_TOKENS = 2 };

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
/* 2 to a whole power from -126 to 127. */
INLINE v16 v_pow2(v16 a)
{
    EACH_LANE(v16, ldexpf(1.0f, (int)a.x[i]));
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

INLINE i16 i_zero(void)
{
    EACH_LANE(i16, 0);
}
/* 128 * coarse + fine */
INLINE i16 i_join(i16 coarse, i16 fine)
{
    EACH_LANE(i16, 128 * coarse.x[i] + fine.x[i]);
}
INLINE v16 i_to_v(i16 a)
{
    EACH_LANE(v16, (float)a.x[i]);
}
INLINE bytes b_load(const uint8_t *p)
{
    bytes w;
    memcpy(w.x, p, sizeof w.x);
    return w;
}
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
/* Lane r gains the dot product of its four unsigned bytes with the four signed ones at a. */
INLINE i16 i_dot(i16 sum, bytes w, const int8_t *a)
{
    EACH_LANE(i16, sum.x[i] + w.x[4 * i] * a[0] + w.x[4 * i + 1] * a[1] + w.x[4 * i + 2] * a[2] +
                       w.x[4 * i + 3] * a[3]);
}
#define i_dot_nibbles i_dot
INLINE void v_prefetch(const uint8_t *p)
{
    __builtin_prefetch(p);
}
