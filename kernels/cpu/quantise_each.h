/* kernels/cpu/quantise_each.h - largest words of a group of blocks, and its blocks, one after the
 * other. Included by the isa_*.c that have no other way. */
#include "kernels/cpu/quantise.h"

INLINE void words_of(const struct quant_group *g, v16 k[QUANT_WORDS])
{
    float word[LANES][QUANT_WORDS];
    for (uint32_t b = 0; b < g->n; b++)
        v_store_words(word[b], v_load(g->x[b]), v_load(g->x[b] + LANES));
    for (uint32_t b = g->n; b < LANES; b++)
        memcpy(word[b], word[g->n - 1], sizeof word[b]);
    for (int i = 0; i < QUANT_WORDS; i++)
        k[i] = v_load_every_eighth(&word[0][i]);
}

typedef int32_t four_ints __attribute__((vector_size(16)));
typedef int8_t four_bytes __attribute__((vector_size(4)));

/* Words with two bytes a column, from the block's integers. */
INLINE void widen_words(uint32_t wide, const int32_t *q, struct quant_block *out)
{
    uint32_t n = 0;
    for (uint32_t word = 0; word < QUANT_WORDS && n < WIDE_WORDS; word++) {
        if (!(wide >> wide_bit(word) & 1))
            continue;
        four_ints whole;
        memcpy(&whole, q + 4 * word, sizeof whole);
        four_ints coarse = (whole + 64) >> 7;
        four_bytes high = __builtin_convertvector(coarse, four_bytes);
        four_bytes low = __builtin_convertvector(whole - coarse * 128, four_bytes);
        memcpy(out->coarse[n], &high, sizeof high);
        memcpy(out->fine + 4 * word, &low, sizeof low);
        out->word[n++] = (uint8_t)(8 * word);
    }
    for (; n < WIDE_WORDS; n++) { /* of a row of NaN */
        memset(out->coarse[n], 0, sizeof out->coarse[n]);
        out->word[n] = 0;
    }
    out->word[WIDE_WORDS] = 0;
}

INLINE void store_block(const struct quant_group *g, uint32_t b)
{
    _Alignas(64) int32_t q[QUANT];
    struct quant_block *out = g->out[b];
    v16 inverse = v_set(g->inverse[b]);
    i16 low = v_to_i(v_mul(v_load(g->x[b]), inverse));
    i16 high = v_to_i(v_mul(v_load(g->x[b] + LANES), inverse));
    i_store(q, low);
    i_store(q + LANES, high);
    i_store_bytes(out->fine, low, high);
    widen_words((uint32_t)g->wide[b], q, out);
    int32_t sum = i_sum(i_add(low, high));
    uint32_t negated = 0u - (uint32_t)sum; /* a row of NaN gives any integer: it may wrap */
    out->scale = g->step[b];
    out->sum = g->step[b] * (float)sum;
    out->minus_sum = (int32_t)negated;
    out->minus_eight_sums = (int32_t)(8 * negated);
}

INLINE void store_group(const struct quant_group *g)
{
    for (uint32_t b = 0; b < g->n; b++)
        store_block(g, b);
}
