/* What operators may ask for, checked field by field before the writer sees it. */
#include "controller/api_command.h"

#include <string.h>

enum { MAX_REASON = 1000 };

int api_find_route(const struct milepost_config *c, struct str given, struct str *out,
                   struct err *e)
{
    const struct route_config *first = c->routes.item;
    const struct route_config *found = given.n ? milepost_config_route(c, given) : first;
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "there is no route '%.*s'", (int)(given.n & 0xff),
                       given.p);
    *out = found->name;
    return ERR_OK;
}

static int read_author(const struct json_at *root, struct arena *a, struct str *out, struct err *e)
{
    struct str author = {0};
    int rc = json_opt_str(root, "author", &author, e);
    if (rc != ERR_OK)
        return rc;
    if (author.n > 200)
        return err_set(e, ERR_INVALID, "author: at most 200 bytes");
    if (author.n == 0)
        author = STR("api");
    *out = str_starts(author, STR("operator:"))
               ? arena_str(a, author)
               : arena_printf(a, "operator:" STR_FMT, STR_ARG(author));
    return out->p ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a command");
}

/* Of an experiment the whole body is the request: it is read against the champion by the writer. */
static int read_params(const struct json_at *root, struct command *c, struct err *e)
{
    struct json_at at = c->kind == COMMAND_EXPERIMENT ? *root : json_field(root, "params");
    struct buf b;
    buf_init(&b, 64 * KiB);
    int rc = json_get_object(&at, e);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(e, ERR_INVALID, "params: needed, such as {\"temperature\":0.5}");
    if (rc == ERR_OK)
        rc = json_write(at.v, &b, e);
    if (rc == ERR_OK)
        c->params = arena_str(&c->arena, buf_str(&b));
    buf_free(&b);
    return rc;
}

static int read_order(const struct json_at *root, struct command *c, struct err *e)
{
    struct str engine = {0}, order = {0}, argument = {0};
    int rc = json_opt_str(root, "engine", &engine, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "command", &order, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "argument", &argument, e);
    if (rc == ERR_OK && order.n == 0)
        rc = err_set(e, ERR_INVALID,
                     "command: needed: drain, pause, resume, flush_cache or load_weights");
    if (rc == ERR_OK && (engine.n > CODEC_MAX_NAME || order.n > 32 || argument.n > 4096))
        rc = err_set(e, ERR_INVALID, "engine, command or argument is too long");
    c->engine = arena_str(&c->arena, engine);
    c->order = arena_str(&c->arena, order);
    c->argument = arena_str(&c->arena, argument);
    return rc == ERR_OK ? read_author(root, &c->arena, &c->author, e) : rc;
}

static int read_span(const struct json_at *root, struct command *c, struct err *e)
{
    int rc = json_opt_i64(root, "since_us", 0, INT64_MAX, &c->since_us, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(root, "until_us", 0, INT64_MAX, &c->until_us, e);
    return rc == ERR_OK ? json_opt_bool(root, "only_scored", &c->only_scored, e) : rc;
}

/* What only some commands take. */
static int read_own(const struct json_at *root, struct command *c, struct err *e)
{
    switch (c->kind) {
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
        return json_opt_bool(root, "all", &c->is_all, e);
    case COMMAND_PARAMS:
    case COMMAND_EXPERIMENT:
        return read_params(root, c, e);
    case COMMAND_FINETUNE:
        return read_span(root, c, e);
    default:
        return ERR_OK;
    }
}

static int read_body(const struct milepost_config *config, const struct json_at *root,
                     struct command *c, struct err *e)
{
    struct str route = {0}, reason = STR("");
    int64_t to = 0;
    if (c->kind == COMMAND_ENGINE)
        return read_order(root, c, e);
    int rc = json_opt_str(root, "route", &route, e);
    if (rc == ERR_OK)
        rc = api_find_route(config, route, &c->route, e);
    if (rc == ERR_OK)
        rc = json_opt_str(root, "reason", &reason, e);
    if (rc == ERR_OK && reason.n > MAX_REASON)
        rc = err_set(e, ERR_INVALID, "reason: at most %d bytes", MAX_REASON);
    if (rc == ERR_OK)
        rc = json_opt_bool(root, "now", &c->is_now, e);
    if (rc == ERR_OK)
        rc = json_opt_i64(root, "to", 0, INT64_MAX, &to, e);
    if (rc == ERR_OK)
        rc = read_author(root, &c->arena, &c->author, e);
    c->to = (uint64_t)to;
    c->reason = arena_str(&c->arena, reason);
    return rc == ERR_OK ? read_own(root, c, e) : rc;
}

int api_read_command(const struct milepost_config *config, struct str body, struct command *c,
                     struct err *e)
{
    json_t *v = NULL;
    int rc = json_parse(body, JSON_UNIQUE_KEYS, &v, e);
    if (rc != ERR_OK)
        return err_wrap(e, "body");
    struct json_at root = json_root(v);
    rc = read_body(config, &root, c, e);
    json_decref(v);
    return rc;
}
