/* kernels/cpu/body_one.h - runs of groups of rows times the only token of a step: the weights go
 * by once, packed as they are, strip by strip. Included after body_packed.h and body_store.h. */

/* Of a run, the row of group k. */
INLINE void store_one(const struct product *p, uint32_t run, uint32_t k, v16 row)
{
    uint32_t n_rows = run + 1 < p->n_runs ? LANES : p->n_rows[k];
    store_rows(p->out[k] + (size_t)run * 2 * LANES, row, n_rows, p->mode == PRODUCT_ADD);
}

INLINE void store_run(const struct product *p, uint32_t run, const v16 sum[MAX_GROUPS])
{
    const uint32_t n = p->now.n;
    if (p->mode == PRODUCT_GATE_SILU)
        for (uint32_t k = 0; k < n / 2; k++)
            store_one(p, run, k, gated(PRODUCT_GATE_SILU, sum[k], sum[n / 2 + k]));
    else if (p->mode == PRODUCT_GATE_GELU)
        for (uint32_t k = 0; k < n / 2; k++)
            store_one(p, run, k, gated(PRODUCT_GATE_GELU, sum[k], sum[n / 2 + k]));
    else
        for (uint32_t k = 0; k < n; k++)
            store_one(p, run, k, sum[k]);
}

/* What is fetched: strip by strip as they are read, as many bytes before that as struct fetch says,
 * and on into those that the thread reads next. */
struct fetched {
    const uint8_t *at, *end; /* of the strip */
    uint32_t run, k;         /* k: of the strip's first group in the run */
};

INLINE void fetch_strip(const struct product *p, struct fetched *f)
{
    bool is_now = f->run < p->n_runs;
    const struct groups *g = is_now ? &p->now : &p->next;
    uint32_t run = is_now ? f->run : f->run - p->n_runs;
    f->at = panel_strip(g->panel[f->k], g->group[f->k] + 2 * run);
    f->end = f->at + g->panel[f->k]->strip_bytes;
}

INLINE void next_strip(const struct product *p, struct fetched *f)
{
    const struct groups *g = f->run < p->n_runs ? &p->now : &p->next;
    f->k += STRIP_GROUPS;
    f->run += f->k < g->n ? 0 : 1;
    f->k = f->k < g->n ? f->k : 0;
    fetch_strip(p, f);
}

static struct fetched start_fetching(const struct product *p)
{
    struct fetched f = {0};
    fetch_strip(p, &f);
    size_t two_groups = (size_t)(f.end - f.at) * (2 / STRIP_GROUPS);
    size_t left = p->fetch.n_bytes > 0 ? p->fetch.n_bytes : two_groups;
    while (left >= (size_t)(f.end - f.at)) {
        left -= (size_t)(f.end - f.at);
        next_strip(p, &f);
    }
    f.at += left;
    return f;
}

INLINE void next_block(enum panel_layout layout, const struct product *p, struct fetched *f)
{
    f->at += fetch_bytes(layout);
    if (f->at >= f->end)
        next_strip(p, f);
}

/* The groups from `first` on, as many as a strip has; of an odd number the last one's neighbour is
 * zeros. */
INLINE void sum_strip(enum panel_layout layout, bool is_far, const struct product *p, uint32_t run,
                      uint32_t first, struct fetched *f, v16 sum[MAX_GROUPS])
{
    const struct quant_block *x = p->x->quant;
    const uint32_t n_blocks = p->now.panel[0]->cols / QUANT;
    const uint8_t *block = panel_strip(p->now.panel[first], p->now.group[first] + 2 * run);
    const uint8_t *super = block;
    v16 own[STRIP_GROUPS];
    for (uint32_t k = 0; k < STRIP_GROUPS; k++)
        own[k] = v_set(0);
    for (uint32_t b = 0; b < n_blocks; b++, x += TILE_TOKENS) {
        i16 dots[STRIP_GROUPS];
        if (panel_has_super(layout) && b % SUPER_BLOCKS == 0) {
            super = block;
            block += STRIP_GROUPS * SUPER_BYTES;
        }
        dot_packed(layout, block, x, (struct ahead){f->at, is_far}, dots);
        UNROLL(2)
        for (uint32_t k = 0; k < STRIP_GROUPS; k++)
            own[k] = add_scaled(layout, own[k], dots[k],
                                packed_scales(layout, block + k * panel_scale_bytes(layout),
                                              super + k * SUPER_BYTES),
                                x);
        block += step_bytes(layout);
        next_block(layout, p, f);
    }
    for (uint32_t k = 0; k < STRIP_GROUPS; k++)
        sum[first + k] = own[k];
}

/* One token: runs go by one after the other, with little between them; a unit of SmolLM2 takes a
 * third of a microsecond. */
INLINE void runs_product(enum panel_layout layout, bool is_far, const struct product *p)
{
    struct fetched f = start_fetching(p);
    for (uint32_t run = 0; run < p->n_runs; run++) {
        v16 sum[MAX_GROUPS];
        for (uint32_t k = 0; k < p->now.n; k += STRIP_GROUPS)
            sum_strip(layout, is_far, p, run, k, &f, sum);
        store_run(p, run, sum);
    }
}

#define RUNS(name, layout)                                                                         \
    static void name(const struct product *p)                                                      \
    {                                                                                              \
        if (p->fetch.is_far)                                                                       \
            runs_product(layout, true, p);                                                         \
        else                                                                                       \
            runs_product(layout, false, p);                                                        \
    }
RUNS(runs_4_offset, PANEL_4_OFFSET)
RUNS(runs_4, PANEL_4)
RUNS(runs_4_super, PANEL_4_SUPER)
RUNS(runs_5_offset, PANEL_5_OFFSET)
RUNS(runs_5, PANEL_5)
RUNS(runs_5_super, PANEL_5_SUPER)
RUNS(runs_8, PANEL_8)
static void (*const RUNS_OF[])(const struct product *p) = {[PANEL_4_OFFSET] = runs_4_offset,
                                                           [PANEL_4] = runs_4,
                                                           [PANEL_4_SUPER] = runs_4_super,
                                                           [PANEL_5_OFFSET] = runs_5_offset,
                                                           [PANEL_5] = runs_5,
                                                           [PANEL_5_SUPER] = runs_5_super,
                                                           [PANEL_8] = runs_8};
