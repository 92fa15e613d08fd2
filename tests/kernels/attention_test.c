/* Attention over sections: sequences with a common beginning give the same bits whether they share
 * its blocks or hold copies, alone or together, token by token or as a run, on any number of
 * threads; and what the reference gives, within the rounding of the KV cache. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQ = 5, BLOCKS = 22, POSITIONS = BLOCKS * KERN_BLOCK_TOKENS, SHARED_BLOCKS = 17 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KV_HEADS = 1, D_HEAD = 16 };
#else
enum { KV_HEADS = 2, D_HEAD = 32 };
#endif
enum { HEADS = 3 * KV_HEADS, WIDTH = (HEADS + 2 * KV_HEADS) * D_HEAD };
enum { OUT = HEADS * D_HEAD, CHUNK = 32, LAST = 3 /* positions that are compared */ };

/* First position past the end of each sequence: in the shared beginning, at its end, past it. */
static const uint32_t LENGTH[N_SEQ] = {300, 257, 352, 130, 272};

struct cache {
    const struct kern_ops *ops;
    struct kern_device *d;
    struct kern_kv *kv;
    struct kern_buffer *qkv, *out;
    struct kern_attn_layer layer;
    uint32_t table[N_SEQ][BLOCKS];
    const uint32_t *tables[N_SEQ];
    int32_t token[N_SEQ * CHUNK];
    uint32_t position[N_SEQ * CHUNK], seq[N_SEQ * CHUNK];
    struct kern_step step;
    float result[N_SEQ * CHUNK * OUT];
};

struct flavour {
    const struct kern_ops *ops;
    const char *instruction_set;
};

/* The same for every sequence in the common beginning. */
static void make_row(uint32_t seq, uint32_t position, float *row)
{
    struct rng r;
    uint32_t owner = position < SHARED_BLOCKS * KERN_BLOCK_TOKENS ? N_SEQ : seq;
    rng_seed(&r, (uint64_t)owner * 10007 + position);
    for (uint32_t i = 0; i < WIDTH; i++)
        row[i] = (float)rng_normal(&r);
}

static void step_body(void *arg)
{
    struct cache *c = arg;
    static float rows[N_SEQ * CHUNK][WIDTH];
    for (uint32_t t = 0; t < c->step.n_tok; t++)
        make_row(c->seq[t], c->position[t], rows[t]);
    c->ops->begin(c->d, &c->step, c->kv);
    c->ops->write(c->d, c->qkv, rows[0], c->step.n_tok);
    c->ops->attention(c->d, &c->layer, c->qkv, c->out);
    c->ops->read(c->d, c->out, c->result, c->step.n_tok);
}

static void clear(struct cache *c)
{
    c->step = (struct kern_step){0, c->token, c->position, c->seq, c->tables};
}

static void put(struct cache *c, uint32_t seq, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, c->step.n_tok++) {
        c->position[c->step.n_tok] = from + i;
        c->seq[c->step.n_tok] = seq;
    }
}

static void run(struct cache *c)
{
    struct err e;
    assert_ok(c->ops->run(c->d, step_body, c, &e), &e);
}

/* Everything but the last positions, in chunks; blocks of the beginning once or for each. */
static void write_history(struct cache *c, bool shares)
{
    for (uint32_t s = 0; s < N_SEQ; s++) {
        c->tables[s] = c->table[s];
        for (uint32_t i = 0; i < BLOCKS; i++)
            c->table[s][i] = (shares && i < SHARED_BLOCKS ? 0 : s) * BLOCKS + (i * 5) % BLOCKS;
        for (uint32_t p = 0, n; p < LENGTH[s] - LAST; p += n) {
            n = LENGTH[s] - LAST - p < CHUNK ? LENGTH[s] - LAST - p : CHUNK;
            clear(c);
            put(c, s, p, n);
            run(c);
        }
    }
}

/* False when this machine lacks the instruction set. */
static bool open_cache(struct cache *c, const struct flavour *f, uint32_t threads,
                       enum kern_kv_type type, uint32_t window)
{
    static double inv_freq[D_HEAD / 2];
    struct err e;
    const struct kern_options o = {
        .n_threads = threads, .max_tok = N_SEQ * CHUNK, .instruction_set = f->instruction_set};
    for (uint32_t i = 0; i < D_HEAD / 2; i++)
        inv_freq[i] = pow(10000.0, -2.0 * i / D_HEAD);
    const struct kern_attn_shape shape = {.n_layer = 1,
                                          .n_head = HEADS,
                                          .n_head_kv = KV_HEADS,
                                          .d_head = D_HEAD,
                                          .n_rot = D_HEAD,
                                          .n_rope = 1,
                                          .inv_freq = {inv_freq},
                                          .scale = 0.25f,
                                          .n_blocks = N_SEQ * BLOCKS,
                                          .max_position = POSITIONS,
                                          .kv_type = type};
    *c = (struct cache){.ops = f->ops, .layer = {.window = window}};
    int rc = c->ops->open(&c->d, &o, &e);
    if (rc == ERR_UNSUPPORTED)
        return false;
    assert_ok(rc, &e);
    assert_ok(c->ops->buffer(c->d, WIDTH, &c->qkv, &e), &e);
    assert_ok(c->ops->buffer(c->d, OUT, &c->out, &e), &e);
    assert_ok(c->ops->kv(c->d, &shape, &c->kv, &e), &e);
    return true;
}

