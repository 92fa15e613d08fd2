/* The API's other routes: models, health, metrics, feedback; and its life. */
#include "common/log.h"
#include "engine/api/job.h"

#include <stdlib.h>

enum {
    DEFAULT_KEEP_ALIVE_MS = 10000,
    FEEDBACK_ARENA = 1024 * 1024,
    METRICS_BYTES = 4 * 1024 * 1024
};

static void put_model(const struct api *a, struct buf *b, struct str route)
{
    buf_put_c(b, "{\"id\":\"");
    buf_put_json(b, a->config.model);
    buf_put_c(b, route.n ? ":" : "");
    buf_put_json(b, route);
    buf_put_c(b, "\",\"object\":\"model\",\"created\":0,\"owned_by\":\"milepost\"}");
}

/* The model alone, then with each route: what the model field may hold. */
static void on_models(struct http_request *r, void *ctx)
{
    const struct api *a = ctx;
    struct buf b;
    if (!api_has_key(a, r)) {
        api_reply_no_key(r);
        return;
    }
    buf_init(&b, 1 * MiB);
    buf_put_c(&b, "{\"object\":\"list\",\"data\":[");
    put_model(a, &b, STR(""));
    for (uint32_t i = 0; i < route_table_count(a->table); i++) {
        buf_put_char(&b, ',');
        put_model(a, &b, route_table_name_at(a->table, i));
    }
    buf_put_c(&b, "]}");
    http_reply(r, 200, "application/json", buf_str(&b));
    buf_free(&b);
}

static bool is_known_route(const struct api *a, struct str name)
{
    for (uint32_t i = 0; i < route_table_count(a->table); i++)
        if (str_eq(route_table_name_at(a->table, i), name))
            return true;
    return name.n == 0;
}

static void on_model(struct http_request *r, void *ctx)
{
    const struct api *a = ctx;
    struct str path = http_request_path(r), route = {0};
    struct str id = str_slice(path, sizeof "/v1/models/" - 1, path.n), base = id;
    struct buf b;
    if (!api_has_key(a, r)) {
        api_reply_no_key(r);
        return;
    }
    if (!str_eq(id, a->config.model))
        route_split_model(id, &base, &route);
    if (!str_eq(base, a->config.model) || !is_known_route(a, route)) {
        struct err e;
        err_set(&e, ERR_NOT_FOUND, "model '" STR_FMT "' is not served here",
                STR_ARG(str_slice(id, 0, 128)));
        api_reply_error(r, 404, &e, "model_not_found");
        return;
    }
    buf_init(&b, 64 * KiB);
    put_model(a, &b, route);
    http_reply(r, 200, "application/json", buf_str(&b));
    buf_free(&b);
}

static void on_health(struct http_request *r, void *ctx)
{
    const struct api *a = ctx;
    if (a->is_admitting)
        http_reply(r, 200, "application/json", STR("{\"status\":\"ok\"}"));
    else
        http_reply(r, 503, "application/json", STR("{\"status\":\"not admitting\"}"));
}

static void on_metrics(struct http_request *r, void *ctx)
{
    const struct api *a = ctx;
    struct buf b;
    buf_init(&b, METRICS_BYTES);
    metrics_render(a->config.metrics, &b);
    http_reply(r, 200, "text/plain; version=0.0.4", buf_str(&b));
    buf_free(&b);
}

static void post_free(struct feedback_post *p)
{
    *p->back = p->next;
    if (p->next)
        p->next->back = p->back;
    arena_free(&p->arena);
    free(p);
}

/* What is acknowledged is stored: an acknowledgement before that could be a lie. */
static void on_feedback_stored(void *ctx, bool is_stored)
{
    struct feedback_post *p = ctx;
    struct err e;
    if (p->http && is_stored) {
        http_reply(p->http, 200, "application/json", STR("{\"status\":\"stored\"}"));
    } else if (p->http) {
        err_set(&e, ERR_BUSY, "the feedback could not be stored: send it again later");
        api_reply_error(p->http, 503, &e, NULL);
    }
    post_free(p);
}

static struct feedback_post *post_new(struct api *a, struct http_request *r)
{
    struct feedback_post *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->http = r;
    arena_init(&p->arena, FEEDBACK_ARENA);
    p->next = a->posts;
    p->back = &a->posts;
    if (p->next)
        p->next->back = &p->next;
    a->posts = p;
    return p;
}

