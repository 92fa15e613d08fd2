/* The bytes that decode's kernels move, by the emulator's count, against the arithmetic on paper
 * (the table in kernels/README.md): of weights and of the cache at least RATIO of what moves must
 * be what has to. A request moves whole sectors of 32 bytes, each once; caches count for nothing.
 */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/cuda/device.h"
#include "kernels/dtype.h"
#include "kernels/simt/simt.h"
#include "tests/harness/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double RATIO = 0.95;
static struct kern_device *device;

static void *upload(const void *data, size_t n)
{
    struct err e;
    void *p = device_take(device, n, 1);
    assert_non_null(p);
    assert_ok(device_upload(device, p, data, n, &e), &e);
    return p;
}

/* n bytes of one value: a number in every type of the cache, and a small index. */
static void *upload_filled(int byte, size_t n)
{
    void *host = malloc(n);
    assert_non_null(host);
    memset(host, byte, n);
    void *p = upload(host, n);
    free(host);
    return p;
}

static void expect_ratio(const char *what, uint64_t must, uint64_t moved)
{
    double ratio = (double)must / (double)moved;
    print_message("%-34s must %8llu  moves %8llu  %.3f\n", what, (unsigned long long)must,
                  (unsigned long long)moved, ratio);
    if (!(ratio >= RATIO && ratio <= 1.0))
        fail_msg("%s: %llu bytes have to move and %llu do: %.3f", what, (unsigned long long)must,
                 (unsigned long long)moved, ratio);
}

static uint64_t moved(const void *p, size_t n, bool is_write)
{
    return p && n ? simt_log_traffic(p, n, is_write).sector_bytes : 0;
}

/* Sixteenths of a byte that the streams beside `low` keep for 32 weights (pack.c). */
static const struct weight_type {
    uint32_t dtype, high, scale, super;
    bool is_fp8; /* of bf16, with four bytes a row */
} TYPES[] = {
    {DTYPE_Q4_0, 0, 32, 0, false},  {DTYPE_Q4_1, 0, 64, 0, false},   {DTYPE_Q8_0, 0, 32, 0, false},
    {DTYPE_Q4_K, 0, 32, 0, false},  {DTYPE_Q6_K, 128, 32, 4, false}, {DTYPE_BF16, 0, 0, 0, false},
    {DTYPE_F16, 0, 0, 0, false},    {DTYPE_Q5_0, 64, 32, 0, false},  {DTYPE_Q5_1, 64, 64, 0, false},
    {DTYPE_Q5_K, 64, 32, 0, false}, {DTYPE_F32, 0, 0, 0, false},     {DTYPE_BF16, 0, 0, 0, true},
};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

static uint64_t panel_reads(const struct weight_type *t, const struct panel *w)
{
    size_t n = (size_t)w->rows * (w->cols / 32);
    return moved(w->low, (size_t)w->rows * w->units * 16, false) +
           moved(w->high, n * t->high / 16, false) + moved(w->scale, n * t->scale / 16, false) +
           moved(w->super, n * t->super / 16, false) +
           (t->is_fp8 ? moved(w->scale, w->rows * sizeof(float), false) : 0);
}

static const char *name_of(const struct weight_type *t)
{
    return t->is_fp8 ? "fp8" : dtype_name(t->dtype);
}

/* Bytes of the matrix in its file, or as fp8; the device keeps not one more. */
static uint64_t open_matrix(const struct weight_type *t, uint32_t rows, uint32_t cols,
                            const struct kern_matrix **m)
{
    struct err e;
    struct rng r;
    struct buf b;
    size_t before = device->weight_bytes;
    rng_seed(&r, t->dtype);
    buf_init(&b, 16 * MiB);
    tiny_random_blocks(&r, t->dtype, (size_t)rows * cols, 0.1, &b);
    assert_false(b.failed);
    const struct kern_part part = {t->dtype, rows, b.p};
    device->has_fp8_weights = t->is_fp8;
    assert_ok(device_matrix(device, cols, &part, 1, m, &e), &e);
    uint64_t bytes = t->is_fp8 ? (cols + sizeof(float)) * rows : b.n;
    assert_int_equal(device->weight_bytes - before, bytes);
    buf_free(&b);
    return bytes;
}

