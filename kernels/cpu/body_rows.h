/* kernels/cpu/body_rows.h - what treats one row of activations: norm, quantisation, rotation.
 * Included after a vec_*.h. Tails that fill no vector are done value by value. */
#include <math.h>
#include <string.h>

/* exp by 2^(n + f), f in [-1/2, 1/2], Taylor to degree 6; below -87 it stays at exp(-87). */
INLINE v16 v_exp(v16 x)
{
    v16 t = v_mul(v_min(v_max(x, v_set(-87.0f)), v_set(88.0f)), v_set(1.44269504f));
    v16 n = v_round(t), f = v_sub(t, n), p = v_set(1.5403530e-4f);
    p = v_fma(p, f, v_set(1.3333558e-3f));
    p = v_fma(p, f, v_set(9.6181291e-3f));
    p = v_fma(p, f, v_set(5.5504109e-2f));
    p = v_fma(p, f, v_set(2.4022651e-1f));
    p = v_fma(p, f, v_set(6.9314718e-1f));
    p = v_fma(p, f, v_set(1.0f));
    return v_times_pow2(p, n);
}

/* SwiGLU or GEGLU (arXiv 2002.05202): g sigmoid(g) up, or g sigmoid(2 z) up with the z of GELU's
 * tanh form, since 1 + tanh(z) = 2 sigmoid(2 z). */
INLINE v16 gated(enum product_mode mode, v16 g, v16 up)
{
    v16 twice_z = g;
    if (mode == PRODUCT_GATE_GELU) {
        v16 square = v_fma(v_mul(g, g), v_set(0.0713548163f), v_set(1.5957691216f));
        twice_z = v_mul(g, square);
    }
    v16 down = v_add(v_set(1), v_exp(v_sub(v_set(0), twice_z)));
    return v_mul(v_div(g, down), up);
}

/* 1 / rms(x) */
INLINE float norm_scale(const float *x, float eps, uint32_t n)
{
    uint32_t whole = n / LANES * LANES, i = 0;
    v16 squares[4] = {v_set(0), v_set(0), v_set(0), v_set(0)}; /* side by side: each waits */
    for (; i + 4 * LANES <= whole; i += 4 * LANES)
        UNROLL(4)
    for (uint32_t k = 0; k < 4; k++)
        squares[k] = v_fma(v_load(x + i + k * LANES), v_load(x + i + k * LANES), squares[k]);
    for (; i < whole; i += LANES)
        squares[0] = v_fma(v_load(x + i), v_load(x + i), squares[0]);
    float sum = v_sum(v_add(v_add(squares[0], squares[1]), v_add(squares[2], squares[3])));
    for (; i < n; i++)
        sum += x[i] * x[i];
    return 1.0f / sqrtf(sum / (float)n + eps);
}

INLINE v16 normed(const float *x, const float *weight, float scale)
{
    return v_mul(v_mul(v_load(x), v_set(scale)), v_load(weight));
}

static void row_norm(const float *x, const float *weight, float eps, uint32_t n, float *y)
{
    uint32_t whole = n / LANES * LANES;
    float scale = norm_scale(x, eps, n);
    for (uint32_t i = 0; i < whole; i += LANES)
        v_store(y + i, normed(x + i, weight + i, scale));
    for (uint32_t i = whole; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

/* Round to nearest even to 127 * 128 steps, cut into a coarse and a fine byte: 128 * coarse + fine.
 */
INLINE v16 quantise_lanes(const float *x, v16 inverse, int8_t *coarse, int8_t *fine)
{
    v16 whole = v_round(v_mul(v_load(x), inverse));
    v16 high = v_round(v_mul(whole, v_set(1.0f / 128)));
    v_store_int8(coarse, high);
    v_store_int8(fine, v_sub(whole, v_mul(high, v_set(128))));
    return whole;
}

INLINE v16 turned(const float *head, const float *turn, uint32_t n, uint32_t i)
{
    v16 x = v_load(head + i);
    v16 y = v_mul(v_swap_pairs(x), v_load(turn + n + i));
    return v_fma(x, v_load(turn + i), y);
}

static void row_rotate(float *head, const float *turn, uint32_t n)
{
    uint32_t whole = n / LANES * LANES;
    for (uint32_t i = 0; i < whole; i += LANES)
        v_store(head + i, turned(head, turn, n, i));
    for (uint32_t i = whole; i < n; i += 2) {
        float a = head[i], b = head[i + 1];
        head[i] = a * turn[i] + b * turn[n + i];
        head[i + 1] = b * turn[i + 1] + a * turn[n + i + 1];
    }
}
