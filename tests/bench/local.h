/* tests/bench/local.h - a model and requests through GENERATOR_LOCAL, for benchmarks of the
 * scheduler. Included by one .c file each; errors end the program. */
#ifndef TESTS_BENCH_LOCAL_H
#define TESTS_BENCH_LOCAL_H

#include "engine/generator.h"
#include "engine/model/gguf.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

struct bench_job {
    struct gen_request request;
    struct gen_handle handle;
    int32_t *token; /* [max_new_tokens] */
    uint32_t n_tokens;
    bool has_ended;
    struct mono submitted, first_token, end;
    uint32_t n_cached;
};

static inline void bench_check(int rc, const struct err *e)
{
    if (rc == ERR_OK)
        return;
    fprintf(stderr, "bench: %s\n", e->msg);
    exit(1);
}

static inline void bench_on_event(void *ctx, const struct gen_event *e)
{
    struct bench_job *j = ctx;
    struct mono now = clock_mono(&CLOCK_REAL);
    if (e->type == GEN_TOKEN) {
        if (j->n_tokens == 0)
            j->first_token = now;
        j->token[j->n_tokens++] = e->token;
        return;
    }
    bench_check(e->finish == GEN_ERROR ? ERR_DEVICE : ERR_OK, &e->err);
    j->has_ended = true;
    j->n_cached = e->n_cached;
    j->end = now;
}

/* Greedy, exactly max_new tokens. */
static inline void bench_init_job(struct bench_job *j, int32_t *prompt, uint32_t n_prompt,
                                  uint32_t max_new)
{
    struct param_set none = {0};
    *j = (struct bench_job){.token = calloc(max_new, sizeof *j->token)};
    params_resolve(&none, NULL, &j->request.params);
    j->request.prompt = prompt;
    j->request.n_prompt = n_prompt;
    j->request.params.v[PARAM_TEMPERATURE] = 0;
    j->request.params.v[PARAM_MAX_NEW_TOKENS] = max_new;
    j->request.ignore_end = true;
    j->request.on_event = bench_on_event;
    j->request.ctx = j;
}

static inline void bench_submit(struct generator *g, struct bench_job *j)
{
    struct err e = {0};
    j->submitted = clock_mono(&CLOCK_REAL);
    bench_check(GENERATOR_LOCAL.submit(g, &j->request, &j->handle, &e), &e);
}

static inline void bench_wait(struct generator *g)
{
    struct pollfd fd = {.fd = GENERATOR_LOCAL.fd(g), .events = POLLIN};
    (void)poll(&fd, 1, 1000);
    GENERATOR_LOCAL.drain(g);
}

static inline struct model *bench_open_model(const char *path, uint32_t n_kv_blocks,
                                             uint32_t max_running)
{
    struct gguf *file = NULL;
    struct model *m = NULL;
    struct err e = {0};
    const struct model_options o = {
        .n_kv_blocks = n_kv_blocks, .max_batch_tokens = 512, .max_batch_rows = max_running};
    bench_check(gguf_open(&file, path, &e), &e);
    bench_check(model_open(&m, file, &o, &e), &e);
    gguf_close(file);
    return m;
}

static inline double bench_seconds(struct mono from, struct mono to)
{
    return (double)mono_since_us(from, to) / 1e6;
}

#endif
