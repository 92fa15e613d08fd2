/* GENERATOR_LOCAL: the I/O thread's side of the worker; of two while one model follows another.
 *
 * A table of places, one per request that has not ended, bounds the queue and turns handles
 * (generation of a place, place) into sequences; a stale handle finds another generation. */
#include "engine/generator.h"

#include "common/log.h"
#include "engine/run/worker.h"
#include "engine/run/worker_metrics.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { RATE_WINDOW_US = 2000000 };

struct place {
    struct sequence *seq; /* NULL = free */
    uint32_t generation;
    uint32_t next_free;
};

struct generator {
    struct gen_config config;
    struct worker *worker;
    struct worker *retiring; /* of the model before; NULL: none */
    struct model *old_model;
    gen_retired_fn *on_retired;
    void *retired_ctx;
    struct worker_metrics metrics;
    struct gen_stats past; /* of workers that have ended */
    uint32_t knob_max_running, knob_prefill_chunk;
    struct event_channel *events;
    struct place *place;           /* [n_places] */
    uint32_t n_places, first_free; /* n_places: none */
    struct mono rate_from;         /* tokens_per_second over the last window */
    uint64_t rate_tokens;
    double rate;
};

const char *gen_finish_name(enum gen_finish f)
{
    static const char *const NAMES[] = {"stop", "length", "cancelled", "deadline", "error"};
    return NAMES[f];
}

static void local_close(struct generator *g);

static int open_places(struct generator *g, struct err *e)
{
    g->n_places = g->config.max_running + g->config.max_queue;
    g->place = calloc(g->n_places, sizeof *g->place);
    if (!g->place)
        return err_set(e, ERR_NOMEM, "places for %u requests", g->n_places);
    for (uint32_t i = 0; i < g->n_places; i++)
        g->place[i].next_free = i + 1;
    return ERR_OK;
}

static uint64_t take_place(struct generator *g, struct sequence *q)
{
    uint32_t i = g->first_free;
    struct place *p = &g->place[i];
    g->first_free = p->next_free;
    p->seq = q;
    p->generation++;
    return (uint64_t)p->generation << 32 | i;
}

static void leave_place(struct generator *g, uint64_t handle)
{
    uint32_t i = (uint32_t)handle;
    g->place[i].seq = NULL;
    g->place[i].next_free = g->first_free;
    g->first_free = i;
}

static int start_worker(struct generator *g, struct worker **out, struct err *e)
{
    const struct worker_metrics *metrics = g->config.metrics ? &g->metrics : NULL;
    return worker_start(out, &g->config, g->events, metrics, e);
}

static int local_open(struct generator **out, const struct gen_config *c, struct err *e)
{
    *out = NULL;
    struct generator *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_NOMEM, "generator");
    g->config = *c;
    g->rate_from = clock_mono(c->clock);
    if (c->metrics)
        worker_metrics_init(&g->metrics, c->metrics);
    /* A row gives at most a token and an end. */
    int rc = event_channel_open(&g->events, 2 * gen_max_rows(c->max_running, c->draft_tokens), e);
    if (rc == ERR_OK)
        rc = open_places(g, e);
    if (rc == ERR_OK)
        rc = start_worker(g, &g->worker, e);
    if (rc != ERR_OK)
        local_close(g);
    else
        *out = g;
    return rc;
}

static void deliver(struct generator *g, const struct event *ev)
{
    struct sequence *q = ev->seq;
    struct gen_event out = {.type = ev->type,
                            .token = ev->token,
                            .logprob = ev->logprob,
                            .top = ev->top,
                            .n_top = ev->n_top,
                            .finish = ev->finish,
                            .n_cached = q->n_cached,
                            .err = ev->err};
    if (ev->type == GEN_END) {
        leave_place(g, q->handle);
        if (q->started)
            out.queue_us = mono_since_us(q->submitted, q->start);
        if (q->first_token.us) {
            out.ttft_us = mono_since_us(q->submitted, q->first_token);
            out.decode_us = mono_since_us(q->first_token, q->last_token);
        }
    }
    q->request.on_event(q->request.ctx, &out);
    if (ev->type == GEN_END)
        seq_free(q);
}

