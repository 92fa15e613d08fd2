/* Handlers. Each is: check the request, ask for a JSON value, answer.
 *
 * A POST from a page of another origin is refused (the browser says where it comes from), so that a
 * web page cannot steer a controller on loopback. */
#include "controller/api.h"

#include "common/log.h"
#include "controller/api_command.h"
#include "controller/api_experiments.h"
#include "controller/api_notices.h"
#include "controller/api_read.h"
#include "controller/api_why.h"
#include "controller/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 32 * 1024 * 1024, MAX_LIMIT = 1000, MAX_HOURS = 24 * 366 * 10 };

enum { POST_ROUTES = 10, READ_ROUTES = 12 };

struct read_route {
    struct api *api;
    const struct read *read;
};

struct post_route {
    struct api *api;
    enum command_kind kind;
};

struct api {
    struct api_options o;
    struct store *store; /* read-only, of this thread */
    struct post_route post[POST_ROUTES];
    struct read_route read[READ_ROUTES];
};

void api_error_body(int status, const char *message, struct buf *out)
{
    const char *code = status == 404 ? "not_found" : status >= 500 ? "failed" : "invalid";
    buf_put_c(out, "{\"error\":{\"message\":\"");
    buf_put_json(out, str_from(message));
    buf_printf(out, "\",\"code\":\"%s\"}}\n", code);
}

static void reply_error(struct http_request *r, int status, const char *code, const char *message)
{
    struct buf b;
    buf_init(&b, 16 * KiB);
    buf_put_c(&b, "{\"error\":{\"message\":\"");
    buf_put_json(&b, str_from(message));
    buf_printf(&b, "\",\"code\":\"%s\"}}\n", code);
    http_reply(r, status, "application/json", buf_str(&b));
    buf_free(&b);
}

static void reply_err(struct http_request *r, const struct err *e)
{
    const struct err_info *info = err_info(e->code);
    reply_error(r, info->http_status, info->label, e->msg);
}

/* Takes v. */
static void reply_json(struct http_request *r, json_t *v, int rc, struct err *e)
{
    struct buf b;
    buf_init(&b, ANSWER_BYTES);
    if (rc == ERR_OK)
        rc = json_write(v, &b, e);
    json_decref(v);
    http_reply_header(r, "Cache-Control", STR("no-store"));
    if (rc == ERR_OK)
        http_reply(r, 200, "application/json", buf_str(&b));
    else
        reply_err(r, e);
    buf_free(&b);
}

static int query_int(struct http_request *r, const char *key, int64_t min, int64_t max,
                     int64_t *out, struct err *e)
{
    struct str s = http_request_query(r, key);
    if (s.n == 0)
        return ERR_OK;
    int rc = str_to_i64(s, out, e);
    if (rc == ERR_OK && (*out < min || *out > max))
        rc = err_set(e, ERR_INVALID, "%lld is outside %lld to %lld", (long long)*out,
                     (long long)min, (long long)max);
    return rc == ERR_OK ? rc : err_wrap(e, "%s", key);
}

/* Reads. */

struct read_query {
    struct str route;
    int64_t limit, after;
    bool worst;
    struct str id;  /* the end of the path */
    int64_t number; /* the same, where it is one */
};

typedef int read_fn(struct store *s, const struct read_query *q, json_t **out, struct err *e);

enum read_key { BY_ROUTE, BY_ID, BY_NUMBER };

struct read {
    const char *path; /* the key takes the place of an asterisk at its end */
    enum read_key key;
    int64_t limit; /* of rows, when the query names none */
    read_fn *fn;
};

static int read_common(struct api *a, struct http_request *r, int64_t limit, struct read_query *q,
                       struct err *e)
{
    struct str order = http_request_query(r, "order");
    *q = (struct read_query){.limit = limit, .after = -1};
    q->worst = str_eq_c(http_request_query(r, "worst"), "1") || str_eq_c(order, "worst");
    int rc = api_find_route(a->o.config, http_request_query(r, "route"), &q->route, e);
    if (rc == ERR_OK)
        rc = query_int(r, "limit", 1, MAX_LIMIT, &q->limit, e);
    return rc == ERR_OK ? query_int(r, "after", 0, INT64_MAX, &q->after, e) : rc;
}

static int read_key(struct http_request *r, const struct read *read, struct read_query *q,
                    struct err *e)
{
    struct str path = http_request_path(r);
    q->id = str_slice(path, strlen(read->path) - 1, path.n);
    return read->key == BY_NUMBER ? str_to_i64(q->id, &q->number, e) : ERR_OK;
}

static void get_read(struct http_request *r, void *ctx)
{
    const struct read_route *route = ctx;
    struct read_query q = {0};
    struct err e = {0};
    json_t *v = NULL;
    int rc = route->read->key == BY_ROUTE ? read_common(route->api, r, route->read->limit, &q, &e)
                                          : read_key(r, route->read, &q, &e);
    if (rc == ERR_OK)
        rc = route->read->fn(route->api->store, &q, &v, &e);
    reply_json(r, v, rc, &e);
}

