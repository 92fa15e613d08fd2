/* kernels/cpu/body_attend.h - attention of query heads over one section of a sequence. Included
 * after body_kv.h and body_score.h.
 *
 * Every query goes through its positions in order, in the same sums, whichever queries share the
 * pass: positions it may not see get weight zero. Sections are joined as partial softmaxes are
 * (Milakov and Gimelshein, arXiv 1805.02867; FlashAttention, arXiv 2205.14135). */

/* 2^x of what is not above 0: 2^(n + f), f in [-1/2, 1/2], minimax to degree 5, within 1e-7 (the
 * coefficients: Remez on the relative error with p(0) = 1). */
INLINE v16 v_exp2(v16 x)
{
    x = v_max(x, v_set(-126.0f));
    v16 n = v_round(x), f = v_sub(x, n), p = v_set(1.3264728e-3f);
    p = v_fma(p, f, v_set(9.6715129e-3f));
    p = v_fma(p, f, v_set(5.5507337e-2f));
    p = v_fma(p, f, v_set(2.4022242e-1f));
    p = v_fma(p, f, v_set(6.9314698e-1f));
    p = v_fma(p, f, v_set(1.0f));
    return v_times_pow2(p, n);
}

/* What query i sees of its row of scores, and of it the whole vectors. */
struct sight {
    v16 first, end;
    uint32_t whole_from, whole_to;
};

INLINE struct sight sight_of(const struct attend *a, uint32_t i)
{
    uint32_t first = within(a, a->first[i]), end = within(a, a->end[i]);
    return (struct sight){v_set((float)first), v_set((float)end),
                          (first + LANES - 1) / LANES * LANES, end / LANES * LANES};
}

/* Scores at p, or `other` where they are not seen. */
INLINE v16 seen(const struct sight *s, uint32_t p, v16 score, v16 other)
{
    if (p >= s->whole_from && p < s->whole_to)
        return score;
    return v_where_within(v_count((float)p), s->first, s->end, score, other);
}

/* part[i]'s largest score of what it sees. Apart from soften, so that queries do not wait for one
 * another's: the one loop is short, and the other depends on nothing. */
INLINE void find_largest(const struct attend *a, uint32_t i, const struct extent *x)
{
    const struct sight sight = sight_of(a, i);
    const v16 hidden = v_set(-INFINITY);
    const float *s = a->score + i * SECTION_TOKENS;
    v16 most = hidden;
    for (uint32_t p = x->from_block * LANES; p < x->to_block * LANES; p += LANES)
        most = v_max(seen(&sight, p, v_load(s + p), hidden), most);
    a->part[i][a->d_head + 1] = v_largest(most);
}

/* Scores of query i to 2^(score - largest), zero where it does not see. */
INLINE void soften(const struct attend *a, uint32_t i, const struct extent *x)
{
    const struct sight sight = sight_of(a, i);
    const v16 zero = v_set(0), largest = v_set(a->part[i][a->d_head + 1]);
    float *s = a->score + i * SECTION_TOKENS;
    v16 total = zero;
    for (uint32_t p = x->from_block * LANES; p < x->to_block * LANES; p += LANES) {
        v16 weight = seen(&sight, p, v_exp2(v_sub(v_load(s + p), largest)), zero);
        v_store(s + p, weight);
        total = v_add(total, weight);
    }
    a->part[i][a->d_head] = v_sum(total);
}

/* int8: the scale of a position's value goes into its weight. */
INLINE void weigh_scales(const struct attend *a, uint32_t at, uint32_t n, const struct extent *x)
{
    for (uint32_t block = x->from_block; block < x->to_block; block++) {
        const uint8_t *scales = kv_block(a, block) + (size_t)2 * BLOCK_TOKENS * a->d_head;
        v16 scale = v_load_half(scales + BLOCK_TOKENS * sizeof(uint16_t));
        for (uint32_t i = at; i < at + n; i++) {
            float *s = a->score + i * SECTION_TOKENS + block * BLOCK_TOKENS;
            v_store(s, v_mul(v_load(s), scale));
        }
    }
}

/* Keys of the block that is read next at this place of a section, or NULL. */
INLINE const uint8_t *key_ahead(const struct attend *a, uint32_t block)
{
    return block < a->next.n ? a->next.kv + a->next.table[block] * a->block_stride : NULL;
}

