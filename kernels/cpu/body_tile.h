/* kernels/cpu/body_tile.h - sums of one tile: 16 or 32 rows of weights times 1 to TILE_TOKENS
 * tokens. Included after body_rows.h.
 *
 * Whatever the tile, a (row, token) sum goes through the columns in order in one accumulator: the
 * same bits for one token as for five hundred. n_g, n_t and layout are constants at every call, so
 * that the compiler unrolls and keeps the tile in registers. */

struct tile {
    const uint8_t *unit[2];  /* packed */
    const uint8_t *words[2]; /* unpacked, word_step from one 32 columns to the next */
    const float *scales[2];
    size_t word_step;
    const uint8_t *ahead[2]; /* what to fetch meanwhile, ahead_bytes per 32 columns */
    uint32_t ahead_bytes, cols;
    const struct quant_block *x;
    const float *value;
};

enum { PREFETCH_BYTES = 2560, WORD_BYTES = 64, UNPACKED_BYTES = 8 * WORD_BYTES };

INLINE void prefetch(const uint8_t *p, uint32_t n_bytes)
{
    for (uint32_t i = 0; i < n_bytes; i += 64)
        v_prefetch(p + i);
}

INLINE i16 dot_word(enum panel_layout layout, i16 sum, bytes w, const int8_t *a)
{
    return layout == PANEL_4 ? i_dot_nibbles(sum, w, a) : i_dot(sum, w, a);
}

/* Adds d * scale * dot + m * sum of 32 columns. */
INLINE v16 add_scaled(v16 sum, i16 dots, v16 d, v16 m, const struct quant_block *x)
{
    sum = v_fma(i_to_v(dots), v_mul(d, v_set(x->scale)), sum);
    return v_fma(m, v_set(x->sum), sum);
}

/* One of the words with coarse values, of packed weights. */
INLINE bytes wide_word(enum panel_layout layout, const uint8_t *words, const struct quant_block *x,
                       int i)
{
    if (layout == PANEL_8)
        return b_load(words + x->word[i]);
    return b_nibbles(b_load(words + x->word[i] % (4 * WORD_BYTES)), x->word[i] / WORD_BYTES & 4);
}

/* 32 columns of one token with packed weights. Integers are exact: their order does not matter. */
INLINE i16 dot_packed(enum panel_layout layout, const uint8_t *words, const struct quant_block *x)
{
    i16 sum = i_zero(), other = i_zero();
    UNROLL(4)
    for (int i = 0; i < WIDE_WORDS; i++)
        sum = dot_word(layout, sum, wide_word(layout, words, x, i), x->coarse[i]);
    sum = i_times_128(sum);
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        bytes w = b_load(words + WORD_BYTES * j);
        sum = dot_word(layout, sum, layout == PANEL_4 ? b_low(w) : w, x->fine + 4 * j);
        w = layout == PANEL_4 ? b_high(w) : b_load(words + WORD_BYTES * (4 + j));
        other = dot_word(layout, other, w, x->fine + LANES + 4 * j);
    }
    return i_add(sum, other);
}

INLINE void one_quant(enum panel_layout layout, const struct tile *c, uint32_t n_g, v16 sum[2])
{
    const uint32_t n_bytes = layout == PANEL_4 ? PANEL_4_BYTES : PANEL_8_BYTES;
    const struct quant_block *x = c->x;
    const uint8_t *g[2] = {c->unit[0], c->unit[n_g - 1]};
    for (uint32_t b = 0; b < c->cols / QUANT; b++, x += TILE_TOKENS) {
        UNROLL(2)
        for (uint32_t k = 0; k < n_g; k++) {
            prefetch(g[k] + PREFETCH_BYTES, n_bytes);
            i16 dots = dot_packed(layout, g[k] + 64, x);
            sum[k] = add_scaled(sum[k], dots, v_load_half(g[k]), v_load_half(g[k] + 32), x);
            g[k] += n_bytes;
        }
    }
}

/* The dots of 32 columns with unpacked weights. */
INLINE void dot_tile(enum panel_layout layout, const uint8_t *const w[2],
                     const struct quant_block *x, uint32_t n_g, uint32_t n_t,
                     i16 sum[2][TILE_TOKENS])
{
    UNROLL(4)
    for (uint32_t t = 0; t < n_t; t++)
        UNROLL(2)
    for (uint32_t k = 0; k < n_g; k++) {
        sum[k][t] = dot_word(layout, i_zero(), b_load(w[k] + x[t].word[0]), x[t].coarse[0]);
        sum[k][t] = dot_word(layout, sum[k][t], b_load(w[k] + x[t].word[1]), x[t].coarse[1]);
        sum[k][t] = dot_word(layout, sum[k][t], b_load(w[k] + x[t].word[2]), x[t].coarse[2]);
        sum[k][t] = i_times_128(sum[k][t]);
    }
    UNROLL(8)
    for (uint32_t j = 0; j < 8; j++) {
        bytes word[2];
        for (uint32_t k = 0; k < n_g; k++)
            word[k] = b_load(w[k] + WORD_BYTES * j);
        UNROLL(4)
        for (uint32_t t = 0; t < n_t; t++)
            UNROLL(2)
        for (uint32_t k = 0; k < n_g; k++)
            sum[k][t] = dot_word(layout, sum[k][t], word[k], x[t].fine + 4 * j);
    }
}

INLINE void tile_quant(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                       v16 sum[2][TILE_TOKENS])
{
    const struct quant_block *x = c->x;
    const uint8_t *w[2] = {c->words[0], c->words[n_g - 1]};
    const float *s[2] = {c->scales[0], c->scales[n_g - 1]};
    const uint8_t *ahead[2] = {c->ahead[0], c->ahead[n_g - 1]};
    for (uint32_t b = 0; b < c->cols / QUANT; b++, x += TILE_TOKENS) {
        i16 dots[2][TILE_TOKENS];
        dot_tile(layout, w, x, n_g, n_t, dots);
        UNROLL(2)
        for (uint32_t k = 0; k < n_g; k++) {
            v16 d = v_load(s[k]), m = v_load(s[k] + LANES);
            UNROLL(4)
            for (uint32_t t = 0; t < n_t; t++)
                sum[k][t] = add_scaled(sum[k][t], dots[k][t], d, m, x + t);
            prefetch(ahead[k], c->ahead_bytes);
            ahead[k] += c->ahead_bytes;
            s[k] += 2 * LANES;
            w[k] += c->word_step;
        }
    }
}

INLINE void tile_float(const struct tile *c, uint32_t n_g, uint32_t n_t, v16 sum[2][TILE_TOKENS])
{
    const float *x = c->value;
    for (uint32_t i = 0; i < c->cols; i++)
        UNROLL(2)
    for (uint32_t k = 0; k < n_g; k++) {
        v16 w = v_load((const float *)(const void *)c->unit[k] + (size_t)i * LANES);
        UNROLL(4)
        for (uint32_t t = 0; t < n_t; t++)
            sum[k][t] = v_fma(w, v_set(x[(size_t)t * c->cols + i]), sum[k][t]);
    }
}
