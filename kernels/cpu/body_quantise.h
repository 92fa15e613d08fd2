/* kernels/cpu/body_quantise.h - activations into blocks of 32 columns (isa.h), a norm on the way.
 * Included after body_rows.h and a quantise_*.h, which has words_of and store_group.
 *
 * Blocks are treated in groups of LANES, a lane for each, whichever rows they are of; their largest
 * words are found by a network of comparisons (Batcher, "Sorting networks and their applications",
 * 1968) without a branch. */

INLINE void order(v16 *larger, v16 *smaller)
{
    v16 a = *larger, b = *smaller;
    *larger = v_max(a, b);
    *smaller = v_min(a, b);
}

INLINE void order_four(v16 k[4])
{
    order(&k[0], &k[1]);
    order(&k[2], &k[3]);
    order(&k[0], &k[2]);
    order(&k[1], &k[3]);
    order(&k[1], &k[2]);
}

/* The four largest of eight come first, the least of them as the fourth: of two ordered halves,
 * one turned round, the larger of each pair. */
INLINE void rank_words(v16 k[QUANT_WORDS])
{
    order_four(k);
    order_four(k + 4);
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        k[i] = v_max(k[i], k[7 - i]);
    order(&k[0], &k[2]);
    order(&k[1], &k[3]);
    order(&k[2], &k[3]);
}

/* The step is what the fourth largest word needs, or the largest in 15 bits. The lowest bits of a
 * key are the word's number, so that no two are equal; set, they make a bound that no value of the
 * word is above. */
INLINE void rank_group(struct quant_group *g)
{
    v16 k[QUANT_WORDS], ranked[QUANT_WORDS], wide = v_set(0);
    words_of(g, k);
    UNROLL(8)
    for (int i = 0; i < QUANT_WORDS; i++)
        ranked[i] = k[i] = v_with_low_bits(k[i], i);
    rank_words(ranked);
    v16 fourth = v_mul(v_with_low_bits(ranked[WIDE_WORDS], 7), v_set(1.0f / 127));
    v16 largest = v_with_low_bits(v_max(ranked[0], ranked[1]), 7);
    v16 step = v_max(fourth, v_mul(largest, v_set(1.0f / QUANT_STEPS)));
    v_store(g->step, step);
    v_store(g->inverse, v_where_above(step, v_set(1e-33f), v_div(v_set(1), step)));
    UNROLL(8)
    for (int i = 0; i < QUANT_WORDS; i++) {
        v16 bit = v_set((float)(1u << wide_bit((uint32_t)i)));
        wide = v_add(wide, v_where_above(k[i], ranked[WIDE_WORDS], bit));
    }
    i_store(g->wide, v_to_i(wide));
}

static void flush_group(struct quant_group *g)
{
    if (g->n == 0)
        return;
    for (uint32_t b = g->n; b < LANES; b++)
        g->x[b] = g->x[g->n - 1];
    rank_group(g);
    store_group(g);
    g->n = 0;
}

INLINE void add_block(struct quant_group *g, const float *x, struct quant_block *out)
{
    g->x[g->n] = x;
    g->out[g->n++] = out;
    if (g->n == LANES)
        flush_group(g);
}

static void blocks_quantise(const float *x, uint32_t n, struct quant_block *const *out)
{
    struct quant_group g;
    g.n = 0;
    for (uint32_t b = 0; b < n; b++)
        add_block(&g, x + (size_t)b * QUANT, out[b]);
    flush_group(&g);
}

/* A normed block stays in the first cache until its step is known; to compute it twice instead
 * takes 2% of a product with 960 rows. */
INLINE const float *normed_block(float *y, const float *x, const float *weight, float scale)
{
    v_store(y, normed(x, weight, scale));
    v_store(y + LANES, normed(x + LANES, weight + LANES, scale));
    return y;
}

/* Blocks first .. end - 1 of a row, no more than the group has room for. */
INLINE void add_run(struct quant_group *g, const struct quant_rows *r, uint32_t row, float scale,
                    uint32_t first, uint32_t end)
{
    const float *x = r->x[row];
    struct quant_block *out = r->out[row];
    uint32_t at = g->n;
    for (uint32_t b = first; b < end; b++, at++) {
        size_t c = (size_t)b * QUANT;
        g->x[at] = r->weight ? normed_block(g->normed[at], x + c, r->weight + c, scale) : x + c;
        g->out[at] = out + (size_t)b * TILE_TOKENS;
    }
    g->n = at;
    if (at == LANES)
        flush_group(g);
}

static void rows_quantise(const struct quant_rows *r)
{
    struct quant_group g;
    uint32_t n_blocks = r->cols / QUANT;
    g.n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        float scale = r->weight ? norm_scale(r->x[i], r->eps, r->cols) : 1;
        for (uint32_t b = 0, end; b < n_blocks; b = end) {
            uint32_t room = LANES - g.n;
            end = n_blocks - b < room ? n_blocks : b + room;
            add_run(&g, r, i, scale, b, end);
        }
    }
    flush_group(&g);
}
