/* kernels/cpu/body_one.h - units of groups of rows times the only token of a step: the weights go
 * by once, packed as they are. Included after body_tile.h and body_store.h. */

/* Numbers of groups as constants: TILE_GROUPS, and 2 where that is more. */
enum { FEW_GROUPS = TILE_GROUPS < 2 ? TILE_GROUPS : 2 };

/* Of a unit, the row of group k. */
INLINE void store_one(const struct product *p, uint32_t unit, uint32_t k, v16 row)
{
    uint32_t n_rows = unit + 1 < p->n_units ? LANES : p->n_rows[k];
    store_rows(p->out[k] + (size_t)unit * p->step * LANES, row, n_rows, p->mode == PRODUCT_ADD);
}

INLINE void store_unit(const struct product *p, uint32_t unit, const v16 sum[MAX_GROUPS])
{
    if (p->mode == PRODUCT_GATE_SILU)
        store_one(p, unit, 0, gated(PRODUCT_GATE_SILU, sum[0], sum[1]));
    else if (p->mode == PRODUCT_GATE_GELU)
        store_one(p, unit, 0, gated(PRODUCT_GATE_GELU, sum[0], sum[1]));
    else
        for (uint32_t k = 0; k < p->n_groups; k++)
            store_one(p, unit, k, sum[k]);
}

/* Groups `first` and, where TILE_GROUPS is more than one, the next one. */
INLINE void sum_groups(enum panel_layout layout, const struct product *p, uint32_t unit,
                       uint32_t first, struct tile *c, v16 sum[MAX_GROUPS])
{
    v16 own[TILE_GROUPS];
    UNROLL(2)
    for (uint32_t k = 0; k < FEW_GROUPS; k++) {
        uint32_t from = first + k < p->n_groups ? first + k : first;
        const struct panel *panel = p->panel[from];
        c->scales[k] = panel->data + (p->group[from] + unit * p->step) * panel->group_bytes;
        c->words[k] = c->scales[k] + panel->words_at;
        c->ahead[k] =
            unit + 1 < p->n_units ? c->scales[k] + p->step * panel->group_bytes : p->ahead[from];
        own[k] = v_set(0);
    }
    one_quant(layout, c, FEW_GROUPS, own);
    UNROLL(2)
    for (uint32_t k = 0; k < FEW_GROUPS; k++)
        sum[first + k] = own[k];
}

/* One token: units go by one after the other, with little between them; a unit of SmolLM2 takes a
 * third of a microsecond. */
INLINE void units_product(enum panel_layout layout, const struct product *p)
{
    struct tile c = {.is_far = p->is_far, .cols = p->panel[0]->cols, .x = p->x->quant};
    for (uint32_t unit = 0; unit < p->n_units; unit++) {
        v16 sum[MAX_GROUPS];
        for (uint32_t k = 0; k < p->n_groups; k += FEW_GROUPS)
            sum_groups(layout, p, unit, k, &c, sum);
        store_unit(p, unit, sum);
    }
}

#define UNITS(name, layout)                                                                        \
    static void name(const struct product *p)                                                      \
    {                                                                                              \
        units_product(layout, p);                                                                  \
    }
UNITS(units_4_offset, PANEL_4_OFFSET)
UNITS(units_4, PANEL_4)
UNITS(units_8_offset, PANEL_8_OFFSET)
UNITS(units_8, PANEL_8)
static void (*const UNITS_OF[])(const struct product *p) = {[PANEL_4_OFFSET] = units_4_offset,
                                                            [PANEL_4] = units_4,
                                                            [PANEL_8_OFFSET] = units_8_offset,
                                                            [PANEL_8] = units_8};
