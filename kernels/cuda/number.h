/* kernels/cuda/number.h - float16, bfloat16 and fp8 (e4m3, arXiv 2209.05433) as plain bits, so that
 * host C, host C++ and device code share structs. Conversions round to nearest even; to_fp8
 * saturates at 448. Host bodies are checked for every pattern, and against the toolkit's headers
 * where one is installed: tests/kernels/simt/number_test.cc. */
#ifndef KERNELS_CUDA_NUMBER_H
#define KERNELS_CUDA_NUMBER_H

struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};
struct fp8 {
    uint8_t bits;
};

#ifdef __CUDACC__
__device__ __forceinline__ float to_float(f16 v)
{
    return __half2float(__ushort_as_half(v.bits));
}
__device__ __forceinline__ float to_float(bf16 v)
{
    return __uint_as_float((unsigned)v.bits << 16);
}
__device__ __forceinline__ float to_float(fp8 v)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(v.bits, __NV_E4M3)));
}
__device__ __forceinline__ void from_float(f16 &out, float v)
{
    out.bits = __half_as_ushort(__float2half_rn(v));
}
__device__ __forceinline__ void from_float(bf16 &out, float v)
{
    out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
}
__device__ __forceinline__ void from_float(fp8 &out, float v)
{
    out.bits = (uint8_t)__nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
}
#else
static inline float bits_to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t float_to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float to_float(bf16 v)
{
    return bits_to_float((uint32_t)v.bits << 16);
}

/* Exponent and fraction moved up, then scaled by the difference of the biases; all exact. */
static inline float to_float(f16 v)
{
    uint32_t sign = (uint32_t)(v.bits & 0x8000u) << 16, rest = (uint32_t)(v.bits & 0x7FFFu) << 13;
    if (rest >= 0x0F800000u) /* infinity, NaN */
        return bits_to_float(sign | 0x70000000u | rest);
    return bits_to_float(sign | float_to_bits(bits_to_float(rest) * 0x1p112f));
}

static inline float to_float(fp8 v)
{
    uint32_t sign = (uint32_t)(v.bits & 0x80u) << 24, rest = v.bits & 0x7Fu;
    if (rest == 0x7Fu)
        return bits_to_float(sign | 0x7FC00000u);
    return bits_to_float(sign | float_to_bits(bits_to_float(rest << 20) * 0x1p120f));
}

static inline void from_float(bf16 &out, float v)
{
    uint32_t bits = float_to_bits(v);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        out.bits = 0x7FFFu;
    else
        out.bits = (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

/* A magnitude rounded to `fraction` bits below the exponent, and below the format's smallest normal
 * exponent to multiples of its last step: adding a power of two puts that step at bit 0. */
static inline uint32_t round_magnitude(uint32_t bits, int fraction, int bias)
{
    int shift = 23 - fraction;
    uint32_t smallest = (uint32_t)(127 - bias + 1) << 23;
    if (bits < smallest) {
        uint32_t magic = (uint32_t)(127 - bias + 1 + shift) << 23;
        return float_to_bits(bits_to_float(bits) + bits_to_float(magic)) - magic;
    }
    uint32_t odd = bits >> shift & 1;
    return (bits - ((uint32_t)(127 - bias) << 23) + ((1u << (shift - 1)) - 1) + odd) >> shift;
}

static inline void from_float(f16 &out, float v)
{
    uint32_t bits = float_to_bits(v), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 16 & 0x8000u;
    if (magnitude > 0x7F800000u)
        out.bits = 0x7FFFu;
    else if (magnitude >= 0x477FF000u)
        out.bits = (uint16_t)(sign | 0x7C00u);
    else
        out.bits = (uint16_t)(sign | round_magnitude(magnitude, 10, 15));
}

static inline void from_float(fp8 &out, float v)
{
    uint32_t bits = float_to_bits(v), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
    if (magnitude > 0x7F800000u)
        out.bits = 0x7Fu;
    else if (magnitude >= 0x43E00000u) /* 448 and above */
        out.bits = (uint8_t)(sign | 0x7Eu);
    else
        out.bits = (uint8_t)(sign | round_magnitude(magnitude, 3, 7));
}
#endif

/* Two bfloat16 in a register, the first in the low half, as mma operands want them. */
__device__ __forceinline__ unsigned pack_bf16(float low, float high)
{
    bf16 a, b;
    from_float(a, low);
    from_float(b, high);
    return (unsigned)a.bits | (unsigned)b.bits << 16;
}

/* Two integers below 64 as bfloat16, less `zero`; exact: 0x4300 | q is the bfloat16 128 + q. */
__device__ __forceinline__ unsigned exact_pair(unsigned q, int zero)
{
    unsigned bits = q | 0x43004300u;
#ifdef __CUDACC__
    __nv_bfloat162 v = *(__nv_bfloat162 *)&bits;
    v = __hsub2(v, __float2bfloat162_rn((float)(128 + zero)));
    return *(unsigned *)&v;
#else
    float base = (float)(128 + zero);
    return float_to_bits(bits_to_float(bits << 16) - base) >> 16 |
           (float_to_bits(bits_to_float(bits & 0xFFFF0000u) - base) & 0xFFFF0000u);
#endif
}

/* The two e4m3 in the low half as bfloat16; exact: their bits moved to bfloat16's places are 2^-120
 * of them. Not for NaN. */
__device__ __forceinline__ unsigned pair_of_fp8(unsigned two)
{
    unsigned v = (two & 0xFF) << 8 | (two & 0xFF00) << 16;
    unsigned bits = (v & 0x80008000u) | (v >> 4 & 0x07F007F0u);
#ifdef __CUDACC__
    __nv_bfloat162 wide = *(__nv_bfloat162 *)&bits;
    wide = __hmul2(wide, __float2bfloat162_rn(0x1p120f));
    return *(unsigned *)&wide;
#else
    return float_to_bits(bits_to_float(bits << 16) * 0x1p120f) >> 16 |
           (float_to_bits(bits_to_float(bits & 0xFFFF0000u) * 0x1p120f) & 0xFFFF0000u);
#endif
}

__device__ __forceinline__ float low_bf16(unsigned pair)
{
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ float high_bf16(unsigned pair)
{
    return __uint_as_float(pair & 0xFFFF0000u);
}

#endif
