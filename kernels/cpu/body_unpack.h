/* kernels/cpu/body_unpack.h - what a tile works on: weights as they are packed, and blocks of 32
 * columns that its first tile makes ready for the later ones. Included after body_quantise.h. */

/* From block to block of a group. */
INLINE uint32_t step_bytes(enum panel_layout layout)
{
    return STRIP_GROUPS * panel_block_bytes(layout);
}

/* Likewise on average, so that as many as there are blocks are a strip. */
INLINE uint32_t fetch_bytes(enum panel_layout layout)
{
    return STRIP_GROUPS * panel_mean_bytes(layout);
}

/* What is read later of a strip, and how much of it is fetched with every block. */
struct stream {
    const uint8_t *at, *end;
    uint32_t n_lines;
};

enum { LINE = 64, TILE_STRIPS = TILE_GROUPS / STRIP_GROUPS };
struct tile {
    const uint8_t *super[TILE_GROUPS], *scales[TILE_GROUPS], *words[TILE_GROUPS]; /* of panel.h */
    uint8_t *unpacked[TILE_GROUPS]; /* blocks, written by the first tile of a group */
    uint32_t unpacked_step;         /* from block to block; 0 of floats and where no tile follows */
    struct stream ahead[TILE_STRIPS]; /* of each strip of the groups */
    bool is_far;
    uint32_t cols, from_block, to_block; /* blocks of 32 columns that are added */
    const struct quant_block *x;         /* of the tile */
    const float *value;                  /* [tokens, cols] */
    uint32_t slot;                       /* of the first token meant in the tile */
    v16 *sum[TILE_GROUPS];               /* [TILE_TOKENS] so far */
    uint32_t n_groups;                   /* TILE_GROUPS, or STRIP_GROUPS */
};

/* Which tile of a group it is. */
enum tile_turn { TILE_FIRST, TILE_LATER };

/* Into the second cache where is_far (device.c has the reason). */
INLINE void fetch_line(const uint8_t *p, bool is_far)
{
    if (is_far)
        v_prefetch_far(p);
    else
        v_prefetch(p);
}

INLINE const uint8_t *fetch_lines(const uint8_t *at, uint32_t n, bool is_far)
{
    UNROLL(10)
    for (uint32_t i = 0; i < n; i++)
        fetch_line(at + i * LINE, is_far);
    return at + n * LINE;
}

/* One step; usual numbers of lines as constants, since a loop takes longer. */
INLINE const uint8_t *fetch_step(const struct stream *s, const uint8_t *at, bool is_far)
{
    if (at >= s->end)
        return at;
    if (s->n_lines == 10)
        return fetch_lines(at, 10, is_far);
    if (s->n_lines == 5)
        return fetch_lines(at, 5, is_far);
    for (uint32_t i = 0; i < s->n_lines; i++, at += LINE)
        fetch_line(at, is_far);
    return at;
}

/* Scales and offsets of a block. */
struct scales {
    v16 d, m;
};

INLINE struct scales packed_scales(enum panel_layout layout, const uint8_t *scales,
                                   const uint8_t *super)
{
    if (panel_has_super(layout))
        return (struct scales){
            v_mul(v_load_half(super), v_load_int8(scales)),
            v_mul(v_load_half(super + SUPER_BYTES / 2), v_load_int8(scales + LANES))};
    return (struct scales){v_load_half(scales),
                           panel_has_offset(layout) ? v_load_half(scales + 32) : v_set(0)};
}

/* Of block b. */
INLINE struct scales tile_scales(enum panel_layout layout, const struct tile *c, uint32_t k,
                                 uint32_t b)
{
    return packed_scales(layout, c->scales[k] + panel_block_at(layout, STRIP_GROUPS, b),
                         c->super[k] + panel_super_at(layout, STRIP_GROUPS, b));
}
INLINE const uint8_t *words_at(enum panel_layout layout, const struct tile *c, uint32_t k,
                               uint32_t b)
{
    return c->words[k] + panel_block_at(layout, STRIP_GROUPS, b);
}

/* The word of fifth bits, in a register (any word where nobody asks); and nibbles that belong to
 * word j with theirs. */
INLINE bytes load_fifths(enum panel_layout layout, const uint8_t *words)
{
    return panel_has_fifths(layout) ? b_kept(b_load(words + FIFTHS_AT)) : b_load(words);
}
INLINE bytes with_fifths(enum panel_layout layout, bytes nibbles, bytes fifths, uint32_t j)
{
    return panel_has_fifths(layout) ? b_or(nibbles, b_fifth(fifths, j)) : nibbles;
}

INLINE void unpack_words(enum panel_layout layout, const uint8_t *words, uint8_t *unpacked)
{
    const bytes fifths = load_fifths(layout, words);
    UNROLL(4)
    for (uint32_t j = 0; j < 4; j++) {
        bytes w = b_load(words + WORD_BYTES * j);
        b_store(unpacked + WORD_BYTES * j, with_fifths(layout, b_low(w), fifths, j));
        b_store(unpacked + WORD_BYTES * (4 + j), with_fifths(layout, b_high(w), fifths, 4 + j));
    }
}

INLINE uint8_t *unpacked_at(const struct tile *c, uint32_t k, uint32_t b)
{
    return c->unpacked[k] + (size_t)(b - c->from_block) * c->unpacked_step;
}

/* By the first tile. */
INLINE void unpack_block(enum panel_layout layout, const struct tile *c, uint32_t k, uint32_t b)
{
    if (panel_has_nibbles(layout))
        unpack_words(layout, words_at(layout, c, k, b), unpacked_at(c, k, b));
    if (c->unpacked_step > 0) {
        struct scales s = tile_scales(layout, c, k, b);
        float *scales = (float *)(void *)(unpacked_at(c, k, b) + SCALES_AT);
        v_store(scales, s.d);
        v_store(scales + LANES, s.m);
    }
}

INLINE struct scales scales_of(enum panel_layout layout, enum tile_turn turn, const struct tile *c,
                               uint32_t k, uint32_t b)
{
    const float *s = (const float *)(const void *)(unpacked_at(c, k, b) + SCALES_AT);
    return turn == TILE_FIRST ? tile_scales(layout, c, k, b)
                              : (struct scales){v_load(s), v_load(s + LANES)};
}

/* The words of block b as bytes. */
INLINE const uint8_t *bytes_of(enum panel_layout layout, const struct tile *c, uint32_t k,
                               uint32_t b)
{
    return panel_has_nibbles(layout) ? unpacked_at(c, k, b) : words_at(layout, c, k, b);
}
