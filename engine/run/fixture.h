/* engine/run/fixture.h - requests to the local generator and what became of them, for its tests.
 *
 * Included by one *_test.c file, beside pretend_model.h. */
#ifndef ENGINE_RUN_FIXTURE_H
#define ENGINE_RUN_FIXTURE_H

#include "common/test.h"

#include "common/rng.h"
#include "engine/generator.h"
#include "engine/run/pretend_model.h"

#include <poll.h>
#include <string.h>

static const struct generator_ops *const ops = &GENERATOR_LOCAL;

enum { MAX_PROMPT = 200, MAX_NEW = 60, MAX_TOKENS = 480 };

struct job {
    struct gen_request request;
    struct gen_handle handle;
    int32_t prompt[MAX_PROMPT], tokens[MAX_TOKENS];
    struct gen_bias bias;
    uint32_t n_tokens, n_ends, n_cached;
    float logprob_sum;
    struct gen_event end;
    uint32_t cancel_after; /* tokens; 0 = never */
    struct generator *generator;
};

static inline void on_event(void *ctx, const struct gen_event *e)
{
    struct job *j = ctx;
    assert_int_equal(j->n_ends, 0);
    if (e->type == GEN_END) {
        j->n_ends++;
        j->end = *e;
        return;
    }
    assert_true(j->n_tokens < MAX_TOKENS && e->token >= 0 && e->token < PRETEND_VOCAB);
    assert_true(e->logprob <= 0 && isfinite(e->logprob));
    assert_int_equal(e->n_top, j->request.want_logprobs ? j->request.n_top : 0);
    for (uint32_t i = 1; i < e->n_top; i++)
        assert_true(e->top[i - 1].logprob >= e->top[i].logprob);
    j->logprob_sum += e->logprob;
    j->tokens[j->n_tokens++] = e->token;
    if (j->n_tokens == j->cancel_after)
        ops->cancel(j->generator, j->handle);
}

static inline struct params parameters(double temperature, double max_new_tokens)
{
    struct param_set none = {0};
    struct params p;
    params_resolve(&none, NULL, &p);
    p.v[PARAM_TEMPERATURE] = temperature;
    p.v[PARAM_MAX_NEW_TOKENS] = max_new_tokens;
    return p;
}

static inline void init_job(struct job *j, uint32_t n_prompt, double temperature, double max_new)
{
    *j = (struct job){0};
    for (uint32_t i = 0; i < n_prompt; i++)
        j->prompt[i] = (int32_t)(i % 7);
    j->request = (struct gen_request){.id = STR("test"),
                                      .n_prompt = n_prompt,
                                      .seed = 7,
                                      .params = parameters(temperature, max_new),
                                      .on_event = on_event};
}

static inline void random_job(struct rng *r, struct job *j)
{
    init_job(j, 1 + (uint32_t)rng_below(r, MAX_PROMPT / 2), 0, 1 + (double)rng_below(r, MAX_NEW));
    struct gen_request *q = &j->request;
    uint32_t family = (uint32_t)rng_below(r, 3), shared = (uint32_t)rng_below(r, q->n_prompt + 1);
    for (uint32_t i = 0; i < q->n_prompt; i++)
        j->prompt[i] = (int32_t)(i < shared ? family : rng_below(r, NAN_TOKEN));
    q->seed = rng_u64(r);
    q->priority = (int)rng_below(r, 3);
    q->ignore_end = rng_below(r, 4) > 0;
    q->params.v[PARAM_TEMPERATURE] = (double)rng_below(r, 3) * 0.6;
    q->params.v[PARAM_TOP_P] = rng_below(r, 2) ? 1 : 0.8;
    q->params.v[PARAM_TOP_K] = (double)rng_below(r, 12) - 1;
    q->params.v[PARAM_REPETITION_PENALTY] = rng_below(r, 2) ? 1 : 1.3;
    q->want_logprobs = rng_below(r, 2);
    q->n_top = (uint32_t)rng_below(r, GEN_MAX_TOP + 1);
    j->bias = (struct gen_bias){.token = (int32_t)rng_below(r, 60), .bias = 3};
    q->n_bias = (uint32_t)rng_below(r, 2);
}

static inline void submit(struct generator *g, struct job *j)
{
    struct err e = {0};
    j->generator = g;
    j->request.prompt = j->prompt;
    j->request.bias = &j->bias;
    j->request.ctx = j;
    assert_ok(ops->submit(g, &j->request, &j->handle, &e), &e);
    assert_true(j->handle.v != 0);
}

static inline void wait_for_end(struct generator *g, const struct job *j)
{
    struct pollfd fd = {.fd = ops->fd(g), .events = POLLIN};
    for (int i = 0; i < 20000 && j->n_ends == 0; i++) {
        poll(&fd, 1, 1000);
        ops->drain(g);
    }
    assert_int_equal(j->n_ends, 1);
}

/* A job is what it was alone, up to where it was cancelled. */
static inline void assert_same(const struct job *got, const struct job *alone)
{
    assert_int_equal(got->n_ends, 1);
    assert_memory_equal(got->tokens, alone->tokens, got->n_tokens * sizeof *alone->tokens);
    if (got->end.finish == GEN_CANCELLED) {
        assert_true(got->n_tokens >= got->cancel_after && got->cancel_after > 0);
        return;
    }
    assert_int_equal(got->n_tokens, alone->n_tokens);
    assert_int_equal(got->end.finish, alone->end.finish);
    assert_true(got->logprob_sum == alone->logprob_sum);
}

static inline void wait_for_tokens(struct generator *g, const struct job *j, uint32_t n)
{
    struct pollfd fd = {.fd = ops->fd(g), .events = POLLIN};
    while (j->n_tokens < n) {
        poll(&fd, 1, 1000);
        ops->drain(g);
    }
}

#endif
