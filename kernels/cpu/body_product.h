/* kernels/cpu/body_product.h - 16 or 32 rows of weights times 1 to TILE_TOKENS tokens. Included
 * after body_rows.h.
 *
 * Whatever the tile, a (row, token) sum goes through the columns in order in one accumulator: the
 * same bits for one token as for five hundred. n_g, n_t and layout are constants at every call, so
 * that the compiler unrolls and keeps the tile in registers. */

struct tile {
    const uint8_t *group[2];
    const struct activations *x;
    uint32_t cols, token;
};

enum { PREFETCH_BYTES = 2560 }; /* ahead of a single token's pass over the weights */

INLINE void prefetch_block(const uint8_t *p, uint32_t n_bytes, uint32_t n_t)
{
    uint32_t ahead = n_t == 1 ? PREFETCH_BYTES : n_bytes * 4;
    for (uint32_t i = 0; i < n_bytes; i += 64)
        v_prefetch(p + ahead + i);
}

/* One vector of weights with the coarse and the fine bytes of one token. */
INLINE void dot_word(enum panel_layout layout, bytes w, const int8_t *a, i16 *coarse, i16 *fine)
{
    if (layout == PANEL_4) {
        *coarse = i_dot_nibbles(*coarse, b_low(w), a);
        *fine = i_dot_nibbles(*fine, b_low(w), a + QUANT);
        *coarse = i_dot_nibbles(*coarse, b_high(w), a + LANES);
        *fine = i_dot_nibbles(*fine, b_high(w), a + QUANT + LANES);
    } else {
        *coarse = i_dot(*coarse, w, a);
        *fine = i_dot(*fine, w, a + QUANT);
    }
}

/* Dot products of 32 columns in integers: exact, so the order inside does not matter. */
INLINE void dots(enum panel_layout layout, const uint8_t *const g[2], const int8_t *a,
                 uint32_t cols, uint32_t n_g, uint32_t n_t, i16 dot[2][TILE_TOKENS])
{
    uint32_t n_words = layout == PANEL_4 ? 4 : 8;
    i16 fine[2][TILE_TOKENS];
    for (uint32_t k = 0; k < n_g; k++)
        for (uint32_t t = 0; t < n_t; t++)
            dot[k][t] = fine[k][t] = i_zero();
    UNROLL(8)
    for (uint32_t j = 0; j < n_words; j++) {
        bytes w[2];
        for (uint32_t k = 0; k < n_g; k++)
            w[k] = b_load(g[k] + 64 + 64 * j);
        UNROLL(4)
        for (uint32_t t = 0; t < n_t; t++)
            UNROLL(2)
        for (uint32_t k = 0; k < n_g; k++)
            dot_word(layout, w[k], a + (size_t)t * 2 * cols + 4 * j, &dot[k][t], &fine[k][t]);
    }
    for (uint32_t k = 0; k < n_g; k++)
        for (uint32_t t = 0; t < n_t; t++)
            dot[k][t] = i_join(dot[k][t], fine[k][t]);
}

INLINE void tile_quant(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                       v16 sum[2][TILE_TOKENS])
{
    const uint32_t n_bytes = layout == PANEL_4 ? PANEL_4_BYTES : PANEL_8_BYTES;
    uint32_t n_blocks = c->cols / QUANT;
    const uint8_t *g[2] = {c->group[0], c->group[n_g - 1]};
    const int8_t *a = c->x->quant + (size_t)c->token * 2 * c->cols;
    const float *scale = c->x->scale + (size_t)c->token * n_blocks;
    const float *total = c->x->sum + (size_t)c->token * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++, a += 2 * QUANT) {
        i16 dot[2][TILE_TOKENS];
        for (uint32_t k = 0; k < n_g; k++)
            prefetch_block(g[k], n_bytes, n_t);
        dots(layout, g, a, c->cols, n_g, n_t, dot);
        UNROLL(2)
        for (uint32_t k = 0; k < n_g; k++) {
            v16 d = v_load_half(g[k]), m = v_load_half(g[k] + 32);
            UNROLL(4)
            for (uint32_t t = 0; t < n_t; t++) {
                v16 factor = v_mul(d, v_set(scale[(size_t)t * n_blocks + b]));
                sum[k][t] = v_fma(i_to_v(dot[k][t]), factor, sum[k][t]);
                sum[k][t] = v_fma(m, v_set(total[(size_t)t * n_blocks + b]), sum[k][t]);
            }
            g[k] += n_bytes;
        }
    }
}

