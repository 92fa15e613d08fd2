/* kernels/cpu/body_score.h - scores of query heads over one section of a sequence. Included after
 * body_rows.h; ATTEND_SUMS, from the includer, is how many vectors of sums fit in registers. */

#define ATTEND_WIDE(n, sums) ((n)*4 <= (sums) ? 4 : (n)*2 <= (sums) ? 2 : 1)
enum { MAX_WIDE = 4 };

/* Of what the queries at..at+n of a pass see together: blocks and positions within the section. */
struct extent {
    uint32_t from_block, to_block, end;
};

INLINE uint32_t within(const struct attend *a, uint32_t position)
{
    uint32_t start = a->section * SECTION_TOKENS;
    uint32_t p = position > start ? position - start : 0;
    return p < SECTION_TOKENS ? p : SECTION_TOKENS;
}

INLINE struct extent extent_of(const struct attend *a, uint32_t at, uint32_t n)
{
    uint32_t first = SECTION_TOKENS, end = 0;
    for (uint32_t i = at; i < at + n; i++) {
        uint32_t f = within(a, a->first[i]), e = within(a, a->end[i]);
        first = f < first ? f : first;
        end = e > end ? e : end;
    }
    return (struct extent){first / BLOCK_TOKENS, (end + BLOCK_TOKENS - 1) / BLOCK_TOKENS, end};
}

INLINE const uint8_t *kv_block(const struct attend *a, uint32_t block)
{
    return a->kv + a->table[a->section * SECTION_BLOCKS + block] * a->block_stride;
}

typedef uint32_t four __attribute__((vector_size(16)));

/* Words w .. w + 3 of queries i .. i + 3; of the last for those there are not. */
INLINE void gather_four(const struct attend *a, uint32_t i, uint32_t w)
{
    four q[4];
    UNROLL(4)
    for (uint32_t k = 0; k < 4; k++) {
        const uint8_t *query = a->query[i + k < a->n ? i + k : a->n - 1];
        memcpy(&q[k], query + w * sizeof(uint32_t), sizeof q[k]);
    }
    four ab = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    four cd = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    four later_ab = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    four later_cd = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    const four word[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                          __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                          __builtin_shufflevector(later_ab, later_cd, 0, 1, 4, 5),
                          __builtin_shufflevector(later_ab, later_cd, 2, 3, 6, 7)};
    UNROLL(4)
    for (uint32_t k = 0; k < 4; k++)
        memcpy(&a->words[(w + k) * MAX_QUERIES + i], &word[k], sizeof word[k]);
}

/* Words of all queries side by side, so that many are read off one pointer. */
INLINE void gather_words(const struct attend *a, uint32_t n_words)
{
    for (uint32_t i = 0; i < a->n; i += 4)
        for (uint32_t w = 0; w < n_words; w += 4)
            gather_four(a, i, w);
}
static void gather_half(const struct attend *a)
{
    gather_words(a, a->d_head);
}
static void gather_int8(const struct attend *a)
{
    gather_words(a, a->d_head / 2);
}

/* While keys are read the values of the same blocks are fetched, line by line: `line` of as many as
 * there are in two blocks. */
INLINE void fetch_values(const uint8_t *const *block, uint32_t wide, size_t n_bytes, uint32_t line)
{
    size_t at = (size_t)line * 64;
    UNROLL(2)
    for (uint32_t b = 0; b < wide; b += 2)
        if (at < n_bytes)
            v_prefetch(block[b] + n_bytes + at);
        else if (b + 1 < wide)
            v_prefetch(block[b + 1] + at);
}

/* score[at + i][16 positions of each block] = query_scale * q_i k. */
INLINE void score_half(const struct attend *a, uint32_t at, uint32_t n, uint32_t wide,
                       const uint8_t *const *block, float *score)
{
    v16 sum[ATTEND_SUMS];
    UNROLL(24)
    for (uint32_t i = 0; i < n * wide; i++)
        sum[i] = v_set(0);
    const float *words = (const float *)(const void *)(a->words + at);
    for (uint32_t d = 0; d < a->d_head; d++, words += MAX_QUERIES) {
        v16 key[MAX_WIDE];
        fetch_values(block, wide, a->d_head * BLOCK_TOKENS * sizeof(uint16_t), d);
        UNROLL(4)
        for (uint32_t b = 0; b < wide; b++)
            key[b] = v_load_half(block[b] + d * BLOCK_TOKENS * sizeof(uint16_t));
        UNROLL(12)
        for (uint32_t i = 0; i < n; i++) {
            v16 q = v_set(words[i]);
            UNROLL(4)
            for (uint32_t b = 0; b < wide; b++)
                sum[i * wide + b] = v_fma(key[b], q, sum[i * wide + b]);
        }
    }
    UNROLL(12)
    for (uint32_t i = 0; i < n; i++)
        UNROLL(4)
    for (uint32_t b = 0; b < wide; b++)
        v_store(score + (at + i) * SECTION_TOKENS + b * LANES,
                v_mul(sum[i * wide + b], v_set(a->query_scale[at + i])));
}

