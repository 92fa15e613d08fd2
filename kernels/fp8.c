/* e4m3: four bits of exponent (bias 7), three of fraction, no infinities. */
#include "kernels/fp8.h"

#include <math.h>
#include <string.h>

static const float LARGEST = 448;

float fp8_step(float most)
{
    float step = most / LARGEST;
    return step > 0 && isfinite(step) ? step : 1;
}

/* Magnitudes in units of 2^-9, the smallest: steps of 1 up to 2^-5, then of twice as much for each
 * power of two. Adding a power of two rounds a float to multiples of its last step. */
uint8_t fp8_from_f32(float v)
{
    float size = fabsf(v);
    uint32_t bits, sign = signbit(v) ? 0x80 : 0;
    if (!(size < LARGEST))
        return (uint8_t)(sign | 0x7E);
    memcpy(&bits, &size, sizeof bits);
    int exponent = (int)(bits >> 23) - 127;
    exponent = exponent < -6 ? -6 : exponent;
    float units = rintf(ldexpf(size, 3 - exponent)); /* 8 to 16 of a normal one */
    return (uint8_t)(sign | ((uint32_t)(exponent + 6) * 8 + (uint32_t)units));
}

float fp8_to_f32(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    float size =
        exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return b & 0x80 ? -size : size;
}
