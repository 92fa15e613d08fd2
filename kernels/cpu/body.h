/* The inner loops in plain C, written in lanes so that a compiler makes vectors of them. Included
 * by one file per instruction set, which names its functions by BODY(name). No contraction is
 * allowed in these files, so all instruction sets give the same sums here. */
#include "kernels/cpu/isa.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Finite halves only: the bits moved into place and the exponent corrected by a multiplication,
 * which is right for subnormals too. */
INLINE float half_to_float(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7FFFu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude *= 0x1p112f;
    memcpy(&bits, &magnitude, sizeof bits);
    bits |= sign;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
}

/* As engine/sample/softmax.c: 2^n times a polynomial; x is at most 0 here, or a silu argument. */
INLINE float body_exp(float x)
{
    const float magic = 12582912.0f;
    float t = x * 1.44269504f;
    t = t < -126.0f ? -126.0f : t;
    t = t > 126.0f ? 126.0f : t;
    float shifted = t + magic;
    float f = t - (shifted - magic);
    float p = 1.5403530e-4f;
    p = p * f + 1.33335581e-3f;
    p = p * f + 9.61812911e-3f;
    p = p * f + 5.55041087e-2f;
    p = p * f + 2.40226507e-1f;
    p = p * f + 6.93147181e-1f;
    p = p * f + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3F800000u;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

INLINE float lanes_total(const float lane[LANES])
{
    float half[LANES / 2];
    for (int j = 0; j < 8; j++)
        half[j] = lane[j] + lane[j + 8];
    for (int j = 0; j < 4; j++)
        half[j] += half[j + 4];
    return (half[0] + half[2]) + (half[1] + half[3]);
}

#ifndef BODY_HAS_TILES
INLINE void load_scales(const uint8_t *unit, float d[LANES], float m[LANES])
{
    uint16_t raw[2 * LANES];
    memcpy(raw, unit, sizeof raw);
    for (int r = 0; r < LANES; r++) {
        d[r] = half_to_float(raw[r]);
        m[r] = half_to_float(raw[LANES + r]);
    }
}

INLINE void finish_unit(const int32_t dot[LANES], const float d[LANES], const float m[LANES],
                        float scale, float sum, float a[LANES], float b[LANES])
{
    for (int r = 0; r < LANES; r++) {
        a[r] += (float)dot[r] * (d[r] * scale);
        b[r] += m[r] * sum;
    }
}

/* A unit's elements spread to bytes: byte 4 r + t of vector j is element 4 j + t of row r. */
INLINE void spread_nibbles(const uint8_t *q, uint8_t out[8][64])
{
    for (int j = 0; j < 4; j++) {
        for (int i = 0; i < 64; i++) {
            out[j][i] = q[64 * j + i] & 15;
            out[j + 4][i] = q[64 * j + i] >> 4;
        }
    }
}

INLINE void unit_dot(const uint8_t w[8][64], const int8_t *q, int32_t dot[LANES])
{
    memset(dot, 0, LANES * sizeof *dot);
    for (int j = 0; j < 8; j++)
        for (int r = 0; r < LANES; r++)
            for (int t = 0; t < 4; t++)
                dot[r] += (int32_t)w[j][4 * r + t] * q[4 * j + t];
}

INLINE void tile_body(const uint8_t *group, size_t unit_bytes, const struct cpu_acts *a,
                      uint32_t first, uint32_t n, float out[TILE_TOKENS][LANES])
{
    uint32_t n_units = a->cols / UNIT;
    float sums[TILE_TOKENS][LANES], offsets[TILE_TOKENS][LANES];
    memset(sums, 0, sizeof sums);
    memset(offsets, 0, sizeof offsets);
    for (uint32_t u = 0; u < n_units; u++, group += unit_bytes) {
        float d[LANES], m[LANES];
        uint8_t w[8][64];
        load_scales(group, d, m);
        if (unit_bytes == UNIT4_BYTES)
            spread_nibbles(group + 64, w);
        else
            memcpy(w, group + 64, sizeof w);
        for (uint32_t t = 0; t < n; t++) {
            int32_t dot[LANES];
            size_t at = (size_t)(first + t) * n_units + u;
            unit_dot(w, a->q + at * UNIT, dot);
            finish_unit(dot, d, m, a->scale[at], a->sum[at], sums[t], offsets[t]);
        }
    }
    for (uint32_t t = 0; t < n; t++)
        for (int r = 0; r < LANES; r++)
            out[t][r] = sums[t][r] + offsets[t][r];
}

static void BODY(tile4)(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                        float out[TILE_TOKENS][LANES])
{
    tile_body(group, UNIT4_BYTES, a, first, n, out);
}

static void BODY(tile8)(const uint8_t *group, const struct cpu_acts *a, uint32_t first, uint32_t n,
                        float out[TILE_TOKENS][LANES])
{
    tile_body(group, UNIT8_BYTES, a, first, n, out);
}
#endif

/* 1 / sqrt(mean(x^2) + eps), arXiv 1910.07467. */
INLINE float norm_factor(const float *x, uint32_t n, float eps)
{
    float lane[LANES] = {0};
    for (uint32_t i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] * x[i + j];
    return 1.0f / sqrtf(lanes_total(lane) / (float)n + eps);
}

/* One unit: scale = largest magnitude / 127, round to nearest even. */
INLINE void quantize_unit(const float v[UNIT], int8_t *q, float *scale, float *sum)
{
    const float magic = 12582912.0f;
    float lane[LANES], most = 0;
    for (int j = 0; j < LANES; j++) {
        float a = fabsf(v[j]), b = fabsf(v[j + LANES]);
        lane[j] = a > b ? a : b;
    }
    for (int j = 0; j < LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    float inverse = most > 0 ? 127.0f / most : 0.0f;
    int32_t total = 0;
    for (int j = 0; j < UNIT; j++) {
        int32_t rounded = (int32_t)((v[j] * inverse + magic) - magic);
        q[j] = (int8_t)rounded;
        total += rounded;
    }
    *scale = most / 127.0f;
    *sum = *scale * (float)total;
}

static void BODY(quantize)(const float *x, const float *gain, float eps, struct cpu_acts *a,
                           uint32_t t)
{
    uint32_t n_units = a->cols / UNIT;
    float factor = gain ? norm_factor(x, a->cols, eps) : 1.0f;
    for (uint32_t u = 0; u < n_units; u++) {
        float v[UNIT];
        size_t at = (size_t)t * n_units + u;
        for (int j = 0; j < UNIT; j++)
            v[j] = gain ? x[u * UNIT + j] * factor * gain[u * UNIT + j] : x[u * UNIT + j];
        quantize_unit(v, a->q + at * UNIT, &a->scale[at], &a->sum[at]);
    }
}

static void BODY(swiglu)(const float *g, const float *u, float *out)
{
    for (int j = 0; j < LANES; j++)
        out[j] = g[j] / (1.0f + body_exp(-g[j])) * u[j];
}

#ifndef BODY_HAS_HALF
static void BODY(to_half)(const float *x, uint16_t *out, uint32_t n, size_t stride)
{
    for (uint32_t i = 0; i < n; i++) {
        float v = x[i] > 65504.0f ? 65504.0f : x[i];
        out[i * stride] = f32_to_f16(v < -65504.0f ? -65504.0f : v);
    }
}
#endif

/* score[i][p] = q_i . k_p for the 16 positions of a block. */
INLINE void block_scores(const struct cpu_attend *j, const uint16_t *key, uint32_t from)
{
    uint32_t stride = (j->n_position + LANES - 1) / LANES * LANES;
    for (uint32_t i = 0; i < j->n_group; i++) {
        const float *q = j->q + (size_t)i * j->d_head;
        float lane[LANES] = {0};
        for (uint32_t d = 0; d < j->d_head; d++)
            for (int p = 0; p < LANES; p++)
                lane[p] += q[d] * half_to_float(key[d * LANES + p]);
        memcpy(j->score + (size_t)i * stride + from, lane, sizeof lane);
    }
}

/* Softmax over n scores in place; positions past n become 0. Gives 1 / sum. */
INLINE float softmax_row(float *s, uint32_t n, uint32_t padded, float scale)
{
    float lane[LANES], most = -INFINITY;
    for (uint32_t p = n; p < padded; p++)
        s[p] = -INFINITY;
    for (int j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    for (uint32_t p = 0; p < padded; p += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = s[p + j] > lane[j] ? s[p + j] : lane[j];
    for (int j = 0; j < LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    memset(lane, 0, sizeof lane);
    for (uint32_t p = 0; p < padded; p += LANES)
        for (int j = 0; j < LANES; j++) {
            float e = body_exp((s[p + j] - most) * scale);
            e = p + (uint32_t)j < n ? e : 0.0f;
            s[p + j] = e;
            lane[j] += e;
        }
    return 1.0f / lanes_total(lane);
}

INLINE void add_values(const struct cpu_attend *j, uint32_t i, const float *score, float inverse)
{
    float *y = j->y + (size_t)i * j->d_head;
    for (uint32_t d = 0; d < j->d_head; d += LANES) {
        uint32_t width = j->d_head - d < LANES ? j->d_head - d : LANES;
        float lane[LANES] = {0};
        for (uint32_t p = 0; p < j->n_position; p++) {
            const uint16_t *v = j->cache + j->table[p / LANES] * j->block_stride +
                                (size_t)LANES * j->d_head + (size_t)(p % LANES) * j->d_head + d;
            for (uint32_t k = 0; k < width; k++)
                lane[k] += score[p] * half_to_float(v[k]);
        }
        for (uint32_t k = 0; k < width; k++)
            y[d + k] = lane[k] * inverse;
    }
}

#ifndef BODY_HAS_ATTEND
static void BODY(attend)(const struct cpu_attend *j)
{
    uint32_t padded = (j->n_position + LANES - 1) / LANES * LANES;
    float scale = 1.0f / sqrtf((float)j->d_head);
    for (uint32_t from = 0; from < j->n_position; from += LANES)
        block_scores(j, j->cache + j->table[from / LANES] * j->block_stride, from);
    for (uint32_t i = 0; i < j->n_group; i++) {
        float *score = j->score + (size_t)i * padded;
        float inverse = softmax_row(score, j->n_position, padded, scale);
        add_values(j, i, score, inverse);
    }
}
#endif

#define BODY_TABLE(label, available)                                                               \
    {                                                                                              \
        .name = label, .is_available = available, .tile4 = BODY(tile4), .tile8 = BODY(tile8),      \
        .quantize = BODY(quantize), .swiglu = BODY(swiglu), .attend = BODY(attend),                \
        .to_half = BODY(to_half)                                                                   \
    }