static void launched(void)
{
    struct err e;
    assert_ok(device->dev->sync(device->stream, &e), &e);
    simt_log_end();
}

/* Of activations, which L2 holds: a block of 32 rows of weights reads the row and its norm once. */
static void expect_row_once(const struct product_args *a, uint32_t rows)
{
    enum { BLOCK_ROWS = 32 };
    size_t row = a->x_stride * sizeof(float), blocks = rows / BLOCK_ROWS;
    assert_int_equal(moved(a->x, row, false), blocks * row);
    assert_int_equal(moved(a->norm, row, false), a->norm ? blocks * row : 0);
}

/* One token, rows as of a small and of a large model, every mode. */
static void test_products(void **state)
{
    static const uint32_t COLS[] = {2048, 3072, 4096};
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct kern_matrix *m;
        uint32_t cols = COLS[i % 3], rows = 64;
        char what[80];
        uint64_t must = open_matrix(&TYPES[i], rows, cols, &m);
        struct product_args a = {.x = upload_filled(0x3C, cols * sizeof(float)),
                                 .norm = i % 2 ? upload_filled(0x3C, cols * sizeof(float)) : NULL,
                                 .y = upload_filled(0, rows * sizeof(float)),
                                 .x_stride = cols,
                                 .y_stride = rows,
                                 .n_tok = 1,
                                 .mode = (uint32_t)i % 3};
        assert_true(device_split_room(device, 1, cols));
        simt_log_begin();
        device_products(device, a, m);
        launched();
        snprintf(what, sizeof what, "product %s [%u x %u]", name_of(&TYPES[i]), rows, cols);
        expect_ratio(what, must, panel_reads(&TYPES[i], &m->panel[0]));
        if (format_has_tiles(m->panel[0].format))
            expect_row_once(&a, rows);
    }
}

/* Two of four experts: theirs, and nothing of the others'. */
static void test_experts(void **state)
{
    enum { N = 4, ROWS = 32, COLS = 1024, USED = 2 };
    static const uint32_t CHOSEN[USED] = {3, 1};
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct kern_matrix *m[N];
        struct experts_args a = {.share = USED};
        uint64_t must = 0, reads = 0;
        char what[80];
        for (uint32_t x = 0; x < N; x++) {
            must = USED * open_matrix(&TYPES[i], ROWS, COLS, &m[x]);
            a.panel[x] = m[x]->panel[0];
        }
        a.format = a.panel[0].format;
        a.p = (struct product_args){.x = upload_filled(0x3C, COLS * sizeof(float)),
                                    .y = upload_filled(0, USED * ROWS * sizeof(float)),
                                    .x_stride = COLS,
                                    .y_stride = ROWS,
                                    .n_tok = USED,
                                    .split = device->split,
                                    .sums = device->sums};
        a.group = (struct group_args){.expert = upload(CHOSEN, sizeof CHOSEN),
                                      .list = device_take(device, USED, sizeof(uint32_t)),
                                      .tile = device_take(device, USED, sizeof(struct expert_tile)),
                                      .n_pairs = USED,
                                      .n_expert = N,
                                      .width = EXPERT_TILE_SMALL,
                                      .n_tiles = USED};
        struct product_args row = a.p;
        row.w = a.panel[0];
        row.n_tok = 1;
        device->kernels->split(&row, device->stream);
        device->kernels->group(&a.group, device->stream);
        simt_log_begin();
        device->kernels->product_of_experts(&a, device->stream);
        launched();
        for (uint32_t x = 0; x < N; x++)
            reads += panel_reads(&TYPES[i], &a.panel[x]);
        snprintf(what, sizeof what, "experts %s, 2 of 4", name_of(&TYPES[i]));
        expect_ratio(what, must, reads);
    }
}

