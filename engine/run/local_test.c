/* The generator from its callers' side: exactly one end for each request, the same tokens alone and
 * in any batch, cancel, deadline, full queue, errors, close, metrics; no memory taken in a step. */
#include "common/test.h"

#include "engine/run/fixture.h"
#include "engine/run/pretend_model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Counts what the worker's thread allocates: linked with --wrap=malloc and --wrap=calloc. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

static struct {
    _Atomic bool is_on;
    _Atomic unsigned n;
    pthread_t io_thread;
} allocations;

static void count_allocation(void)
{
    if (allocations.is_on && !pthread_equal(pthread_self(), allocations.io_thread))
        allocations.n++;
}

void *__wrap_malloc(size_t n)
{
    count_allocation();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count_allocation();
    return __real_calloc(n, size);
}

static const int32_t END_IDS[] = {5};

struct fixture {
    struct model *model;
    struct gen_config config;
    struct err e;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.model = pretend_open()};
    f.config = (struct gen_config){.clock = &CLOCK_REAL,
                                   .model = f.model,
                                   .end_ids = END_IDS,
                                   .n_end = 1,
                                   .n_kv_blocks = PRETEND_BLOCKS,
                                   .max_batch_tokens = 64,
                                   .max_running = 8,
                                   .max_queue = 64,
                                   .prefill_chunk = 32,
                                   .max_context = 512,
                                   .prefix_cache = true};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    free(f->model);
    return 0;
}

static struct generator *open_generator(struct fixture *f)
{
    struct generator *g = NULL;
    assert_ok(ops->open(&g, &f->config, &f->e), &f->e);
    return g;
}

/* Tests. */
enum { N_JOBS = 48 };

static void run_alone(struct fixture *f, const struct job *jobs, struct job *alone)
{
    for (uint32_t i = 0; i < N_JOBS; i++) {
        struct generator *g = open_generator(f);
        alone[i] = jobs[i];
        alone[i].cancel_after = 0;
        submit(g, &alone[i]);
        wait_for_end(g, &alone[i]);
        ops->close(g);
    }
}

/* A pool for a fraction of the requests: they preempt each other, share prefixes, some are
 * cancelled; each one's tokens are what it gives alone. */
static void test_batch_changes_nothing(void **state)
{
    struct fixture *f = *state;
    static struct job jobs[N_JOBS], alone[N_JOBS];
    uint64_t preemptions = 0, cached = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rng r;
        rng_seed(&r, seed);
        for (uint32_t i = 0; i < N_JOBS; i++)
            random_job(&r, &jobs[i]);
        f->config.n_kv_blocks = PRETEND_BLOCKS;
        run_alone(f, jobs, alone);
        f->config.n_kv_blocks = 10 + (uint32_t)seed;
        f->config.prefix_cache = seed % 3 != 0;
        struct generator *g = open_generator(f);
        f->model->room = 0; /* until all are there: the pool must run out */
        for (uint32_t i = 0; i < N_JOBS; i++) {
            jobs[i].cancel_after = rng_below(&r, 5) ? 0 : 1 + (uint32_t)rng_below(&r, MAX_NEW);
            submit(g, &jobs[i]);
        }
        f->model->room = -1;
        for (uint32_t i = 0; i < N_JOBS; i++)
            wait_for_end(g, &jobs[i]);
        struct gen_stats s;
        ops->stats(g, &s);
        preemptions += s.preemptions;
        cached += s.cached_tokens;
        assert_int_equal(s.running + s.waiting, 0);
        assert_int_equal(s.kv_tokens_used, 0); /* every block came back */
        ops->close(g);
        for (uint32_t i = 0; i < N_JOBS; i++)
            assert_same(&jobs[i], &alone[i]);
    }
    assert_in_range(preemptions, 15, UINT64_MAX);
    assert_in_range(cached, 100, UINT64_MAX);
    print_message("preemptions %u, tokens from the cache %u\n", (unsigned)preemptions,
                  (unsigned)cached);
}

