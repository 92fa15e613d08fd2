/* Admission: parse, choose route and arm, tokenise, settle the parameters, submit. What is decided
 * here stays fixed for the life of the request. A refusal leaves nothing behind but its count. */
#include "common/hash.h"
#include "common/log.h"
#include "common/rng.h"
#include "engine/api/job.h"

#include <stdlib.h>

enum { ARENA_BYTES = 256 * 1024 * 1024, TEXT_BYTES = OUTPUT_MAX_BYTES / 2 };

static struct job *job_new(struct api *a, struct http_request *r)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->api = a;
    j->http = r;
    arena_init(&j->arena, ARENA_BYTES);
    buf_init(&j->chunk, 64 * MiB);
    j->table = route_table_hold(a->table);
    j->admitted = j->last_sent = clock_mono(a->config.clock);
    j->created = clock_wall(a->config.clock);
    j->next = a->jobs;
    j->back = &a->jobs;
    if (j->next)
        j->next->back = &j->next;
    a->jobs = j;
    a->n_jobs++;
    api_keep_alive(a);
    return j;
}

void job_free(struct job *j)
{
    *j->back = j->next;
    if (j->next)
        j->next->back = j->back;
    j->api->n_jobs--;
    for (uint32_t i = 0; j->choice && i < j->request.n; i++)
        if (j->choice[i].is_open)
            detok_fini(&j->choice[i].detok);
    api_request_close(&j->request);
    route_table_release(j->table);
    buf_free(&j->chunk);
    arena_free(&j->arena);
    free(j);
}

/* The model field may carry the route; a header says it too. */
static int choose_route(struct job *j, struct err *e)
{
    struct str base = j->request.model, name = {0}, served = j->api->config.model;
    struct str header = http_request_header(j->http, "X-Milepost-Route");
    struct str unit = route_unit(j->request.user, j->request.conversation, j->id);
    if (!str_eq(base, served))
        route_split_model(j->request.model, &base, &name);
    if (base.n && !str_eq(base, served)) {
        j->code = "model_not_found";
        return err_set(e, ERR_NOT_FOUND,
                       "$.model: '" STR_FMT "' is not served here: use '" STR_FMT "'",
                       STR_ARG(str_slice(base, 0, 64)), STR_ARG(str_slice(served, 0, 64)));
    }
    if (header.n)
        name = header;
    j->code = "route_not_found";
    int rc = route_choose(j->table, name, unit, &j->route, e);
    if (rc == ERR_OK)
        j->code = NULL;
    return rc;
}

static void settle_params(struct job *j)
{
    double room = j->api->config.max_context - j->n_prompt;
    route_settle(&j->route, &j->request.client, room, &j->effective);
    if (!j->request.has_seed)
        j->request.seed = rng_entropy();
}

static int open_choices(struct job *j, struct err *e)
{
    struct arena *a = &j->arena;
    uint32_t max = (uint32_t)j->effective.v[PARAM_MAX_NEW_TOKENS], n_top = j->request.n_top;
    struct choice *choice = arena_array(a, j->request.n, sizeof *choice);
    if (!choice)
        return job_no_memory(e);
    j->choice = choice;
    for (uint32_t i = 0; i < j->request.n; i++) {
        struct choice *c = &choice[i];
        *c = (struct choice){.job = j, .index = i, .max_token = max};
        c->token = arena_array(a, max, sizeof *c->token);
        c->logprob = arena_array(a, max, sizeof *c->logprob);
        if (n_top)
            c->top = arena_array(a, (size_t)max * n_top, sizeof *c->top);
        if (!c->token || !c->logprob || (n_top && !c->top))
            return job_no_memory(e);
        detok_init(&c->detok, j->api->config.tokenizer, j->effective.stop, j->effective.n_stop,
                   TEXT_BYTES);
        c->is_open = true;
    }
    return ERR_OK;
}

/* Choices of one request differ by their seeds only; the first has the client's own. */
static uint64_t choice_seed(uint64_t seed, uint32_t index)
{
    uint64_t state = seed + index;
    return index == 0 ? seed : rng_splitmix(&state);
}

static uint64_t least_timeout_us(const struct job *j)
{
    uint64_t server = j->api->config.request_timeout_us, own = j->request.timeout_ms * 1000;
    return own && own < server ? own : server;
}

static int submit_all(struct job *j, struct err *e)
{
    const struct api_config *c = &j->api->config;
    const struct api_request *q = &j->request;
    int rc = ERR_OK;
    struct gen_request g = {
        .id = j->id,
        .prompt = j->prompt,
        .n_prompt = j->n_prompt,
        .params = j->effective,
        .bias = q->bias,
        .n_bias = q->n_bias,
        .want_logprobs = true, /* records carry them */
        .n_top = q->n_top,
        .ignore_end = q->ignore_end,
        .priority = q->priority,
        .user = q->user.n ? hash64(q->user.p, q->user.n, 0) : 0,
        .deadline_us = least_timeout_us(j),
        .on_event = job_on_event,
    };
    for (uint32_t i = 0; i < q->n && rc == ERR_OK; i++) {
        g.seed = choice_seed(q->seed, i);
        g.ctx = &j->choice[i];
        rc = c->ops->submit(c->generator, &g, &j->choice[i].handle, e);
        j->n_submitted += rc == ERR_OK;
    }
    return rc;
}

static void fill_output(struct job *j, struct choice *c, uint64_t admission)
{
    const struct api_request *q = &j->request;
    c->output = (struct output){
        .request_id = j->id,
        .choice = c->index,
        .unit = route_unit(q->user, q->conversation, j->id),
        .stratum = q->stratum,
        .messages = (const struct output_message *)q->messages,
        .n_messages = q->n_messages,
        .prompt = q->prompt,
        .effective = j->effective,
        .prompt_tokens = j->n_prompt,
        .created_us = j->created.us,
        .model = j->api->config.model,
        .weights = j->api->config.weights,
        .metadata = q->metadata,
    };
    route_mark(j->table, &j->route, admission, &c->output);
}

