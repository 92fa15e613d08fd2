/* The tokens that head_draw gives against engine/sample's, of the same logits and numbers: all
 * knobs, alone and together, vocabularies of odd sizes and of 151,936; ties; broken rows; rows left
 * to the host beside drawn ones; in six orders of threads. Tokens, logprobs and alternatives are
 * equal, not close: near ties (kernels/draw.h) are one in 10^12 draws. MILEPOST_TEST_DRAW_SEEDS:
 * more random knobs, 19 rows each. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/sample/sampler.h"
#include "engine/sample/softmax.h"
#include "tests/kernels/simt/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 19, HISTORY = 300, LARGE = 300 }; /* rows: more than a slice */

struct row {
    struct params params;
    uint64_t seed, position;
    double u; /* in place of that of the seed; 0: of the seed */
    int32_t tokens[HISTORY];
    uint32_t n_prompt, n_output, n_top;
    bool on_host;
};

/* Row r of the logits is column r of the head, and row r of x is 1 there. */
struct bench {
    uint32_t n_vocab, n_row;
    struct row row[MAX_ROWS];
    float *logits, *got; /* [n_row, n_vocab] */
    struct kern_device *device;
    const struct kern_matrix *head;
    struct kern_buffer *x;
    struct kern_kv *kv;
    struct kern_draw draw[MAX_ROWS];
    struct kern_drawn drawn[MAX_ROWS];
};

static struct params neutral(double temperature)
{
    struct params p = {.set = (1u << PARAM_COUNT) - 1};
    p.v[PARAM_TEMPERATURE] = temperature;
    p.v[PARAM_TOP_P] = 1;
    p.v[PARAM_REPETITION_PENALTY] = 1;
    return p;
}

static double choose(struct rng *r, const double *values, uint32_t n)
{
    return values[rng_below(r, n)];
}

static void random_row(struct rng *r, struct row *w, uint32_t n_vocab)
{
    static const double TEMPERATURES[] = {0, 0.3, 1, 1, 1.7},
                        TOP_P[] = {1, 0.9, 0.5, 0.05, 0.9999, 0},
                        TOP_K[] = {0, 0, 1, 2, 40, 1000, 1e6}, MIN_P[] = {0, 0, 0.05, 0.5, 1},
                        REPETITION[] = {1, 1, 1.3, 0.8}, PENALTY[] = {0, 0, 0.5, -0.7};
    *w = (struct row){.params = neutral(choose(r, TEMPERATURES, 5)), .seed = rng_u64(r)};
    w->params.v[PARAM_TOP_P] = choose(r, TOP_P, 6);
    w->params.v[PARAM_TOP_K] = choose(r, TOP_K, 7);
    w->params.v[PARAM_MIN_P] = choose(r, MIN_P, 5);
    w->params.v[PARAM_REPETITION_PENALTY] = choose(r, REPETITION, 4);
    w->params.v[PARAM_PRESENCE_PENALTY] = choose(r, PENALTY, 4);
    w->params.v[PARAM_FREQUENCY_PENALTY] = choose(r, PENALTY, 4);
    w->position = rng_below(r, 1000);
    w->n_prompt = 1 + (uint32_t)rng_below(r, HISTORY / 2);
    w->n_output = (uint32_t)rng_below(r, HISTORY / 2);
    w->n_top = (uint32_t)rng_below(r, 3) * 10;
    w->n_top = w->n_top < n_vocab ? w->n_top : n_vocab;
    for (uint32_t i = 0; i < w->n_prompt + w->n_output; i++) /* some tokens often */
        w->tokens[i] = (int32_t)rng_below(r, rng_below(r, 2) ? n_vocab : n_vocab / 8 + 1);
}

static float random_logit(struct rng *r, uint32_t shape)
{
    double x = rng_normal(r);
    switch (shape) {
    case 0:
        return (float)(4 * x); /* as a model's */
    case 1:
        return (float)(0.01 * x); /* flat */
    case 2:
        return (float)((int)(2 * x)); /* many equal ones */
    case 3:
        return (float)(2 * x - 30); /* the likely ones below zero too */
    default:
        return x > 2.5 ? (float)(20 * x) : -1e30f; /* most have no chance */
    }
}