/* The same with bytes: the integer sums are exact, up to d_head 512. */
INLINE void score_int8(const struct attend *a, uint32_t at, uint32_t n, uint32_t wide,
                       const uint8_t *const *block, float *score)
{
    i16 coarse[ATTEND_SUMS], fine[ATTEND_SUMS];
    UNROLL(12)
    for (uint32_t i = 0; i < n * wide; i++)
        coarse[i] = fine[i] = i_zero();
    const uint32_t *words = a->words + at, *fine_words = words + a->d_head / 4 * MAX_QUERIES;
    for (uint32_t d = 0; d < a->d_head; d += 4) {
        bytes key[MAX_WIDE];
        UNROLL(4)
        for (uint32_t b = 0; b < wide; b++) {
            key[b] = b_load(block[b] + (size_t)d * BLOCK_TOKENS);
            v_prefetch(block[b] + (size_t)(a->d_head + d) * BLOCK_TOKENS); /* the value */
        }
        UNROLL(12)
        for (uint32_t i = 0; i < n; i++) {
            const int8_t *q = (const int8_t *)&words[i], *f = (const int8_t *)&fine_words[i];
            UNROLL(4)
            for (uint32_t b = 0; b < wide; b++) {
                coarse[i * wide + b] = i_dot(coarse[i * wide + b], key[b], q);
                fine[i * wide + b] = i_dot(fine[i * wide + b], key[b], f);
            }
        }
        words += MAX_QUERIES;
        fine_words += MAX_QUERIES;
    }
    UNROLL(4)
    for (uint32_t b = 0; b < wide; b++) {
        v16 key_scale = v_load_half(block[b] + (size_t)2 * BLOCK_TOKENS * a->d_head);
        UNROLL(12)
        for (uint32_t i = 0; i < n; i++) {
            v16 whole = i_to_v(i_join(coarse[i * wide + b], fine[i * wide + b]));
            v16 product = v_sub(whole, v_set(a->query_bias[at + i]));
            v_store(score + (at + i) * SECTION_TOKENS + b * LANES,
                    v_mul(v_mul(product, v_set(a->query_scale[at + i])), key_scale));
        }
    }
}

INLINE uint32_t score_blocks(const struct attend *a, uint32_t at, uint32_t n, uint32_t wide,
                             uint32_t block, uint32_t to, bool is_int8)
{
    for (; block + wide <= to; block += wide) {
        const uint8_t *k[MAX_WIDE];
        for (uint32_t b = 0; b < wide; b++)
            k[b] = kv_block(a, block + b);
        if (is_int8)
            score_int8(a, at, n, wide, k, a->score + block * BLOCK_TOKENS);
        else
            score_half(a, at, n, wide, k, a->score + block * BLOCK_TOKENS);
    }
    return block;
}

INLINE void score_section(const struct attend *a, uint32_t at, uint32_t n, const struct extent *x,
                          bool is_int8)
{
    /* Bytes have two sums each, and a dot product into a register that is not free costs a copy: a
     * third of the registers at most. */
    const uint32_t most = is_int8 && ATTEND_SUMS > 3 ? ATTEND_SUMS / 3 : ATTEND_SUMS;
    const uint32_t step = n > most ? n / 2 : n;
    const uint32_t wide = ATTEND_WIDE(step, most);
    for (uint32_t i = at; i < at + n; i += step) {
        uint32_t rest = score_blocks(a, i, step, wide, x->from_block, x->to_block, is_int8);
        if (wide > 1)
            score_blocks(a, i, step, 1, rest, x->to_block, is_int8);
    }
}