static void on_feedback(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct err e = {0};
    struct feedback_post *p = NULL;
    if (!api_has_key(a, r)) {
        api_reply_no_key(r);
        return;
    }
    if (!a->config.outbox)
        err_set(&e, ERR_UNSUPPORTED, "nothing is recorded here: the loop is switched off");
    else if (!(p = post_new(a, r)))
        err_set(&e, ERR_NOMEM, "out of memory: try again later");
    else if (feedback_decode_request(http_request_body(r), &p->arena, &p->feedback, &e) == ERR_OK) {
        p->feedback.created_us = clock_wall(a->config.clock).us;
        const struct outbox_item item = {
            .feedback = &p->feedback, .on_stored = on_feedback_stored, .ctx = p};
        outbox_put(a->config.outbox, &item);
        return;
    }
    int status = e.code == ERR_NOT_FOUND ? 400 : err_info(e.code)->http_status;
    api_reply_error(r, status, &e, NULL);
    if (p)
        post_free(p);
}

/* Proxies cut streams that say nothing: a comment while a request waits or its prompt runs. */
static void on_keep_alive(void *ctx)
{
    struct api *a = ctx;
    struct mono now = clock_mono(a->config.clock);
    uint64_t silence_us = (uint64_t)a->config.keep_alive_ms * 1000;
    for (struct job *j = a->jobs; j; j = j->next) {
        if (!j->is_streaming || mono_since_us(j->last_sent, now) < silence_us)
            continue;
        buf_put_c(&j->chunk, ": waiting\n\n");
        (void)job_send(j);
    }
    if (a->jobs)
        api_keep_alive(a);
}

void api_keep_alive(struct api *a)
{
    http_timer_start(a->keep_alive, a->config.keep_alive_ms / 2 + 1);
}

static const struct {
    const char *method, *path;
    http_handler_fn *fn;
} PAGES[] = {
    {"POST", "/v1/chat/completions", api_on_chat},
    {"POST", "/v1/completions", api_on_completion},
    {"GET", "/v1/models", on_models},
    {"GET", "/v1/models/*", on_model},
    {"POST", "/v1/feedback", on_feedback},
    {"GET", "/health", on_health},
    {"GET", "/metrics", on_metrics},
};

static size_t longest_token(const struct tokenizer *t)
{
    size_t longest = 1;
    uint32_t n = tokenizer_get_info(t)->n_vocab;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = tokenizer_token_bytes(t, (int32_t)i).n;
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

int api_open(struct api **out, const struct api_config *c, struct err *e)
{
    int rc;
    struct outbox_state state = {.next_admission = 1};
    struct api *a = calloc(1, sizeof *a);
    *out = a;
    if (!a)
        return err_set(e, ERR_NOMEM, "api");
    a->config = *c;
    a->is_admitting = true;
    if (c->keep_alive_ms == 0)
        a->config.keep_alive_ms = DEFAULT_KEEP_ALIVE_MS;
    if (c->outbox)
        outbox_get_state(c->outbox, &state);
    a->next_admission = state.next_admission;
    a->longest_token = longest_token(c->tokenizer);
    api_metrics_init(&a->metrics, c->metrics);
    TRY(reader_open(&a->reader, c->server, job_on_read, e));
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        TRY(http_server_route(c->server, PAGES[i].method, PAGES[i].path, PAGES[i].fn, a, e));
    TRY(http_server_timer(c->server, &a->keep_alive, on_keep_alive, a, e));
    return ERR_OK;
out:
    api_close(a);
    *out = NULL;
    return rc;
}

void api_end_jobs(struct api *a)
{
    for (struct job *j = a->jobs; j; j = j->next) {
        uint64_t n_token = 0;
        for (uint32_t i = 0; i < j->n_submitted; i++)
            n_token += j->choice[i].n_token;
        if (n_token == 0 && !j->error.code)
            err_set(&j->error, ERR_BUSY, "this engine is stopping: send the request again");
        job_cancel(j);
    }
}

void api_detach(struct api *a)
{
    a->is_admitting = false;
    reader_close(a->reader);
    a->reader = NULL;
    for (struct job *j = a->jobs, *next; j; j = next) {
        next = j->next;
        j->http = NULL;
        if (j->is_reading) /* nobody waits for its answer and nothing was generated */
            job_free(j);
    }
    for (struct feedback_post *p = a->posts; p; p = p->next)
        p->http = NULL;
}

void api_close(struct api *a)
{
    if (!a)
        return;
    reader_close(a->reader);
    while (a->jobs)
        job_free(a->jobs);
    while (a->posts)
        post_free(a->posts);
    route_table_release(a->table);
    free(a);
}

void api_set_table(struct api *a, struct route_table *t)
{
    route_table_release(a->table);
    a->table = t;
}

const struct route_table *api_get_table(const struct api *a)
{
    return a->table;
}

void api_set_weights(struct api *a, struct str weights)
{
    a->config.weights = weights;
}

void api_set_admitting(struct api *a, bool is_admitting)
{
    a->is_admitting = is_admitting;
}

uint32_t api_open_jobs(const struct api *a)
{
    return a->n_jobs;
}

bool api_is_device_lost(const struct api *a)
{
    return a->is_device_lost;
}
