/* The configuration as a whole: its table, loading, and the small questions every process asks. */
#include "schemas/config.h"

#include "common/io.h"
#include "common/log.h"
#include "schemas/config_tables.h"

#include <stdlib.h>

enum { MAX_KEY_BYTES = 4096 };

static int check_webhook_names(const struct cfg_list *webhooks, struct err *e)
{
    const struct webhook_config *w = webhooks->item;
    for (uint32_t i = 0; i < webhooks->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (str_eq(w[i].name, w[j].name))
                return err_set(e, ERR_INVALID,
                               "controller.webhooks[%u].name: \"%.40s\" is used twice", i,
                               w[i].name.p);
        }
    }
    return ERR_OK;
}

static int check_config(const void *value, const char *path, struct err *e)
{
    const struct milepost_config *c = value;
    const struct route_config *r = c->routes.item;
    (void)path;
    for (uint32_t i = 0; i < c->routes.n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (str_eq(r[i].name, r[j].name))
                return err_set(e, ERR_INVALID, "routes[%u].name: \"%.40s\" is used twice", i,
                               r[i].name.p);
        }
    }
    return check_webhook_names(&c->controller.webhooks, e);
}

#define M struct milepost_config
#define PART(field, type_, table, help_)                                                           \
    {                                                                                              \
        .key = #field, .type = type_, .offset = offsetof(M, field), .sub = &table, .help = help_   \
    }
static const struct cfg_option OPTIONS[] = {
    TEXT_ROW(M, state_dir, ".milepost",
             "Folder of databases, outbox and logs; relative paths below start here."),
    TEXT_ROW(M, log_level, "info", "debug, info, warn or error."),
    PART(engine, CFG_MAP, ENGINE_TABLE, "The process that answers requests."),
    PART(loop, CFG_MAP, LOOP_TABLE, "The wires between the three processes."),
    PART(verifier, CFG_MAP, VERIFIER_TABLE, "The process that scores outputs."),
    PART(controller, CFG_MAP, CONTROLLER_TABLE, "The process that decides."),
    PART(routes, CFG_LIST, ROUTE_TABLE,
         "Classes of traffic; the first is the default. None = one plain route."),
};
#undef M
const struct cfg_table MILEPOST_CONFIG = {.name = "configuration",
                                          .size = sizeof(struct milepost_config),
                                          .option = OPTIONS,
                                          .n_option = CFG_COUNT(OPTIONS),
                                          .check = check_config};

/* Serving must work without any file: one route with a check that needs no reference. */
static int add_plain_route(struct milepost_config *c, struct arena *a, struct err *e)
{
    static const char *const plain[] = {
        "name=default",
        "checks=[{id: finished, kind: finish_reason, gate: true}, {id: words, kind: length, "
        "unit: words, min: 1}, {id: loops, kind: repetition}]",
    };
    struct route_config *r = arena_alloc(a, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "out of memory for the default route");
    c->routes = (struct cfg_list){.item = r, .n = 1};
    return cfg_load(&ROUTE_TABLE, NULL, plain, 2, a, r, e);
}

int milepost_config_load(const char *path, const char *const *overrides, size_t n_overrides,
                         struct arena *a, struct milepost_config *out, struct err *e)
{
    int rc = cfg_load(&MILEPOST_CONFIG, path, overrides, n_overrides, a, out, e);
    if (rc == ERR_OK && out->routes.n == 0)
        rc = add_plain_route(out, a, e);
    if (rc != ERR_OK)
        return rc;
    enum log_level level;
    if (log_level_parse(out->log_level, &level))
        return ERR_OK;
    return err_set(e, ERR_INVALID,
                   "%s: log_level: must be debug, info, warn or error, got \"%.40s\"",
                   path ? path : "configuration", out->log_level.p);
}

const struct route_config *milepost_config_route(const struct milepost_config *c, struct str name)
{
    const struct route_config *r = c->routes.item;
    for (uint32_t i = 0; i < c->routes.n; i++) {
        if (str_eq(r[i].name, name))
            return &r[i];
    }
    return NULL;
}

const char *milepost_config_path(const struct milepost_config *c, struct str path, struct arena *a)
{
    if (str_starts(path, STR("/")) || c->state_dir.n == 0)
        return arena_str(a, path).p;
    return arena_printf(a, STR_FMT "/" STR_FMT, STR_ARG(c->state_dir), STR_ARG(path)).p;
}

int milepost_config_key(struct str key_file, const char *env, struct arena *a, struct str *out,
                        struct err *e)
{
    *out = (struct str){"", 0};
    if (key_file.n == 0) {
        *out = str_trim(arena_str(a, str_from(getenv(env))));
        return out->p ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory for a key");
    }
    struct buf b;
    buf_init(&b, MAX_KEY_BYTES);
    const char *path = arena_str(a, key_file).p;
    int rc = path ? io_read_file(path, &b, e) : err_set(e, ERR_NOMEM, "out of memory for a key");
    if (rc == ERR_OK) {
        *out = arena_str(a, str_trim(buf_str(&b)));
        if (!out->p)
            rc = err_set(e, ERR_NOMEM, "out of memory for a key");
        else if (out->n == 0)
            rc = err_set(e, ERR_INVALID, "%s: holds no key", path);
    }
    buf_free(&b);
    return rc;
}
