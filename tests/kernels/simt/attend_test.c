/* Attention against the sum written out in double, over caches of every type, at contexts that end
 * in, at and beside a block of the cache and a chunk of the split, with windows that begin so, in
 * six orders: of single tokens, and of runs of one sequence, which both kernels must give the same
 * bits. Values in the cache are exact in both; queries and weights are rounded for the tensor
 * cores: to 11 bits (relative L2 1e-3), over bf16 caches to 8 (CUDA.md's 5e-3). */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/dtype.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQ = 3, MAX_RUN = 70, MIN_TABLE = 40 /* blocks */ };

static const double BOUND[N_KV_FORMATS] = {1e-3, 5e-3, 1e-3, 1e-3};

struct shape {
    uint32_t n_head, n_head_kv, d_head, window, context[N_SEQ]; /* a token each, the last one */
    uint32_t run; /* or so many tokens, the last ones of the first */
};

static const struct shape SHAPES[] = {
    {4, 2, 32, 0, {600, 17, 1}, 40},     {2, 1, 64, 0, {256, 257, 16}, 33},
    {3, 3, 8, 0, {511, 2, 255}, 70},     {9, 1, 80, 0, {300, 15, 33}, 15},
    {4, 1, 16, 300, {301, 5, 640}, 17},  {2, 2, 136, 17, {273, 40, 17}, 30},
    {2, 1, 256, 256, {513, 90, 257}, 9}, {17, 1, 24, 0, {70, 3, 1}, 70}};

/* Of a token, and of a run, for which the emulator would take long there. */
static const struct shape LONGEST = {1, 1, 8, 0, {128 << 10, 31, 1}, 0},
                          LONG_RUN = {1, 1, 8, 0, {8001, 1, 1}, 8};

/* A value of the cache from the generator: its bytes, and what they stand for before the step. */
static double draw(struct rng *r, uint32_t format, void *to)
{
    float v = (float)rng_normal(r);
    uint16_t half = f32_to_f16(v);
    uint32_t bits;
    unsigned e4m3 = (unsigned)rng_below(r, 256);
    int8_t byte = (int8_t)((int)rng_below(r, 255) - 127);
    switch (format) {
    case KV_F16:
        memcpy(to, &half, 2);
        return (double)f16_to_f32(half);
    case KV_BF16:
        memcpy(&bits, &v, sizeof bits);
        half = (uint16_t)(bits >> 16);
        memcpy(to, &half, 2);
        return (double)bf16_to_f32(half);
    case KV_FP8:
        e4m3 = (e4m3 & 0x87) | (5 + e4m3 % 3) << 3; /* a quarter to two */
        *(uint8_t *)to = (uint8_t)e4m3;
        return ldexp((e4m3 & 0x80 ? -1 : 1) * (1 + (e4m3 & 7) / 8.0), (int)(e4m3 >> 3 & 15) - 7);
    default:
        memcpy(to, &byte, 1);
        return byte;
    }
}

struct stream { /* keys or values: [slot][d_head], as stored and as numbers */
    uint8_t *bytes;
    double *value;
    uint16_t *step; /* [slot]; int8 */
};

/* As kv_layer says. */
static size_t element(uint32_t bytes, uint32_t slot, uint32_t d_head, uint32_t dim)
{
    uint32_t in_block = slot % KV_BLOCK, piece = dim / 32, left = d_head - piece * 32;
    if (bytes == 2)
        return (size_t)slot * d_head + dim;
    return (size_t)(slot - in_block) * d_head + piece * 32 * KV_BLOCK +
           in_block * (left < 32 ? left : 32) + dim % 32;
}

struct problem {
    const struct shape *s;
    uint32_t format, bytes, n_slots, n_table, n_chunks;
    struct stream k, v;
    float *qkv;
    uint32_t n_tok, position[MAX_RUN], seq[MAX_RUN], *table; /* [N_SEQ, n_table] */
};

