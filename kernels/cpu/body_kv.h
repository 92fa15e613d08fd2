/* kernels/cpu/body_kv.h - keys and values into a block, queries into integers. Included after
 * body_rows.h. Layouts: isa.h, at KV_TYPES. */

/* Lanes of a key on its way into a block, turned where they are below n_rot: a key that memory
 * does not see turned. n_rot is a multiple of LANES. */
struct key {
    const float *x, *turn;
    uint32_t n_rot;
};

INLINE v16 key_at(const struct key *k, uint32_t i)
{
    return i < k->n_rot ? turned(k->x, k->turn, k->n_rot, i) : v_load(k->x + i);
}

/* Rotation that ends within a vector is done in place. */
INLINE struct key open_key(float *x, const float *turn, uint32_t n_rot)
{
    if (n_rot % LANES == 0)
        return (struct key){x, turn, n_rot};
    row_rotate(x, turn, n_rot);
    return (struct key){x, turn, 0};
}

/* Clamped to what f16 holds, so that a weight of zero times a value stays zero. */
static void store_half(float *k, const float *turn, uint32_t n_rot, const float *v, uint8_t *block,
                       uint32_t slot, uint32_t d_head)
{
    const struct key key = open_key(k, turn, n_rot);
    const v16 most = v_set(65504.0f), least = v_set(-65504.0f);
    uint16_t *keys = (uint16_t *)(void *)block;
    uint16_t *values = keys + (size_t)(BLOCK_TOKENS + slot) * d_head;
    for (uint32_t i = 0; i < d_head; i += LANES) {
        uint16_t half[LANES];
        v_store_half(half, v_min(v_max(key_at(&key, i), least), most));
        for (uint32_t j = 0; j < LANES; j++)
            keys[(i + j) * BLOCK_TOKENS + slot] = half[j];
        v_store_half(values + i, v_min(v_max(v_load(v + i), least), most));
    }
}

INLINE float largest_of(const float *x, uint32_t n)
{
    v16 most = v_set(0);
    for (uint32_t i = 0; i < n; i += LANES)
        most = v_max(v_abs(v_load(x + i)), most);
    return v_largest(most);
}

/* For a vector whose largest magnitude becomes 127, its scale as f16 into `scales`. Integers are of
 * the rounded scale, so that rounding it costs nothing. */
INLINE float byte_scale(float largest, uint16_t *scale)
{
    float back[LANES];
    uint16_t half[LANES];
    v_store_half(half, v_set(largest < 8e6f ? largest / 127.0f : 65504.0f));
    v_store(back, v_load_half(half));
    *scale = half[0];
    return back[0] > 0 ? 1.0f / back[0] : 0.0f;
}

INLINE v16 to_byte(v16 x, v16 inverse)
{
    return v_round(v_min(v_max(v_mul(x, inverse), v_set(-127.0f)), v_set(127.0f)));
}

static void store_int8(float *k, const float *turn, uint32_t n_rot, const float *v, uint8_t *block,
                       uint32_t slot, uint32_t d_head)
{
    const struct key key = open_key(k, turn, n_rot);
    v16 most = v_set(0);
    for (uint32_t i = 0; i < d_head; i += LANES)
        most = v_max(v_abs(key_at(&key, i)), most);
    size_t half = (size_t)BLOCK_TOKENS * d_head;
    uint16_t *scales = (uint16_t *)(void *)(block + 2 * half);
    int8_t *values = (int8_t *)block + half + slot * (size_t)d_head;
    v16 k_inverse = v_set(byte_scale(v_largest(most), &scales[slot]));
    v16 v_inverse = v_set(byte_scale(largest_of(v, d_head), &scales[BLOCK_TOKENS + slot]));
    for (uint32_t i = 0; i < d_head; i += LANES) {
        int8_t bytes_of_key[LANES];
        v_store_int8(bytes_of_key, to_byte(key_at(&key, i), k_inverse));
        for (uint32_t j = 0; j < LANES; j++) /* q + 128 */
            block[(i + j) / 4 * 4 * BLOCK_TOKENS + slot * 4 + j % 4] =
                (uint8_t)bytes_of_key[j] ^ 0x80u;
        v_store_int8(values + i, to_byte(v_load(v + i), v_inverse));
    }
}

static void head_quantise(const float *q, uint32_t d_head, int8_t *quant, float *scale, float *bias)
{
    float largest = largest_of(q, d_head);
    v16 inverse = v_set(largest > 1e-30f ? QUANT_STEPS / largest : 0.0f), sum = v_set(0);
    for (uint32_t i = 0; i < d_head; i += LANES)
        sum = v_add(sum, quantise_lanes(q + i, inverse, quant + i, quant + d_head + i));
    *scale = largest / QUANT_STEPS;
    *bias = 128.0f * v_sum(sum);
}