/* part[at + i][from .. from + 16 wide) = sum over the section of weight * value. */
INLINE void mix(const struct attend *a, uint32_t at, uint32_t n, uint32_t wide, uint32_t from,
                const struct extent *x, bool is_int8)
{
    const size_t width = is_int8 ? 1 : sizeof(uint16_t);
    v16 sum[ATTEND_SUMS];
    UNROLL(24)
    for (uint32_t i = 0; i < n * wide; i++)
        sum[i] = v_set(0);
    for (uint32_t block = x->from_block; block < x->to_block; block++) {
        const uint8_t *v = kv_block(a, block) + (BLOCK_TOKENS * a->d_head + from) * width;
        const uint8_t *next = from == 0 ? key_ahead(a, block) : NULL;
        uint32_t first = block * BLOCK_TOKENS, rest = x->end - first;
        const float *weight = a->score + at * SECTION_TOKENS + first;
        for (uint32_t p = 0; p < (rest < BLOCK_TOKENS ? rest : BLOCK_TOKENS); p++) {
            v16 value[MAX_WIDE];
            UNROLL(4)
            for (uint32_t j = 0; j < wide; j++)
                value[j] = is_int8 ? v_load_int8(v + j * LANES * width)
                                   : v_load_half(v + j * LANES * width);
            UNROLL(12)
            for (uint32_t i = 0; i < n; i++) {
                v16 w = v_set(weight[i * SECTION_TOKENS + p]);
                UNROLL(4)
                for (uint32_t j = 0; j < wide; j++)
                    sum[i * wide + j] = v_fma(w, value[j], sum[i * wide + j]);
            }
            v += a->d_head * width;
            for (size_t i = 0; next && i < a->d_head * width; i += 64)
                v_prefetch(next + p * a->d_head * width + i);
        }
    }
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++)
        UNROLL(4)
    for (uint32_t j = 0; j < wide; j++)
        v_store(a->part[at + i] + from + j * LANES, sum[i * wide + j]);
}

INLINE void attend_n(const struct attend *a, uint32_t at, uint32_t n, bool is_int8)
{
    const uint32_t wide = ATTEND_WIDE(n, ATTEND_SUMS);
    struct extent x = extent_of(a, at, n);
    uint32_t d = 0;
    score_section(a, at, n, &x, is_int8);
    for (uint32_t i = at; i < at + n; i++)
        find_largest(a, i, &x);
    for (uint32_t i = at; i < at + n; i++)
        soften(a, i, &x);
    if (is_int8)
        weigh_scales(a, at, n, &x);
    for (; d + wide * LANES <= a->d_head; d += wide * LANES)
        mix(a, at, n, wide, d, &x, is_int8);
    for (; d < a->d_head; d += LANES)
        mix(a, at, n, 1, d, &x, is_int8);
}

/* Greedily by sizes whose sums fit in registers. */
#define ATTEND_ALL(type, is_int8)                                                                  \
    static void attend_##type(const struct attend *a)                                              \
    {                                                                                              \
        uint32_t at = 0;                                                                           \
        for (; ATTEND_SUMS >= 12 && at + 12 <= a->n; at += 12)                                     \
            attend_n(a, at, 12, is_int8);                                                          \
        for (; ATTEND_SUMS >= 8 && at + 8 <= a->n; at += 8)                                        \
            attend_n(a, at, 8, is_int8);                                                           \
        for (; ATTEND_SUMS >= 6 && at + 6 <= a->n; at += 6)                                        \
            attend_n(a, at, 6, is_int8);                                                           \
        for (; ATTEND_SUMS >= 4 && at + 4 <= a->n; at += 4)                                        \
            attend_n(a, at, 4, is_int8);                                                           \
        for (; ATTEND_SUMS >= 3 && at + 3 <= a->n; at += 3)                                        \
            attend_n(a, at, 3, is_int8);                                                           \
        for (; at + 2 <= a->n; at += 2)                                                            \
            attend_n(a, at, 2, is_int8);                                                           \
        for (; at < a->n; at++)                                                                    \
            attend_n(a, at, 1, is_int8);                                                           \
    }
ATTEND_ALL(half, false)
ATTEND_ALL(int8, true)

static void part_fold(float *into, const float *part, uint32_t d_head)
{
    float *a = into + d_head;
    const float *b = part + d_head;
    if (b[0] == 0)
        return;
    float largest = a[0] == 0 || b[1] > a[1] ? b[1] : a[1];
    v16 own = a[0] == 0 ? v_set(0) : v_exp2(v_set(a[1] - largest));
    v16 other = v_exp2(v_set(b[1] - largest));
    for (uint32_t i = 0; i < d_head; i += LANES)
        v_store(into + i, v_fma(v_load(into + i), own, v_mul(v_load(part + i), other)));
    float weights[2][LANES];
    v_store(weights[0], own);
    v_store(weights[1], other);
    a[0] = a[0] * weights[0][0] + b[0] * weights[1][0];
    a[1] = largest;
}

static void part_finish(const float *part, float *y, uint32_t d_head)
{
    v16 inverse = v_set(1.0f / part[d_head]);
    for (uint32_t i = 0; i < d_head; i += LANES)
        v_store(y + i, v_mul(v_load(part + i), inverse));
}

#define ATTEND_TABLE                                                                               \
    {store_half, store_int8}, {gather_half, gather_int8}, {attend_half, attend_int8}, part_fold,   \
        part_finish, head_quantise
