/* kernels/cpu/body_tile.h - sums of one tile: 1 to TILE_GROUPS groups of 16 rows times 1 to
 * TILE_TOKENS tokens. Included after body_unpack.h.
 *
 * Whatever the tile, a (row, token) sum goes through the columns in order in one accumulator: the
 * same bits for one token as for five hundred. layout, n_g (groups) and n_t (tokens) are constants
 * at every call, so that the compiler unrolls and keeps the tile in registers. A dot product waits
 * five cycles for the one before it and two start in a cycle, so ten sums side by side are the
 * least; sixteen in a square take the fewest loads for each. */

/* Adds scale * (d * dots + m * sum) of 32 columns. Without an offset the dots have it in them. */
INLINE v16 add_scaled(enum panel_layout layout, v16 sum, i16 dots, struct scales s,
                      const struct quant_block *x)
{
    sum = v_fma(i_to_v(dots), v_mul(s.d, v_set(x->scale)), sum);
    return panel_has_offset(layout) ? v_fma(s.m, v_set(x->sum), sum) : sum;
}

INLINE i16 dot_word(enum panel_layout layout, i16 sum, bytes w, const int8_t *a)
{
    return panel_has_nibbles(layout) ? i_dot_nibbles(sum, w, a) : i_dot(sum, w, a);
}

/* Where dots start from, times 128; the middle of q where it is 128. */
INLINE i16 coarse_start(enum panel_layout layout, const struct quant_block *x)
{
    return layout == PANEL_8 ? i_set(x->minus_sum) : i_zero();
}

/* 128 * coarse; the middle of q where it is 8. Of nibbles coarse is at most 12 * 15 * 127 and fits
 * 16 bits; a single token, which waits for words rather than for ports, takes the shorter shift. */
INLINE i16 fine_start(enum panel_layout layout, i16 coarse, const struct quant_block *x,
                      bool is_tile)
{
    if (layout == PANEL_4)
        return i_add_times_128(i_set(x->minus_eight_sums), coarse);
    return is_tile && layout == PANEL_4_OFFSET ? i_few_times_128(coarse) : i_times_128(coarse);
}

/* One of the words with coarse values, of packed weights. */
INLINE bytes wide_word(enum panel_layout layout, const uint8_t *words, const struct quant_block *x,
                       int i)
{
    if (!panel_has_nibbles(layout))
        return b_load(words + (size_t)x->word[i] * 8);
    return b_nibbles(b_load(words + (size_t)(x->word[i] % 32) * 8), x->word[i] / 8 & 4);
}

/* 32 columns of one token with packed weights. Integers are exact: their order does not matter. */
INLINE i16 dot_packed(enum panel_layout layout, const uint8_t *words, const struct quant_block *x)
{
    i16 sum = coarse_start(layout, x), other = i_zero();
    UNROLL(4)
    for (int i = 0; i < WIDE_WORDS; i++)
        sum = dot_word(layout, sum, wide_word(layout, words, x, i), x->coarse[i]);
    sum = fine_start(layout, sum, x, false);
    const bool is_packed = panel_has_nibbles(layout);
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        bytes w = b_load(words + WORD_BYTES * j);
        sum = dot_word(layout, sum, is_packed ? b_low(w) : w, x->fine + 4 * j);
        w = is_packed ? b_high_scaled(w) : b_load(words + WORD_BYTES * (4 + j));
        other = dot_word(layout, other, w, x->fine + LANES + 4 * j);
    }
    return i_add(sum, is_packed ? i_high_sum(other) : other);
}

/* Blocks from .. to - 1 of the only token of a step, while blocks from `at` on of the groups
 * `fetched` are fetched. */
INLINE void one_run(enum panel_layout layout, const struct tile *c, uint32_t from, uint32_t to,
                    const uint8_t *const fetched[TILE_GROUPS], uint32_t at, uint32_t n_g,
                    v16 sum[TILE_GROUPS])
{
    const struct quant_block *x = c->x + (size_t)from * TILE_TOKENS;
    for (uint32_t b = from; b < to; b++, at++, x += TILE_TOKENS) {
        UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++) {
            prefetch(layout, c, fetched[k], at);
            i16 dots = dot_packed(layout, c->words[k] + (size_t)b * panel_word_bytes(layout), x);
            sum[k] = add_scaled(layout, sum[k], dots, packed_scales(layout, c, k, b), x);
        }
    }
}