static void test_ends(void **state)
{
    struct fixture *f = *state;
    struct generator *g = open_generator(f);
    static struct job j[3];
    init_job(&j[0], 3, 0, 1);
    init_job(&j[1], 3, 0, 50);
    init_job(&j[2], 3, 0, 50);
    j[1].bias = j[2].bias = (struct gen_bias){.token = END_IDS[0], .bias = 100};
    j[1].request.n_bias = j[2].request.n_bias = 1;
    j[2].request.ignore_end = true;
    for (int i = 0; i < 3; i++) {
        submit(g, &j[i]);
        wait_for_end(g, &j[i]);
    }
    assert_int_equal(j[0].end.finish, GEN_LENGTH);
    assert_int_equal(j[0].n_tokens, 1);
    assert_int_equal(j[1].end.finish, GEN_STOP); /* the end token is not reported */
    assert_int_equal(j[1].n_tokens, 0);
    assert_int_equal(j[2].end.finish, GEN_LENGTH);
    assert_int_equal(j[2].n_tokens, 50);
    assert_true(j[2].end.ttft_us > 0 || j[2].end.decode_us > 0);
    ops->close(g);
}

static void test_prefix_is_found(void **state)
{
    struct fixture *f = *state;
    struct generator *g = open_generator(f);
    static struct job j[2];
    for (int i = 0; i < 2; i++) {
        init_job(&j[i], 100, 0, 4);
        submit(g, &j[i]);
        wait_for_end(g, &j[i]);
    }
    assert_int_equal(j[0].end.n_cached, 0);
    assert_int_equal(j[1].end.n_cached, 99); /* all but the last token, which is computed */
    assert_memory_equal(j[0].tokens, j[1].tokens, 4 * sizeof(int32_t));
    ops->close(g);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    f->config.max_running = 1;
    f->config.max_queue = 2;
    f->model->step_ns = 1000000;
    struct generator *g = open_generator(f);
    static struct job j[4];
    for (int i = 0; i < 4; i++) {
        init_job(&j[i], 3, 0, 40);
        j[i].request.ignore_end = true;
    }
    for (int i = 0; i < 3; i++)
        submit(g, &j[i]);
    struct gen_handle h;
    assert_int_equal(ops->submit(g, &j[3].request, &h, &f->e), ERR_BUSY);
    wait_for_end(g, &j[0]);
    submit(g, &j[3]); /* a place is free again */
    struct gen_request bad = j[3].request;
    for (int i = 1; i < 4; i++) {
        ops->cancel(g, j[i].handle);
        wait_for_end(g, &j[i]);
    }
    bad.n_prompt = 0;
    assert_int_equal(ops->submit(g, &bad, &h, &f->e), ERR_INVALID);
    bad.n_prompt = 3;
    bad.params.v[PARAM_MAX_NEW_TOKENS] = 510;
    assert_int_equal(ops->submit(g, &bad, &h, &f->e), ERR_INVALID);
    assert_non_null(strstr(f->e.msg, "512"));
    int32_t outside[] = {PRETEND_VOCAB}, negative[] = {-1};
    bad.params.v[PARAM_MAX_NEW_TOKENS] = 1;
    bad.n_prompt = 1;
    bad.prompt = outside;
    assert_int_equal(ops->submit(g, &bad, &h, &f->e), ERR_INVALID);
    bad.prompt = negative;
    assert_int_equal(ops->submit(g, &bad, &h, &f->e), ERR_INVALID);
    ops->close(g);
}

static _Atomic uint64_t told_us;

static struct mono told_mono(void *ctx)
{
    (void)ctx;
    return (struct mono){told_us};
}

/* Steps and time go on as told: the fourth step is under way when one request is cancelled and the
 * time of another runs out. */
static void test_cancel_and_deadline(void **state)
{
    struct fixture *f = *state;
    const struct clock told = {.mono = told_mono};
    told_us = 1000;
    f->model->room = 0;
    f->config.clock = &told;
    f->config.max_running = 2;
    struct generator *g = open_generator(f);
    static struct job j[4];
    for (int i = 0; i < 4; i++) {
        init_job(&j[i], 3, 0, 60);
        j[i].request.ignore_end = true;
    }
    j[0].cancel_after = 3;
    j[1].request.deadline_us = 30000;
    for (int i = 0; i < 4; i++)
        submit(g, &j[i]);
    ops->cancel(g, j[3].handle); /* still waiting */
    ops->cancel(g, (struct gen_handle){0});
    ops->cancel(g, (struct gen_handle){0xFFFFFFFFFFFFu});
    f->model->room = 3;
    wait_for_tokens(g, &j[0], 3);
    told_us = 1000000;
    f->model->room = -1;
    for (int i = 0; i < 4; i++)
        wait_for_end(g, &j[i]);
    assert_int_equal(j[0].end.finish, GEN_CANCELLED);
    assert_in_range(j[0].n_tokens, 3, 4); /* the step under way may still come */
    assert_int_equal(j[1].end.finish, GEN_DEADLINE);
    assert_in_range(j[1].n_tokens, 1, 4);
    assert_int_equal(j[2].end.finish, GEN_LENGTH);
    assert_int_equal(j[3].end.finish, GEN_CANCELLED);
    assert_int_equal(j[3].n_tokens, 0);
    ops->cancel(g, j[0].handle); /* long gone */
    ops->close(g);
}

