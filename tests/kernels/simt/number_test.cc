/* The host's float16, bfloat16 and fp8 (kernels/cuda/number.h) against their definitions, for every
 * pattern of bits: its value, its way back, and which neighbour the middle between two goes to, and
 * what lies beside it. With NUMBER_TOOLKIT also against the toolkit's headers. */
#include <stdint.h>
#include <string.h>

#ifdef NUMBER_TOOLKIT
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

extern "C" {
#include "common/test.h"
}

#include <math.h>

#ifndef __device__
#define __device__
#define __forceinline__ inline
#endif
#define __uint_as_float float_of_bits
static inline float float_of_bits(unsigned bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
#include "kernels/cuda/number.h"

namespace
{

/* A type: its bits, the largest finite pattern, what is beyond it, and the NaN that comes out. */
template <class T> struct traits;
template <> struct traits<f16> {
    enum { FRACTION = 10, BIAS = 15, LARGEST = 0x7BFF, BEYOND = 0x7C00, NAN_BITS = 0x7FFF };
};
template <> struct traits<bf16> {
    enum { FRACTION = 7, BIAS = 127, LARGEST = 0x7F7F, BEYOND = 0x7F80, NAN_BITS = 0x7FFF };
};
template <> struct traits<fp8> {
    enum { FRACTION = 3, BIAS = 7, LARGEST = 0x7E, BEYOND = 0x7E, NAN_BITS = 0x7F };
};

template <class T> unsigned sign_bit()
{
    return 1u << (sizeof(T) * 8 - 1);
}

/* IEEE 754-2019, 3.4; of a pattern without sign, at most LARGEST. */
template <class T> double value_of(unsigned p)
{
    unsigned exponent = p >> traits<T>::FRACTION, fraction = p & ((1u << traits<T>::FRACTION) - 1);
    if (exponent == 0)
        return ldexp(fraction, 1 - traits<T>::BIAS - traits<T>::FRACTION);
    return ldexp(fraction + (1u << traits<T>::FRACTION),
                 (int)exponent - traits<T>::BIAS - traits<T>::FRACTION);
}

template <class T> unsigned to_bits(float v)
{
    T out;
    from_float(out, v);
    return out.bits;
}

template <class T> T pattern(unsigned p)
{
    T v;
    v.bits = (decltype(v.bits))p;
    return v;
}

template <class T> void expect_bits(float v, unsigned want)
{
    unsigned got = to_bits<T>(v), minus = to_bits<T>(-v);
    if (got != want || minus != (want | sign_bit<T>()))
        fail_msg("%a becomes %#x and %#x, not %#x", (double)v, got, minus, want);
}

template <class T> void test_all(void **)
{
    for (unsigned p = 0; p < sign_bit<T>(); p++) {
        float v = to_float(pattern<T>(p)), minus = to_float(pattern<T>(p | sign_bit<T>()));
        if (p > traits<T>::LARGEST) {
            bool is_infinite = p == traits<T>::BEYOND;
            assert_true(is_infinite ? isinf(v) && v > 0 && minus < 0 : isnan(v) && isnan(minus));
            continue;
        }
        if ((double)v != value_of<T>(p) || (double)minus != -value_of<T>(p) || !signbit(minus))
            fail_msg("%#x is %a, not %a", p, (double)v, value_of<T>(p));
        expect_bits<T>(v, p);
        bool is_last = p == traits<T>::LARGEST;
        double next = is_last ? 2 * value_of<T>(p) - value_of<T>(p - 1) : value_of<T>(p + 1);
        unsigned above = is_last ? (unsigned)traits<T>::BEYOND : p + 1;
        float middle = (float)((value_of<T>(p) + next) / 2);
        assert_true((double)middle == (value_of<T>(p) + next) / 2);
        expect_bits<T>(nextafterf(middle, 0), p);
        expect_bits<T>(middle, p % 2 ? above : p);
        expect_bits<T>(nextafterf(middle, INFINITY), above);
    }
    expect_bits<T>(INFINITY, traits<T>::BEYOND);
    assert_int_equal(to_bits<T>(NAN), traits<T>::NAN_BITS);
}

/* Every pair of integers of six bits less each type's zero. */
void test_pairs(void **)
{
    static const int ZEROS[] = {0, 8, 16, 32};
    for (unsigned q = 0; q < 64 * 64; q++) {
        for (int zero : ZEROS) {
            unsigned low = q % 64, high = q / 64, pair = exact_pair(low | high << 16, zero);
            assert_true(low_bf16(pair) == (float)((int)low - zero));
            assert_true(high_bf16(pair) == (float)((int)high - zero));
            assert_int_equal(pair, pack_bf16((float)((int)low - zero), (float)((int)high - zero)));
        }
    }
}

#ifdef NUMBER_TOOLKIT
void expect_same(float v)
{
    unsigned e4m3 = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    bool is_same = to_bits<f16>(v) == __half_as_ushort(__float2half_rn(v)) &&
                   to_bits<bf16>(v) == __bfloat16_as_ushort(__float2bfloat16_rn(v)) &&
                   (to_bits<fp8>(v) == e4m3 || (isnan(v) && (e4m3 & 0x7F) == 0x7F));
    if (!is_same)
        fail_msg("%a: %#x %#x %#x, the toolkit has %#x %#x %#x", (double)v, to_bits<f16>(v),
                 to_bits<bf16>(v), to_bits<fp8>(v), __half_as_ushort(__float2half_rn(v)),
                 __bfloat16_as_ushort(__float2bfloat16_rn(v)), e4m3);
}

bool is_same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || float_to_bits(a) == float_to_bits(b);
}

void test_toolkit(void **)
{
    for (unsigned p = 0; p < 0x10000; p++) {
        uint16_t bits = (uint16_t)p;
        assert_true(is_same_float(to_float(f16{bits}), __half2float(__ushort_as_half(bits))));
        assert_true(
            is_same_float(to_float(bf16{bits}), __bfloat162float(__ushort_as_bfloat16(bits))));
        if (p < 256)
            assert_true(is_same_float(
                to_float(fp8{(uint8_t)p}),
                __half2float(__half(__nv_cvt_fp8_to_halfraw((uint8_t)p, __NV_E4M3)))));
    }
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 1021) /* a prime: all low bits come */
        expect_same(float_of_bits((unsigned)i));
}
#endif

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all<f16>), cmocka_unit_test(test_all<bf16>),
        cmocka_unit_test(test_all<fp8>), cmocka_unit_test(test_pairs),
#ifdef NUMBER_TOOLKIT
        cmocka_unit_test(test_toolkit),
#endif
    };
    return cmocka_run_group_tests_name("kernels.simt.number", tests, NULL, NULL);
}
