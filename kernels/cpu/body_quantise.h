/* kernels/cpu/body_quantise.h - a row of activations into blocks of 32 columns (isa.h). Included
 * after body_rows.h.
 *
 * The largest words of LANES blocks are found together, a lane for each block; a network of
 * comparisons (Batcher, "Sorting networks and their applications", 1968) needs no branch. */

/* Of the blocks that are treated together. */
enum { RANKED = 4 * LANES };
struct rank {
    float word[RANKED][QUANT / 4];    /* largest magnitudes of words of four columns */
    uint32_t key[WIDE_WORDS][RANKED]; /* of the three largest, the words in the lowest bits */
    float step[RANKED], inverse[RANKED];
};

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
INLINE void rank_words(v16 k[QUANT / 4])
{
    order_four(k);
    order_four(k + 4);
    for (int i = 0; i < 4; i++)
        k[i] = v_max(k[i], k[7 - i]);
    order(&k[0], &k[2]);
    order(&k[1], &k[3]);
    order(&k[2], &k[3]);
}

/* The step is what the fourth largest word needs, or the largest in 15 bits. The lowest bits of a
 * key are the word's number; set, they make a bound that no value of the word is above. */
INLINE void rank_blocks(struct rank *r, uint32_t at)
{
    v16 k[QUANT / 4];
    for (int i = 0; i < QUANT / 4; i++)
        k[i] = v_with_low_bits(v_load_every_eighth(&r->word[at][i]), i);
    rank_words(k);
    v16 fourth = v_mul(v_with_low_bits(k[WIDE_WORDS], 7), v_set(1.0f / 127));
    v16 first = v_mul(v_with_low_bits(v_max(k[0], k[1]), 7), v_set(1.0f / QUANT_STEPS));
    v16 step = v_max(fourth, first);
    v_store(r->step + at, step);
    v_store(r->inverse + at, v_where_above(step, v_set(1e-33f), v_div(v_set(1), step)));
    for (int i = 0; i < WIDE_WORDS; i++)
        memcpy(r->key[i] + at, &k[i], sizeof k[i]);
}

typedef int32_t four_ints __attribute__((vector_size(16)));
typedef int8_t four_bytes __attribute__((vector_size(4)));

/* Words with two bytes a column, from the block's integers. */
INLINE void widen_words(const struct rank *r, uint32_t b, const int32_t *q, struct quant_block *out)
{
    UNROLL(4)
    for (int i = 0; i < WIDE_WORDS; i++) {
        uint32_t word = r->key[i][b] & 7;
        four_ints whole;
        memcpy(&whole, q + 4 * word, sizeof whole);
        four_ints coarse = (whole + 64) >> 7;
        four_bytes high = __builtin_convertvector(coarse, four_bytes);
        four_bytes low = __builtin_convertvector(whole - coarse * 128, four_bytes);
        memcpy(out->coarse[i], &high, sizeof high);
        memcpy(out->fine + 4 * word, &low, sizeof low);
        out->word[i] = (uint8_t)(8 * word);
    }
}

INLINE void quantise_block(const struct rank *r, uint32_t b, const float *x,
                           struct quant_block *out)
{
    _Alignas(64) int32_t q[QUANT];
    v16 inverse = v_set(r->inverse[b]);
    i16 low = v_to_i(v_mul(v_load(x), inverse)), high = v_to_i(v_mul(v_load(x + LANES), inverse));
    i_store(q, low);
    i_store(q + LANES, high);
    i_store_bytes(out->fine, low, high);
    widen_words(r, b, q, out);
    int32_t sum = i_sum(i_add(low, high));
    uint32_t negated = 0u - (uint32_t)sum; /* a row of NaN gives any integer: it may wrap */
    out->scale = r->step[b];
    out->sum = r->step[b] * (float)sum;
    out->minus_sum = (int32_t)negated;
    out->minus_eight_sums = (int32_t)(8 * negated);
}

static void quantise_blocks(const float *x, uint32_t n, struct quant_block *out)
{
    _Alignas(64) struct rank r;
    uint32_t end = (n + LANES - 1) / LANES * LANES;
    for (uint32_t b = 0; b < n; b++)
        v_store_words(r.word[b], v_load(x + b * QUANT), v_load(x + b * QUANT + LANES));
    for (uint32_t b = n; b < end; b++)
        memset(r.word[b], 0, sizeof r.word[b]);
    for (uint32_t at = 0; at < end; at += LANES)
        rank_blocks(&r, at);
    for (uint32_t b = 0; b < n; b++)
        quantise_block(&r, b, x + b * QUANT, out + (size_t)b * TILE_TOKENS);
}

static void row_quantise(const float *x, uint32_t n, struct quant_block *out)
{
    for (uint32_t b = 0; b < n / QUANT; b += RANKED) {
        uint32_t rest = n / QUANT - b;
        quantise_blocks(x + (size_t)b * QUANT, rest < RANKED ? rest : RANKED,
                        out + (size_t)b * TILE_TOKENS);
    }
}
