/* kernels/cpu/body_attend.h - attention of up to eight queries over the blocks of one sequence.
 * Included after body_rows.h.
 *
 * Every query goes through its positions in order, in the same number of partial sums, whichever
 * queries share the pass: positions it may not see get weight zero. */

INLINE const uint16_t *kv_block(const struct attend *a, uint32_t block)
{
    return a->kv + a->table[block] * a->block_stride;
}

/* score[i][16 positions of the block] = scale * q_i k. d_head is even. */
INLINE void score_block(const struct attend *a, uint32_t block, uint32_t n)
{
    const uint16_t *k = kv_block(a, block);
    v16 even[MAX_QUERIES], odd[MAX_QUERIES];
    for (uint32_t i = 0; i < n; i++)
        even[i] = odd[i] = v_set(0);
    for (uint32_t d = 0; d < a->d_head; d += 2) {
        v16 first = v_load_half(k + d * BLOCK_TOKENS);
        v16 second = v_load_half(k + (d + 1) * BLOCK_TOKENS);
        UNROLL(8)
        for (uint32_t i = 0; i < n; i++) {
            even[i] = v_fma(first, v_set(a->query[i][d]), even[i]);
            odd[i] = v_fma(second, v_set(a->query[i][d + 1]), odd[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        v_store(a->score + i * a->score_stride + block * BLOCK_TOKENS,
                v_mul(v_add(even[i], odd[i]), v_set(a->scale)));
}

INLINE void fill(float *s, uint32_t from, uint32_t to, float value)
{
    for (uint32_t p = from; p < to; p++)
        s[p] = value;
}

/* Scores of query i to exp(score - largest), zero where it does not see from `start` to `end`;
 * gives 1 / sum. */
INLINE float soften(const struct attend *a, uint32_t i, uint32_t start, uint32_t end)
{
    float *s = a->score + i * a->score_stride;
    uint32_t from = a->first[i] / BLOCK_TOKENS * BLOCK_TOKENS;
    uint32_t to = (a->length[i] + BLOCK_TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS;
    v16 most = v_set(-INFINITY), total = v_set(0);
    fill(s, from, a->first[i], -INFINITY);
    fill(s, a->length[i], to, -INFINITY);
    for (uint32_t p = from; p < to; p += LANES)
        most = v_max(v_load(s + p), most);
    v16 largest = v_set(v_largest(most));
    for (uint32_t p = from; p < to; p += LANES)
        v_store(s + p, v_exp(v_sub(v_load(s + p), largest)));
    fill(s, start, a->first[i], 0);
    fill(s, a->length[i], end, 0);
    for (uint32_t p = from; p < to; p += LANES)
        total = v_add(total, v_load(s + p));
    return 1.0f / v_sum(total);
}

/* out[i][from .. from + 16 n_v) = sum over positions from block `start` on of score * v. */
INLINE void mix(const struct attend *a, uint32_t from, uint32_t start, uint32_t longest,
                const float *inverse, uint32_t n, uint32_t n_v)
{
    v16 sum[MAX_QUERIES][2];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n_v; j++)
            sum[i][j] = v_set(0);
    for (uint32_t block = start; block * BLOCK_TOKENS < longest; block++) {
        const uint16_t *v = kv_block(a, block) + BLOCK_TOKENS * a->d_head + from;
        uint32_t first = block * BLOCK_TOKENS, rest = longest - first;
        uint32_t n_p = rest < BLOCK_TOKENS ? rest : BLOCK_TOKENS;
        for (uint32_t p = 0; p < n_p; p++, v += a->d_head) {
            v16 value[2];
            for (uint32_t j = 0; j < n_v; j++)
                value[j] = v_load_half(v + j * LANES);
            UNROLL(8)
            for (uint32_t i = 0; i < n; i++) {
                v16 weight = v_set(a->score[i * a->score_stride + first + p]);
                for (uint32_t j = 0; j < n_v; j++)
                    sum[i][j] = v_fma(weight, value[j], sum[i][j]);
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n_v; j++)
            v_store(a->out[i] + from + j * LANES, v_mul(sum[i][j], v_set(inverse[i])));
}

INLINE void attend_n(const struct attend *a, uint32_t n)
{
    uint32_t longest = 0, first = a->first[0], d = 0;
    float inverse[MAX_QUERIES];
    for (uint32_t i = 0; i < n; i++) {
        longest = a->length[i] > longest ? a->length[i] : longest;
        first = a->first[i] < first ? a->first[i] : first;
    }
    uint32_t start = first / BLOCK_TOKENS;
    uint32_t end = (longest + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    for (uint32_t block = start; block < end; block++)
        score_block(a, block, n);
    for (uint32_t i = 0; i < n; i++)
        inverse[i] = soften(a, i, start * BLOCK_TOKENS, end * BLOCK_TOKENS);
    for (; d + 2 * LANES <= a->d_head; d += 2 * LANES)
        mix(a, d, start, longest, inverse, n, 2);
    for (; d < a->d_head; d += LANES)
        mix(a, d, start, longest, inverse, n, 1);
}

#define ATTEND(count)                                                                              \
    static void attend_##count(const struct attend *a)                                             \
    {                                                                                              \
        attend_n(a, count);                                                                        \
    }
ATTEND(1)
ATTEND(2)
ATTEND(3)
ATTEND(4)
ATTEND(5)
ATTEND(6)
ATTEND(7)
ATTEND(8)

static void heads_attend(const struct attend *a)
{
    static void (*const BY_COUNT[])(const struct attend *) = {
        attend_1, attend_2, attend_3, attend_4, attend_5, attend_6, attend_7, attend_8};
    BY_COUNT[a->n - 1](a);
}
