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

/* 128 * coarse; the middle of q where it is 8 or 16. Of nibbles coarse is at most 12 * 15 * 127 and
 * fits 16 bits; a single token, which waits for words rather than for ports, takes the shorter
 * shift. */
INLINE i16 fine_start(enum panel_layout layout, i16 coarse, const struct quant_block *x,
                      bool is_tile)
{
    if (layout == PANEL_4)
        return i_add_times_128(i_set(x->minus_eight_sums), coarse);
    if (layout == PANEL_5)
        return i_add(i_set(x->minus_eight_sums),
                     i_add(i_set(x->minus_eight_sums), i_times_128(coarse)));
    return is_tile && panel_has_four_bits(layout) ? i_few_times_128(coarse) : i_times_128(coarse);
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

INLINE void tile_quant(enum panel_layout layout, enum tile_turn turn, struct tile *c, uint32_t n_g,
                       uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS])
{
    const struct quant_block *x = c->x + (size_t)c->from_block * TILE_TOKENS + c->slot;
    const uint8_t *at[TILE_STRIPS];
    for (uint32_t k = 0; k < TILE_STRIPS; k++)
        at[k] = c->ahead[k].at;
    for (uint32_t b = c->from_block; b < c->to_block; b++, x += TILE_TOKENS) {
        const uint8_t *w[TILE_GROUPS];
        i16 dots[TILE_GROUPS][TILE_TOKENS];
        UNROLL(4)
        for (uint32_t k = 0; k < n_g; k++) {
            if (turn == TILE_FIRST)
                unpack_block(layout, c, k, b);
            const uint32_t strip = k / STRIP_GROUPS;
            if (k % STRIP_GROUPS == 0 && (ALL_FETCH || turn == TILE_FIRST))
                at[strip] = fetch_step(&c->ahead[strip], at[strip], c->is_far);
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
    for (uint32_t k = 0; k < TILE_STRIPS; k++)
        c->ahead[k].at = at[k];
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
