/* kernels/cpu/body_store.h - sums of a slab of tiles, and how a tile of them becomes rows of the
 * result. Included after body_tile.h. */

/* The rows that exist, n_rows of 16. */
static void store_few(float *out, v16 value, uint32_t n_rows, bool is_added)
{
    float row[LANES];
    v_store(row, value);
    for (uint32_t i = 0; i < n_rows; i++)
        out[i] = is_added ? out[i] + row[i] : row[i];
}

INLINE void store_rows(float *out, v16 value, uint32_t n_rows, bool is_added)
{
    if (n_rows < LANES)
        store_few(out, value, n_rows, is_added);
    else
        v_store(out, is_added ? v_add(v_load(out), value) : value);
}

/* Tiles go over the columns in chunks whose weights, made ready, stay in the first cache, and over
 * the tokens in slabs whose sums are kept meanwhile. Where few tiles follow, chunks are of
 * FEW_BLOCKS: there it costs more that the first tile waits for its stores (18 blocks of four
 * groups are 46 of the 48 KiB). */
enum { SLAB_TILES = 512 / TILE_TOKENS, FEW_TILES = 4 };
struct slab {
    v16 sum[SLAB_TILES][MAX_GROUPS][TILE_TOKENS], spare[TILE_TOKENS];
    _Alignas(64) uint8_t unpacked[TILE_GROUPS][CHUNK_BLOCKS * UNPACKED_BYTES];
    uint32_t first, n;              /* tiles */
    uint32_t start[SLAB_TILES + 1]; /* their first tokens, and the end */
};

/* One of the modes as a constant. */
INLINE void store_mode(const struct product *p, enum product_mode mode, const struct slab *s,
                       uint32_t tile)
{
    const bool is_gate = mode == PRODUCT_GATE_SILU || mode == PRODUCT_GATE_GELU;
    const v16(*sum)[TILE_TOKENS] = s->sum[tile];
    const uint32_t n = is_gate ? p->now.n / 2 : p->now.n; /* up's groups follow gate's */
    size_t offset = s->start[tile] * p->out_stride;
    for (uint32_t t = 0; t < s->start[tile + 1] - s->start[tile]; t++, offset += p->out_stride)
        for (uint32_t k = 0; k < n; k++) {
            v16 row = is_gate ? gated(mode, sum[k][t], sum[n + k][t]) : sum[k][t];
            store_rows(p->out[k] + offset, row, p->n_rows[k], mode == PRODUCT_ADD);
        }
}

/* Fetches what n groups from `first` on will write of a tile's rows, long gone from the near
 * caches: 512 tokens take 1% less. Gated rows go to scratch, which is near. */
INLINE void fetch_rows(const struct product *p, const struct slab *s, uint32_t tile, uint32_t first,
                       uint32_t n)
{
    size_t offset = s->start[tile] * p->out_stride;
    if (p->mode != PRODUCT_STORE && p->mode != PRODUCT_ADD)
        return;
    for (uint32_t t = s->start[tile]; t < s->start[tile + 1]; t++, offset += p->out_stride)
        for (uint32_t k = first; k < first + n; k++)
            v_prefetch((const uint8_t *)(p->out[k] + offset));
}

#define STORE_TILE(name, mode)                                                                     \
    static void store_##name(const struct product *p, const struct slab *s, uint32_t tile)         \
    {                                                                                              \
        store_mode(p, mode, s, tile);                                                              \
    }
STORE_TILE(plainly, PRODUCT_STORE)
STORE_TILE(added, PRODUCT_ADD)
STORE_TILE(silu, PRODUCT_GATE_SILU)
STORE_TILE(gelu, PRODUCT_GATE_GELU)
static void (*const STORES[])(const struct product *p, const struct slab *s,
                              uint32_t tile) = {[PRODUCT_STORE] = store_plainly,
                                                [PRODUCT_ADD] = store_added,
                                                [PRODUCT_GATE_SILU] = store_silu,
                                                [PRODUCT_GATE_GELU] = store_gelu};