static void fill_stream(struct problem *p, struct rng *r, struct stream *t)
{
    uint32_t d = p->s->d_head;
    t->bytes = calloc((size_t)p->n_slots * d, p->bytes);
    t->value = calloc((size_t)p->n_slots * d, sizeof *t->value);
    t->step = calloc(p->n_slots, sizeof *t->step);
    assert_true(t->bytes && t->value && t->step);
    for (uint32_t i = 0; i < p->n_slots; i++) {
        t->step[i] = f32_to_f16(0.004f * (1 + (float)(i % 7)));
        double step = p->format == KV_INT8 ? (double)f16_to_f32(t->step[i]) : 1;
        for (uint32_t j = 0; j < d; j++) {
            uint8_t *to = t->bytes + element(p->bytes, i, d, j) * p->bytes;
            t->value[(size_t)i * d + j] = step * draw(r, p->format, to);
        }
    }
}

static void unmake(struct problem *p)
{
    struct stream *const all[] = {&p->k, &p->v};
    for (int i = 0; i < 2; i++)
        free(all[i]->bytes), free(all[i]->value), free(all[i]->step);
    free(p->qkv), free(p->table);
}

/* The first position that token t sees. */
static uint32_t first_seen(const struct problem *p, uint32_t t)
{
    uint32_t window = p->s->window, last = p->position[t];
    return window && last >= window ? last + 1 - window : 0;
}

static uint32_t block_of(const struct problem *p, uint32_t seq, uint32_t i)
{
    return N_SEQ * p->n_table - 1 - (i * 7 % p->n_table * N_SEQ + seq); /* the last: to its end */
}

/* What no token of the sequence may read is NaN, and blocks of such positions alone have no entry
 * in the table. A prompt reads whole units of 64 and hides what is before a window. */
static void spoil(struct problem *p, uint32_t seq, uint32_t from, uint32_t to)
{
    uint32_t n_head = p->s->n_head_kv, d = p->s->d_head;
    for (uint32_t i = 0; i < p->n_table; i++)
        if ((i + 1) * KV_BLOCK <= from || i * KV_BLOCK >= to)
            p->table[seq * p->n_table + i] = UINT32_MAX;
    for (uint32_t i = 0; i < p->n_table * KV_BLOCK * n_head; i++) {
        uint32_t pos = i / n_head, head = i % n_head;
        size_t block = block_of(p, seq, pos / KV_BLOCK);
        size_t slot = (block * n_head + head) * KV_BLOCK + pos % KV_BLOCK;
        if (pos >= from && pos < to)
            continue;
        for (uint32_t j = 0; j < d; j++) {
            size_t at = element(p->bytes, (uint32_t)slot, d, j) * p->bytes;
            memset(p->k.bytes + at, 0xFF, p->bytes);
            memset(p->v.bytes + at, 0xFF, p->bytes);
        }
        p->k.step[slot] = p->v.step[slot] = 0xFFFF;
    }
}

static void make(struct problem *p, const struct shape *s, uint32_t format, bool is_run)
{
    struct rng r;
    size_t row = (s->n_head + 2 * s->n_head_kv) * (size_t)s->d_head;
    rng_seed(&r, s->d_head + format);
    *p = (struct problem){.s = s, .format = format, .bytes = format <= KV_BF16 ? 2 : 1};
    p->n_tok = is_run ? s->run : N_SEQ;
    p->n_table = (s->context[0] + KV_BLOCK - 1) / KV_BLOCK;
    p->n_table = p->n_table < MIN_TABLE ? MIN_TABLE : p->n_table;
    p->n_chunks = (p->n_table * KV_BLOCK - 1) / ATTEND_CHUNK + 1;
    p->n_slots = N_SEQ * p->n_table * KV_BLOCK * s->n_head_kv;
    p->table = calloc(N_SEQ * p->n_table, sizeof *p->table);
    assert_non_null(p->table);
    fill_stream(p, &r, &p->k);
    fill_stream(p, &r, &p->v);
    p->qkv = calloc(p->n_tok * row, sizeof *p->qkv);
    assert_non_null(p->qkv);
    for (size_t i = 0; i < p->n_tok * row; i++)
        p->qkv[i] = (float)rng_normal(&r);
    for (uint32_t t = 0; t < p->n_tok; t++) {
        p->position[t] = is_run ? s->context[0] - s->run + t : s->context[t] - 1;
        p->seq[t] = is_run ? 0 : t;
    }
    for (uint32_t t = 0; t < N_SEQ; t++) {
        for (uint32_t i = 0; i < p->n_table; i++)
            p->table[t * p->n_table + i] = block_of(p, t, i);
        if (!is_run)
            spoil(p, t, first_seen(p, t), s->context[t]);
    }
    if (is_run)
        spoil(p, 0, first_seen(p, 0) & ~63u, s->context[0]);
}