static void add_stats(struct gen_stats *sum, const struct worker *w, uint32_t n_kv_blocks)
{
    const struct worker_stats *s = worker_get_stats(w);
    sum->running += s->running;
    sum->waiting += s->waiting;
    sum->kv_tokens += (uint64_t)n_kv_blocks * KV_BLOCK_TOKENS;
    sum->kv_tokens_used += s->kv_blocks_used * KV_BLOCK_TOKENS;
    sum->prompt_tokens += s->prompt_tokens;
    sum->cached_tokens += s->cached_tokens;
    sum->generated_tokens += s->generated_tokens;
    sum->preemptions += s->preemptions;
    sum->steps += s->steps;
    sum->device_draws += s->device_draws;
    sum->host_draws += s->host_draws;
}

/* Totals of a worker outlive it; what it held does not. */
static void forget_worker(struct generator *g, struct worker *w)
{
    bool is_retired = w == g->retiring;
    add_stats(&g->past, w, 0);
    g->past.running = g->past.waiting = 0;
    g->past.kv_tokens_used = 0;
    worker_join_and_free(w);
    *(is_retired ? &g->retiring : &g->worker) = NULL;
    if (is_retired)
        g->on_retired(g->retired_ctx, g->old_model);
}

static void deliver_batch(struct generator *g, struct event_batch *b)
{
    struct worker *ended = b->ended;
    for (uint32_t i = 0; i < b->n; i++)
        deliver(g, &b->event[i]);
    event_channel_recycle(g->events, b);
    if (ended)
        forget_worker(g, ended);
}

static void local_drain(struct generator *g)
{
    for (struct event_batch *b; (b = event_channel_take(g->events, 0));)
        deliver_batch(g, b);
}

static void local_close(struct generator *g)
{
    if (!g)
        return;
    if (g->worker)
        worker_stop(g->worker);
    if (g->retiring)
        worker_stop(g->retiring);
    while (g->worker || g->retiring)
        deliver_batch(g, event_channel_take(g->events, -1));
    event_channel_free(g->events);
    free(g->place);
    free(g);
}

/* Longest prompt plus answer: what is configured, what the model knows, what the pool holds. */
static uint64_t context_limit(const struct gen_config *c)
{
    uint64_t limit = (uint64_t)c->n_kv_blocks * KV_BLOCK_TOKENS;
    uint32_t trained = model_get_info(c->model)->n_ctx_train;
    if (c->max_context < limit)
        limit = c->max_context;
    return trained < limit ? trained : limit;
}

static int check_fits(const struct gen_config *c, const struct gen_request *r, struct err *e)
{
    uint64_t need = (uint64_t)r->n_prompt + (uint64_t)r->params.v[PARAM_MAX_NEW_TOKENS];
    uint64_t most = context_limit(c);
    if (r->n_prompt == 0)
        return err_set(e, ERR_INVALID, "$.prompt: is empty; at least one token is needed");
    if (need > most)
        return err_set(e, ERR_INVALID,
                       "%u prompt tokens and up to %u new ones need a context of %llu: this "
                       "server allows %llu",
                       r->n_prompt, (unsigned)r->params.v[PARAM_MAX_NEW_TOKENS],
                       (unsigned long long)need, (unsigned long long)most);
    return ERR_OK;
}

static int check_tokens(const struct gen_config *c, const struct gen_request *r, struct err *e)
{
    uint32_t n_vocab = model_get_info(c->model)->n_vocab;
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if ((uint32_t)r->prompt[i] >= n_vocab)
            return err_set(e, ERR_INVALID, "$.prompt[%u]: token id %d; 0 to %u are allowed", i,
                           (int)r->prompt[i], n_vocab - 1);
    return ERR_OK;
}