static void open_bench(struct bench *b, uint32_t n_vocab, uint32_t n_row)
{
    struct err e;
    const double inv_freq[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {.n_layer = 1,
                                          .n_head = 1,
                                          .n_head_kv = 1,
                                          .d_head = 8,
                                          .n_rot = 8,
                                          .n_rope = 1,
                                          .inv_freq = {inv_freq},
                                          .scale = 1,
                                          .n_blocks = 2,
                                          .max_position = 32};
    const struct kern_options o = {.n_threads = 1, .max_tok = MAX_ROWS};
    float *columns = calloc((size_t)n_vocab * n_row, sizeof *columns);
    b->n_vocab = n_vocab;
    b->n_row = n_row;
    b->got = calloc((size_t)n_vocab * n_row, sizeof *b->got);
    assert_non_null(columns);
    for (uint32_t r = 0; r < n_row; r++)
        for (uint32_t i = 0; i < n_vocab; i++)
            columns[(size_t)i * n_row + r] = b->logits[(size_t)r * n_vocab + i];
    const struct kern_part part = {DTYPE_F32, n_vocab, columns};
    assert_ok(TEST_KERN.open(&b->device, &o, &e), &e);
    assert_ok(TEST_KERN.matrix(b->device, n_row, &part, 1, &b->head, &e), &e);
    assert_ok(TEST_KERN.buffer(b->device, n_row, &b->x, &e), &e);
    assert_ok(TEST_KERN.kv(b->device, &shape, &b->kv, &e), &e);
    assert_ok(TEST_KERN.draws(b->device, n_vocab, NULL, MAX_ROWS, &e), &e);
    free(columns);
}

static void close_bench(struct bench *b)
{
    if (b->device)
        TEST_KERN.close(b->device);
    free(b->logits);
    free(b->got);
}

static void step(void *arg)
{
    struct bench *b = arg;
    float one[MAX_ROWS * MAX_ROWS] = {0};
    uint32_t row[MAX_ROWS], block[2] = {0, 1};
    const uint32_t *table = block, zero = 0;
    const int32_t token = 0;
    const struct kern_step s = {1, &token, &zero, &zero, &table};
    for (uint32_t r = 0; r < b->n_row; r++) {
        one[r * b->n_row + r] = 1;
        row[r] = r;
    }
    TEST_KERN.begin(b->device, &s, b->kv);
    TEST_KERN.write(b->device, b->x, one, b->n_row);
    TEST_KERN.head_draw(b->device, b->x, b->n_row, row, NULL, b->head, b->draw, b->drawn, b->got);
}

static void fill_draws(struct bench *b)
{
    for (uint32_t r = 0; r < b->n_row; r++) {
        const struct row *w = &b->row[r];
        const double *v = w->params.v;
        b->draw[r] =
            (struct kern_draw){.on_host = w->on_host,
                               .scale = sampler_scale(&w->params),
                               .top_k = sampler_top_k(&w->params),
                               .n_top = w->n_top,
                               .repetition = (float)v[PARAM_REPETITION_PENALTY],
                               .presence = v[PARAM_PRESENCE_PENALTY],
                               .frequency = v[PARAM_FREQUENCY_PENALTY],
                               .top_p = v[PARAM_TOP_P],
                               .min_p = v[PARAM_MIN_P],
                               .u = w->u > 0 ? w->u : sampler_uniform(w->seed, w->position),
                               .tokens = sampler_has_penalties(&w->params) ? w->tokens : NULL,
                               .n_prompt = w->n_prompt,
                               .n_output = w->n_output};
    }
    memset(b->drawn, 0xAB, sizeof b->drawn);
}

static void assert_no_reports(void)
{
    char text[300];
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s", text);
}

static void draw_all(struct bench *b)
{
    struct err e;
    fill_draws(b);
    assert_ok(TEST_KERN.run(b->device, step, b, &e), &e);
    assert_no_reports();
}

static void *to_device(const void *from, size_t n, struct dev_stream *s)
{
    void *p = TEST_DEV.alloc(n);
    assert_non_null(p);
    TEST_DEV.copy(p, from, n, DEV_TO_DEVICE, s);
    return p;
}

/* The kernel alone: a head for a large vocabulary takes the emulator long. */
static void draw_by_kernel(struct bench *b)
{
    struct err e;
    struct dev_stream *s = TEST_DEV.stream_open();
    size_t n = (size_t)b->n_vocab * b->n_row, blocks = (b->n_vocab / DRAW_BLOCK + 1) * b->n_row;
    struct draw_row rows[MAX_ROWS];
    int32_t history[MAX_ROWS * HISTORY] = {0};
    fill_draws(b);
    for (uint32_t r = 0; r < b->n_row; r++) {
        const struct kern_draw *w = &b->draw[r];
        rows[r] = (struct draw_row){
            w->scale,          w->repetition, 0,           w->top_k,    w->n_top,
            w->tokens != NULL, r * HISTORY,   w->n_prompt, w->n_output, w->presence,
            w->frequency,      w->top_p,      w->min_p,    w->u};
        memcpy(history + r * HISTORY, b->row[r].tokens, sizeof b->row[r].tokens);
    }
    void *memory[] = {
        to_device(b->logits, n * sizeof(float), s), to_device(rows, sizeof rows, s),
        to_device(history, sizeof history, s),      TEST_DEV.alloc(sizeof b->drawn),
        TEST_DEV.alloc(n * sizeof(float)),          TEST_DEV.alloc(n * sizeof(uint64_t)),
        TEST_DEV.alloc(n * sizeof(uint32_t)),       TEST_DEV.alloc(blocks * sizeof(float)),
        TEST_DEV.alloc(blocks * sizeof(double))};
    const struct draw_args a = {.logits = memory[0],
                                .row = memory[1],
                                .history = memory[2],
                                .out = memory[3],
                                .weight = memory[4],
                                .key = memory[5],
                                .count = memory[6],
                                .most = memory[7],
                                .sum = memory[8],
                                .n_vocab = b->n_vocab,
                                .n_row = b->n_row};
    TEST_DEV.fill(memory[6], 0, n * sizeof(uint32_t), s);
    TEST_KERNELS.draw(&a, s);
    TEST_DEV.copy(b->drawn, memory[3], b->n_row * sizeof *b->drawn, DEV_TO_HOST, s);
    assert_ok(TEST_DEV.sync(s, &e), &e);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        TEST_DEV.release(memory[i]);
    TEST_DEV.stream_close(s);
    assert_no_reports();
}

static void check_row(const struct bench *b, struct sampler *s, uint32_t r)
{
    struct err e;
    const struct row *w = &b->row[r];
    const struct kern_drawn *got = &b->drawn[r];
    const float *logits = b->logits + (size_t)r * b->n_vocab;
    struct sample_result want;
    const struct sample_spec spec = {.params = &w->params,
                                     .seed = w->seed,
                                     .position = w->position,
                                     .prompt = w->tokens,
                                     .n_prompt = w->n_prompt,
                                     .output = w->tokens + w->n_prompt,
                                     .n_output = w->n_output,
                                     .n_top = w->n_top};
    assert_ok(sampler_draw(s, logits, &spec, &want, &e), &e);
    if (got->token != want.token)
        fail_msg("row %u of %u: token %d, on the host %d (T %g, top_k %g, top_p %g, min_p %g)", r,
                 b->n_vocab, got->token, want.token, w->params.v[PARAM_TEMPERATURE],
                 w->params.v[PARAM_TOP_K], w->params.v[PARAM_TOP_P], w->params.v[PARAM_MIN_P]);
    double log_sum = (double)got->largest + log(got->total);
    assert_true((float)((double)got->logit - log_sum) == want.logprob);
    if (b->n_vocab <= SOFTMAX_BLOCK) /* of one block, the host's sum */
        assert_true(got->total ==
                    softmax_select()->exp_all(logits, b->n_vocab, got->largest, 1, NULL, NULL));
    assert_int_equal(got->n_top, want.n_top);
    for (uint32_t i = 0; i < want.n_top; i++) {
        assert_int_equal(got->top[i], want.top[i].token);
        assert_true((float)((double)got->top_logit[i] - log_sum) == want.top[i].logprob);
    }
}

static void check_size(uint32_t n_vocab, uint32_t n_row, uint32_t n_orders, uint64_t seed)
{
    struct bench b = {.n_vocab = n_vocab, .n_row = n_row};
    struct rng r;
    struct err e;
    struct sampler *s;
    rng_seed(&r, seed);
    b.logits = calloc((size_t)n_vocab * n_row, sizeof *b.logits);
    assert_non_null(b.logits);
    for (uint32_t row = 0; row < n_row; row++) {
        uint32_t shape = (uint32_t)rng_below(&r, 5);
        random_row(&r, &b.row[row], n_vocab);
        for (uint32_t i = 0; i < n_vocab; i++)
            b.logits[(size_t)row * n_vocab + i] = random_logit(&r, shape);
        b.logits[(size_t)row * n_vocab + rng_below(&r, n_vocab)] =
            shape == 3 ? -28 : 1; /* never nothing */
    }
    if (n_vocab <= LARGE)
        open_bench(&b, n_vocab, n_row);
    assert_ok(sampler_open(&s, n_vocab, &e), &e);
    for (unsigned order = 0; order < n_orders; order++) {
        simt_set_order(order);
        if (n_vocab <= LARGE)
            draw_all(&b);
        else
            draw_by_kernel(&b);
        for (uint32_t row = 0; row < n_row; row++)
            check_row(&b, s, row);
    }
    sampler_close(s);
    close_bench(&b);
}

static void test_sizes(void **state)
{
    static const uint32_t SIZES[] = {257, 1, 2, 17, 255, 15, 4099, 1000};
    (void)state;
    for (uint32_t i = 0; i < sizeof SIZES / sizeof *SIZES; i += simt_is_checked() ? 3 : 1)
        check_size(SIZES[i], simt_is_checked() ? 1 : 2, SIMT_ORDERS, 11 + i);
}

static void test_real_vocabularies(void **state)
{
    (void)state;
    check_size(simt_is_checked() ? 20011 : 151936, simt_is_checked() ? 1 : 4, 1, 7);
    if (!simt_is_checked()) /* past what one pass over the blocks of a row covers */
        check_size(DRAW_MAX_VOCAB, 1, 1, 8);
}

static void test_many_knobs(void **state)
{
    (void)state;
    const char *more = getenv("MILEPOST_TEST_DRAW_SEEDS");
    uint64_t n_seeds = more ? strtoull(more, NULL, 10) : simt_is_checked() ? 1 : 3;
    for (uint64_t seed = 100; seed < 100 + n_seeds; seed++)
        check_size(700 + (uint32_t)seed, simt_is_checked() ? 5 : MAX_ROWS, 1, seed);
}

/* The head is F32, so each bench has one row. Greedy, all tokens, filtered. */
static void check_broken(uint32_t kind, uint32_t way)
{
    enum { N = 260 };
    struct bench b = {.logits = calloc(N, sizeof *b.logits)};
    assert_non_null(b.logits);
    b.row[0] =
        (struct row){.params = neutral(way > 0 ? 0.7 : 0), .n_top = way > 0 ? 0 : DRAW_MAX_TOP};
    if (way == 2) {
        b.row[0].params.v[PARAM_TOP_K] = 40;
        b.row[0].params.v[PARAM_TOP_P] = 0.9;
    }
    for (uint32_t i = 0; i < N; i++)
        b.logits[i] = kind == 0 || (kind == 3 && i < N - 10) ? NAN : kind == 1 ? -INFINITY : 1;
    b.logits[258] = kind == 2 ? INFINITY : b.logits[258];
    for (uint32_t i = 0; i < 256 && kind == 4;
         i++) /* fewer values than n_top, the best ones alone */
        b.logits[i] = i == 77 ? 0 : NAN;
    open_bench(&b, N, 1);
    draw_all(&b);
    assert_false(isfinite((double)b.drawn[0].largest + log(b.drawn[0].total)));
    close_bench(&b);
}

/* NaN in a row, a row of nothing, an infinite logit: no finite total, and no access out of bounds.
 */
static void test_broken_rows(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 15; i++)
        check_broken(i % 5, i / 5);
}

