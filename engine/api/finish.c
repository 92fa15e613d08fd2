/* From token events to the end of a job. A choice ends with GEN_END; its record goes to the outbox;
 * only when it is stored does the client get the last chunk, and the job its end. */
#include "common/log.h"
#include "engine/api/job.h"

#include <string.h>

enum { DEVICE_GRACE_MS = 1000 };

/* As recorded, and what OpenAI's clients know. */
static const char *const RECORDED[] = {[GEN_STOP] = "stop",
                                       [GEN_LENGTH] = "length",
                                       [GEN_CANCELLED] = "cancelled",
                                       [GEN_DEADLINE] = "length",
                                       [GEN_ERROR] = "error"};

void job_cancel(struct job *j)
{
    const struct api_config *c = &j->api->config;
    for (uint32_t i = 0; i < j->n_submitted; i++)
        c->ops->cancel(c->generator, j->choice[i].handle);
}

/* Sends and empties the chunk. False when the client is gone or too slow. */
bool job_send(struct job *j)
{
    bool is_sent = j->http && !j->is_gone && http_stream_send(j->http, buf_str(&j->chunk));
    buf_reset(&j->chunk);
    j->last_sent = clock_mono(j->api->config.clock);
    return is_sent;
}

/* Each token is an event, also one whose text is empty or not there yet (part of a character, of a
 * stop sequence, a control token): the client sees that the stream goes on. */
static void send_piece(struct choice *c, struct str piece, bool has_token)
{
    struct job *j = c->job;
    if (!j->is_streaming || j->is_gone || (piece.n == 0 && !has_token))
        return;
    render_piece(j, c, piece, has_token);
    if (job_send(j) || j->is_gone || !j->http)
        return;
    log_event(LOG_INFO, "api.slow_client", "req=" STR_FMT, STR_ARG(j->id));
    j->is_gone = true;
    job_cancel(j);
}

static void observe_token(struct choice *c)
{
    struct job *j = c->job;
    struct mono now = clock_mono(j->api->config.clock);
    if (c->n_token == 1)
        metric_observe(j->metrics.ttft, (double)mono_since_us(j->admitted, now) * 1e-6);
    else
        metric_observe(j->metrics.inter_token, (double)mono_since_us(c->last_token, now) * 1e-6);
    c->last_token = now;
}

static void take_token(struct choice *c, const struct gen_event *ev)
{
    struct job *j = c->job;
    struct str piece;
    if (c->is_cut || j->is_refused || c->n_token == c->max_token)
        return;
    uint32_t i = c->n_token++, n_top = j->request.n_top;
    c->token[i] = ev->token;
    c->logprob[i] = ev->logprob;
    for (uint32_t k = 0; k < n_top; k++)
        c->top[(size_t)i * n_top + k] =
            k < ev->n_top ? ev->top[k] : (struct gen_top){.token = -1, .logprob = 0};
    observe_token(c);
    detok_push(&c->detok, ev->token, &piece);
    if (c->detok.stopped || c->detok.text.failed) {
        c->is_cut = true;
        c->finish = c->detok.stopped ? "stop" : "length";
        j->api->config.ops->cancel(j->api->config.generator, c->handle);
    }
    send_piece(c, piece, true);
}

static void finish_job(struct job *j)
{
    const struct api *a = j->api;
    double seconds = (double)mono_since_us(j->admitted, clock_mono(a->config.clock)) * 1e-6;
    metric_observe(j->metrics.e2e, seconds);
    if (j->http && j->is_streaming) {
        if (j->request.include_usage)
            render_usage(j);
        buf_put_c(&j->chunk, "data: [DONE]\n\n");
        (void)job_send(j);
        http_stream_end(j->http);
    } else if (j->http && j->error.code) {
        api_reply_error(j->http, err_info(j->error.code)->http_status, &j->error, NULL);
    } else if (j->http) {
        render_body(j);
        http_reply(j->http, 200, "application/json", buf_str(&j->chunk));
    }
    job_free(j);
}

static void on_stored(void *ctx, bool is_stored)
{
    struct choice *c = ctx;
    struct job *j = c->job;
    if (!is_stored)
        log_event(LOG_WARN, "api.output_dropped", "req=" STR_FMT, STR_ARG(j->id));
    if (j->is_streaming && j->http) {
        if (j->error.code)
            render_stream_error(j);
        else
            render_last(j, c);
        (void)job_send(j);
    }
    if (++j->n_done == j->request.n)
        finish_job(j);
}

static void complete_output(struct choice *c, const struct gen_event *ev)
{
    struct output *o = &c->output;
    o->text = buf_str(&c->detok.text);
    o->token_ids = c->token;
    o->logprobs = c->logprob;
    o->n_tokens = o->completion_tokens = c->n_token;
    o->finish_reason = str_from(c->finish);
    o->cached_tokens = ev->n_cached;
    o->queue_us = ev->queue_us;
    o->ttft_us = ev->ttft_us;
    o->decode_us = ev->decode_us;
}

/* No later request could do better here: the process ends and whoever runs it starts another. */
static void lose_device(struct api *a, const struct err *e)
{
    if (a->is_device_lost)
        return;
    log_event(LOG_ERROR, "api.device_lost", "err=\"%s\"", e->msg);
    a->is_device_lost = true;
    a->is_admitting = false;
    http_server_stop(a->config.server, DEVICE_GRACE_MS);
}

static void end_choice(struct choice *c, const struct gen_event *ev)
{
    struct job *j = c->job;
    struct outbox *outbox = j->api->config.outbox;
    if (!c->is_cut) {
        c->finish = RECORDED[ev->finish];
        detok_finish(&c->detok, &c->tail);
    }
    if (ev->finish == GEN_ERROR && !j->error.code)
        j->error = ev->err;
    if (ev->finish == GEN_ERROR && ev->err.code == ERR_DEVICE)
        lose_device(j->api, &ev->err);
    complete_output(c, ev);
    metric_observe(j->metrics.output_tokens, c->n_token);
    api_metrics_finish(&j->api->metrics, c->finish, j->route.arm->name);
    const struct outbox_item item = {.output = &c->output, .on_stored = on_stored, .ctx = c};
    if (outbox)
        outbox_put(outbox, &item);
    else
        on_stored(c, true);
}

void job_on_event(void *choice, const struct gen_event *ev)
{
    struct choice *c = choice;
    struct job *j = c->job;
    if (ev->type == GEN_TOKEN) {
        take_token(c, ev);
        return;
    }
    j->n_ended++;
    c->handle.v = 0;
    if (!j->is_refused)
        end_choice(c, ev);
    else if (j->n_ended == j->n_submitted)
        job_free(j);
}
