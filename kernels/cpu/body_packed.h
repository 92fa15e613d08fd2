/* kernels/cpu/body_packed.h - dot products of a block of a strip with the only token of a step,
 * weights packed as they are. Included after body_tile.h. */

/* Of a block in a strip, the words of group k; in all of this `block` is where its scales begin. */
INLINE const uint8_t *group_words(enum panel_layout layout, const uint8_t *block, uint32_t k)
{
    return block + STRIP_GROUPS * panel_scale_bytes(layout) + k * panel_word_bytes(layout);
}

/* One of the words with coarse values, of packed weights. */
INLINE bytes wide_word(enum panel_layout layout, const uint8_t *words, bytes fifths,
                       const struct quant_block *x, int i)
{
    if (!panel_has_nibbles(layout))
        return b_load(words + (size_t)x->word[i] * 8);
    bytes w = b_nibbles(b_load(words + (size_t)(x->word[i] % 32) * 8), x->word[i] / 8 & 4);
    return with_fifths(layout, w, fifths, x->word[i] / 8);
}

/* Of four bits 16 times their values: i_high_sum. */
INLINE bytes high_word(enum panel_layout layout, bytes w, const uint8_t *words, bytes fifths,
                       uint32_t j)
{
    if (!panel_has_nibbles(layout))
        return b_load(words + WORD_BYTES * (4 + j));
    return panel_has_four_bits(layout) ? b_high_scaled(w)
                                       : with_fifths(layout, b_high(w), fifths, 4 + j);
}

/* Words j and 4 + j of the groups; the second kind has sums of its own. */
INLINE void dot_two_words(enum panel_layout layout, const uint8_t *block,
                          const bytes fifths[STRIP_GROUPS], const struct quant_block *x, uint32_t j,
                          i16 sum[STRIP_GROUPS], i16 other[STRIP_GROUPS])
{
    UNROLL(2)
    for (uint32_t k = 0; k < STRIP_GROUPS; k++) {
        const uint8_t *words = group_words(layout, block, k);
        bytes w = b_kept(b_load(words + WORD_BYTES * j));
        bytes low = panel_has_nibbles(layout) ? with_fifths(layout, b_low(w), fifths[k], j) : w;
        sum[k] = dot_word(layout, sum[k], low, x->fine + 4 * j);
        other[k] = dot_word(layout, other[k], high_word(layout, w, words, fifths[k], j),
                            x->fine + LANES + 4 * j);
    }
}

/* Part `i` of the lines of a block that is read later, one after each of its four pairs of words.
 * In one burst, wherever that is, 8-bit weights come from memory at 0.73 to 0.80 of what a loop
 * without work reads, in parts at 0.97; 4-bit ones at 0.77 to 0.96 and 0.98 (one core of Zen 5). */
enum { FETCH_PARTS = 4 };
struct ahead {
    const uint8_t *at;
    bool is_far;
};
INLINE void fetch_part(enum panel_layout layout, struct ahead a, uint32_t i)
{
    const uint32_t n = (fetch_bytes(layout) + 63) / 64, part = n / FETCH_PARTS;
    UNROLL(8)
    for (uint32_t line = 0; line < part + n % FETCH_PARTS; line++)
        if (line < part || i + 1 == FETCH_PARTS)
            fetch_line(a.at + (size_t)64 * (i * part + line), a.is_far);
}

/* 32 columns of one token with packed weights, the groups word by word, so that they share what is
 * read of the token. Integers are exact: their order does not matter. */
INLINE void dot_packed(enum panel_layout layout, const uint8_t *block, const struct quant_block *x,
                       struct ahead ahead, i16 sum[STRIP_GROUPS])
{
    i16 other[STRIP_GROUPS];
    bytes fifths[STRIP_GROUPS];
    for (uint32_t k = 0; k < STRIP_GROUPS; k++) {
        fifths[k] = load_fifths(layout, group_words(layout, block, k));
        sum[k] = coarse_start(layout, x);
        other[k] = i_zero();
    }
    UNROLL(4)
    for (int i = 0; i < WIDE_WORDS; i++)
        UNROLL(2)
    for (uint32_t k = 0; k < STRIP_GROUPS; k++)
        sum[k] = dot_word(layout, sum[k],
                          wide_word(layout, group_words(layout, block, k), fifths[k], x, i),
                          x->coarse[i]);
    for (uint32_t k = 0; k < STRIP_GROUPS; k++)
        sum[k] = fine_start(layout, sum[k], x, false);
    UNROLL(4)
    for (uint32_t j = 0; j < FETCH_PARTS; j++) {
        dot_two_words(layout, block, fifths, x, j, sum, other);
        fetch_part(layout, ahead, j);
    }
    for (uint32_t k = 0; k < STRIP_GROUPS; k++)
        sum[k] = i_add(sum[k], panel_has_four_bits(layout) ? i_high_sum(other[k]) : other[k]);
}