#define READ(name, call)                                                                           \
    static int name(struct store *s, const struct read_query *q, json_t **out, struct err *e)      \
    {                                                                                              \
        return call;                                                                               \
    }
READ(revisions, api_read_revisions(s, q->route, q->limit, out, e))
READ(decisions, api_read_decisions(s, q->route, q->after, q->limit, out, e))
READ(decision, api_read_decision(s, q->number, out, e))
READ(why, api_read_why(s, q->number, out, e))
READ(scores, api_read_scores(s, q->route, q->worst, q->limit, out, e))
READ(load, api_read_load(s, q->route, clock_wall(&CLOCK_REAL).us, out, e))
READ(experiments, api_experiment_list(s, q->route, q->limit, out, e))
READ(experiment, api_experiment_report(s, q->id, out, e))
READ(datasets, api_read_datasets(s, q->route, q->limit, out, e))
READ(dataset, api_read_dataset(s, q->id, out, e))
READ(notices, api_read_notices(s, q->limit, out, e))
READ(orders, api_read_orders(s, q->limit, out, e))

static const struct read READS[READ_ROUTES] = {
    {"/api/revisions", BY_ROUTE, 50, revisions},    {"/api/decisions", BY_ROUTE, 50, decisions},
    {"/api/decisions/*", BY_NUMBER, 0, decision},   {"/v1/decisions/*", BY_NUMBER, 0, why},
    {"/api/scores", BY_ROUTE, 20, scores},          {"/api/load", BY_ROUTE, 1, load},
    {"/v1/experiments", BY_ROUTE, 20, experiments}, {"/v1/experiments/*", BY_ID, 0, experiment},
    {"/api/datasets", BY_ROUTE, 20, datasets},      {"/api/datasets/*", BY_ID, 0, dataset},
    {"/api/webhooks", BY_ROUTE, 50, notices},       {"/api/engine/orders", BY_ROUTE, 50, orders},
};

static void get_status(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct buf b;
    buf_init(&b, ANSWER_BYTES);
    board_status(a->o.board, &b);
    http_reply_header(r, "Cache-Control", STR("no-store"));
    if (b.n)
        http_reply(r, 200, "application/json", buf_str(&b));
    else
        reply_error(r, 503, "busy", "the controller is starting");
    buf_free(&b);
}

static void get_health(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    /* Healthy = every call below can be answered, so not before the writer's first turn. */
    if (board_is_ready(a->o.board))
        http_reply(r, 200, "application/json", STR("{\"status\":\"ok\"}\n"));
    else
        reply_error(r, 503, "busy", "the controller is starting");
}

static void get_metrics(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct buf b;
    buf_init(&b, ANSWER_BYTES);
    metrics_render(a->o.metrics, &b);
    http_reply(r, 200, "text/plain; version=0.0.4", buf_str(&b));
    buf_free(&b);
}

static void get_params(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct read_query q;
    struct err e = {0};
    json_t *v = NULL;
    int rc = read_common(a, r, 1, &q, &e);
    if (rc == ERR_OK)
        rc =
            api_read_params(a->store, q.route, milepost_config_route(a->o.config, q.route), &v, &e);
    json_object_set_new(v, "needs_key", json_boolean(a->o.admin_key.n > 0));
    reply_json(r, v, rc, &e);
}

static void get_series(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct read_query q;
    struct err e = {0};
    json_t *v = NULL, *trend = NULL;
    struct buf b;
    buf_init(&b, ANSWER_BYTES);
    int64_t hours = 0;
    int rc = read_common(a, r, 1, &q, &e);
    if (rc == ERR_OK)
        rc = query_int(r, "hours", 0, MAX_HOURS, &hours, &e);
    if (rc == ERR_OK)
        rc = hours ? api_read_rewards(a->store, q.route, hours, clock_wall(&CLOCK_REAL).us, &v, &e)
                   : api_read_series(a->store, q.route, &v, &e);
    board_trend(a->o.board, &b);
    if (rc == ERR_OK && b.n && json_parse(buf_str(&b), 0, &trend, NULL) == ERR_OK) {
        json_t *mine = json_object_getn(trend, q.route.p, q.route.n);
        json_object_set(v, "evalues", mine ? mine : json_null());
        json_decref(trend);
    }
    buf_free(&b);
    reply_json(r, v, rc, &e);
}

/* Changes nothing, so it needs no key. */
static void post_experiment_plan(struct http_request *r, void *ctx)
{
    struct api *a = ctx;
    struct err e = {0};
    json_t *v = NULL, *body = NULL;
    struct str given = {0}, route;
    int rc = json_parse(http_request_body(r), JSON_UNIQUE_KEYS, &body, &e);
    struct json_at root = json_root(body);
    if (rc == ERR_OK)
        rc = json_opt_str(&root, "route", &given, &e);
    if (rc == ERR_OK)
        rc = api_find_route(a->o.config, given, &route, &e);
    if (rc == ERR_OK)
        rc = api_experiment_plan(a->store, route, milepost_config_route(a->o.config, route), &root,
                                 &v, &e);
    json_decref(body);
    reply_json(r, v, rc, &e);
}