static const double *at(const struct problem *p, const struct stream *t, uint32_t seq, uint32_t pos,
                        uint32_t head)
{
    size_t block = p->table[seq * p->n_table + pos / KV_BLOCK];
    size_t slot = (block * p->s->n_head_kv + head) * KV_BLOCK + pos % KV_BLOCK;
    return t->value + slot * p->s->d_head;
}

/* One head of one token: y[d_head]. */
static void attend_in_double(const struct problem *p, uint32_t t, uint32_t h, double *y)
{
    const struct shape *s = p->s;
    uint32_t last = p->position[t], first = first_seen(p, t), head = h / (s->n_head / s->n_head_kv);
    const float *q = p->qkv + ((size_t)t * (s->n_head + 2 * s->n_head_kv) + h) * s->d_head;
    double sum = 0;
    memset(y, 0, s->d_head * sizeof *y);
    for (uint32_t i = first; i <= last; i++) {
        const double *k = at(p, &p->k, p->seq[t], i, head), *v = at(p, &p->v, p->seq[t], i, head);
        double score = 0;
        for (uint32_t d = 0; d < s->d_head; d++)
            score += (double)q[d] * k[d];
        double w = exp(score * (double)0.125f);
        sum += w;
        for (uint32_t d = 0; d < s->d_head; d++)
            y[d] += w * v[d];
    }
    for (uint32_t d = 0; d < s->d_head; d++)
        y[d] /= sum;
}

static struct dev_stream *stream;
static void *taken[16];
static unsigned n_taken;

static void *take(const void *from, size_t n)
{
    void *to = TEST_DEV.alloc(n);
    assert_true(to && n_taken < sizeof taken / sizeof *taken);
    taken[n_taken++] = to;
    if (from)
        TEST_DEV.copy(to, from, n, DEV_TO_DEVICE, stream);
    return to;
}

/* Tiles of the run; the number of them. */
static uint32_t cut(const struct problem *p, struct prompt_tile *tile)
{
    uint32_t most = PROMPT_ROWS / (p->s->n_head / p->s->n_head_kv), n = 0;
    for (uint32_t t = 0; t < p->n_tok; t += most)
        tile[n++] = (struct prompt_tile){t, p->n_tok - t < most ? p->n_tok - t : most};
    return n;
}

enum way { SINGLE, BY_WARPS, BY_WARPGROUP };

static void run(const struct problem *p, enum way way, float *y, size_t n)
{
    struct err e;
    const struct shape *s = p->s;
    size_t values = (size_t)p->n_slots * s->d_head * p->bytes,
           steps = p->n_slots * sizeof(uint16_t);
    size_t heads = (size_t)p->n_tok * s->n_head, row = (s->n_head + 2 * s->n_head_kv) * s->d_head;
    const uint32_t zeros[MAX_RUN * 20] = {0};
    uint32_t token[MAX_RUN];
    struct prompt_tile tile[MAX_RUN];
    uint32_t n_tiles = cut(p, tile);
    for (uint32_t t = 0; t < p->n_tok; t++)
        token[t] = t;
    const struct attend_args a = {
        .step = {.position = take(p->position, sizeof p->position),
                 .seq = take(p->seq, sizeof p->seq),
                 .table = take(p->table, N_SEQ * p->n_table * sizeof *p->table),
                 .table_stride = p->n_table,
                 .n_tok = p->n_tok},
        .token = take(token, sizeof token),
        .tile = take(tile, sizeof tile),
        .n_rows = p->n_tok,
        .n_tiles = n_tiles,
        .kv = {take(p->k.bytes, values), take(p->v.bytes, values), take(p->k.step, steps),
               take(p->v.step, steps)},
        .qkv = take(p->qkv, p->n_tok * row * sizeof *p->qkv),
        .y = take(NULL, n * sizeof *y),
        .part = take(NULL, heads * p->n_chunks * (s->d_head + 2) * sizeof(float)),
        .count = take(zeros, heads * sizeof *zeros),
        .n_head = s->n_head,
        .n_head_kv = s->n_head_kv,
        .d_head = s->d_head,
        .kv_format = p->format,
        .window = s->window,
        .max_chunks = p->n_chunks,
        .n_blocks = N_SEQ * p->n_table,
        .scale = 0.125f};
    if (way == BY_WARPS)
        TEST_KERNELS.prompt(&a, stream);
    if (way == BY_WARPGROUP)
        assert_true(TEST_KERNELS.prompt_wgmma(&a, stream));
    for (int i = 0; i < 2 && way == SINGLE; i++) /* the first leaves the counts as it found them */
        TEST_KERNELS.attend(&a, stream);
    TEST_DEV.copy(y, a.y, n * sizeof *y, DEV_TO_HOST, stream);
    int rc = TEST_DEV.sync(stream, &e);
    while (n_taken > 0)
        TEST_DEV.release(taken[--n_taken]);
    assert_ok(rc, &e);
}

