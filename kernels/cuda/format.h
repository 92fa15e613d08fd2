/* kernels/cuda/format.h - weights of f32 and f16 in registers: load a unit (16 bytes), then four
 * weights at a time as floats. AHEAD: units of a row that a lane keeps in flight. */
#ifndef KERNELS_CUDA_FORMAT_H
#define KERNELS_CUDA_FORMAT_H

#include "kernels/cuda/scale.h"

template <class T> struct floats {
    enum { UNIT = 16 / sizeof(T), AHEAD = 2 };
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
    static __device__ __forceinline__ float one(unsigned bits, const f16 *)
    {
        return to_float(f16{(uint16_t)bits});
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

#endif