static const struct cache_type {
    const char *name;
    uint32_t format, bytes, step; /* of a value; of a head's step */
} CACHES[N_KV_FORMATS] = {
    {"f16", KV_F16, 2, 0}, {"bf16", KV_BF16, 2, 0}, {"fp8", KV_FP8, 1, 0}, {"int8", KV_INT8, 1, 2}};

static const struct attention_case {
    uint32_t n_head, n_head_kv, d_head, context, window;
} ATTENTIONS[] = {
    {8, 2, 128, 600, 0},   {2, 2, 64, 1000, 0}, {7, 1, 64, 300, 0},
    {4, 1, 256, 512, 128}, {4, 4, 80, 260, 0},  {3, 1, 72, 520, 0},
};

struct cache {
    struct kv_layer layer;
    size_t values, steps; /* bytes of each stream */
    struct step_view step;
};

static struct cache open_cache(const struct attention_case *c, const struct cache_type *t)
{
    uint32_t n_blocks = (c->context + KV_BLOCK - 1) / KV_BLOCK, *table, position = c->context - 1;
    size_t slots = (size_t)n_blocks * KV_BLOCK * c->n_head_kv;
    struct cache k = {.values = slots * c->d_head * t->bytes, .steps = slots * t->step};
    table = calloc(n_blocks, sizeof *table);
    assert_non_null(table);
    for (uint32_t i = 0; i < n_blocks; i++)
        table[i] = n_blocks - 1 - i;
    k.layer = (struct kv_layer){upload_filled(0x3C, k.values), upload_filled(0x3C, k.values),
                                k.steps ? upload_filled(0x3C, k.steps) : NULL,
                                k.steps ? upload_filled(0x3C, k.steps) : NULL};
    k.step = (struct step_view){.position = upload(&position, sizeof position),
                                .seq = upload_filled(0, sizeof(uint32_t)),
                                .table = upload(table, n_blocks * sizeof *table),
                                .table_stride = n_blocks,
                                .n_tok = 1};
    free(table);
    return k;
}

static void attend(const struct attention_case *c, const struct cache_type *t)
{
    char what[80];
    struct cache k = open_cache(c, t);
    uint32_t seen = c->window ? c->window : c->context, chunks = c->context / ATTEND_CHUNK + 1;
    size_t width = (c->n_head + 2 * c->n_head_kv) * c->d_head;
    const struct attend_args a = {
        .step = k.step,
        .token = upload_filled(0, sizeof(uint32_t)),
        .n_rows = 1,
        .kv = k.layer,
        .qkv = upload_filled(0x3C, width * sizeof(float)),
        .y = upload_filled(0, (size_t)c->n_head * c->d_head * sizeof(float)),
        .part = device_take(device, (size_t)c->n_head * chunks * (c->d_head + 2), sizeof(float)),
        .count = upload_filled(0, c->n_head * sizeof(uint32_t)),
        .n_head = c->n_head,
        .n_head_kv = c->n_head_kv,
        .d_head = c->d_head,
        .kv_format = t->format,
        .window = c->window,
        .max_chunks = chunks,
        .scale = 0.1f};
    simt_log_begin();
    device->kernels->attend(&a, device->stream);
    launched();
    snprintf(what, sizeof what, "attend %s, %u/%u heads of %u, %u", t->name, c->n_head,
             c->n_head_kv, c->d_head, seen);
    expect_ratio(what, 2ULL * seen * c->n_head_kv * (c->d_head * t->bytes + t->step),
                 moved(a.kv.k, k.values, false) + moved(a.kv.v, k.values, false) +
                     moved(a.kv.k_step, k.steps, false) + moved(a.kv.v_step, k.steps, false));
}

/* Rows of two-byte types are whole sectors: heads of a multiple of 16. */
static void test_attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ATTENTIONS / sizeof *ATTENTIONS; i++)
        for (size_t t = 0; t < N_KV_FORMATS; t++)
            if (CACHES[t].bytes == 1 || ATTENTIONS[i].d_head % 16 == 0)
                attend(&ATTENTIONS[i], &CACHES[t]);
}