/* Changes. */

struct post {
    struct api *api;
    struct http_request *request;
    struct command *command;
};

static void answer_post(void *ctx)
{
    struct post *p = ctx;
    struct command *c = p->command;
    struct err e = c->err;
    json_t *v = NULL;
    if (e.code == ERR_OK && c->kind == COMMAND_ENGINE)
        v = json_pack("{s:o, s:s}", "engine", json_str(c->engine), "message", c->message);
    else if (e.code == ERR_OK && c->kind == COMMAND_FINETUNE)
        v = json_pack("{s:s}", "dataset", c->message);
    else if (e.code == ERR_OK) {
        v = json_pack("{s:I, s:I, s:s}", "revision", (json_int_t)c->revision, "decision",
                      (json_int_t)c->decision, "experiment", c->experiment);
    }
    reply_json(p->request, v, e.code, &e);
    command_free(c);
    free(p);
}

/* Writer thread. When the server is closing nobody waits any more. */
static void command_done(struct command *c)
{
    struct post *p = c->ctx;
    if (!http_server_post(p->api->o.server, answer_post, p)) {
        command_free(c);
        free(p);
    }
}

static bool same_origin(struct http_request *r)
{
    struct str origin = http_request_header(r, "Origin");
    struct str host = http_request_header(r, "Host");
    if (!origin.p)
        return true;
    ptrdiff_t at = str_find(origin, STR("://"), 0);
    return at > 0 && str_eq(str_slice(origin, (size_t)at + 3, origin.n), host);
}

static void submit(struct api *a, struct http_request *r, enum command_kind kind)
{
    struct err e = {0};
    if (!http_request_has_key(r, a->o.admin_key)) {
        reply_error(r, 401, "unauthorized",
                    "this call needs the admin key (Authorization: Bearer KEY)");
        return;
    }
    if (!same_origin(r)) {
        reply_error(r, 403, "forbidden", "a page of another origin may not change anything here");
        return;
    }
    struct command *c = command_new(kind);
    struct post *p = calloc(1, sizeof *p);
    int rc = c && p ? api_read_command(a->o.config, http_request_body(r), c, &e)
                    : err_set(&e, ERR_NOMEM, "no memory for a command");
    if (rc == ERR_OK) {
        *p = (struct post){a, r, c};
        c->done = command_done;
        c->ctx = p;
        if (loop_submit(a->o.loop, c))
            return;
        err_set(&e, ERR_BUSY, "too many changes wait; try again");
    }
    command_free(c);
    free(p);
    reply_err(r, &e);
}

static void post_command(struct http_request *r, void *ctx)
{
    const struct post_route *p = ctx;
    submit(p->api, r, p->kind);
}

static const struct {
    const char *method, *path;
    http_handler_fn *fn;
} ROUTES[] = {
    {"GET", "/health", get_health},     {"GET", "/metrics", get_metrics},
    {"GET", "/api/status", get_status}, {"GET", "/api/params", get_params},
    {"GET", "/api/series", get_series}, {"POST", "/v1/experiments/plan", post_experiment_plan},
};

static const struct {
    const char *path;
    enum command_kind kind;
} POSTS[POST_ROUTES] = {
    {"/api/params", COMMAND_PARAMS},
    {"/api/rollback", COMMAND_ROLLBACK},
    {"/api/pause", COMMAND_PAUSE},
    {"/api/resume", COMMAND_RESUME},
    {"/api/promote", COMMAND_PROMOTE},
    {"/api/stop", COMMAND_STOP},
    {"/api/engine", COMMAND_ENGINE},
    {"/v1/experiments", COMMAND_EXPERIMENT},
    {"/v1/experiments/stop", COMMAND_EXPERIMENT_STOP},
    {"/api/finetune", COMMAND_FINETUNE},
};

int api_open(struct api **out, const struct api_options *o, struct err *e)
{
    *out = NULL;
    struct api *a = calloc(1, sizeof *a);
    if (!a)
        return err_set(e, ERR_NOMEM, "no memory for the API");
    a->o = *o;
    int rc = store_open_readonly(&a->store, o->database, e);
    for (size_t i = 0; rc == ERR_OK && i < sizeof ROUTES / sizeof *ROUTES; i++)
        rc = http_server_route(o->server, ROUTES[i].method, ROUTES[i].path, ROUTES[i].fn, a, e);
    for (size_t i = 0; rc == ERR_OK && i < READ_ROUTES; i++) {
        a->read[i] = (struct read_route){a, &READS[i]};
        rc = http_server_route(o->server, "GET", READS[i].path, get_read, &a->read[i], e);
    }
    for (size_t i = 0; rc == ERR_OK && i < POST_ROUTES; i++) {
        a->post[i] = (struct post_route){a, POSTS[i].kind};
        rc = http_server_route(o->server, "POST", POSTS[i].path, post_command, &a->post[i], e);
    }
    if (rc == ERR_OK)
        rc = web_add_routes(o->server, e);
    if (rc != ERR_OK) {
        api_close(a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

void api_close(struct api *a)
{
    if (!a)
        return;
    store_close(a->store);
    free(a);
}
