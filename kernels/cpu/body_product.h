/* kernels/cpu/body_product.h - one or two groups of rows times all tokens of a step, tile by tile.
 * Included after body_tile.h. */

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

/* n_t as a constant. */
INLINE void tile_tokens(enum panel_layout layout, const struct tile *c, uint32_t n_g, uint32_t n_t,
                        v16 sum[2][TILE_TOKENS])
{
    if (n_t == TILE_TOKENS)
        tile_any(layout, c, n_g, TILE_TOKENS, sum);
    else if (n_t == 3)
        tile_any(layout, c, n_g, 3, sum);
    else if (n_t == 2)
        tile_any(layout, c, n_g, 2, sum);
    else
        tile_any(layout, c, n_g, 1, sum);
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

/* The only token of a step: the weights go by once, packed as they are. */
#define ONE(name, layout, n_g)                                                                     \
    static void name(const struct tile *c, uint32_t n_t, v16 sum[2][TILE_TOKENS])                  \
    {                                                                                              \
        v16 own[2] = {v_set(0), v_set(0)};                                                         \
        (void)n_t;                                                                                 \
        one_quant(layout, c, n_g, own);                                                            \
        for (uint32_t k = 0; k < n_g; k++)                                                         \
            sum[k][0] = own[k];                                                                    \
    }
ONE(one_4_one, PANEL_4, 1)
ONE(one_8_one, PANEL_8, 1)
ONE(one_4_two, PANEL_4, TILE_GROUPS)
ONE(one_8_two, PANEL_8, TILE_GROUPS)

typedef void (*tile_fn)(const struct tile *c, uint32_t n_t, v16 sum[2][TILE_TOKENS]);
/* [is the only token][layout][groups together] */
static const tile_fn TILES[2][3][2] = {
    {{tile_4_one, tile_4_two}, {tile_8_one, tile_8_two}, {tile_f_one, tile_f_two}},
    {{one_4_one, one_4_two}, {one_8_one, one_8_two}, {tile_f_one, tile_f_two}}};

static void unpack_strip(const struct panel *p, const uint8_t *unit, uint8_t *words, float *scales)
{
    const uint32_t n_bytes = p->layout == PANEL_4 ? PANEL_4_BYTES : PANEL_8_BYTES;
    for (uint32_t b = 0; b < p->cols / QUANT; b++, unit += n_bytes, scales += 2 * LANES) {
        v_store(scales, v_load_half(unit));
        v_store(scales + LANES, v_load_half(unit + 32));
        if (p->layout == PANEL_8)
            continue;
        UNROLL(4)
        for (uint32_t j = 0; j < 4 * WORD_BYTES; j += WORD_BYTES) {
            bytes w = b_load(unit + 64 + j);
            b_store(words + j, b_low(w));
            b_store(words + 4 * WORD_BYTES + j, b_high(w));
        }
        words += UNPACKED_BYTES;
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

/* Group k as group `to` of a tile; unpacked when several tokens use it. */
static void set_group(const struct product *p, uint32_t k, uint32_t to, struct tile *c)
{
    const struct panel *panel = p->panel[k];
    uint32_t n_blocks = panel->cols / QUANT;
    c->cols = panel->cols;
    c->unit[to] = panel->data + p->group[k] * panel->group_bytes;
    if (p->n_tok == 1 || panel->layout == PANEL_F)
        return;
    bool is_packed = panel->layout == PANEL_4;
    uint8_t *words = p->strip->words + (size_t)k * n_blocks * UNPACKED_BYTES;
    float *scales = p->strip->scales + (size_t)k * n_blocks * 2 * LANES;
    unpack_strip(panel, c->unit[to], words, scales);
    c->words[to] = is_packed ? words : c->unit[to] + 64;
    c->word_step = is_packed ? UNPACKED_BYTES : PANEL_8_BYTES;
    c->scales[to] = scales;
    c->ahead[to] = c->unit[to] + (p->panel[0] == p->panel[1] ? 2 : 1) * panel->group_bytes;
    c->ahead_bytes = is_packed ? PANEL_4_BYTES : PANEL_8_BYTES;
}

static void store_tile(const struct product *p, uint32_t at, uint32_t n_t, v16 sum[2][TILE_TOKENS])
{
    bool is_gate = p->mode == PRODUCT_GATE_SILU || p->mode == PRODUCT_GATE_GELU;
    for (uint32_t t = 0; t < n_t; t++) {
        size_t offset = (at + t) * p->out_stride;
        if (is_gate)
            store_rows(p->out[0] + offset, gated(p->mode, sum[0][t], sum[1][t]), p->n_rows[0],
                       false);
        for (uint32_t k = 0; k < p->n_groups && !is_gate; k++)
            store_rows(p->out[k] + offset, sum[k][t], p->n_rows[k], p->mode == PRODUCT_ADD);
    }
}

/* Both groups in one tile when it is that wide and they are alike. */
static void rows_product(const struct product *p)
{
    struct tile c[2] = {{.cols = 0}, {.cols = 0}};
    bool is_pair =
        TILE_GROUPS == 2 && p->n_groups == 2 && p->panel[0]->layout == p->panel[1]->layout;
    for (uint32_t k = 0; k < p->n_groups; k++)
        set_group(p, k, is_pair ? k : 0, &c[is_pair ? 0 : k]);
    for (uint32_t at = 0; at < p->n_tok; at += TILE_TOKENS) {
        uint32_t n_t = p->n_tok - at < TILE_TOKENS ? p->n_tok - at : TILE_TOKENS;
        v16 sum[2][TILE_TOKENS];
        for (uint32_t i = 0; i < (is_pair ? 1 : p->n_groups); i++) {
            c[i].x = p->x->quant + (size_t)at * (c[i].cols / QUANT);
            c[i].value = p->x->value + (size_t)at * c[i].cols;
            TILES[p->n_tok == 1][p->panel[i]->layout][is_pair](&c[i], n_t, &sum[i]);
            c[i].ahead_bytes = 0; /* fetched with the first tile */
        }
        store_tile(p, at, n_t, sum);
    }
}
