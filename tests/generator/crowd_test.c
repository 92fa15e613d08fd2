/* Many long requests on a KV pool for a quarter of them, some cancelled at random: every stream
 * equals the request's own single run, every block comes back, nobody hangs. The short form runs
 * with the suite; MILEPOST_LONG=1 gives 64 requests of 4,096 tokens. Both for the tiny model and
 * for that of MILEPOST_TEST_MODEL, whose long form takes a quarter of an hour on two idle cores.
 * Answers are long beside prompts: else the blocks never run out while prompts are computed. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/generator.h"
#include "engine/model/gguf.h"
#include "tests/harness/tiny_model.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct generator_ops *const ops = &GENERATOR_LOCAL;

enum { MAX_JOBS = 64, MAX_TOKENS = 4096, N_FAMILIES = 4 };
enum { PATIENCE_MS = 600000 }; /* for one token of anybody, on a busy machine */

struct size {
    uint32_t n_jobs, n_context, n_new;
};

struct job {
    struct gen_request request;
    struct gen_handle handle;
    struct generator *generator;
    int32_t *prompt;
    int32_t tokens[MAX_TOKENS];
    float logprob[MAX_TOKENS];
    uint32_t n_tokens, n_ends, cancel_after;
    bool is_unwanted; /* cancelled whatever it does at that moment */
    enum gen_finish finish;
};

static void on_event(void *ctx, const struct gen_event *e)
{
    struct job *j = ctx;
    assert_int_equal(j->n_ends, 0);
    if (e->type == GEN_END) {
        j->n_ends = 1;
        j->finish = e->finish;
        return;
    }
    j->logprob[j->n_tokens] = e->logprob;
    j->tokens[j->n_tokens++] = e->token;
    if (j->n_tokens == j->cancel_after)
        ops->cancel(j->generator, j->handle);
}

/* Prompts of a family begin alike, for random lengths; prompt and answer fill the context. */
static void fill_job(struct rng *r, struct job *j, const struct size *s, uint32_t n_vocab)
{
    struct param_set none = {0};
    struct gen_request *q = &j->request;
    params_resolve(&none, NULL, &q->params);
    uint32_t n_new = 1 + (uint32_t)rng_below(r, s->n_new);
    q->n_prompt = s->n_context - s->n_new + (uint32_t)rng_below(r, s->n_new - n_new + 1);
    uint32_t family = (uint32_t)rng_below(r, N_FAMILIES);
    uint32_t shared = (uint32_t)rng_below(r, q->n_prompt);
    for (uint32_t i = 0; i < q->n_prompt; i++)
        j->prompt[i] =
            (int32_t)(i < shared ? (i * 7 + family * 13) % n_vocab : rng_below(r, n_vocab));
    q->prompt = j->prompt;
    q->ctx = j;
    q->on_event = on_event;
    q->seed = rng_u64(r);
    q->ignore_end = true;
    q->user = family;
    q->params.v[PARAM_TEMPERATURE] = rng_below(r, 2) ? 0.8 : 0;
    q->params.v[PARAM_MAX_NEW_TOKENS] = n_new;
}

static void submit(struct generator *g, struct job *j)
{
    struct err e = {0};
    j->generator = g;
    j->n_tokens = j->n_ends = 0;
    assert_ok(ops->submit(g, &j->request, &j->handle, &e), &e);
}

static void wait_for_end(struct generator *g, const struct job *j)
{
    struct pollfd fd = {.fd = ops->fd(g), .events = POLLIN};
    for (int i = 0; i < 1000000 && j->n_ends == 0; i++) {
        assert_true(poll(&fd, 1, PATIENCE_MS) > 0); /* somebody always gets on */
        ops->drain(g);
    }
    assert_int_equal(j->n_ends, 1);
}

static bool is_long(void)
{
    const char *wanted = getenv("MILEPOST_LONG");
    return wanted && *wanted;
}

/* The long form has no wanted step time: on a slow machine prompts would come so slowly that others
 * end before the blocks run out. */
static struct generator *open_generator(struct model *m, const struct size *s, uint32_t n_blocks,
                                        bool is_crowd)
{
    struct gen_config c = {.clock = &CLOCK_REAL,
                           .model = m,
                           .n_kv_blocks = n_blocks,
                           .max_batch_tokens = 512,
                           .max_running = is_crowd ? MAX_JOBS : 1,
                           .max_queue = MAX_JOBS,
                           .prefill_chunk = 256,
                           .draft_tokens = is_crowd ? 7 : 0,
                           .max_context = s->n_context,
                           .max_gap_us = is_crowd && !is_long() ? 40000 : 0,
                           .prefix_cache = is_crowd};
    struct generator *g = NULL;
    struct err e = {0};
    assert_ok(ops->open(&g, &c, &e), &e);
    return g;
}

static struct model *open_model(const char *path, uint32_t n_blocks)
{
    struct gguf *file = NULL;
    struct model *m = NULL;
    struct err e = {0};
    const struct model_options o = {
        .n_kv_blocks = n_blocks, .max_batch_tokens = 512, .max_batch_rows = MAX_JOBS};
    assert_ok(gguf_open(&file, path, &e), &e);
    assert_ok(model_open(&m, file, &o, &e), &e);
    gguf_close(file);
    return m;
}

