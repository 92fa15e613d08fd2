/* Two steps under way on a device whose calls are noted: what a step needs is launched without
 * waiting for the one before, whose tokens it takes from the device; and the tokens are those of
 * one step after the other. Embedding and head only: the rest is in tests/generator. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/cuda/device.h"
#include "tests/harness/tiny_model.h"
#include "tests/kernels/simt/device.h"

#include <stdlib.h>
#include <string.h>

enum { N_VOCAB = 96, WIDTH = 32, N_SEQ = 3, N_STEPS = 7, PROMPT = 5, MAX_NOTES = 400 };

/* 'c' copy, 'g' graph, 'r' record, 'w' wait of the host; 's' and 'f' around start and finish. */
static struct {
    char note[MAX_NOTES];
    size_t n;
} notes;

static void put(char what)
{
    assert_true(notes.n + 1 < MAX_NOTES);
    notes.note[notes.n++] = what;
    notes.note[notes.n] = '\0';
}

static int noted_sync(struct dev_stream *s, struct err *e)
{
    put('w');
    return TEST_DEV.sync(s, e);
}

static int noted_await(struct dev_event *v, struct err *e)
{
    put('w');
    return TEST_DEV.await(v, e);
}

static void noted_copy(void *dst, const void *src, size_t n, enum dev_copy kind,
                       struct dev_stream *s)
{
    put('c');
    TEST_DEV.copy(dst, src, n, kind, s);
}

static void noted_record(struct dev_event *v, struct dev_stream *s)
{
    put('r');
    TEST_DEV.record(v, s);
}

static void noted_launch(struct dev_graph *g, struct dev_stream *s)
{
    put('g');
    TEST_DEV.graph_launch(g, s);
}

struct bench {
    struct dev_ops dev;
    struct kern_device *d;
    const struct kern_matrix *w;
    struct kern_buffer *x;
    struct kern_kv *kv;
    uint32_t step;
    int32_t first[N_SEQ];
    int32_t history[N_SEQ][PROMPT + N_STEPS]; /* the last one may be a row of the step before */
    struct kern_drawn drawn[N_STEPS][N_SEQ];
    float logits[N_SEQ * N_VOCAB];
    bool is_ahead;
};

/* Row r of step k belongs to sequence (r + k) % 3, so that rows and sequences differ. */
static uint32_t row_of(uint32_t seq, uint32_t step)
{
    return (seq + 2 * step) % N_SEQ;
}

static int32_t next_token(const struct bench *b, uint32_t seq)
{
    uint32_t row = b->step ? row_of(seq, b->step - 1) : 0;
    if (b->step == 0)
        return b->first[seq];
    return b->is_ahead ? -1 - (int32_t)row : b->drawn[b->step - 1][row].token;
}

static void one_step(void *arg)
{
    struct bench *b = arg;
    int32_t token[N_SEQ];
    uint32_t position[N_SEQ], seq[N_SEQ], row[N_SEQ], block[N_SEQ];
    const uint32_t *table[N_SEQ];
    struct kern_draw draw[N_SEQ];
    for (uint32_t s = 0; s < N_SEQ; s++) {
        token[s] = next_token(b, s);
        b->history[s][PROMPT + b->step] = token[s];
        position[s] = b->step;
        seq[s] = s;
        block[s] = s;
        table[s] = &block[s];
        row[row_of(s, b->step)] = s;
        draw[row_of(s, b->step)] = (struct kern_draw){.scale = s ? 1 : 0,
                                                      .repetition = 1.5f,
                                                      .presence = 0.5,
                                                      .top_p = 1,
                                                      .u = (b->step * 0.31 + s * 0.4) / 3,
                                                      .tokens = b->history[s],
                                                      .n_prompt = PROMPT,
                                                      .n_output = b->step + 1};
    }
    const struct kern_step work = {N_SEQ, token, position, seq, table};
    device_begin(b->d, &work, b->kv);
    device_embed(b->d, b->w, 1, b->x);
    device_head_draw(b->d, b->x, N_SEQ, row, NULL, b->w, draw, b->drawn[b->step], b->logits);
    memset(token, 0xEE, sizeof token); /* all of it may go */
    memset(row, 0xEE, sizeof row);
    memset(draw, 0xEE, sizeof draw);
}

