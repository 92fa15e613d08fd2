/* kernels/cpu/panel.h - how the CPU backend packs weights, and where it finds them again. Pure
 * functions; any thread. */
#ifndef KERNELS_CPU_PANEL_H
#define KERNELS_CPU_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, QUANT = 32 };

/* Weights in groups of 16 rows; a vector holds the same place of 16 rows, so that sums of rows come
 * out as lanes and nothing is added across. Rows past the end of a tensor are zero.
 *
 * Groups lie in strips of as many as the instruction set computes together for one token, one or
 * two. Of gate and up, which a token reads in turn, two groups of one follow two of the other if
 * both are alike: of rows of 2048 columns one stream from memory gives 8% more than two (Zen 5).
 * Quantised: block after block of 32 columns, of all groups of the strip, so that a thread reads
 * one stream: the scales of each group, then the words of each. Scales of a block: 16 f16 d, with
 * an offset 16 f16 m after them; _SUPER: 16 bytes that d is taken times and 16 of m, and before
 * every eight blocks, for all of them, of each group 16 f16 d and 16 f16 m. Words of a block, _4: 4
 * x 64 bytes: of each row 4 bytes whose low nibbles are columns 4j..4j+3 and high nibbles columns
 * 16+4j..16+4j+3; _5: the same and 64 bytes more: of each row 4 bytes, byte i with the fifth bit of
 * column 4j+i as its bit j; _8: 8 x 64 bytes: of each row columns 4j..4j+3. A weight is d * q + m
 * with q unsigned; without an offset d * (q - 8), d * (q - 16) and d * (q - 128). Floats: one group
 * after the other, per column 16 of them, in that type. */
enum panel_layout {
    PANEL_4_OFFSET,
    PANEL_4,
    PANEL_4_SUPER,
    PANEL_5_OFFSET,
    PANEL_5,
    PANEL_5_SUPER,
    PANEL_8,
    PANEL_F32,
    PANEL_F16,
    PANEL_BF16,
    PANEL_LAYOUTS
};
/* Of 32 columns in bytes; of their nibbles, after which fifth bits are. */
enum { WORD_BYTES = 64, BLOCK_BYTES = 8 * WORD_BYTES, FIFTHS_AT = BLOCK_BYTES / 2 };
enum { SUPER_BLOCKS = 8, SUPER_BYTES = 64 };

struct panel {
    enum panel_layout layout;
    uint32_t rows, cols, n_groups;
    uint32_t strip_groups; /* 1 or 2 */
    size_t strip_bytes;
    size_t pair_step; /* bytes from two groups to the next two */
    const uint8_t *data;
};

static inline bool panel_is_quantised(enum panel_layout l)
{
    return l < PANEL_F32;
}
static inline bool panel_has_super(enum panel_layout l)
{
    return l == PANEL_4_SUPER || l == PANEL_5_SUPER;
}
static inline bool panel_has_offset(enum panel_layout l)
{
    return l == PANEL_4_OFFSET || l == PANEL_5_OFFSET || panel_has_super(l);
}
static inline bool panel_has_fifths(enum panel_layout l)
{
    return l == PANEL_5_OFFSET || l == PANEL_5 || l == PANEL_5_SUPER;
}
static inline bool panel_has_nibbles(enum panel_layout l)
{
    return l < PANEL_8;
}
static inline bool panel_has_four_bits(enum panel_layout l)
{
    return panel_has_nibbles(l) && !panel_has_fifths(l);
}
/* Of a block of 32 columns. */
static inline uint32_t panel_scale_bytes(enum panel_layout l)
{
    return panel_has_offset(l) && !panel_has_super(l) ? 64 : 32;
}
static inline uint32_t panel_word_bytes(enum panel_layout l)
{
    return panel_has_nibbles(l) ? FIFTHS_AT + (panel_has_fifths(l) ? WORD_BYTES : 0) : BLOCK_BYTES;
}

static inline uint32_t panel_block_bytes(enum panel_layout l)
{
    return panel_scale_bytes(l) + panel_word_bytes(l);
}
/* With its part of what eight have together. */
static inline uint32_t panel_mean_bytes(enum panel_layout l)
{
    return panel_block_bytes(l) + (panel_has_super(l) ? SUPER_BYTES / SUPER_BLOCKS : 0);
}
/* In a strip of n groups, where block b begins, and where what it has together with others. */
static inline size_t panel_block_at(enum panel_layout l, uint32_t n, uint32_t b)
{
    uint32_t supers = panel_has_super(l) ? b / SUPER_BLOCKS + 1 : 0;
    return n * ((size_t)b * panel_block_bytes(l) + (size_t)supers * SUPER_BYTES);
}
static inline size_t panel_super_at(enum panel_layout l, uint32_t n, uint32_t b)
{
    return (size_t)n * (b / SUPER_BLOCKS) * (SUPER_BLOCKS * panel_block_bytes(l) + SUPER_BYTES);
}
/* Of all groups, an even number. */
static inline size_t panel_bytes(const struct panel *p)
{
    return (size_t)((p->n_groups + 1) / 2) * (2 / p->strip_groups) * p->strip_bytes;
}
/* Which of a strip's groups one is. */
static inline uint32_t panel_in_strip(const struct panel *p, uint32_t group)
{
    return group & (p->strip_groups - 1);
}
/* The one that a group is in. */
static inline const uint8_t *panel_strip(const struct panel *p, uint32_t group)
{
    uint32_t in_pair = (group & 1) - panel_in_strip(p, group);
    return p->data + group / 2 * p->pair_step + in_pair * p->strip_bytes;
}
/* A group's d and m for eight blocks, its scales and its words: panel_super_at, panel_block_at is
 * to be added. */
static inline const uint8_t *panel_super(const struct panel *p, uint32_t group)
{
    return panel_strip(p, group) + panel_in_strip(p, group) * SUPER_BYTES;
}
static inline const uint8_t *panel_scales(const struct panel *p, uint32_t group)
{
    return panel_strip(p, group) + panel_in_strip(p, group) * panel_scale_bytes(p->layout);
}
static inline const uint8_t *panel_words(const struct panel *p, uint32_t group)
{
    uint32_t in_strip = panel_in_strip(p, group);
    if (!panel_is_quantised(p->layout))
        return panel_strip(p, group) + in_strip * (p->strip_bytes / p->strip_groups);
    return panel_strip(p, group) + p->strip_groups * panel_scale_bytes(p->layout) +
           in_strip * panel_word_bytes(p->layout);
}

#endif
