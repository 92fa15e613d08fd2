/* The engine thread's loop. Every sequence it was given leaves it through exactly one GEN_END
 * event; after that event is posted the sequence belongs to the I/O thread. */
#include "engine/run/worker.h"

#include "common/log.h"
#include "common/rng.h"
#include "engine/run/draws.h"
#include "engine/run/worker_metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A request that has waited this long goes before one of the next priority that just came. */
enum { AGING_US = 10 * 1000 * 1000 };

/* A step that the model has begun. */
struct step {
    struct sequence **row; /* [n_row], room for gen_max_rows; NULL: ended meanwhile */
    uint32_t n_row, n_decode, n_prompt;
    struct mono start;
};

struct worker {
    pthread_t thread;
    struct gen_config config;
    struct scheduler *sched;
    struct draws *draws;
    struct step step[2]; /* n_under_way of them, from `oldest` on */
    uint32_t oldest, n_under_way;
    struct mono last_end; /* of a step */
    uint64_t comm_us;     /* at that time */
    int32_t *end_ids;
    struct queue *submitted; /* of struct sequence */
    struct event_channel *events;
    struct event_batch *batch; /* being filled */
    _Atomic uint32_t knob_max_running, knob_prefill_chunk;
    _Atomic bool stop_wanted, retire_wanted, flush_wanted;
    struct worker_stats stats;
    struct worker_metrics metrics;
    bool stopping;
};

static struct event *add_event(struct worker *w, struct sequence *q, enum gen_event_type type)
{
    if (!w->batch)
        w->batch = event_channel_begin(w->events);
    if (w->batch->n == w->batch->cap) {
        event_channel_post(w->events, w->batch);
        w->batch = event_channel_begin(w->events);
    }
    struct event *ev = &w->batch->event[w->batch->n++];
    ev->seq = q;
    ev->type = type;
    return ev;
}

static void flush_events(struct worker *w)
{
    if (w->batch)
        event_channel_post(w->events, w->batch);
    w->batch = NULL;
}

/* What steps under way draw for it is nobody's. */
static void forget_rows(struct worker *w, const struct sequence *q)
{
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < w->step[k].n_row; i++)
            if (w->step[k].row[i] == q)
                w->step[k].row[i] = NULL;
}

static void end_sequence(struct worker *w, struct sequence *q, enum gen_finish finish,
                         const struct err *error)
{
    forget_rows(w, q);
    sched_remove(w->sched, q);
    struct event *ev = add_event(w, q, GEN_END);
    ev->finish = finish;
    ev->err = error ? *error : (struct err){0};
}

static bool is_idle(const struct worker *w)
{
    return sched_n_running(w->sched) + sched_n_waiting(w->sched) == 0;
}

/* In a static batch nobody leaves before the last one. */
static void finish_sequence(struct worker *w, struct sequence *q, enum gen_finish finish)
{
    if (!w->config.is_static) {
        end_sequence(w, q, finish, NULL);
        return;
    }
    q->finish = finish;
    sched_finish(w->sched, q);
}

static void end_static_batch(struct worker *w)
{
    while (w->config.is_static && sched_batch_is_over(w->sched)) {
        struct sequence *q = sched_running_at(w->sched, 0);
        end_sequence(w, q, q->finish, NULL);
    }
}

/* Waits for a sequence only when nothing is there to compute or end; stopping closes the queue. */
static void take_submitted(struct worker *w)
{
    bool may_wait = is_idle(w) && w->n_under_way == 0;
    struct sequence *q = may_wait ? queue_take(w->submitted, -1) : queue_try_take(w->submitted);
    for (; q; q = queue_try_take(w->submitted))
        sched_add(w->sched, q);
    w->stopping = w->stop_wanted || (w->retire_wanted && is_idle(w));
    if (atomic_exchange_explicit(&w->flush_wanted, false, memory_order_relaxed))
        sched_flush_cache(w->sched);
    sched_set_knobs(w->sched, atomic_load_explicit(&w->knob_max_running, memory_order_relaxed),
                    atomic_load_explicit(&w->knob_prefill_chunk, memory_order_relaxed));
}

/* GEN_STOP stands for "none". */
static enum gen_finish early_end(const struct sequence *q, struct mono now)
{
    if (q->cancelled)
        return GEN_CANCELLED;
    uint64_t limit = q->request.deadline_us;
    return limit && mono_since_us(q->submitted, now) > limit ? GEN_DEADLINE : GEN_STOP;
}