INLINE void tile_float(const struct tile *c, uint32_t n_g, uint32_t n_t, v16 sum[2][TILE_TOKENS])
{
    const float *x = c->x->value + (size_t)c->token * c->cols;
    for (uint32_t i = 0; i < c->cols; i++)
        UNROLL(2)
    for (uint32_t k = 0; k < n_g; k++) {
        v16 w = v_load((const float *)(const void *)c->group[k] + (size_t)i * LANES);
        UNROLL(4)
        for (uint32_t t = 0; t < n_t; t++)
            sum[k][t] = v_fma(w, v_set(x[(size_t)t * c->cols + i]), sum[k][t]);
    }
}

INLINE void tile_any(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                     v16 sum[2][TILE_TOKENS])
{
    v16 own[2][TILE_TOKENS];
    for (uint32_t k = 0; k < n_g; k++)
        for (uint32_t t = 0; t < n_t; t++)
            own[k][t] = v_set(0);
    if (layout == PANEL_F)
        tile_float(c, n_g, n_t, own);
    else
        tile_quant(layout, c, n_g, n_t, own);
    for (uint32_t k = 0; k < n_g; k++)
        for (uint32_t t = 0; t < n_t; t++)
            sum[k][t] = own[k][t];
}

/* n_t as a constant: TILE_TOKENS is at most 4. */
INLINE void tile_tokens(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                        v16 sum[2][TILE_TOKENS])
{
    if (n_t == TILE_TOKENS)
        tile_any(layout, c, n_g, TILE_TOKENS, sum);
    else if (n_t == 1)
        tile_any(layout, c, n_g, 1, sum);
    else if (n_t == 2)
        tile_any(layout, c, n_g, 2, sum);
    else
        tile_any(layout, c, n_g, TILE_TOKENS - 1, sum);
}

#define TILE(name, layout, n_g)                                                                    \
    static void name(const struct tile *c, uint32_t n_t, v16 sum[2][TILE_TOKENS])                  \
    {                                                                                              \
        tile_tokens(layout, c, n_g, n_t, sum);                                                     \
    }
TILE(tile_4_one, PANEL_4, 1)
TILE(tile_8_one, PANEL_8, 1)
TILE(tile_f_one, PANEL_F, 1)
TILE(tile_4_two, PANEL_4, TILE_GROUPS)
TILE(tile_8_two, PANEL_8, TILE_GROUPS)
TILE(tile_f_two, PANEL_F, TILE_GROUPS)

typedef void (*tile_fn)(const struct tile *c, uint32_t n_t, v16 sum[2][TILE_TOKENS]);

/* Both groups' sums; together when the tile is that wide and they are alike. */
INLINE void tile_groups(const struct product *p, uint32_t token, uint32_t n_t,
                        v16 sum[2][TILE_TOKENS])
{
    static const tile_fn ONE[] = {tile_4_one, tile_8_one, tile_f_one};
    static const tile_fn TWO[] = {tile_4_two, tile_8_two, tile_f_two};
    struct tile c = {.x = p->x, .cols = p->panel[0]->cols, .token = token};
    for (uint32_t k = 0; k < p->n_groups; k++)
        c.group[k] = p->panel[k]->data + p->group[k] * p->panel[k]->group_bytes;
    enum panel_layout layout = p->panel[0]->layout;
    bool is_pair = p->n_groups == 2 && p->panel[1]->layout == layout && TILE_GROUPS == 2;
    if (is_pair) {
        TWO[layout](&c, n_t, sum);
        return;
    }
    for (uint32_t k = 0; k < p->n_groups; k++) {
        c.group[0] = p->panel[k]->data + p->group[k] * p->panel[k]->group_bytes;
        ONE[p->panel[k]->layout](&c, n_t, &sum[k]);
    }
}

INLINE void store_rows(float *out, v16 value, uint32_t n_rows, bool is_added)
{
    if (n_rows == LANES) {
        v_store(out, is_added ? v_add(v_load(out), value) : value);
        return;
    }
    float row[LANES];
    v_store(row, value);
    for (uint32_t i = 0; i < n_rows; i++)
        out[i] = is_added ? out[i] + row[i] : row[i];
}

static void rows_product(const struct product *p)
{
    for (uint32_t at = 0; at < p->n_tok; at += TILE_TOKENS) {
        uint32_t n_t = p->n_tok - at < TILE_TOKENS ? p->n_tok - at : TILE_TOKENS;
        v16 sum[2][TILE_TOKENS];
        tile_groups(p, at, n_t, sum);
        for (uint32_t t = 0; t < n_t; t++) {
            size_t offset = (at + t) * p->out_stride;
            if (p->mode == PRODUCT_GATE_SILU || p->mode == PRODUCT_GATE_GELU) {
                store_rows(p->out[0] + offset, gated(p->mode, sum[0][t], sum[1][t]), p->n_rows[0],
                           false);
                continue;
            }
            for (uint32_t k = 0; k < p->n_groups; k++)
                store_rows(p->out[k] + offset, sum[k][t], p->n_rows[k], p->mode == PRODUCT_ADD);
        }
    }
}
