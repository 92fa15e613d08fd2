/* kernels/cpu/body_quantise.h - activations into blocks of 32 columns (isa.h), a norm on the way.
 * Included after body_rows.h.
 *
 * The largest words of LANES blocks are found together, a lane for each block; a network of
 * comparisons (Batcher, "Sorting networks and their applications", 1968) needs no branch. */

/* Of the blocks that are treated together. */
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

/* Whose largest words r has; n is at most RANKED. */
INLINE void quantise_ranked(struct rank *r, const float *x, uint32_t n,
                            struct quant_block *const *out)
{
    uint32_t end = (n + LANES - 1) / LANES * LANES;
    for (uint32_t b = n; b < end; b++)
        memset(r->word[b], 0, sizeof r->word[b]);
    for (uint32_t at = 0; at < end; at += LANES)
        rank_blocks(r, at);
    for (uint32_t b = 0; b < n; b++)
        quantise_block(r, b, x + b * QUANT, out[b]);
}

static void blocks_quantise(const float *x, uint32_t n, struct quant_block *const *out)
{
    _Alignas(64) struct rank r;
    for (uint32_t b = 0; b < n; b++)
        v_store_words(r.word[b], v_load(x + b * QUANT), v_load(x + b * QUANT + LANES));
    quantise_ranked(&r, x, n, out);
}

/* The norm of RANKED blocks at most stays in the first cache until their steps are known; to
 * compute it twice instead takes 2% of a product with 960 rows. */
static void blocks_norm(const float *x, const float *weight, float scale, uint32_t n,
                        struct quant_block *const *out)
{
    _Alignas(64) struct rank r;
    _Alignas(64) float y[RANKED * QUANT];
    for (uint32_t i = 0; i < n * QUANT; i += QUANT) {
        v16 low = normed(x + i, weight + i, scale);
        v16 high = normed(x + i + LANES, weight + i + LANES, scale);
        v_store_words(r.word[i / QUANT], low, high);
        v_store(y + i, low);
        v_store(y + i + LANES, high);
    }
    quantise_ranked(&r, y, n, out);
}

static void row_quantise(const float *x, const float *weight, float eps, uint32_t n,
                         struct quant_block *out)
{
    struct quant_block *place[RANKED];
    float scale = weight ? norm_scale(x, eps, n) : 1;
    for (uint32_t at = 0; at < n; at += RANKED * QUANT) {
        uint32_t rest = (n - at) / QUANT, some = rest < RANKED ? rest : RANKED;
        for (uint32_t b = 0; b < some; b++, out += TILE_TOKENS)
            place[b] = out;
        if (weight)
            blocks_norm(x + at, weight + at, scale, some, place);
        else
            blocks_quantise(x + at, some, place);
    }
}
