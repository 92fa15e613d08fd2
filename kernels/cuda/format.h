/* kernels/cuda/format.h - weights of a panel in registers: load a unit (16 bytes of `low` and what
 * belongs to it), then four weights at a time as floats before scaling, and the scales.
 *
 * weight = step[half] * value + offset. Values are exact: q | 0x4B000000 is the float 2^23 + q, and
 * a subtraction leaves q less the type's zero. AHEAD: units of a row that a lane keeps in flight,
 * as registers allow. */
#ifndef KERNELS_CUDA_FORMAT_H
#define KERNELS_CUDA_FORMAT_H

#include "kernels/cuda/scale.h"

enum scale_kind { SCALE_ONE, SCALE_TWO, SCALE_K, SCALE_SIX };

/* Types of 4 to 6 bits. HIGH: bits above the nibble. ZERO: the value that stands for 0. */
template <int HIGH, int KIND, int ZERO> struct nibbles {
    enum { UNIT = 32, HAS_OFFSET = KIND == SCALE_TWO || KIND == SCALE_K };
    enum { HALVES = KIND == SCALE_SIX ? 2 : 1, AHEAD = KIND == SCALE_K || HIGH ? 1 : 2 };
    struct unit {
        uint4 low, header;
        unsigned high[2];
        float step[2], offset;
        int index; /* of the unit in its block of 256 */
    };

    static __device__ __forceinline__ unit load(const panel &w, unsigned row, unsigned i)
    {
        unit u = {};
        size_t at = (size_t)row * w.units + i;
        if (i >= w.units)
            return u;
        u.low = ld128_stream((const char *)w.low + at * 16);
        if (HIGH == 1)
            u.high[0] = ((const unsigned *)w.high)[at];
        if (HIGH == 2) {
            uint2 high = ((const uint2 *)w.high)[at];
            u.high[0] = high.x;
            u.high[1] = high.y;
        }
        u.index = (int)(i % 8);
        if (KIND == SCALE_ONE)
            u.step[0] = half_at(w.scale, at);
        if (KIND == SCALE_TWO) {
            unsigned both = ((const unsigned *)w.scale)[at];
            u.step[0] = to_float(f16{(uint16_t)(both & 0xFFFF)});
            u.offset = to_float(f16{(uint16_t)(both >> 16)});
        }
        if (KIND == SCALE_K)
            u.header = ld128((const char *)w.scale + at / 8 * 16);
        if (KIND == SCALE_SIX) {
            unsigned both = ((const uint16_t *)w.scale)[at];
            float d = half_at(w.super, at / 8);
            u.step[0] = d * exact_float((both & 255) ^ 128, 128);
            u.step[1] = d * exact_float((both >> 8) ^ 128, 128);
        }
        return u;
    }

    static __device__ __forceinline__ unit_scale scale(const unit &u)
    {
        if (KIND == SCALE_K)
            return scale_of_k(u.header, u.index);
        return {{u.step[0], KIND == SCALE_SIX ? u.step[1] : u.step[0]}, u.offset};
    }

    static __device__ __forceinline__ float4 four(const unit &u, int j)
    {
        unsigned word = word_of(u.low, j / 2) >> (j % 2 * 16), high = 0;
        if (HIGH == 1)
            high = u.high[0] >> (j * 4);
        if (HIGH == 2)
            high = u.high[j / 4] >> (j % 4 * 8);
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned q = word >> (4 * i) & 15;
            if (HIGH)
                q |= (high >> (HIGH * i) & ((1u << HIGH) - 1)) << 4;
            v[i] = exact_float(q, (float)ZERO);
        }
        return {v[0], v[1], v[2], v[3]};
    }
};

struct bytes { /* Q8_0 */
    enum { UNIT = 16, HAS_OFFSET = 0, HALVES = 1, AHEAD = 2 };
    struct unit {
        uint4 low;
        float step;
    };
    static __device__ __forceinline__ unit load(const panel &w, unsigned row, unsigned i)
    {
        unit u = {};
        size_t at = (size_t)row * w.units + i;
        if (i >= w.units)
            return u;
        u.low = ld128_stream((const char *)w.low + at * 16);
        u.step = half_at(w.scale, at / 2);
        return u;
    }
    static __device__ __forceinline__ unit_scale scale(const unit &u)
    {
        return {{u.step, u.step}, 0};
    }
    static __device__ __forceinline__ float4 four(const unit &u, int j)
    {
        unsigned word = word_of(u.low, j) ^ 0x80808080u;
        return {exact_float(word & 255, 128), exact_float(word >> 8 & 255, 128),
                exact_float(word >> 16 & 255, 128), exact_float(word >> 24, 128)};
    }
};

/* f32, f16, bf16: T. */
template <class T> struct floats {
    enum { UNIT = 16 / sizeof(T), HAS_OFFSET = 0, HALVES = 1, AHEAD = 2 };
    struct unit {
        uint4 low;
    };
    static __device__ __forceinline__ unit load(const panel &w, unsigned row, unsigned i)
    {
        unit u = {};
        if (i < w.units)
            u.low = ld128_stream((const char *)w.low + ((size_t)row * w.units + i) * 16);
        return u;
    }
    static __device__ __forceinline__ unit_scale scale(const unit &)
    {
        return {{1, 1}, 0};
    }
    static __device__ __forceinline__ float one(unsigned bits, const f16 *)
    {
        return to_float(f16{(uint16_t)bits});
    }
    static __device__ __forceinline__ float one(unsigned bits, const bf16 *)
    {
        return to_float(bf16{(uint16_t)bits});
    }
    static __device__ __forceinline__ float one(unsigned bits, const float *)
    {
        return __uint_as_float(bits);
    }
    static __device__ __forceinline__ float4 four(const unit &u, int j)
    {
        const T *type = NULL;
        if (sizeof(T) == 4)
            return {one(u.low.x, type), one(u.low.y, type), one(u.low.z, type), one(u.low.w, type)};
        unsigned a = word_of(u.low, 2 * j), b = word_of(u.low, 2 * j + 1);
        return {one(a & 0xFFFF, type), one(a >> 16, type), one(b & 0xFFFF, type),
                one(b >> 16, type)};
    }
};

template <int FORMAT> struct format_of;
template <> struct format_of<PANEL_F32> : floats<float> {
};
template <> struct format_of<PANEL_F16> : floats<f16> {
};
template <> struct format_of<PANEL_BF16> : floats<bf16> {
};
template <> struct format_of<PANEL_Q8_0> : bytes {
};
template <> struct format_of<PANEL_Q4_0> : nibbles<0, SCALE_ONE, 8> {
};
template <> struct format_of<PANEL_Q4_1> : nibbles<0, SCALE_TWO, 0> {
};
template <> struct format_of<PANEL_Q5_0> : nibbles<1, SCALE_ONE, 16> {
};
template <> struct format_of<PANEL_Q5_1> : nibbles<1, SCALE_TWO, 0> {
};
template <> struct format_of<PANEL_Q4_K> : nibbles<0, SCALE_K, 0> {
};
template <> struct format_of<PANEL_Q5_K> : nibbles<1, SCALE_K, 0> {
};
template <> struct format_of<PANEL_Q6_K> : nibbles<2, SCALE_SIX, 32> {
};

#endif