_Static_assert(sizeof(struct output_message) == sizeof(struct chat_message) &&
                   offsetof(struct output_message, content) ==
                       offsetof(struct chat_message, content),
               "the record's messages are the request's");

/* A prompt that came as token ids is recorded as text. */
static void name_prompt(struct job *j)
{
    struct buf text;
    if (j->request.n_ids == 0)
        return;
    buf_init(&text, TEXT_BYTES);
    tokenizer_decode(j->api->config.tokenizer, j->prompt, j->n_prompt, false, &text);
    j->request.prompt = arena_str(&j->arena, buf_str(&text));
    buf_free(&text);
}

static void put_headers(struct job *j)
{
    struct http_request *r = j->http;
    struct params shown = j->effective;
    struct buf text;
    for (int i = 0; i < PARAM_COUNT; i++)
        if (param_info((enum param_id)i)->is_scheduler)
            shown.set &= ~(1u << i);
    buf_init(&text, 8 * KiB);
    params_write(&shown, &text);
    if (!text.failed)
        http_reply_header(r, "X-Milepost-Params", buf_str(&text));
    buf_reset(&text);
    buf_printf(&text, "%llu", (unsigned long long)j->route.arm->revision.number);
    http_reply_header(r, "X-Milepost-Route", j->route.route->name);
    http_reply_header(r, "X-Milepost-Revision", buf_str(&text));
    http_reply_header(r, "X-Milepost-Arm", j->route.arm->name);
    buf_free(&text);
}

static void on_client_gone(void *ctx)
{
    struct job *j = ctx;
    j->is_gone = true;
    log_event(LOG_DEBUG, "api.client_gone", "req=" STR_FMT, STR_ARG(j->id));
    job_cancel(j);
}

static void admit(struct job *j)
{
    put_headers(j);
    name_prompt(j);
    uint64_t admission = j->api->next_admission++; /* of the request: its choices share it */
    for (uint32_t i = 0; i < j->request.n; i++)
        fill_output(j, &j->choice[i], admission);
    api_metrics_arm(&j->api->metrics, j->route.arm->name, &j->metrics);
    api_metrics_request(&j->api->metrics, j->route.route->name, 200);
    http_stream_on_close(j->http, on_client_gone, j);
    if (!j->request.stream)
        return;
    j->is_streaming = true;
    http_reply_header(j->http, "Cache-Control", STR("no-cache"));
    http_reply_header(j->http, "X-Accel-Buffering", STR("no"));
    http_stream_begin(j->http, 200, "text/event-stream");
    for (uint32_t i = 0; i < j->request.n && j->request.kind == API_CHAT; i++)
        render_first(j, &j->choice[i]);
    (void)job_send(j);
}

/* Choices that got in before the queue was full end without a record; the job waits for them. */
static void refuse(struct job *j, const struct err *e)
{
    int status = err_info(e->code)->http_status;
    struct str route = j->route.route ? j->route.route->name : STR("");
    api_metrics_request(&j->api->metrics, route, status);
    api_reply_error(j->http, status, e, j->code);
    j->http = NULL;
    j->is_refused = true;
    if (j->n_submitted)
        job_cancel(j);
    else
        job_free(j);
}

/* From the read body on; rc and e: what reading gave. */
static void go_on(struct job *j, int rc, struct err *e)
{
    if (rc != ERR_OK)
        goto out;
    TRY(choose_route(j, e));
    settle_params(j);
    TRY(open_choices(j, e));
    TRY(submit_all(j, e));
    admit(j);
    return;
out:
    refuse(j, e);
}

/* Meanwhile its client may have left, or a stop may have run out of time. */
void job_on_read(void *job)
{
    struct job *j = job;
    struct err e = j->read_error;
    int rc = (int)e.code;
    j->is_reading = false;
    if (j->is_gone)
        rc = err_set(&e, ERR_CANCELLED, "the client left");
    else if (j->error.code)
        rc = (int)(e = j->error).code;
    if (j->http)
        go_on(j, rc, &e);
}

static int check_open(const struct api *a, struct err *e)
{
    return a->is_admitting
               ? ERR_OK
               : err_set(e, ERR_BUSY, "this engine is not taking requests now: try again later");
}

static void start(struct api *a, struct http_request *r, enum api_kind kind)
{
    struct err e = {0};
    if (!api_has_key(a, r)) {
        api_metrics_request(&a->metrics, STR(""), 401);
        api_reply_no_key(r);
        return;
    }
    struct job *j = job_new(a, r);
    if (!j) {
        job_no_memory(&e);
        api_reply_error(r, 503, &e, NULL);
        return;
    }
    j->request.kind = kind;
    j->body = http_request_body(r);
    j->id = api_request_id(kind == API_CHAT ? "chatcmpl" : "cmpl", &j->arena);
    api_put_request_id(r, j->id);
    int rc = check_open(a, &e);
    if (rc == ERR_OK && j->body.n > READER_LEAST_BYTES) {
        j->is_reading = true;
        http_stream_on_close(r, on_client_gone, j);
        if (reader_put(a->reader, j))
            return;
        j->is_reading = false;
        rc = err_set(&e, ERR_BUSY, "too many large bodies at once: try again later");
    }
    go_on(j, rc == ERR_OK ? job_read(j, &e) : rc, &e);
}

void api_on_chat(struct http_request *r, void *api)
{
    start(api, r, API_CHAT);
}

void api_on_completion(struct http_request *r, void *api)
{
    start(api, r, API_COMPLETION);
}