static void open_bench(struct bench *b, bool is_ahead, bool has_fp8)
{
    static const double INV_FREQ[4] = {1, 1, 1, 1};
    const struct kern_attn_shape shape = {.n_layer = 1,
                                          .n_head = 1,
                                          .n_head_kv = 1,
                                          .d_head = 8,
                                          .n_rot = 8,
                                          .n_rope = 1,
                                          .inv_freq = {INV_FREQ},
                                          .scale = 1,
                                          .n_blocks = N_SEQ,
                                          .max_position = 16};
    const struct kern_options o = {
        .n_threads = 1, .max_tok = N_SEQ, .has_graphs = true, .has_fp8_weights = has_fp8};
    const uint32_t dtype = has_fp8 ? DTYPE_BF16 : DTYPE_F32;
    struct buf weights;
    struct err e;
    struct rng r;
    rng_seed(&r, 5);
    *b = (struct bench){.dev = TEST_DEV, .is_ahead = is_ahead};
    b->dev.sync = noted_sync;
    b->dev.await = noted_await;
    b->dev.copy = noted_copy;
    b->dev.record = noted_record;
    b->dev.graph_launch = noted_launch;
    notes.n = 0;
    buf_init(&weights, MiB);
    tiny_random_blocks(&r, dtype, N_VOCAB * WIDTH, 1, &weights);
    assert_false(weights.failed);
    for (uint32_t s = 0; s < N_SEQ; s++) {
        b->first[s] = 10 + (int32_t)s;
        for (uint32_t i = 0; i < PROMPT; i++)
            b->history[s][i] = (int32_t)rng_below(&r, N_VOCAB);
    }
    const struct kern_part part = {dtype, N_VOCAB, weights.p};
    assert_ok(device_open(&b->d, &o, &b->dev, &TEST_KERNELS, &e), &e);
    assert_ok(device_matrix(b->d, WIDTH, &part, 1, &b->w, &e), &e);
    assert_ok(device_buffer(b->d, WIDTH, &b->x, &e), &e);
    assert_ok(device_kv(b->d, &shape, &b->kv, &e), &e);
    assert_ok(device_draws(b->d, N_VOCAB, NULL, N_SEQ, &e), &e);
    buf_free(&weights);
    notes.n = 0;
}

static void start(struct bench *b)
{
    struct err e;
    put('s');
    assert_ok(device_start(b->d, one_step, b, &e), &e);
    put('s');
    b->step++;
}

static void finish(struct bench *b)
{
    struct err e;
    put('f');
    assert_ok(device_finish(b->d, &e), &e);
}

/* Histories hold what was drawn, once it is known. */
static void learn(struct bench *b, uint32_t step)
{
    for (uint32_t s = 0; s < N_SEQ && step + 1 < b->step; s++)
        b->history[s][PROMPT + step + 1] = b->drawn[step][row_of(s, step)].token;
}

static void run_all(struct bench *b)
{
    char text[300];
    for (uint32_t k = 0; k < N_STEPS; k++) {
        start(b);
        if (b->is_ahead && k == 0)
            continue;
        finish(b);
        learn(b, b->is_ahead ? k - 1 : k);
    }
    if (b->is_ahead)
        finish(b);
    if (simt_take_reports(text, sizeof text))
        fail_msg("%s", text);
}

/* Nothing waits inside start, and finish waits once. */
static void check_notes(void)
{
    uint32_t n_waits = 0, n_graphs = 0;
    bool is_inside = false;
    for (const char *c = notes.note; *c; c++) {
        is_inside = *c == 's' ? !is_inside : is_inside;
        n_waits += *c == 'w';
        n_graphs += *c == 'g';
        if (*c == 'w' && (is_inside || c[-1] != 'f'))
            fail_msg("a wait outside finish: %s", notes.note);
    }
    assert_int_equal(n_waits, N_STEPS);
    assert_int_equal(n_graphs, N_STEPS);
}

static void check_ahead(bool has_fp8)
{
    static struct bench plain, ahead;
    for (unsigned order = 0; order < SIMT_ORDERS; order += has_fp8 || simt_is_checked() ? 4 : 1) {
        simt_set_order(order);
        open_bench(&plain, false, has_fp8);
        run_all(&plain);
        check_notes();
        device_close(plain.d);
        open_bench(&ahead, true, has_fp8);
        run_all(&ahead);
        check_notes();
        assert_memory_equal(notes.note, "sc", 2);
        const char *waited = strchr(notes.note, 'w'), *second = strchr(notes.note + 1, 's') + 1;
        assert_true(second[0] == 's' && strchr(second + 1, 's') < waited); /* two begun by then */
        device_close(ahead.d);
        for (uint32_t k = 0; k < N_STEPS; k++)
            for (uint32_t r = 0; r < N_SEQ; r++) {
                assert_int_equal(plain.drawn[k][r].token, ahead.drawn[k][r].token);
                assert_true(plain.drawn[k][r].logit == ahead.drawn[k][r].logit);
            }
    }
}

static void test_ahead(void **state)
{
    (void)state;
    check_ahead(false);
}

/* Whose rows have a step each, that of an embedding too. */
static void test_ahead_with_fp8_weights(void **state)
{
    (void)state;
    check_ahead(true);
}

static void test_two_at_most(void **state)
{
    static struct bench b;
    struct err e;
    (void)state;
    open_bench(&b, true, false);
    start(&b);
    start(&b);
    assert_int_equal(device_start(b.d, one_step, &b, &e), ERR_BUG);
    finish(&b);
    finish(&b);
    device_close(b.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ahead),
                                       cmocka_unit_test(test_ahead_with_fp8_weights),
                                       cmocka_unit_test(test_two_at_most)};
    return cmocka_run_group_tests_name("kernels.simt.overlap", tests, NULL, NULL);
}
