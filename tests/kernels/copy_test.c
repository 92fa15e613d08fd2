/* Copies of KV blocks on every backend of this machine: attention over the copies gives the bits it
 * gives over the originals, whatever is written to these later, and what the reference gives. */
#include "common/test.h"

#include "common/rng.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { N_LAYER = 3, HEADS = 4, KV_HEADS = 2, D_HEAD = 16, N_BLOCKS = 9, HISTORY = 2 };
enum { WIDTH = (HEADS + 2 * KV_HEADS) * D_HEAD, OUT = HEADS * D_HEAD };
enum { N_PAST = HISTORY * KERN_BLOCK_TOKENS };

struct cache {
    const struct kern_ops *ops;
    struct kern_device *d;
    struct kern_kv *kv;
    struct kern_buffer *qkv, *out;
};

static void open_cache(struct cache *c, const struct kern_ops *ops, enum kern_kv_type type)
{
    static const double INV_FREQ[D_HEAD / 2] = {1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003};
    struct err e;
    const struct kern_options o = {.n_threads = 1, .max_tok = N_PAST};
    const struct kern_attn_shape shape = {.n_layer = N_LAYER,
                                          .n_head = HEADS,
                                          .n_head_kv = KV_HEADS,
                                          .d_head = D_HEAD,
                                          .n_rot = D_HEAD,
                                          .n_rope = 1,
                                          .inv_freq = {INV_FREQ},
                                          .scale = 0.25f,
                                          .n_blocks = N_BLOCKS,
                                          .max_position = N_BLOCKS * KERN_BLOCK_TOKENS,
                                          .kv_type = type};
    *c = (struct cache){.ops = ops};
    assert_ok(ops->open(&c->d, &o, &e), &e);
    assert_ok(ops->buffer(c->d, WIDTH, &c->qkv, &e), &e);
    assert_ok(ops->buffer(c->d, OUT, &c->out, &e), &e);
    assert_ok(ops->kv(c->d, &shape, &c->kv, &e), &e);
}

/* Positions from..from+n of a sequence on `table`, rows by `seed`, in every layer. */
struct work {
    struct cache *c;
    const uint32_t *table;
    uint32_t from, n;
    uint64_t seed;
    float y[N_LAYER][N_PAST * OUT];
};

static void work_body(void *arg)
{
    struct work *w = arg;
    struct cache *c = w->c;
    static const int32_t token[N_PAST];
    static const uint32_t seq[N_PAST];
    static float row[N_PAST * WIDTH];
    uint32_t position[N_PAST];
    struct rng r;
    rng_seed(&r, w->seed);
    for (uint32_t t = 0; t < w->n; t++)
        position[t] = w->from + t;
    const struct kern_step step = {w->n, token, position, seq, &w->table};
    c->ops->begin(c->d, &step, c->kv);
    for (uint32_t l = 0; l < N_LAYER; l++) {
        const struct kern_attn_layer layer = {.index = l};
        for (uint32_t i = 0; i < w->n * WIDTH; i++)
            row[i] = (float)rng_normal(&r);
        c->ops->write(c->d, c->qkv, row, w->n);
        c->ops->attention(c->d, &layer, c->qkv, c->out);
        c->ops->read(c->d, c->out, w->y[l], w->n);
    }
}

static void attend(struct cache *c, const uint32_t *table, uint32_t from, uint32_t n, uint64_t seed,
                   struct work *out)
{
    struct err e;
    *out = (struct work){.c = c, .table = table, .from = from, .n = n, .seed = seed};
    assert_ok(c->ops->run(c->d, work_body, out, &e), &e);
}

static void copy_body(void *arg)
{
    static const uint32_t FROM[] = {8, 4, 2}, TO[] = {5, 2, 7}; /* 2 is read after it was written */
    const struct cache *c = arg;
    c->ops->copy_blocks(c->d, c->kv, sizeof FROM / sizeof *FROM, FROM, TO);
}

/* What the position after the history sees: of the originals, and of their copies after all blocks
 * they came from hold something else. */
static void attend_both(const struct kern_ops *ops, enum kern_kv_type type, struct work *original,
                        struct work *copied)
{
    static const uint32_t TABLE[] = {8, 4, 0}, COPIES[] = {5, 7, 1}, OVER[] = {8, 4, 2};
    static struct work scratch;
    struct cache c;
    struct err e;
    open_cache(&c, ops, type);
    attend(&c, TABLE, 0, N_PAST, 1, &scratch);
    attend(&c, TABLE, N_PAST, 1, 2, original);
    assert_ok(ops->run(c.d, copy_body, &c, &e), &e);
    for (uint32_t from = 0; from < sizeof OVER / sizeof *OVER; from++)
        attend(&c, OVER, from * KERN_BLOCK_TOKENS, KERN_BLOCK_TOKENS, 3, &scratch);
    attend(&c, COPIES, N_PAST, 1, 2, copied);
    ops->close(c.d);
}

static bool is_run(const struct kern_ops *k)
{
#ifdef __SANITIZE_THREAD__
    if (strcmp(k->name, "simt") == 0) /* its fibers are not instrumented */
        return false;
#endif
    return !k->is_here || k->is_here();
}

static void check(const struct kern_ops *k, enum kern_kv_type type)
{
    static struct work want, original, copied;
    attend_both(&KERN_REF, type, &want, &copied);
    attend_both(k, type, &original, &copied);
    for (uint32_t l = 0; l < N_LAYER; l++) {
        assert_memory_equal(copied.y[l], original.y[l], OUT * sizeof *copied.y[l]);
        for (uint32_t i = 0; i < OUT; i++)
            if (!(fabsf(copied.y[l][i] - want.y[l][i]) < 1e-2f))
                fail_msg("%s, KV type %d, layer %u: %g, reference %g", k->name, (int)type, l,
                         (double)copied.y[l][i], (double)want.y[l][i]);
    }
}

static void test_copies(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (const struct kern_ops *k; (k = kern_at(n)); n++) {
        if (!is_run(k))
            continue;
        check(k, KERN_KV_F16);
        check(k, KERN_KV_INT8);
    }
    assert_true(n >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies)};
    return cmocka_run_group_tests_name("kernels.copy", tests, NULL, NULL);
}
