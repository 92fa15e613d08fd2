/* kernels/cpu/body_product.h - one or two groups of rows times all tokens of a step, tile by tile.
 * Included after body_tile.h; TILE_RUN, from the includer, is how many tokens of a tile have their
 * sums in registers together. */

enum tile_kind { KIND_ONE, KIND_FIRST, KIND_LATER, TILE_KINDS };

/* n_t as a constant. */
INLINE void tile_constant(enum panel_layout layout, enum tile_kind kind, const struct tile *c,
                          uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS])
{
    v16 own[TILE_GROUPS][TILE_TOKENS];
    UNROLL(2)
    for (uint32_t k = 0; k < TILE_GROUPS; k++)
        UNROLL(6)
    for (uint32_t t = 0; t < n_t; t++)
        own[k][t] = v_set(0);
    if (!panel_is_quantised(layout))
        tile_float(layout, c, n_t, own);
    else
        tile_quant(layout, kind == KIND_FIRST ? TILE_FIRST : TILE_LATER, c, n_t, own);
    UNROLL(2)
    for (uint32_t k = 0; k < TILE_GROUPS; k++)
        UNROLL(6)
    for (uint32_t t = 0; t < n_t; t++)
        sum[k][c->slot + t] = own[k][t];
}

#define TILE_CASE(n)                                                                               \
    if (TILE_RUN >= (n) && n_t == (n)) {                                                           \
        tile_constant(layout, kind, c, (n), sum);                                                  \
        return;                                                                                    \
    }
INLINE void tile_run(enum panel_layout layout, enum tile_kind kind, const struct tile *c,
                     uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS]){
    TILE_CASE(6) TILE_CASE(5) TILE_CASE(4) TILE_CASE(3) TILE_CASE(2) TILE_CASE(1)}

INLINE
    void tile_one(enum panel_layout layout, const struct tile *c, v16 sum[TILE_GROUPS][TILE_TOKENS])
{
    v16 own[TILE_GROUPS];
    UNROLL(2)
    for (uint32_t k = 0; k < TILE_GROUPS; k++)
        own[k] = v_set(0);
    one_quant(layout, c, own);
    UNROLL(2)
    for (uint32_t k = 0; k < TILE_GROUPS; k++)
        sum[k][0] = own[k];
}

#define TILE_ONE(name, layout)                                                                     \
    static void name(const struct tile *c, uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS])        \
    {                                                                                              \
        (void)n_t;                                                                                 \
        tile_one(layout, c, sum);                                                                  \
    }
#define TILE(name, layout, kind)                                                                   \
    static void name(const struct tile *c, uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS])        \
    {                                                                                              \
        tile_run(layout, kind, c, n_t, sum);                                                       \
    }
TILE_ONE(one_4_offset, PANEL_4_OFFSET)
TILE_ONE(one_4, PANEL_4)
TILE_ONE(one_8_offset, PANEL_8_OFFSET)
TILE_ONE(one_8, PANEL_8)
TILE(first_4_offset, PANEL_4_OFFSET, KIND_FIRST)
TILE(first_4, PANEL_4, KIND_FIRST)
TILE(first_8_offset, PANEL_8_OFFSET, KIND_FIRST)
TILE(first_8, PANEL_8, KIND_FIRST)
TILE(later_4_offset, PANEL_4_OFFSET, KIND_LATER)
TILE(later_4, PANEL_4, KIND_LATER)
TILE(later_8_offset, PANEL_8_OFFSET, KIND_LATER)
TILE(later_8, PANEL_8, KIND_LATER)
TILE(any_f32, PANEL_F32, KIND_LATER)
TILE(any_f16, PANEL_F16, KIND_LATER)
TILE(any_bf16, PANEL_BF16, KIND_LATER)

typedef void (*tile_fn)(const struct tile *c, uint32_t n_t, v16 sum[TILE_GROUPS][TILE_TOKENS]);
static const tile_fn TILES[PANEL_LAYOUTS][TILE_KINDS] = {
    [PANEL_4_OFFSET] = {one_4_offset, first_4_offset, later_4_offset},
    [PANEL_4] = {one_4, first_4, later_4},
    [PANEL_8_OFFSET] = {one_8_offset, first_8_offset, later_8_offset},
    [PANEL_8] = {one_8, first_8, later_8},
    [PANEL_F32] = {any_f32, any_f32, any_f32},
    [PANEL_F16] = {any_f16, any_f16, any_f16},
    [PANEL_BF16] = {any_bf16, any_bf16, any_bf16}};

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

/* Group `from` of p as group `to` of a tile. */
static void set_group(const struct product *p, uint32_t from, uint32_t to, struct tile *c)
{
    const struct panel *panel = p->panel[from];
    uint32_t n_blocks = panel->cols / QUANT;
    const uint8_t *group = panel->data + p->group[from] * panel->group_bytes;
    c->cols = panel->cols;
    c->scales[to] = group;
    c->words[to] = group + panel->words_at;
    c->unpacked[to] = p->scratch + (size_t)from * n_blocks * UNPACKED_BYTES;
    c->unpacked_step = p->n_tok > TILE_RUN ? UNPACKED_BYTES : 0;
    c->ahead[to] = group + (p->panel[0] == p->panel[1] ? 2 : 1) * panel->group_bytes;
}

static void store_tile(const struct product *p, uint32_t at, uint32_t n_t, v16 (*sum)[TILE_TOKENS])
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

/* A tile's sums, at most TILE_RUN tokens at a time. */
static void run_tile(const struct product *p, enum panel_layout layout, struct tile *c,
                     uint32_t tile, v16 (*sum)[TILE_TOKENS])
{
    uint32_t from = tile_start(p->n_tok, tile), n = tile_start(p->n_tok, tile + 1) - from;
    c->x = p->x->quant + (size_t)tile * TILE_TOKENS * (c->cols / QUANT);
    c->value = p->x->value + (size_t)from * c->cols;
    for (uint32_t t = 0; t < n; t += TILE_RUN) {
        enum tile_kind kind = p->n_tok == 1 ? KIND_ONE : from + t == 0 ? KIND_FIRST : KIND_LATER;
        c->slot = t;
        TILES[layout][kind](c, n - t < TILE_RUN ? n - t : TILE_RUN, sum);
    }
}

/* Both groups in one tile where it is that wide and they are alike. */
static void rows_product(const struct product *p)
{
    struct tile c[2] = {{.cols = 0}, {.cols = 0}};
    bool is_pair =
        TILE_GROUPS == 2 && p->n_groups == 2 && p->panel[0]->layout == p->panel[1]->layout;
    uint32_t n_passes = is_pair ? 1 : p->n_groups;
    for (uint32_t i = 0; i < n_passes; i++)
        for (uint32_t k = 0; k < TILE_GROUPS; k++)
            set_group(p, is_pair ? k : i, k, &c[i]); /* a group alone fills the tile twice */
    for (uint32_t tile = 0; tile < tile_count(p->n_tok); tile++) {
        v16 sum[2 + TILE_GROUPS - 1][TILE_TOKENS];
        for (uint32_t i = 0; i < n_passes; i++)
            run_tile(p, p->panel[i]->layout, &c[i], tile, &sum[i]);
        uint32_t from = tile_start(p->n_tok, tile);
        store_tile(p, from, tile_start(p->n_tok, tile + 1) - from, sum);
    }
}