static void end_cancelled_and_late(struct worker *w, struct mono now)
{
    for (uint32_t i = sched_n_running(w->sched); i-- > 0;) {
        struct sequence *q = sched_running_at(w->sched, i);
        enum gen_finish finish = w->stopping ? GEN_CANCELLED : early_end(q, now);
        if (finish != GEN_STOP)
            end_sequence(w, q, finish, NULL);
    }
    for (struct sequence *q = sched_first_waiting(w->sched), *next; q; q = next) {
        next = q->next;
        enum gen_finish finish = w->stopping ? GEN_CANCELLED : early_end(q, now);
        if (finish != GEN_STOP)
            end_sequence(w, q, finish, NULL);
    }
}

static bool is_end_token(const struct worker *w, int32_t token)
{
    for (uint32_t i = 0; i < w->config.n_end; i++)
        if (w->end_ids[i] == token)
            return true;
    return false;
}

static void emit_token(struct worker *w, struct sequence *q, const struct sample_result *r)
{
    struct event *ev = add_event(w, q, GEN_TOKEN);
    ev->token = r->token;
    ev->logprob = r->logprob;
    ev->n_top = r->n_top;
    for (uint32_t i = 0; i < r->n_top; i++)
        ev->top[i] = r->top[i];
}

static void accept_token(struct worker *w, struct sequence *q, const struct sample_result *r)
{
    struct mono now = clock_mono(w->config.clock);
    if (q->is_over)
        return;
    seq_forget_expected(q);
    if (seq_n_output(q) == 0)
        q->first_token = now;
    q->last_token = now;
    atomic_fetch_add_explicit(&w->stats.generated_tokens, 1, memory_order_relaxed);
    if (!q->request.ignore_end && is_end_token(w, r->token)) {
        finish_sequence(w, q, GEN_STOP);
        return;
    }
    seq_append(q, r->token);
    emit_token(w, q, r);
    if (seq_n_output(q) >= (uint32_t)q->request.params.v[PARAM_MAX_NEW_TOKENS])
        finish_sequence(w, q, GEN_LENGTH);
}

static void accept_draw(struct worker *w, struct sequence *q, const struct draw *d)
{
    if (d->rc == ERR_OK)
        accept_token(w, q, &d->result);
    else
        end_sequence(w, q, GEN_ERROR, &d->error);
}

static struct step *step_at(struct worker *w, uint32_t i)
{
    return &w->step[(w->oldest + i) % 2];
}

/* The oldest step is over; tokens of it that are still expected will not come. */
static void drop_step(struct worker *w)
{
    struct step *t = step_at(w, 0);
    for (uint32_t i = 0; i < t->n_row; i++)
        if (t->row[i])
            seq_forget_expected(t->row[i]);
    t->n_row = 0;
    w->oldest = (w->oldest + 1) % 2;
    w->n_under_way--;
}

/* Waits for all steps; their tokens are nobody's. */
static void drop_steps(struct worker *w)
{
    const struct draw *draw;
    for (; w->n_under_way; drop_step(w))
        (void)!draws_finish(w->draws, 0, step_at(w, 0)->row, &draw, NULL);
}

/* A forward pass that failed takes the sequences of its batch with it, not the process: the next
 * batch may be fine, and a device that is gone fails all of them with the same message. */
static void fail_batch(struct worker *w, const struct err *error)
{
    log_event(LOG_ERROR, "run.forward_failed", "err=\"%s\"", error->msg);
    drop_steps(w);
    while (sched_n_running(w->sched))
        end_sequence(w, sched_running_at(w->sched, 0), GEN_ERROR, error);
    sched_failed(w->sched);
}

