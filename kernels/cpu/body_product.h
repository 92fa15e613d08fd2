/* kernels/cpu/body_product.h - groups of rows times all tokens of a step, tile by tile.
 * Included after body_one.h and body_chunk.h. TILE_RUN tokens of a tile, at most, have their sums
 * in registers together. */

enum tile_kind { KIND_FIRST, KIND_LATER, TILE_KINDS };

INLINE void tile_sums(enum panel_layout layout, enum tile_kind kind, struct tile *c, uint32_t n_g,
                      uint32_t n_t)
{
    v16 own[TILE_GROUPS][TILE_TOKENS];
    UNROLL(4)
    for (uint32_t k = 0; k < n_g; k++)
        UNROLL(4)
    for (uint32_t t = 0; t < n_t; t++)
        own[k][t] = c->from_block == 0 ? v_set(0) : c->sum[k][c->slot + t];
    if (!panel_is_quantised(layout))
        tile_float(layout, c, n_g, n_t, own);
    else
        tile_quant(layout, kind == KIND_FIRST ? TILE_FIRST : TILE_LATER, c, n_g, n_t, own);
    UNROLL(4)
    for (uint32_t k = 0; k < n_g; k++)
        UNROLL(4)
    for (uint32_t t = 0; t < n_t; t++)
        c->sum[k][c->slot + t] = own[k][t];
}

/* n_t as a constant. */
#define TILE_CASE(n)                                                                               \
    if (TILE_RUN >= (n) && n_t == (n)) {                                                           \
        tile_sums(layout, kind, c, n_g, (n));                                                      \
        return;                                                                                    \
    }
INLINE void tile_run(enum panel_layout layout, enum tile_kind kind, struct tile *c, uint32_t n_g,
                     uint32_t n_t)
{
    TILE_CASE(4) TILE_CASE(3) TILE_CASE(2) TILE_CASE(1)
}

#define TILE(name, layout, kind)                                                                   \
    static void name(struct tile *c, uint32_t n_t)                                                 \
    {                                                                                              \
        if (TILE_GROUPS <= 2 || c->n_groups == TILE_GROUPS)                                        \
            tile_run(layout, kind, c, TILE_GROUPS, n_t);                                           \
        else                                                                                       \
            tile_run(layout, kind, c, STRIP_GROUPS, n_t);                                          \
    }
/* clang-format off */
TILE(first_4_offset, PANEL_4_OFFSET, KIND_FIRST)
TILE(first_4, PANEL_4, KIND_FIRST)
TILE(first_4_super, PANEL_4_SUPER, KIND_FIRST)
TILE(first_5_offset, PANEL_5_OFFSET, KIND_FIRST)
TILE(first_5, PANEL_5, KIND_FIRST)
TILE(first_5_super, PANEL_5_SUPER, KIND_FIRST)
TILE(first_8, PANEL_8, KIND_FIRST)
TILE(later_4_offset, PANEL_4_OFFSET, KIND_LATER)
TILE(later_4, PANEL_4, KIND_LATER)
TILE(later_5_offset, PANEL_5_OFFSET, KIND_LATER)
TILE(later_5, PANEL_5, KIND_LATER)
TILE(later_8, PANEL_8, KIND_LATER)
TILE(any_f32, PANEL_F32, KIND_LATER)
TILE(any_f16, PANEL_F16, KIND_LATER)
TILE(any_bf16, PANEL_BF16, KIND_LATER)
/* clang-format on */

typedef void (*tile_fn)(struct tile *c, uint32_t n_t);
/* What the first tile has made ready is alike where only the scales were packed in another way. */
static const tile_fn TILES[PANEL_LAYOUTS][TILE_KINDS] = {
    [PANEL_4_OFFSET] = {first_4_offset, later_4_offset},
    [PANEL_4] = {first_4, later_4},
    [PANEL_4_SUPER] = {first_4_super, later_4_offset},
    [PANEL_5_OFFSET] = {first_5_offset, later_5_offset},
    [PANEL_5] = {first_5, later_5},
    [PANEL_5_SUPER] = {first_5_super, later_5_offset},
    [PANEL_8] = {first_8, later_8},
    [PANEL_F32] = {any_f32, any_f32},
    [PANEL_F16] = {any_f16, any_f16},
    [PANEL_BF16] = {any_bf16, any_bf16}};