/* Weights of a row, as the host computes them. */
static void weigh(const float *logits, uint32_t n, float *weight)
{
    const struct softmax_ops *ops = softmax_select();
    ops->exp_all(logits, n, ops->max(logits, n), 1, weight, NULL);
}

/* min_p is the weight of half of the tokens: they stay. */
static void test_weight_at_the_limit(void **state)
{
    enum { N = 400 };
    struct bench b = {.n_vocab = N, .n_row = simt_is_checked() ? 4 : MAX_ROWS};
    struct sampler *s;
    struct err e;
    float weight[N];
    (void)state;
    b.logits = calloc(N * MAX_ROWS, sizeof *b.logits);
    assert_non_null(b.logits);
    for (uint32_t i = 0; i < N * MAX_ROWS; i++)
        b.logits[i] = i % N == 7 ? 1 : i % 2 ? 0.25f : -1;
    weigh(b.logits, N, weight);
    for (uint32_t r = 0; r < b.n_row; r++) {
        b.row[r] = (struct row){.params = neutral(1), .seed = r};
        b.row[r].params.v[PARAM_MIN_P] = (double)weight[1];
    }
    assert_ok(sampler_open(&s, N, &e), &e);
    draw_by_kernel(&b);
    for (uint32_t r = 0; r < b.n_row; r++) {
        check_row(&b, s, r);
        assert_int_equal(b.drawn[r].token % 2, 1);
    }
    sampler_close(s);
    close_bench(&b);
}