static void publish_stats(struct worker *w)
{
    const struct sched_counters *c = sched_get_counters(w->sched);
    struct worker_stats *s = &w->stats;
    atomic_store_explicit(&s->running, sched_n_running(w->sched), memory_order_relaxed);
    atomic_store_explicit(&s->waiting, sched_n_waiting(w->sched), memory_order_relaxed);
    atomic_store_explicit(&s->kv_blocks_used, sched_blocks_in_use(w->sched), memory_order_relaxed);
    atomic_store_explicit(&s->kv_blocks_cached, sched_blocks_cached(w->sched),
                          memory_order_relaxed);
    atomic_store_explicit(&s->preemptions, c->preemptions, memory_order_relaxed);
    atomic_store_explicit(&s->priority_preemptions, c->priority_preemptions, memory_order_relaxed);
    atomic_store_explicit(&s->evictions, c->evictions, memory_order_relaxed);
    atomic_store_explicit(&s->copied_blocks, c->copied_blocks, memory_order_relaxed);
    atomic_store_explicit(&s->copied_tokens, c->copied_tokens, memory_order_relaxed);
    atomic_store_explicit(&s->draft_tokens, c->draft_tokens, memory_order_relaxed);
    atomic_store_explicit(&s->prefix_waits, c->prefix_waits, memory_order_relaxed);
    atomic_store_explicit(&s->query_tokens, c->query_tokens, memory_order_relaxed);
    atomic_store_explicit(&s->cached_tokens, c->hit_tokens, memory_order_relaxed);
    uint64_t on_device, on_host;
    draws_counts(w->draws, &on_device, &on_host);
    atomic_store_explicit(&s->device_draws, on_device, memory_order_relaxed);
    atomic_store_explicit(&s->host_draws, on_host, memory_order_relaxed);
    worker_metrics_publish(&w->metrics, s, w->config.n_kv_blocks);
}

/* So that the next step can be planned: its tokens stay on the device. */
static void expect_tokens(struct worker *w)
{
    const struct step *t = step_at(w, 0);
    for (uint32_t i = 0; i < t->n_row; i++)
        if (t->row[i])
            seq_expect(t->row[i], i);
}

static int begin_step(struct worker *w, const struct sched_plan *plan, struct mono now,
                      bool *may_overlap, struct err *e)
{
    struct step *t = step_at(w, w->n_under_way);
    int rc = draws_start(w->draws, &plan->batch, plan->row_seq, may_overlap, e);
    if (rc != ERR_OK)
        return rc;
    t->n_row = plan->batch.n_row;
    memcpy(t->row, plan->row_seq, t->n_row * sizeof(struct sequence *));
    t->n_decode = plan->n_decode;
    t->n_prompt = plan->n_prompt;
    t->start = now;
    w->n_under_way++;
    *may_overlap = *may_overlap && !w->config.is_static && !w->config.no_overlap;
    atomic_fetch_add_explicit(&w->stats.steps, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->stats.prompt_tokens, plan->n_prompt, memory_order_relaxed);
    return ERR_OK;
}

/* A step's time counts from the end of the one before. */
static void note_time(struct worker *w, const struct step *t)
{
    struct mono now = clock_mono(w->config.clock);
    struct mono from = t->start.us > w->last_end.us ? t->start : w->last_end;
    uint64_t step_us = mono_since_us(from, now), comm_us = model_comm_us(w->config.model);
    sched_took(w->sched, t->n_decode, t->n_prompt, step_us);
    worker_metrics_step(&w->metrics, step_us, comm_us - w->comm_us, t->n_decode + t->n_prompt);
    w->last_end = now;
    w->comm_us = comm_us;
}

/* Row i's, of a step under way. After a draft's first wrong token the sequence's other rows are
 * nobody's; who ended is not looked at again. */
static void take_row(struct worker *w, const struct step *t, uint32_t i, const struct draw *draw)
{
    struct sequence *q = t->row[i];
    uint32_t n_open = q->draft.n_open, n_right = q->draft.n_right;
    accept_draw(w, q, draw);
    if (!n_open || !t->row[i])
        return;
    if (q->draft.n_right > n_right)
        atomic_fetch_add_explicit(&w->stats.draft_accepted, 1, memory_order_relaxed);
    else
        forget_rows(w, q);
}

/* Waits for the oldest step under way and takes its tokens. */
static int end_step(struct worker *w, struct err *e)
{
    const struct step *t = step_at(w, 0);
    const struct draw *draw;
    int rc = draws_finish(w->draws, t->n_row, t->row, &draw, e);
    for (uint32_t i = 0; rc == ERR_OK && i < t->n_row; i++)
        if (t->row[i])
            take_row(w, t, i, &draw[i]);
    end_static_batch(w);
    note_time(w, t);
    drop_step(w);
    return rc;
}

/* Plans and begins a step while the device computes the one before, whose tokens are then taken: a
 * sequence that turns out to have ended there is computed once for nothing. */