struct results { /* [sequence][one of the last positions][.] */
    float y[N_SEQ][LAST][OUT];
};

/* Each of the last positions as a step of its own, all sequences together or one by one. */
static void decode(struct cache *c, bool together, struct results *out)
{
    for (uint32_t k = 0; k < LAST; k++) {
        for (uint32_t first = 0; first < N_SEQ; first += together ? N_SEQ : 1) {
            uint32_t n = together ? N_SEQ : 1;
            clear(c);
            for (uint32_t s = first; s < first + n; s++)
                put(c, s, LENGTH[s] - LAST + k, 1);
            run(c);
            for (uint32_t i = 0; i < n; i++)
                memcpy(out->y[first + i][k], c->result + (size_t)i * OUT, sizeof out->y[0][0]);
        }
    }
}

/* The last positions of all sequences as runs of one step. */
static void prefill(struct cache *c, struct results *out)
{
    clear(c);
    for (uint32_t s = 0; s < N_SEQ; s++)
        put(c, s, LENGTH[s] - LAST, LAST);
    run(c);
    memcpy(out, c->result, sizeof *out);
}

static void expect_same(const struct results *got, const struct results *want, const char *how,
                        const struct flavour *f)
{
    for (uint32_t s = 0; s < N_SEQ; s++)
        for (uint32_t k = 0; k < LAST; k++)
            if (memcmp(got->y[s][k], want->y[s][k], sizeof got->y[s][k]) != 0)
                fail_msg("%s: %s: sequence %u, position %u differs", f->instruction_set, how, s,
                         LENGTH[s] - LAST + k);
}

static double distance(const struct results *got, const struct results *want)
{
    const float *a = &got->y[0][0][0], *b = &want->y[0][0][0];
    double most = 0, squares = 0;
    for (size_t i = 0; i < N_SEQ * LAST * OUT; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        squares += (double)b[i] * (double)b[i];
    }
    return most / sqrt(squares / (N_SEQ * LAST * OUT));
}

static void check(const struct flavour *f, enum kern_kv_type type, uint32_t window,
                  const struct results *truth)
{
    static struct cache c;
    static struct results want, got;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        if (!open_cache(&c, f, threads, type, window)) {
            print_message("%s is not on this machine\n", f->instruction_set);
            return;
        }
        write_history(&c, false);
        decode(&c, false, threads == 1 ? &want : &got);
        double off = distance(&want, truth);
        if (!(off < 1e-2))
            fail_msg("%s, KV type %d, window %u: off by %.2e", f->instruction_set, (int)type,
                     window, off);
        if (threads > 1)
            expect_same(&got, &want, "two threads", f);
        decode(&c, true, &got);
        expect_same(&got, &want, "together", f);
        prefill(&c, &got);
        expect_same(&got, &want, "as runs", f);
        write_history(&c, true);
        decode(&c, true, &got);
        expect_same(&got, &want, "shared blocks", f);
        f->ops->close(c.d);
    }
}

static void check_all(enum kern_kv_type type, uint32_t window)
{
    static const struct flavour REFERENCE = {&KERN_REF, NULL};
    static const struct flavour FLAVOURS[] = {{&KERN_CPU, "avx512"},
                                              {&KERN_CPU, "avx512zen"},
                                              {&KERN_CPU, "avxvnni"},
                                              {&KERN_CPU, "avx2"},
                                              {&KERN_CPU, "plain"}};
    static struct cache c;
    static struct results truth;
    assert_true(open_cache(&c, &REFERENCE, 0, type, window));
    write_history(&c, false);
    decode(&c, true, &truth);
    c.ops->close(c.d);
    for (size_t i = 0; i < sizeof FLAVOURS / sizeof *FLAVOURS; i++)
        check(&FLAVOURS[i], type, window, &truth);
}

static void test_f16(void **state)
{
    (void)state;
    check_all(KERN_KV_F16, 0);
}

static void test_int8(void **state)
{
    (void)state;
    check_all(KERN_KV_INT8, 0);
}

static void test_window(void **state)
{
    (void)state;
    check_all(KERN_KV_F16, 20);
    check_all(KERN_KV_INT8, 150);
}

/* SmolLM2's shape: bytes and two scales where f16 has two bytes. */
static void test_int8_holds_more(void **state)
{
    struct kern_attn_shape s = {.n_layer = 30, .n_head_kv = 3, .d_head = 64};
    (void)state;
    size_t half = KERN_CPU.kv_block_bytes(&s);
    s.kv_type = KERN_KV_INT8;
    assert_true((double)half / (double)KERN_CPU.kv_block_bytes(&s) >= 1.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f16), cmocka_unit_test(test_int8),
                                       cmocka_unit_test(test_window),
                                       cmocka_unit_test(test_int8_holds_more)};
    return cmocka_run_group_tests_name("kernels.attention", tests, NULL, NULL);
}
