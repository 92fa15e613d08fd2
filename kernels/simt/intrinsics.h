/* kernels/simt/intrinsics.h - CUDA's arithmetic and atomic functions on the host. Those that a GPU
 * approximates (__expf, rsqrtf) are exact to rounding here: compare with tolerances. */
#ifndef KERNELS_SIMT_INTRINSICS_H
#define KERNELS_SIMT_INTRINSICS_H

#define __sincosf(x, s, c) sincosf(x, s, c)

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++)
        out |= (unsigned)(both >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
    return out;
}
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T min(T a, T b)
{
    return a < b ? a : b;
}
template <class T> static inline T max(T a, T b)
{
    return a > b ? a : b;
}

template <class T, class U> static inline T atomicAdd(T *p, U v)
{
    return simt::read_change_write(p, [v](T old) { return (T)(old + (T)v); });
}
template <class T, class U> static inline T atomicMax(T *p, U v)
{
    return simt::read_change_write(p, [v](T old) { return old > (T)v ? old : (T)v; });
}
template <class T, class U> static inline T atomicMin(T *p, U v)
{
    return simt::read_change_write(p, [v](T old) { return old < (T)v ? old : (T)v; });
}
template <class T, class U> static inline T atomicOr(T *p, U v)
{
    return simt::read_change_write(p, [v](T old) { return old | (T)v; });
}
template <class T, class U> static inline T atomicExch(T *p, U v)
{
    return simt::read_change_write(p, [v](T) { return (T)v; });
}
template <class T, class U> static inline T atomicCAS(T *p, U expected, U v)
{
    return simt::read_change_write(
        p, [expected, v](T old) { return old == (T)expected ? (T)v : old; });
}

#endif