static void test_errors_stay_local(void **state)
{
    struct fixture *f = *state;
    struct generator *g = open_generator(f);
    static struct job broken, fine, lost, after;
    init_job(&broken, 3, 0.7, 40);
    broken.prompt[2] = NAN_TOKEN; /* the pretended model then gives NaN */
    init_job(&fine, 3, 0.7, 40);
    fine.request.ignore_end = true;
    submit(g, &broken);
    submit(g, &fine);
    wait_for_end(g, &broken);
    wait_for_end(g, &fine);
    assert_int_equal(broken.end.finish, GEN_ERROR);
    assert_non_null(strstr(broken.end.err.msg, "not finite"));
    assert_int_equal(fine.end.finish, GEN_LENGTH);
    f->model->fail_steps = 1;
    init_job(&lost, 3, 0.7, 40);
    submit(g, &lost);
    wait_for_end(g, &lost);
    assert_int_equal(lost.end.finish, GEN_ERROR);
    assert_int_equal(lost.end.err.code, ERR_DEVICE);
    init_job(&after, 3, 0.7, 4);
    submit(g, &after);
    wait_for_end(g, &after);
    assert_int_not_equal(after.end.finish, GEN_ERROR);
    ops->close(g);
}

static void test_close_ends_everything(void **state)
{
    struct fixture *f = *state;
    f->model->step_ns = 5000000; /* 2.4 s for an answer: close comes before its end */
    f->config.max_running = 4;
    static struct job j[20];
    struct generator *g = open_generator(f);
    ops->close(g); /* nothing submitted */
    g = open_generator(f);
    for (int i = 0; i < 20; i++) {
        init_job(&j[i], 3, 0, MAX_TOKENS);
        j[i].request.ignore_end = true;
        submit(g, &j[i]);
    }
    wait_for_tokens(g, &j[0], 1);
    ops->close(g);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(j[i].n_ends, 1);
        assert_int_equal(j[i].end.finish, GEN_CANCELLED);
    }
}

static void test_no_memory_is_taken_in_a_step(void **state)
{
    struct fixture *f = *state;
    f->config.metrics = metrics_new();
    struct generator *g = open_generator(f);
    static struct job jobs[20];
    struct rng r;
    rng_seed(&r, 3);
    for (int round = 0; round < 2; round++) {
        allocations.io_thread = pthread_self();
        allocations.is_on = round == 1; /* the first round is the warm-up */
        for (int i = 0; i < 20; i++) {
            random_job(&r, &jobs[i]);
            submit(g, &jobs[i]);
        }
        for (int i = 0; i < 20; i++)
            wait_for_end(g, &jobs[i]);
    }
    allocations.is_on = false;
    assert_int_equal(allocations.n, 0);
    ops->close(g);
    metrics_free(f->config.metrics);
}

static void *allocate_elsewhere(void *arg)
{
    *(void **)arg = malloc(32); /* kept, so that the compiler keeps the call */
    return NULL;
}

