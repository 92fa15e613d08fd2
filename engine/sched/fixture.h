/* engine/sched/fixture.h - a scheduler and a few requests for tests: steps without a model.
 *
 * Included by *_test.c files only. Every sampled token is 1. */
#ifndef ENGINE_SCHED_FIXTURE_H
#define ENGINE_SCHED_FIXTURE_H

#include "common/test.h"

#include "engine/sched/scheduler.h"

#include <stdlib.h>

enum { FIXTURE_SEQUENCES = 64, FIXTURE_PROMPT = 2048 };

struct fixture {
    struct scheduler *sched;
    struct mono now;
    struct sched_plan plan;
    struct sequence *seq[FIXTURE_SEQUENCES];
    uint32_t n_seq;
    uint64_t prompt_tokens; /* computed so far */
    bool is_static;
};

static inline struct sched_config fixture_config(void)
{
    return (struct sched_config){.n_kv_blocks = 1024,
                                 .max_batch_tokens = 256,
                                 .max_running = 32,
                                 .prefill_chunk = 64,
                                 .aging_us = 10000000,
                                 .prefix_cache = true,
                                 .salt = 5};
}

static inline void fixture_open(struct fixture *f, const struct sched_config *c)
{
    *f = (struct fixture){.now = {1000}, .is_static = c->is_static};
    assert_int_equal(sched_open(&f->sched, c, NULL), ERR_OK);
}

static inline void fixture_close(struct fixture *f)
{
    sched_flush_cache(f->sched);
    assert_int_equal(sched_blocks_in_use(f->sched), 0);
    assert_true(kv_pool_is_consistent(sched_pool(f->sched)));
    sched_close(f->sched);
    for (uint32_t i = 0; i < f->n_seq; i++)
        seq_free(f->seq[i]);
}

/* A request of n_prompt tokens, the first n_shared of them the same in every `family`. */
static inline struct sequence *fixture_add(struct fixture *f, struct gen_request r,
                                           uint32_t n_shared, int32_t family, double max_new)
{
    int32_t prompt[FIXTURE_PROMPT];
    assert_true(r.n_prompt <= FIXTURE_PROMPT && f->n_seq < FIXTURE_SEQUENCES);
    for (uint32_t i = 0; i < r.n_prompt; i++)
        prompt[i] = i < n_shared ? family : 100 + (int32_t)(f->n_seq * 1000 + i);
    r.prompt = prompt;
    r.params.v[PARAM_MAX_NEW_TOKENS] = max_new;
    struct sequence *q;
    assert_int_equal(seq_new(&q, &r, f->now, NULL), ERR_OK);
    f->seq[f->n_seq++] = q;
    sched_add(f->sched, q);
    return q;
}

static inline void fixture_end(struct fixture *f, struct sequence *q)
{
    if (f->is_static)
        sched_finish(f->sched, q);
    else
        sched_remove(f->sched, q);
    while (f->is_static && sched_batch_is_over(f->sched))
        sched_remove(f->sched, sched_running_at(f->sched, 0));
}

/* One step that takes step_us; sequences with all their tokens end. Returns its tokens. */
static inline uint32_t fixture_step(struct fixture *f, uint64_t step_us)
{
    sched_plan(f->sched, f->now, &f->plan);
    f->now.us += step_us;
    sched_computed(f->sched);
    f->prompt_tokens += f->plan.n_prompt;
    for (uint32_t i = 0; i < f->plan.batch.n_row; i++) {
        struct sequence *q = f->plan.row_seq[i];
        if (q->is_over)
            continue;
        seq_append(q, 1);
        if (!q->first_token.us)
            q->first_token = f->now;
        if (q->n_tokens == q->n_capacity)
            fixture_end(f, q);
    }
    sched_took(f->sched, f->plan.n_decode, f->plan.n_prompt, step_us);
    return f->plan.batch.n_tok;
}

static inline void fixture_run(struct fixture *f, uint64_t step_us)
{
    uint32_t n = 0;
    while (sched_n_running(f->sched) + sched_n_waiting(f->sched)) {
        fixture_step(f, step_us);
        assert_true(n++ < 100000);
    }
}

#endif