static void compare(const struct problem *p, unsigned order, const float *got, const double *want,
                    size_t n)
{
    double error = 0, size = 0;
    char text[300];
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s", text);
    for (size_t i = 0; i < n; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (!(sqrt(error / size) < BOUND[p->format]))
        fail_msg("type %u, heads of %u, window %u, %u tokens, order %u: off by %.2e", p->format,
                 p->s->d_head, p->s->window, p->n_tok, order, sqrt(error / size));
}

/* Which ways there are for the problem. */
static bool has_way(const struct problem *p, enum way way, bool is_run)
{
    return way == SINGLE || (is_run && (way == BY_WARPS || p->bytes == 2));
}

static void check(const struct problem *p, bool is_run, unsigned n_orders)
{
    const struct shape *s = p->s;
    bool is_first = true;
    size_t n = (size_t)p->n_tok * s->n_head * s->d_head;
    double *want = calloc(n, sizeof *want);
    float *got = calloc(n, sizeof *got), *first = calloc(n, sizeof *first);
    assert_true(want && got && first);
    for (uint32_t t = 0; t < p->n_tok; t++)
        for (uint32_t h = 0; h < s->n_head; h++)
            attend_in_double(p, t, h, want + ((size_t)t * s->n_head + h) * s->d_head);
    for (unsigned way = 0; way <= BY_WARPGROUP; way++) {
        for (unsigned order = 0; order < n_orders && has_way(p, way, is_run); order++) {
            if (is_run && way == SINGLE && (order > 0 || n_orders == 1))
                break; /* all orders: test_single_tokens */
            simt_set_order(order);
            run(p, way, got, n);
            compare(p, order, got, want, n);
            if (is_first)
                memcpy(first, got, n * sizeof *got);
            is_first = false;
            assert_memory_equal(first, got, n * sizeof *got);
        }
    }
    free(want);
    free(got);
    free(first);
}

/* All orders for one type of each shape (where accesses are watched, one shape of each type), the
 * first for the others. */
static void check_all(bool is_run)
{
    for (uint32_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        for (uint32_t format = 0; format < N_KV_FORMATS; format++) {
            struct problem p;
            make(&p, &SHAPES[i], format, is_run);
            bool is_all = simt_is_checked() ? i == format : i % N_KV_FORMATS == format;
            check(&p, is_run, is_all ? SIMT_ORDERS : 1);
            unmake(&p);
        }
    }
}

static void test_single_tokens(void **state)
{
    (void)state;
    check_all(false);
}

static void test_runs(void **state)
{
    (void)state;
    check_all(true);
}

static void test_longest_context(void **state)
{
    struct problem p;
    (void)state;
    make(&p, &LONGEST, KV_F16, false);
    check(&p, false, 1);
    unmake(&p);
    make(&p, &LONG_RUN, KV_F16, true);
    check(&p, true, 1);
    unmake(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_single_tokens),
                                       cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_longest_context)};
    stream = TEST_DEV.stream_open();
    return cmocka_run_group_tests_name("kernels.simt.attend", tests, NULL, NULL);
}