/* The counter above must be able to fail. */
static void test_counter_counts(void **state)
{
    (void)state;
    pthread_t thread;
    void *memory = NULL;
    allocations.n = 0;
    allocations.io_thread = pthread_self();
    allocations.is_on = true;
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &memory), 0);
    pthread_join(thread, NULL);
    free(memory);
    allocations.is_on = false;
    assert_true(allocations.n >= 1);
    allocations.n = 0;
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    f->config.metrics = metrics_new();
    struct generator *g = open_generator(f);
    static struct job j[2];
    for (int i = 0; i < 2; i++) {
        init_job(&j[i], 100, 0, 5);
        j[i].request.ignore_end = true;
        submit(g, &j[i]);
        wait_for_end(g, &j[i]);
    }
    ops->close(g);
    struct buf b;
    buf_init(&b, MiB);
    metrics_render(f->config.metrics, &b);
    buf_put_char(&b, '\0');
    static const char *const lines[] = {
        "\nmilepost_requests_running 0\n",
        "\nmilepost_requests_waiting 0\n",
        "\nmilepost_kv_cache_usage_ratio 0\n",
        "\nmilepost_prefix_cache_query_tokens_total 200\n",
        "\nmilepost_prefix_cache_hit_tokens_total 99\n",
        "\nmilepost_prompt_tokens_total 100\n",
        "\nmilepost_generation_tokens_total 10\n",
        "\nmilepost_preemptions_total 0\n",
        "\nmilepost_priority_preemptions_total 0\n",
        "\nmilepost_prefix_cache_evicted_blocks_total 0\n",
        "\nmilepost_prefix_waits_total 0\n",
        "\nmilepost_prefix_cache_copied_blocks_total 1\n",
        "\nmilepost_prefix_cache_copied_tokens_total 3\n",
        "\nmilepost_prefix_cache_blocks 7\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!strstr(b.p, lines[i]))
            fail_msg("no '%s' in:\n%s", lines[i] + 1, b.p);
    }
    assert_non_null(strstr(b.p, "milepost_step_seconds_count"));
    buf_free(&b);
    metrics_free(f->config.metrics);
}

static void test_knobs(void **state)
{
    struct fixture *f = *state;
    f->model->step_ns = 300000;
    f->model->room = 1;
    struct generator *g = open_generator(f);
    ops->set_knobs(g, 1, 0);
    static struct job j[6];
    for (int i = 0; i < 6; i++) {
        init_job(&j[i], 3, 0, 20);
        j[i].request.ignore_end = true;
        submit(g, &j[i]);
    }
    struct gen_stats s = {0};
    while (s.running == 0) /* told after the first step; the second is held */
        ops->stats(g, &s);
    f->model->room = -1;
    for (int i = 0; i < 6; i++) {
        while (j[i].n_ends == 0) {
            assert_in_range(s.running, 0, 1);
            ops->drain(g);
            ops->stats(g, &s);
        }
    }
    ops->close(g);
}

static void on_retired(void *ctx, struct model *old)
{
    *(struct model **)ctx = old;
}

/* One request is held on the old model; another runs through on the new one meanwhile. */
static void test_models_follow_each_other(void **state)
{
    struct fixture *f = *state;
    struct generator *g = open_generator(f);
    struct model *next = pretend_open(), *odd = pretend_open(), *retired = NULL;
    static struct job old, new;
    struct gen_stats s;
    init_job(&old, 3, 0, 5);
    init_job(&new, 3, 0, 5);
    old.request.ignore_end = new.request.ignore_end = true;
    odd->info.n_vocab++;
    assert_int_equal(ops->set_model(g, odd, on_retired, &retired, &f->e), ERR_INVALID);
    f->model->room = 0;
    submit(g, &old);
    assert_int_equal(ops->set_model(g, next, on_retired, &retired, &f->e), ERR_OK);
    assert_int_equal(ops->set_model(g, odd, on_retired, &retired, &f->e), ERR_BUSY);
    submit(g, &new);
    while (new.n_ends == 0)
        ops->drain(g);
    assert_true(old.n_ends == 0 && !retired);
    f->model->room = -1;
    while (!retired)
        ops->drain(g);
    assert_ptr_equal(retired, f->model);
    assert_true(old.n_ends == 1 && old.end.finish == GEN_LENGTH);
    assert_memory_equal(old.tokens, new.tokens, 5 * sizeof *old.tokens);
    ops->stats(g, &s);
    assert_int_equal(s.generated_tokens, 10); /* of both workers */
    ops->close(g);
    free(next);
    free(odd);
}

static void test_open_refuses(void **state)
{
    struct fixture *f = *state;
    struct generator *g = NULL;
    f->config.max_batch_tokens = 4; /* fewer than max_running: a decode could starve */
    assert_int_equal(ops->open(&g, &f->config, &f->e), ERR_INVALID);
    assert_null(g);
    assert_non_null(strstr(f->e.msg, "max_batch_tokens 4"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_batch_changes_nothing),
        CASE(test_ends),
        CASE(test_prefix_is_found),
        CASE(test_refusals),
        CASE(test_cancel_and_deadline),
        CASE(test_errors_stay_local),
        CASE(test_close_ends_everything),
        CASE(test_no_memory_is_taken_in_a_step),
        CASE(test_counter_counts),
        CASE(test_metrics),
        CASE(test_knobs),
        CASE(test_models_follow_each_other),
        CASE(test_open_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