static struct model *open_tiny(const struct size *s, uint32_t n_blocks)
{
    char path[64];
    struct err e = {0};
    struct tiny_model tiny = tiny_model_default();
    tiny.n_ctx = s->n_context;
    snprintf(path, sizeof path, "/tmp/milepost_crowd_test.%d.gguf", (int)getpid());
    assert_ok(tiny_model_write(&tiny, path, &e), &e);
    struct model *m = open_model(path, n_blocks);
    unlink(path);
    return m;
}

static void assert_same(const struct job *got, const struct job *alone)
{
    bool is_whole = got->finish == GEN_LENGTH;
    bool may_end = got->cancel_after > 0 || got->is_unwanted;
    assert_true(is_whole || (got->finish == GEN_CANCELLED && may_end));
    assert_true(is_whole ? got->n_tokens == alone->n_tokens : got->n_tokens <= alone->n_tokens);
    for (uint32_t i = 0; i < got->n_tokens; i++)
        if (got->tokens[i] != alone->tokens[i] || got->logprob[i] != alone->logprob[i])
            fail_msg("token %u is %d (%.9g) in the crowd, %d (%.9g) alone", i, got->tokens[i],
                     (double)got->logprob[i], alone->tokens[i], (double)alone->logprob[i]);
}

static void run_alone(struct model *m, const struct size *s, uint32_t n_blocks, struct job *jobs)
{
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        struct generator *g = open_generator(m, s, n_blocks, false);
        submit(g, &jobs[i]);
        wait_for_end(g, &jobs[i]);
        ops->close(g);
    }
}

/* All of them in one generator; its counters when the last has ended. */
static struct gen_stats run_crowd(struct model *m, const struct size *s, uint32_t n_blocks,
                                  struct job *jobs)
{
    struct gen_stats stats;
    struct generator *g = open_generator(m, s, n_blocks, true);
    for (uint32_t i = 0; i < s->n_jobs; i++)
        submit(g, &jobs[i]);
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        if (jobs[i].is_unwanted && jobs[i].n_ends == 0)
            ops->cancel(g, jobs[i].handle);
        wait_for_end(g, &jobs[i]);
    }
    ops->stats(g, &stats);
    ops->close(g);
    return stats;
}

static uint32_t blocks_for(const struct size *s)
{
    return s->n_jobs / 4 * (s->n_context / KV_BLOCK_TOKENS);
}

static void check_crowd(struct model *m, const struct size *s)
{
    static struct job alone[MAX_JOBS], crowd[MAX_JOBS];
    uint32_t n_cancelled = 0, n_blocks = blocks_for(s);
    struct rng r;
    rng_seed(&r, 17);
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        alone[i].prompt = calloc(s->n_context, sizeof(int32_t));
        assert_non_null(alone[i].prompt);
        fill_job(&r, &alone[i], s, model_get_info(m)->n_vocab);
        crowd[i] = alone[i];
        crowd[i].request.ctx = &crowd[i];
        crowd[i].is_unwanted = i >= s->n_jobs / 2 && i % 4 == 3;
        crowd[i].cancel_after = rng_below(&r, 3) ? 0 : 1 + (uint32_t)rng_below(&r, s->n_new);
    }
    run_alone(m, s, n_blocks, alone);
    struct gen_stats stats = run_crowd(m, s, n_blocks, crowd);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.kv_tokens_used, 0); /* every block came back */
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        assert_same(&crowd[i], &alone[i]);
        n_cancelled += crowd[i].finish == GEN_CANCELLED;
        free(alone[i].prompt);
    }
    print_message("%u requests of %u tokens on %u blocks: %u cancelled, %u preemptions, %u of %u "
                  "prompt tokens from the cache\n",
                  s->n_jobs, s->n_context, n_blocks, n_cancelled, (unsigned)stats.preemptions,
                  (unsigned)stats.cached_tokens,
                  (unsigned)(stats.cached_tokens + stats.prompt_tokens));
    assert_true(stats.preemptions > 0 && n_cancelled > 0 && stats.cached_tokens > 0);
}

static void test_crowd(void **state)
{
    (void)state;
    struct size s =
        is_long() ? (struct size){MAX_JOBS, MAX_TOKENS, 3072} : (struct size){20, 320, 296};
    struct model *m = open_tiny(&s, blocks_for(&s));
    check_crowd(m, &s);
    model_close(m);
}

static void test_crowd_of_environment(void **state)
{
    (void)state;
    struct size s =
        is_long() ? (struct size){MAX_JOBS, MAX_TOKENS, 2560} : (struct size){8, 384, 240};
    const char *path = getenv("MILEPOST_TEST_MODEL");
    if (!path || !*path) {
        print_message("skipped: no model (set MILEPOST_TEST_MODEL)\n");
        skip();
    }
    struct model *m = open_model(path, blocks_for(&s));
    check_crowd(m, &s);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_crowd_of_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