/* The largest u takes the last token that has a chance, however sums are rounded: with min_p one
 * whose weight is less than what the rounded total lacks. */
static void test_largest_number(void **state)
{
    enum { N = 1000, N_CHANCE = 950, UNLIKELY = 300 };
    struct bench b = {.n_vocab = N, .n_row = simt_is_checked() ? 4 : MAX_ROWS};
    struct rng rng;
    float weight[N];
    (void)state;
    rng_seed(&rng, 5);
    b.logits = calloc(N * MAX_ROWS, sizeof *b.logits);
    assert_non_null(b.logits);
    for (uint32_t i = 0; i < N * MAX_ROWS; i++)
        b.logits[i] = i % N < N_CHANCE ? random_logit(&rng, 1) : -1e30f;
    for (uint32_t r = 0; r < b.n_row; r++) {
        double *v = b.row[r].params.v;
        b.row[r] = (struct row){.params = neutral(1), .u = nextafter(1, 0)};
        v[PARAM_TOP_K] = r % 4 == 1 ? N - 20 : 0;
        v[PARAM_TOP_P] = r % 4 == 2 ? nextafter(1, 0) : 1;
        v[PARAM_MIN_P] = r % 4 == 3 ? 1e-7 : 0;
        if (r % 4 == 3)
            b.logits[(size_t)r * N + UNLIKELY] = -14;
    }
    draw_by_kernel(&b);
    for (uint32_t r = 0; r < b.n_row; r++) {
        uint32_t want = N_CHANCE - 1; /* in the order of ids, else of weights */
        weigh(b.logits + (size_t)r * N, N, weight);
        for (uint32_t i = N_CHANCE; i-- > 0 && r % 4 > 0;)
            want = weight[i] < weight[want] ? i : want;
        assert_int_equal(b.drawn[r].token, want);
    }
    close_bench(&b);
}

