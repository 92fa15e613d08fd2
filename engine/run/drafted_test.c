/* The generator with drafts: a text that mostly repeats takes fewer steps, and every request gets
 * the tokens, logprobs and end that it gets without, alone and in a batch that runs out of blocks,
 * with cancels, penalties, biases and alternatives. */
#include "common/test.h"

#include "engine/run/fixture.h"
#include "engine/run/pretend_model.h"

#include <stdlib.h>
#include <string.h>

enum { N_JOBS = 24, PERIOD = 9, DRAFT = 7, END = 12 };
static const int32_t END_IDS[] = {END};

struct fixture {
    struct model *model;
    struct gen_config config;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.model = pretend_open()};
    f.model->period = PERIOD;
    f.config = (struct gen_config){.clock = &CLOCK_REAL,
                                   .model = f.model,
                                   .end_ids = END_IDS,
                                   .n_end = 1,
                                   .n_kv_blocks = PRETEND_BLOCKS,
                                   .max_batch_tokens = 64,
                                   .max_running = 1,
                                   .max_queue = 64,
                                   .prefill_chunk = 32,
                                   .max_context = 512,
                                   .draft_tokens = DRAFT,
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

static struct generator *open_generator(const struct gen_config *c)
{
    struct generator *g = NULL;
    struct err e = {0};
    assert_ok(ops->open(&g, c, &e), &e);
    return g;
}

/* Closes it; all blocks are back. */
static struct gen_stats end_generator(struct generator *g)
{
    struct gen_stats s;
    ops->stats(g, &s);
    assert_int_equal(s.kv_tokens_used, 0);
    ops->close(g);
    return s;
}

static struct gen_stats run_one(struct gen_config c, uint32_t draft_tokens, const struct job *job,
                                struct job *out)
{
    c.draft_tokens = draft_tokens;
    struct generator *g = open_generator(&c);
    *out = *job;
    submit(g, out);
    wait_for_end(g, out);
    return end_generator(g);
}

/* The pretended model's own text, so that a draft of it is mostly right. */
static void repeat_prompt(struct job *j)
{
    for (uint32_t i = 0; i < j->request.n_prompt; i++)
        j->prompt[i] = 10 + (int32_t)((i + PERIOD - 1) % PERIOD);
}

static void test_alone(void **state)
{
    const struct fixture *f = *state;
    uint64_t steps = 0, tokens = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        static struct job job, without, with;
        struct rng r;
        rng_seed(&r, seed);
        random_job(&r, &job);
        if (seed % 2)
            repeat_prompt(&job);
        run_one(f->config, 0, &job, &without);
        struct gen_stats s = run_one(f->config, 1 + (uint32_t)(seed % DRAFT), &job, &with);
        assert_same(&with, &without);
        steps += s.steps;
        tokens += s.generated_tokens;
    }
    print_message("%u tokens in %u steps\n", (unsigned)tokens, (unsigned)steps);
    assert_true(steps * 10 < tokens * 9);
}

static void run_crowd(struct fixture *f, uint64_t seed, struct job *jobs, const struct job *alone)
{
    struct gen_config c = f->config;
    c.max_running = 4; /* so that there is room for drafts */
    c.n_kv_blocks = 12 + (uint32_t)seed;
    c.prefix_cache = seed % 3 != 0;
    struct generator *g = open_generator(&c);
    for (uint32_t i = 0; i < N_JOBS; i++) {
        jobs[i].cancel_after = i % 5 ? 0 : 1 + i;
        submit(g, &jobs[i]);
    }
    for (uint32_t i = 0; i < N_JOBS; i++)
        wait_for_end(g, &jobs[i]);
    for (uint32_t i = 0; i < N_JOBS; i++)
        assert_same(&jobs[i], &alone[i]);
    end_generator(g);
}

static void test_in_a_batch(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        static struct job jobs[N_JOBS], alone[N_JOBS];
        struct rng r;
        rng_seed(&r, seed);
        for (uint32_t i = 0; i < N_JOBS; i++) {
            random_job(&r, &jobs[i]);
            if (i % 2)
                repeat_prompt(&jobs[i]);
            run_one(f->config, 0, &jobs[i], &alone[i]);
        }
        run_crowd(f, seed, jobs, alone);
    }
}

/* An end token in the middle of a draft ends the answer there; so does the last token allowed. */
static void test_ends_inside_a_draft(void **state)
{
    const struct fixture *f = *state;
    static struct job job, without, with;
    for (uint32_t max_new = 1; max_new < 20; max_new++)
        for (int ignore_end = 0; ignore_end < 2; ignore_end++) {
            init_job(&job, 4 * PERIOD, 0, max_new);
            repeat_prompt(&job);
            job.request.ignore_end = ignore_end;
            run_one(f->config, 0, &job, &without);
            run_one(f->config, DRAFT, &job, &with);
            assert_same(&with, &without);
            assert_true(with.end.finish == GEN_LENGTH || !ignore_end);
        }
    assert_int_equal(with.n_tokens, 19);
}

static double counted(const struct buf *text, const char *name)
{
    const char *at = strstr(text->p, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

static void test_metrics(void **state)
{
    struct fixture *f = *state;
    static struct job job, out;
    struct buf b;
    f->config.metrics = metrics_new();
    init_job(&job, 4 * PERIOD, 0, 40);
    repeat_prompt(&job);
    job.request.ignore_end = true;
    struct gen_stats s = run_one(f->config, DRAFT, &job, &out);
    buf_init(&b, 1 << 20);
    metrics_render(f->config.metrics, &b);
    buf_put_char(&b, '\0');
    double drafted = counted(&b, "\nmilepost_draft_tokens_total ");
    double accepted = counted(&b, "\nmilepost_draft_accepted_tokens_total ");
    assert_true(drafted >= accepted && accepted > 0);
    /* Two steps for the prompt, the second of which gives the first token; then one a token. */
    assert_int_equal(s.steps - 1, s.generated_tokens - (uint64_t)accepted);
    assert_non_null(strstr(b.p, "\nmilepost_prompt_tokens_total 36\n")); /* a draft is no prompt */
    buf_free(&b);
    metrics_free(f->config.metrics);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_alone),
        CASE(test_in_a_batch),
        CASE(test_ends_inside_a_draft),
        CASE(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