static void run_step(struct worker *w)
{
    struct sched_plan plan;
    struct err e;
    struct mono now = clock_mono(w->config.clock);
    bool is_after = w->n_under_way > 0, may_overlap = true;
    int rc = ERR_OK;
    if (is_after)
        expect_tokens(w);
    sched_plan(w->sched, now, &plan);
    if (plan.batch.n_tok)
        TRY(begin_step(w, &plan, now, &may_overlap, &e));
    if (is_after)
        TRY(end_step(w, &e));
    sched_computed(w->sched);
    if (!may_overlap)
        TRY(end_step(w, &e));
out:
    if (rc != ERR_OK)
        fail_batch(w, &e);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    while (!w->stopping) {
        take_submitted(w);
        end_cancelled_and_late(w, clock_mono(w->config.clock));
        if (!w->stopping)
            run_step(w);
        publish_stats(w);
        flush_events(w);
    }
    drop_steps(w);
    if (!w->batch)
        w->batch = event_channel_begin(w->events);
    w->batch->ended = w;
    flush_events(w);
    return NULL;
}

static int open_parts(struct worker *w, struct err *e)
{
    const struct gen_config *c = &w->config;
    bool may_draft = !c->is_static && !model_can_draw(c->model);
    struct sched_config sc = {.n_kv_blocks = c->n_kv_blocks,
                              .max_batch_tokens = c->max_batch_tokens,
                              .max_running = c->max_running,
                              .prefill_chunk = c->prefill_chunk,
                              .max_gap_us = c->max_gap_us,
                              .aging_us = AGING_US,
                              .draft_tokens = may_draft ? c->draft_tokens : 0,
                              .prefix_cache = c->prefix_cache,
                              .is_static = c->is_static,
                              .salt = rng_entropy()};
    uint32_t n_row = gen_max_rows(c->max_running, sc.draft_tokens);
    int rc;
    TRY(sched_open(&w->sched, &sc, e));
    TRY(draws_open(&w->draws, c->model, n_row, e));
    for (int i = 0; i < 2; i++)
        if (!(w->step[i].row = calloc(n_row, sizeof *w->step[i].row)))
            return err_set(e, ERR_NOMEM, "steps of %u rows", n_row);
    TRY(queue_open(&w->submitted, c->max_running + c->max_queue, false, e));
    w->end_ids = calloc(c->n_end + 1, sizeof *w->end_ids);
    if (!w->end_ids)
        TRY(err_set(e, ERR_NOMEM, "%u end tokens", c->n_end));
    for (uint32_t i = 0; i < c->n_end; i++)
        w->end_ids[i] = c->end_ids[i];
out:
    return rc;
}

static void worker_free(struct worker *w)
{
    for (struct sequence *q; w->submitted && (q = queue_try_take(w->submitted));)
        seq_free(q);
    queue_free(w->submitted);
    sched_close(w->sched);
    draws_close(w->draws);
    free(w->step[0].row);
    free(w->step[1].row);
    free(w->end_ids);
    free(w);
}

int worker_start(struct worker **out, const struct gen_config *c, struct event_channel *events,
                 const struct worker_metrics *metrics, struct err *e)
{
    *out = NULL;
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, ERR_NOMEM, "worker");
    w->config = *c;
    w->events = events;
    w->comm_us = model_comm_us(c->model);
    if (metrics)
        w->metrics = *metrics;
    int rc = open_parts(w, e);
    if (rc == ERR_OK && pthread_create(&w->thread, NULL, worker_main, w) != 0)
        rc = err_set(e, ERR_IO, "the engine thread could not be started: raise the thread limit");
    if (rc != ERR_OK)
        worker_free(w);
    else
        *out = w;
    return rc;
}

bool worker_submit(struct worker *w, struct sequence *q)
{
    return queue_try_put(w->submitted, q);
}

void worker_flush_cache(struct worker *w)
{
    atomic_store_explicit(&w->flush_wanted, true, memory_order_relaxed);
}

void worker_set_knobs(struct worker *w, uint32_t max_running, uint32_t prefill_chunk)
{
    atomic_store_explicit(&w->knob_max_running, max_running, memory_order_relaxed);
    atomic_store_explicit(&w->knob_prefill_chunk, prefill_chunk, memory_order_relaxed);
}

void worker_stop(struct worker *w)
{
    w->stop_wanted = true;
    queue_close(w->submitted); /* wakes an idle worker */
}

void worker_retire(struct worker *w)
{
    w->retire_wanted = true;
    queue_close(w->submitted);
}

void worker_join_and_free(struct worker *w)
{
    if (!w)
        return;
    pthread_join(w->thread, NULL);
    worker_free(w);
}

const struct worker_stats *worker_get_stats(const struct worker *w)
{
    return &w->stats;
}
