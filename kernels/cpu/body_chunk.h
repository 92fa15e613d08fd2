/* kernels/cpu/body_chunk.h - how the tiles of several tokens go over the columns, chunk by chunk,
 * and which weights are fetched meanwhile. Included after body_store.h, before body_product.h. */

/* Floats are not made ready. Where a tile is alone, so that nothing is kept for later ones, there
 * are two chunks: during the first one blocks are fetched LONE_BLOCKS before they are read, to the
 * strip's end; during the second, those LONE_BLOCKS long, the beginning of the next strip. */
static uint32_t count_chunks(const struct tile *c, enum panel_layout layout, uint32_t n_tiles)
{
    uint32_t n = c->cols / QUANT, most = n_tiles > FEW_TILES ? CHUNK_BLOCKS : FEW_BLOCKS;
    if (!panel_is_quantised(layout))
        return 1;
    return c->unpacked_step > 0 ? (n + most - 1) / most : n > LONE_BLOCKS ? 2 : 1;
}

static struct team_range chunk_blocks(const struct tile *c, uint32_t chunk, uint32_t n_chunks)
{
    uint32_t n = c->cols / QUANT, cut = n - LONE_BLOCKS;
    if (c->unpacked_step > 0 || n_chunks == 1)
        return team_share(n, chunk, n_chunks);
    return chunk == 0 ? (struct team_range){0, cut} : (struct team_range){cut, n};
}

static struct team_range blocks_ahead(const struct tile *c, uint32_t chunk, uint32_t n_chunks)
{
    if (c->unpacked_step > 0 || n_chunks == 1)
        return chunk_blocks(c, (chunk + 1) % n_chunks, n_chunks);
    uint32_t from = (c->from_block + LONE_BLOCKS) % (c->cols / QUANT);
    return (struct team_range){from, from + c->to_block - c->from_block};
}

/* What is fetched while a chunk is computed: of the same strips, or with the last chunk of those
 * that the thread reads next. ALL_FETCH: evenly by all tiles, since memory did nothing during the
 * others while the first one fetched (8 tokens of SmolLM2 took 10% longer); AVX2 computes so slowly
 * that this costs 2% there. */
static void fetch_chunk(const struct product *p, uint32_t first, uint32_t n_tiles, uint32_t chunk,
                        uint32_t n_chunks, struct tile *c)
{
    const struct groups *g = chunk + 1 < n_chunks ? &p->now : &p->next;
    struct team_range blocks = blocks_ahead(c, chunk, n_chunks);
    uint32_t n_steps = (ALL_FETCH ? n_tiles : 1) * (c->to_block - c->from_block);
    for (uint32_t k = 0; k < c->n_groups / STRIP_GROUPS; k++) {
        uint32_t i = (first + k * STRIP_GROUPS) % g->n;
        const uint8_t *strip = panel_strip(g->panel[i], g->group[i]);
        size_t block_bytes = fetch_bytes(g->panel[i]->layout);
        size_t n_lines = ((blocks.to - blocks.from) * block_bytes + LINE - 1) / LINE;
        c->ahead[k] = (struct stream){.at = strip + blocks.from * block_bytes,
                                      .end = strip + blocks.to * block_bytes,
                                      .n_lines = (uint32_t)((n_lines + n_steps - 1) / n_steps)};
    }
}

/* Of a group, `chunk` of the blocks. */
static void start_chunk(const struct product *p, uint32_t first, uint32_t n_tiles, uint32_t chunk,
                        uint32_t n_chunks, struct tile *c)
{
    struct team_range blocks = chunk_blocks(c, chunk, n_chunks);
    c->from_block = blocks.from;
    c->to_block = blocks.to;
    if (panel_is_quantised(p->now.panel[first]->layout))
        fetch_chunk(p, first, n_tiles, chunk, n_chunks, c);
}
