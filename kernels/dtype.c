/* Block formats and their expansion to float32: the one truth every backend is compared with. */
#include "kernels/dtype.h"

#include <string.h>

enum { SUPER = 256 }; /* elements of a K-quant block */

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023u;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 is exact in float */
        float value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return sign | 0x7E00u; /* NaN */
    if (magnitude >= 0x477FF000u)
        return sign | 0x7C00u; /* rounds to 65536 or more */
    if (magnitude < 0x38800000u) {
        /* Subnormal: adding 2^-1 shifted to the right place rounds to a multiple of 2^-24. */
        float scaled, half = 0.5f;
        memcpy(&scaled, &magnitude, sizeof scaled);
        scaled += half;
        memcpy(&bits, &scaled, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xFFFu + odd) >> 13);
}

float bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

static void expand_f32(const uint8_t *src, float *dst)
{
    memcpy(dst, src, sizeof *dst);
}

static void expand_f16(const uint8_t *src, float *dst)
{
    *dst = half_at(src);
}

static void expand_bf16(const uint8_t *src, float *dst)
{
    uint16_t h;
    memcpy(&h, src, sizeof h);
    *dst = bf16_to_f32(h);
}

/* Formats of 32: low nibbles are elements 0..15, high nibbles 16..31. */
static void expand_nibbles(const uint8_t *q, float scale, float offset, float *dst)
{
    for (int i = 0; i < 16; i++) {
        dst[i] = scale * (float)(q[i] & 15) + offset;
        dst[i + 16] = scale * (float)(q[i] >> 4) + offset;
    }
}

static void expand_q4_0(const uint8_t *src, float *dst)
{
    float d = half_at(src);
    expand_nibbles(src + 2, d, -8 * d, dst);
}

static void expand_q4_1(const uint8_t *src, float *dst)
{
    expand_nibbles(src + 4, half_at(src), half_at(src + 2), dst);
}

/* The fifth bit of element i is bit i of a 32-bit word before the nibbles. */
static void expand_fives(const uint8_t *src, float scale, float offset, float *dst)
{
    uint32_t high;
    memcpy(&high, src, sizeof high);
    const uint8_t *q = src + 4;
    for (int i = 0; i < 16; i++) {
        uint32_t low = (q[i] & 15u) | (high >> i & 1) << 4;
        uint32_t up = (uint32_t)(q[i] >> 4) | (high >> (i + 16) & 1) << 4;
        dst[i] = scale * (float)low + offset;
        dst[i + 16] = scale * (float)up + offset;
    }
}

static void expand_q5_0(const uint8_t *src, float *dst)
{
    float d = half_at(src);
    expand_fives(src + 2, d, -16 * d, dst);
}

static void expand_q5_1(const uint8_t *src, float *dst)
{
    expand_fives(src + 4, half_at(src), half_at(src + 2), dst);
}

static void expand_q8_0(const uint8_t *src, float *dst)
{
    float d = half_at(src);
    for (int i = 0; i < 32; i++)
        dst[i] = d * (float)(int8_t)src[2 + i];
}

/* Scale and minimum of sub-block j of 8: six bits each, packed in 12 bytes. */
static void unpack_scale(const uint8_t *p, int j, float *scale, float *minimum)
{
    int s, m;
    if (j < 4) {
        s = p[j] & 63;
        m = p[j + 4] & 63;
    } else {
        s = (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
        m = (p[j + 4] >> 4) | (p[j] >> 6) << 4;
    }
    *scale = (float)s;
    *minimum = (float)m;
}

/* Q4_K and Q5_K: sub-blocks of 32, pairs of them share 32 bytes of nibbles. high: NULL, or 32 bytes
 * whose bit j is the fifth bit of sub-block j. */
static void expand_k45(const uint8_t *src, const uint8_t *high, const uint8_t *low, float *dst)
{
    float d = half_at(src), dmin = half_at(src + 2);
    for (int j = 0; j < 8; j++) {
        float scale, minimum;
        unpack_scale(src + 4, j, &scale, &minimum);
        const uint8_t *q = low + j / 2 * 32;
        for (int i = 0; i < 32; i++) {
            int value = j % 2 ? q[i] >> 4 : q[i] & 15;
            if (high)
                value += (high[i] >> j & 1) << 4;
            dst[j * 32 + i] = d * scale * (float)value - dmin * minimum;
        }
    }
}

static void expand_q4_k(const uint8_t *src, float *dst)
{
    expand_k45(src, NULL, src + 16, dst);
}

static void expand_q5_k(const uint8_t *src, float *dst)
{
    expand_k45(src, src + 16, src + 48, dst);
}

/* Two halves of 128: 64 bytes of low nibbles, 32 bytes of high pairs, 8 signed scales of 16. */
static void expand_q6_k(const uint8_t *src, float *dst)
{
    float d = half_at(src + 208);
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = src + 64 * half, *high = src + 128 + 32 * half;
        const uint8_t *scales = src + 192 + 8 * half;
        float *out = dst + 128 * half;
        for (int i = 0; i < 128; i++) {
            int part = i / 32, lane = i % 32;
            int nibble = part < 2 ? low[32 * part + lane] & 15 : low[32 * (part - 2) + lane] >> 4;
            int value = (nibble | (high[lane] >> (2 * part) & 3) << 4) - 32;
            out[i] = d * (float)(int8_t)scales[i / 16] * (float)value;
        }
    }
}

struct format {
    uint32_t type, elements;
    size_t bytes;
    const char *name;
    void (*expand)(const uint8_t *src, float *dst);
};

static const struct format FORMATS[] = {
    {DTYPE_F32, 1, 4, "F32", expand_f32},          {DTYPE_F16, 1, 2, "F16", expand_f16},
    {DTYPE_BF16, 1, 2, "BF16", expand_bf16},       {DTYPE_Q8_0, 32, 34, "Q8_0", expand_q8_0},
    {DTYPE_Q4_0, 32, 18, "Q4_0", expand_q4_0},     {DTYPE_Q4_1, 32, 20, "Q4_1", expand_q4_1},
    {DTYPE_Q5_0, 32, 22, "Q5_0", expand_q5_0},     {DTYPE_Q5_1, 32, 24, "Q5_1", expand_q5_1},
    {DTYPE_Q4_K, SUPER, 144, "Q4_K", expand_q4_k}, {DTYPE_Q5_K, SUPER, 176, "Q5_K", expand_q5_k},
    {DTYPE_Q6_K, SUPER, 210, "Q6_K", expand_q6_k},
};

static const struct format *find_format(uint32_t type)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (FORMATS[i].type == type)
            return &FORMATS[i];
    return NULL;
}

bool dtype_layout(uint32_t type, uint32_t *elements, size_t *bytes)
{
    const struct format *f = find_format(type);
    if (f) {
        *elements = f->elements;
        *bytes = f->bytes;
    }
    return f != NULL;
}

const char *dtype_name(uint32_t type)
{
    const struct format *f = find_format(type);
    return f ? f->name : "?";
}

const char *dtype_known_names(void)
{
    return "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K";
}

void dtype_to_f32(uint32_t type, const void *src, float *dst, size_t n)
{
    const struct format *f = find_format(type);
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += f->elements, p += f->bytes)
        f->expand(p, dst + i);
}