/* A run of tokens that are one block's rows: keys and values once, in whole units of 64. */
static void test_prompts(void **state)
{
    enum { RUN = 32, HEADS = 2, D_HEAD = 64, CONTEXT = 1000 };
    static const struct attention_case shape = {HEADS, 1, D_HEAD, CONTEXT, 0};
    static const struct prompt_tile tile = {0, RUN};
    uint32_t position[RUN];
    struct cache k = open_cache(&shape, &CACHES[KV_BF16]);
    (void)state;
    for (uint32_t i = 0; i < RUN; i++)
        position[i] = CONTEXT - RUN + i;
    k.step.position = upload(position, sizeof position);
    k.step.seq = upload_filled(0, sizeof position);
    k.step.n_tok = RUN;
    const struct attend_args a = {
        .step = k.step,
        .tile = upload(&tile, sizeof tile),
        .n_tiles = 1,
        .kv = k.layer,
        .qkv = upload_filled(0x3C, (size_t)RUN * (HEADS + 2) * D_HEAD * sizeof(float)),
        .y = upload_filled(0, (size_t)RUN * HEADS * D_HEAD * sizeof(float)),
        .n_head = HEADS,
        .n_head_kv = 1,
        .d_head = D_HEAD,
        .kv_format = KV_BF16,
        .n_blocks = (CONTEXT + KV_BLOCK - 1) / KV_BLOCK,
        .scale = 0.1f};
    for (int way = 0; way < 2; way++) {
        simt_log_begin();
        if (way == 0)
            device->kernels->prompt(&a, device->stream);
        else
            assert_true(device->kernels->prompt_wgmma(&a, device->stream));
        launched();
        expect_ratio(way ? "prompt by a warpgroup" : "prompt by warps", 4ULL * CONTEXT * D_HEAD,
                     moved(a.kv.k, k.values, false) + moved(a.kv.v, k.values, false));
    }
}

/* The new token's keys and values; steps of int8 are two bytes in a sector of their own, and so is
 * the end of a row of no whole sectors. */
static void append(const struct attention_case *c, const struct cache_type *t)
{
    char what[80];
    struct cache k = open_cache(c, t);
    size_t width = (c->n_head + 2 * c->n_head_kv) * c->d_head;
    const struct heads_args g = {.step = k.step,
                                 .kv = k.layer,
                                 .qkv = upload_filled(0x3C, width * sizeof(float)),
                                 .inv_freq = upload_filled(0, c->d_head / 2 * sizeof(double)),
                                 .n_head = c->n_head,
                                 .n_head_kv = c->n_head_kv,
                                 .d_head = c->d_head,
                                 .n_rot = c->d_head,
                                 .kv_format = t->format};
    simt_log_begin();
    device->kernels->heads(&g, device->stream);
    launched();
    snprintf(what, sizeof what, "append %s, %u heads of %u", t->name, c->n_head_kv, c->d_head);
    expect_ratio(what, 2ULL * c->n_head_kv * c->d_head * t->bytes,
                 moved(g.kv.k, k.values, true) + moved(g.kv.v, k.values, true));
}

static void test_append(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ATTENTIONS / sizeof *ATTENTIONS; i++)
        for (size_t t = 0; t < N_KV_FORMATS && ATTENTIONS[i].d_head % 32 == 0; t++)
            append(&ATTENTIONS[i], &CACHES[t]);
}

static int begin(void **state)
{
    struct err e;
    const struct kern_options o = {.n_threads = 1, .max_tok = 1};
    (void)state;
    return device_open(&device, &o, &DEV_SIMT, &KERNELS_SIMT, &e);
}

static int end(void **state)
{
    (void)state;
    device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_append)};
    if (!simt_is_checked()) {
        puts("memory accesses are counted in the check build only: simt.traffic.check");
        return 77;
    }
    return cmocka_run_group_tests_name("kernels.simt.traffic", tests, begin, end);
}
