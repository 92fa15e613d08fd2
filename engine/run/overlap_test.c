/* Steps planned while the one before is under way, on a pretended device that computes a step when
 * it is waited for and not before: the same tokens as one step after the other, whoever ends,
 * is cancelled, preempted or fails; and the order in which steps are begun and waited for. */
#include "common/test.h"

#include "engine/run/fixture.h"
#include "engine/run/pretend_model.h"

static const int32_t END_IDS[] = {5};

enum { N_JOBS = 48 };

static struct gen_config configure(struct model *m, bool no_overlap)
{
    m->can_draw = true;
    return (struct gen_config){.clock = &CLOCK_REAL,
                               .model = m,
                               .end_ids = END_IDS,
                               .n_end = 1,
                               .n_kv_blocks = PRETEND_BLOCKS,
                               .max_batch_tokens = PRETEND_TOKENS,
                               .max_running = 8,
                               .max_queue = 64,
                               .prefill_chunk = 32,
                               .max_context = 512,
                               .prefix_cache = true,
                               .no_overlap = no_overlap};
}

static struct generator *open_generator(const struct gen_config *c)
{
    struct generator *g = NULL;
    struct err e = {0};
    assert_ok(ops->open(&g, c, &e), &e);
    return g;
}

/* All of them together; *s afterwards. */
static void run_jobs(const struct gen_config *c, struct job *jobs, uint32_t n, struct gen_stats *s)
{
    struct generator *g = open_generator(c);
    c->model->room = 0; /* until all are there */
    for (uint32_t i = 0; i < n; i++)
        submit(g, &jobs[i]);
    c->model->room = -1;
    for (uint32_t i = 0; i < n; i++)
        wait_for_end(g, &jobs[i]);
    ops->stats(g, s);
    assert_int_equal(s->kv_tokens_used, 0); /* every block came back */
    ops->close(g);
    assert_int_equal(c->model->n_started, c->model->n_finished);
}

/* Alone, one step after the other; then all in a small pool, with overlap. One in sixteen asks for
 * a bias in some workloads, and so for draws on the host. */
static void test_same_tokens(void **state)
{
    static struct job jobs[N_JOBS], alone[N_JOBS];
    uint64_t preemptions = 0, n_stops = 0, n_cancels = 0, on_host = 0;
    struct gen_stats s;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct model *m = pretend_open();
        struct gen_config c = configure(m, true);
        struct rng r;
        rng_seed(&r, seed);
        for (uint32_t i = 0; i < N_JOBS; i++) {
            random_job(&r, &jobs[i]);
            jobs[i].request.n_bias = seed % 2 && i % 16 == 0;
            alone[i] = jobs[i];
            run_jobs(&c, &alone[i], 1, &s);
            jobs[i].cancel_after = rng_below(&r, 5) ? 0 : 1 + (uint32_t)rng_below(&r, MAX_NEW);
        }
        c.no_overlap = false;
        c.n_kv_blocks = 10 + (uint32_t)seed;
        c.prefix_cache = seed % 3 != 0;
        run_jobs(&c, jobs, N_JOBS, &s);
        preemptions += s.preemptions;
        on_host += s.host_draws;
        for (uint32_t i = 0; i < N_JOBS; i++) {
            assert_same(&jobs[i], &alone[i]);
            n_stops += jobs[i].end.finish == GEN_STOP;
            n_cancels += jobs[i].end.finish == GEN_CANCELLED;
        }
        free(m);
    }
    assert_true(preemptions > 15 && n_stops > 15 && n_cancels > 15 && on_host > 15);
}

static void three_jobs(struct job *jobs)
{
    for (uint32_t i = 0; i < 3; i++) {
        init_job(&jobs[i], 3, 0.7, 20);
        jobs[i].prompt[0] = (int32_t)i;
        jobs[i].request.ignore_end = true;
    }
}

/* From its second step on the host begins each step before it waits for the one before; nothing is
 * computed past the last token, as that one is known to be the last. */
static void test_order(void **state)
{
    static struct job jobs[3];
    struct gen_stats s;
    (void)state;
    for (int no_overlap = 0; no_overlap < 2; no_overlap++) {
        struct model *m = pretend_open();
        const struct gen_config c = configure(m, no_overlap);
        three_jobs(jobs);
        run_jobs(&c, jobs, 1, &s);
        assert_int_equal(s.steps, 20);
        const char *from = no_overlap ? "sfsfsfsf" : "ssfsfsfs";
        assert_memory_equal(m->turns, from, 8);
        assert_memory_equal(m->turns + 36, no_overlap ? "sfsf" : "fsff", 5);
        free(m);
    }
}

/* Rows drawn on the host are waited for before anything else is planned. */
static void test_host_draws_wait(void **state)
{
    static struct job jobs[3];
    struct model *m = pretend_open();
    const struct gen_config c = configure(m, false);
    struct gen_stats s;
    (void)state;
    three_jobs(jobs);
    jobs[0].request.n_bias = 1;
    run_jobs(&c, jobs, 1, &s);
    assert_int_equal(s.host_draws, 20);
    assert_memory_equal(m->turns, "sfsfsfsf", 8);
    free(m);
}

/* A step fails while the next one is under way: those of both are told, the others go on. */
static void test_failure(void **state)
{
    static struct job jobs[3], alone[3];
    struct model *m = pretend_open();
    struct gen_config c = configure(m, true);
    struct gen_stats s;
    uint32_t n_lost = 0;
    (void)state;
    three_jobs(alone);
    memcpy(jobs, alone, sizeof jobs);
    for (int i = 0; i < 3; i++)
        run_jobs(&c, &alone[i], 1, &s);
    c.no_overlap = false;
    c.n_kv_blocks = 4;  /* one waits, preempted or not begun */
    m->fail_after = 10; /* two run by then */
    run_jobs(&c, jobs, 3, &s);
    for (int i = 0; i < 3; i++) {
        n_lost += jobs[i].end.finish == GEN_ERROR;
        if (jobs[i].end.finish == GEN_ERROR)
            assert_int_equal(jobs[i].end.err.code, ERR_DEVICE);
        else
            assert_same(&jobs[i], &alone[i]);
    }
    assert_in_range(n_lost, 1, 2);
    free(m);
}

/* Closed with steps under way. */
static void test_close(void **state)
{
    static struct job jobs[3];
    struct model *m = pretend_open();
    const struct gen_config c = configure(m, false);
    (void)state;
    three_jobs(jobs);
    struct generator *g = open_generator(&c);
    m->step_ns = 1000000;
    for (int i = 0; i < 3; i++) {
        jobs[i].request.params.v[PARAM_MAX_NEW_TOKENS] = MAX_TOKENS;
        submit(g, &jobs[i]);
    }
    wait_for_tokens(g, &jobs[0], 2);
    ops->close(g);
    for (int i = 0; i < 3; i++)
        assert_int_equal(jobs[i].end.finish, GEN_CANCELLED);
    assert_int_equal(m->n_started, m->n_finished);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens), cmocka_unit_test(test_order),
        cmocka_unit_test(test_host_draws_wait), cmocka_unit_test(test_failure),
        cmocka_unit_test(test_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