static int local_submit(struct generator *g, const struct gen_request *r, struct gen_handle *out,
                        struct err *e)
{
    int rc;
    struct sequence *q = NULL;
    if (g->first_free == g->n_places)
        return err_set(e, ERR_BUSY, "all %u places and the queue of %u are taken: try again later",
                       g->config.max_running, g->config.max_queue);
    TRY(check_fits(&g->config, r, e));
    TRY(check_tokens(&g->config, r, e));
    TRY(seq_new(&q, r, clock_mono(g->config.clock), e));
    q->handle = take_place(g, q);
    if (!worker_submit(g->worker, q)) {
        leave_place(g, q->handle);
        seq_free(q);
        return err_set(e, ERR_BUSY, "the engine is stopping");
    }
    out->v = q->handle;
out:
    return rc;
}

static void local_cancel(struct generator *g, struct gen_handle h)
{
    uint32_t i = (uint32_t)h.v;
    if (i < g->n_places && g->place[i].seq && g->place[i].seq->handle == h.v)
        g->place[i].seq->cancelled = true;
}

static int local_fd(struct generator *g)
{
    return event_channel_fd(g->events);
}

static void local_flush_cache(struct generator *g)
{
    worker_flush_cache(g->worker);
}

static void local_set_knobs(struct generator *g, uint32_t max_running, uint32_t prefill_chunk)
{
    g->knob_max_running = max_running;
    g->knob_prefill_chunk = prefill_chunk;
    worker_set_knobs(g->worker, max_running, prefill_chunk);
}

static int check_same_kind(const struct generator *g, const struct model *m, struct err *e)
{
    const struct model_info *now = model_get_info(g->config.model), *new = model_get_info(m);
    if (g->retiring)
        return err_set(e, ERR_BUSY,
                       "requests still run on the weights before these: try again later");
    if (new->n_vocab != now->n_vocab || new->n_ctx_train < g->config.max_context)
        return err_set(e, ERR_INVALID,
                       "a vocabulary of %u and a context of %u; %u and at least %u are served",
                       new->n_vocab, new->n_ctx_train, now->n_vocab, g->config.max_context);
    return ERR_OK;
}

static int local_set_model(struct generator *g, struct model *m, gen_retired_fn *on_retired,
                           void *ctx, struct err *e)
{
    struct model *old = g->config.model;
    struct worker *next;
    int rc = check_same_kind(g, m, e);
    if (rc != ERR_OK)
        return rc;
    g->config.model = m;
    rc = start_worker(g, &next, e);
    if (rc != ERR_OK) {
        g->config.model = old;
        return rc;
    }
    worker_set_knobs(next, g->knob_max_running, g->knob_prefill_chunk);
    g->retiring = g->worker;
    g->worker = next;
    g->old_model = old;
    g->on_retired = on_retired;
    g->retired_ctx = ctx;
    worker_retire(g->retiring);
    return ERR_OK;
}

static void update_rate(struct generator *g, uint64_t generated)
{
    struct mono now = clock_mono(g->config.clock);
    uint64_t elapsed = mono_since_us(g->rate_from, now);
    if (elapsed < RATE_WINDOW_US)
        return;
    g->rate = (double)(generated - g->rate_tokens) * 1e6 / (double)elapsed;
    g->rate_tokens = generated;
    g->rate_from = now;
}

static void local_stats(struct generator *g, struct gen_stats *out)
{
    *out = g->past;
    add_stats(out, g->worker, g->config.n_kv_blocks);
    if (g->retiring)
        add_stats(out, g->retiring, g->config.n_kv_blocks);
    update_rate(g, out->generated_tokens);
    out->tokens_per_second = g->rate;
}

const struct generator_ops GENERATOR_LOCAL = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .submit = local_submit,
    .cancel = local_cancel,
    .fd = local_fd,
    .drain = local_drain,
    .set_knobs = local_set_knobs,
    .flush_cache = local_flush_cache,
    .set_model = local_set_model,
    .stats = local_stats,
};