static void test_rows_left_to_the_host(void **state)
{
    struct bench b = {.logits = calloc(MAX_ROWS * 300, sizeof *b.logits)};
    struct rng r;
    (void)state;
    rng_seed(&r, 3);
    for (uint32_t row = 0; row < MAX_ROWS; row++) {
        b.row[row] = (struct row){.params = neutral(0), .on_host = row % 3 == 1};
        for (uint32_t i = 0; i < 300; i++)
            b.logits[row * 300 + i] = random_logit(&r, 0);
    }
    open_bench(&b, 300, MAX_ROWS);
    for (size_t i = 0; i < MAX_ROWS * 300; i++)
        b.got[i] = -77;
    draw_all(&b);
    for (uint32_t row = 0; row < MAX_ROWS; row++) {
        assert_true((b.drawn[row].token == -1) == b.row[row].on_host);
        for (uint32_t i = 0; i < 300; i++)
            assert_true(b.got[row * 300 + i] ==
                        (b.row[row].on_host ? b.logits[row * 300 + i] : -77));
    }
    close_bench(&b);
}

static void test_vocabulary_refused(void **state)
{
    struct err e;
    struct kern_device *d;
    const struct kern_options o = {.n_threads = 1, .max_tok = 1};
    (void)state;
    assert_ok(TEST_KERN.open(&d, &o, &e), &e);
    assert_int_equal(TEST_KERN.draws(d, DRAW_MAX_VOCAB + 1, NULL, 1, &e), ERR_UNSUPPORTED);
    TEST_KERN.close(d);
    assert_null(KERN_CPU.draws);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_real_vocabularies),
                                       cmocka_unit_test(test_many_knobs),
                                       cmocka_unit_test(test_broken_rows),
                                       cmocka_unit_test(test_weight_at_the_limit),
                                       cmocka_unit_test(test_largest_number),
                                       cmocka_unit_test(test_rows_left_to_the_host),
                                       cmocka_unit_test(test_vocabulary_refused)};
    return cmocka_run_group_tests_name("kernels.simt.draw", tests, NULL, NULL);
}