/* The weights go by once, packed as they are. What comes from memory is fetched a whole group
 * ahead; from a nearer cache less far, since two groups of 1536 columns and the next two are more
 * than the first cache holds (`down` of SmolLM2 took 15% longer). 8 to 18 blocks do as well. */
enum { NEAR_BLOCKS = 12 };
INLINE void one_quant(enum panel_layout layout, const struct tile *c, uint32_t n_g,
                      v16 sum[TILE_GROUPS])
{
    const uint32_t n = c->cols / QUANT;
    const uint32_t near = c->is_far || n < NEAR_BLOCKS ? n : NEAR_BLOCKS;
    one_run(layout, c, 0, n - near, c->scales, near, n_g, sum);
    one_run(layout, c, n - near, n, c->ahead, 0, n_g, sum);
}

/* The dots of 32 columns. */
INLINE void dot_tile(enum panel_layout layout, const uint8_t *const w[TILE_GROUPS],
                     const struct quant_block *x, uint32_t n_g, uint32_t n_t,
                     i16 sum[TILE_GROUPS][TILE_TOKENS])
{
    UNROLL(6)
    for (uint32_t t = 0; t < n_t; t++)
        UNROLL(4)
    for (uint32_t k = 0; k < n_g; k++) {
        i16 coarse = coarse_start(layout, x + t);
        UNROLL(4)
        for (int i = 0; i < WIDE_WORDS; i++)
            coarse =
                dot_word(layout, coarse, b_load(w[k] + (size_t)x[t].word[i] * 8), x[t].coarse[i]);
        sum[k][t] = fine_start(layout, coarse, x + t, true);
    }
    UNROLL(8)
    for (uint32_t j = 0; j < 8; j++) {
        bytes word[TILE_GROUPS];
        UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++)
            word[k] = b_load(w[k] + WORD_BYTES * j);
        UNROLL(6)
        for (uint32_t t = 0; t < n_t; t++)
            UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++)
            sum[k][t] = dot_word(layout, sum[k][t], word[k], x[t].fine + 4 * j);
    }
}

INLINE void tile_quant(enum panel_layout layout, enum tile_turn turn, const struct tile *c,
                       uint32_t n_g, uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS])
{
    const struct quant_block *x = c->x + (size_t)c->from_block * TILE_TOKENS + c->slot;
    for (uint32_t b = c->from_block; b < c->to_block; b++, x += TILE_TOKENS) {
        const uint8_t *w[TILE_GROUPS];
        i16 dots[TILE_GROUPS][TILE_TOKENS];
        UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++) {
            if (turn == TILE_FIRST)
                unpack_block(layout, c, k, b);
            w[k] = bytes_of(layout, c, k, b);
        }
        dot_tile(layout, w, x, n_g, n_t, dots);
        UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++) {
            struct scales s = scales_of(layout, turn, c, k, b);
            UNROLL(6)
            for (uint32_t t = 0; t < n_t; t++)
                sum[k][t] = add_scaled(layout, sum[k][t], dots[k][t], s, x + t);
        }
    }
}

INLINE v16 load_floats(enum panel_layout layout, const uint8_t *p)
{
    if (layout == PANEL_F16)
        return v_load_half(p);
    return layout == PANEL_BF16 ? v_load_bfloat(p) : v_load((const float *)(const void *)p);
}

INLINE void tile_float(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                       v16 sum[TILE_GROUPS][TILE_TOKENS])
{
    const size_t n_bytes = LANES * (layout == PANEL_F32 ? 4 : 2);
    const float *x = c->value + (size_t)c->slot * c->cols;
    for (uint32_t i = 0; i < c->cols; i++)
        UNROLL(4)
    for (uint32_t k = 0; k < n_g; k++) {
        v16 w = load_floats(layout, c->words[k] + i * n_bytes);
        UNROLL(6)
        for (uint32_t t = 0; t < n_t; t++)
            sum[k][t] = v_fma(w, v_set(x[(size_t)t * c->cols + i]), sum[k][t]);
    }
}