/* Group `from` of p as group `to` of a tile. */
static void set_group(const struct product *p, uint32_t from, uint32_t to, struct slab *s,
                      struct tile *c)
{
    const struct panel *panel = p->now.panel[from];
    c->cols = panel->cols;
    c->is_far = p->fetch.is_far || p->n_tok > NEAR_TOKENS;
    c->super[to] = panel_super(panel, p->now.group[from]);
    c->scales[to] = panel_scales(panel, p->now.group[from]);
    c->words[to] = panel_words(panel, p->now.group[from]);
    c->unpacked[to] = s->unpacked[to];
    c->unpacked_step =
        panel_is_quantised(panel->layout) && p->n_tok > TILE_RUN ? UNPACKED_BYTES : 0;
}

/* A tile's sums, at most TILE_RUN tokens at a time. */
static void run_tile(const struct product *p, enum panel_layout layout, const struct slab *s,
                     uint32_t tile, struct tile *c)
{
    uint32_t n = s->start[tile + 1] - s->start[tile];
    c->x = p->x->quant + (size_t)(s->first + tile) * TILE_TOKENS * (c->cols / QUANT);
    c->value = p->x->value + (size_t)s->start[tile] * c->cols;
    for (uint32_t t = 0; t < n; t += TILE_RUN) {
        bool is_first = tile == 0 && t == 0;
        c->slot = t;
        TILES[layout][is_first ? KIND_FIRST : KIND_LATER](c, n - t < TILE_RUN ? n - t : TILE_RUN);
    }
}

/* n groups from `first` on times the tokens of a slab. A group alone may fill a tile twice. */
static void run_slab(const struct product *p, uint32_t first, uint32_t n, struct slab *s)
{
    struct tile c = {.n_groups = n > STRIP_GROUPS ? n : STRIP_GROUPS};
    for (uint32_t k = 0; k < c.n_groups; k++)
        set_group(p, first + (k < n ? k : 0), k, s, &c);
    enum panel_layout layout = p->now.panel[first]->layout;
    uint32_t n_chunks = count_chunks(&c, layout, s->n);
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        start_chunk(p, first, s->n, chunk, n_chunks, &c);
        for (uint32_t tile = 0; tile < s->n; tile++) {
            for (uint32_t k = 0; k < c.n_groups; k++)
                c.sum[k] = k < n ? s->sum[tile][first + k] : s->spare;
            if (TILE_GROUPS > 2 && c.unpacked_step > 0 && chunk + 1 == n_chunks)
                fetch_rows(p, s, tile, first, n);
            run_tile(p, layout, s, tile, &c);
            if (chunk + 1 == n_chunks && first + n == p->now.n)
                STORES[p->mode](p, s, tile); /* while the next tile is computed */
        }
    }
}

static bool is_alike(const struct product *p, uint32_t first, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++)
        if (p->now.panel[first + k]->layout != p->now.panel[first]->layout)
            return false;
    return true;
}

/* How many groups from `first` on are computed together. */
static uint32_t groups_together(const struct product *p, uint32_t first)
{
    uint32_t rest = p->now.n - first;
    if (rest >= TILE_GROUPS && is_alike(p, first, TILE_GROUPS))
        return TILE_GROUPS;
    return rest >= STRIP_GROUPS && is_alike(p, first, STRIP_GROUPS) ? STRIP_GROUPS : 1;
}

static void slabs_product(const struct product *p)
{
    struct slab s;
    for (s.first = p->tiles.from; s.first < p->tiles.to; s.first += SLAB_TILES) {
        uint32_t rest = p->tiles.to - s.first;
        s.n = rest < SLAB_TILES ? rest : SLAB_TILES;
        for (uint32_t tile = 0; tile <= s.n; tile++)
            s.start[tile] = tile_start(p->n_tok, TILE_TOKENS, s.first + tile);
        for (uint32_t i = 0, n; i < p->now.n; i += n) {
            n = groups_together(p, i);
            run_slab(p, i, n, &s);
        }
    }
}

static void rows_product(const struct product *p)
{
    enum panel_layout layout = p->now.panel[0]->layout;
    if (p->n_runs > 0)
        RUNS_OF[layout](p);
    else
        slabs_product(p);
}
