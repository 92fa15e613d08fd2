/* `milepost experiment plan|start|list|report|stop`: several arms of a route compared at once.
 *
 * `plan` and `start` send the same request; `start` shows the forecast first. The controller checks
 * every name and range. */
#include "controller/cli/assignment.h"
#include "controller/cli/cli.h"
#include "controller/cli/experiment_print.h"
#include "controller/cli/print.h"

#include <stdlib.h>
#include <string.h>

struct experiment_options {
    const char *route, *reason;
    struct opt_list arm, grid;
    const char *law, *on_win;
    const char *alpha, *effect, *least_share;
    const char *min, *max, *slice;
    int64_t units, every, seed, limit;
};

/* "90s", "10m", "2h", "7d" or plain seconds. */
static int seconds_of(const char *option, const char *text, double *out, struct err *e)
{
    static const struct {
        const char *unit;
        double seconds;
    } UNITS[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double n = strtod(text, &end);

    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (end != text && n >= 0 && strcmp(end, UNITS[i].unit) == 0) {
            *out = n * UNITS[i].seconds;
            return ERR_OK;
        }
    }
    return err_set(e, ERR_INVALID, "--%s: found '%.40s', allowed: 90s, 10m, 2h, 7d", option, text);
}

static int put_seconds(json_t *body, const char *option, const char *key, const char *text,
                       struct err *e)
{
    double seconds;
    int rc = text ? seconds_of(option, text, &seconds, e) : ERR_OK;

    if (rc == ERR_OK && text)
        json_object_set_new(body, key, json_real(seconds));
    return rc;
}

static int put_number(json_t *body, const char *option, const char *key, const char *text,
                      struct err *e)
{
    char *end;
    double v = text ? strtod(text, &end) : 0;

    if (!text)
        return ERR_OK;
    if (end == text || *end != '\0')
        return err_set(e, ERR_INVALID, "--%s: '%.40s' is not a number", option, text);
    json_object_set_new(body, key, json_real(v));
    return ERR_OK;
}

/* "temperature=0.3,top_p=0.9": one arm. */
static int arm_of(struct cli *c, const char *text, json_t *arm, struct err *e)
{
    struct str left = arena_str(&c->arena, str_from(text));
    int rc = ERR_OK;

    while (rc == ERR_OK && left.n > 0) {
        ptrdiff_t comma = str_find(left, STR(","), 0);
        size_t n = comma < 0 ? left.n : (size_t)comma;
        struct str one = arena_printf(&c->arena, STR_FMT, STR_ARG(str_slice(left, 0, n)));
        rc = one.p ? assignment_put(arm, one.p, e) : err_set(e, ERR_NOMEM, "an arm");
        left = str_slice(left, n + (comma >= 0), left.n);
    }
    return rc;
}

/* "temperature=0.3,0.6,0.9": one knob of the matrix. */
static int grid_of(struct cli *c, const char *text, json_t *matrix, struct err *e)
{
    const char *equals = strchr(text, '=');
    json_t *values = NULL;

    if (!equals)
        return err_set(e, ERR_INVALID, "--grid: '%.60s' is not NAME=VALUE,VALUE", text);
    struct str list = arena_printf(&c->arena, "[%s]", equals + 1);
    if (!list.p || json_parse(list, JSON_ANY_VALUE, &values, NULL) != ERR_OK)
        return err_set(e, ERR_INVALID, "--grid: '%.60s' is not NAME=VALUE,VALUE", text);
    json_object_setn_new(matrix, text, (size_t)(equals - text), values);
    return ERR_OK;
}

static int put_arms(struct cli *c, const struct experiment_options *o, json_t *body, struct err *e)
{
    json_t *arms = json_array(), *matrix = json_object();
    int rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < o->arm.n; i++) {
        json_t *arm = json_object();
        rc = arm_of(c, o->arm.item[i], arm, e);
        json_array_append_new(arms, arm);
    }
    for (size_t i = 0; rc == ERR_OK && i < o->grid.n; i++)
        rc = grid_of(c, o->grid.item[i], matrix, e);
    json_object_set_new(body, "arms", arms);
    if (json_object_size(matrix) > 0)
        json_object_set(body, "matrix", matrix);
    json_decref(matrix);
    return rc;
}

static int request_of(struct cli *c, const struct experiment_options *o, json_t **out,
                      struct err *e)
{
    json_t *body = json_pack("{s:s, s:s, s:s}", "route", o->route, "reason", o->reason, "author",
                             cli_author(c));
    int rc;

    *out = body;
    TRY(put_arms(c, o, body, e));
    TRY(put_number(body, "alpha", "alpha", o->alpha, e));
    TRY(put_number(body, "effect", "effect", o->effect, e));
    TRY(put_number(body, "floor", "floor", o->least_share, e));
    TRY(put_seconds(body, "min", "min_seconds", o->min, e));
    TRY(put_seconds(body, "max", "max_seconds", o->max, e));
    TRY(put_seconds(body, "slice", "slice_seconds", o->slice, e));
    if (o->law)
        json_object_set_new(body, "law", json_string(o->law));
    if (o->on_win)
        json_object_set_new(body, "on_win", json_string(o->on_win));
    if (o->units)
        json_object_set_new(body, "max_units", json_integer(o->units));
    if (o->every)
        json_object_set_new(body, "every_units", json_integer(o->every));
    if (o->seed >= 0)
        json_object_set_new(body, "seed", json_integer(o->seed));
out:
    return rc;
}

static int plan(struct cli *c, const struct experiment_options *o, const char *id, struct err *e)
{
    json_t *body = NULL, *answer = NULL;
    int rc;

    (void)id;
    TRY(request_of(c, o, &body, e));
    TRY(cli_post(c, "/v1/experiments/plan", body, &answer, e));
    if (c->json)
        cli_print_json(answer);
    else
        rc = experiment_print_plan(c, answer, e);
out:
    json_decref(body);
    json_decref(answer);
    return rc;
}

static int start(struct cli *c, const struct experiment_options *o, const char *id, struct err *e)
{
    json_t *body = NULL, *answer = NULL;
    int rc;

    if (!c->json)
        TRY(plan(c, o, id, e));
    TRY(request_of(c, o, &body, e));
    TRY(cli_post(c, "/v1/experiments", body, &answer, e));
    if (c->json)
        cli_print_json(answer);
    else
        printf("\nexperiment %s runs; decision %s (milepost experiment report shows it)\n",
               json_text_of(answer, "experiment"),
               json_number_of(&c->arena, answer, "decision", 0));
out:
    json_decref(body);
    json_decref(answer);
    return rc;
}

static int list(struct cli *c, const struct experiment_options *o, const char *id, struct err *e)
{
    json_t *doc = NULL;
    struct str path = arena_printf(&c->arena, "/v1/experiments?route=%s&limit=%lld",
                                   cli_route_query(c, o->route), (long long)o->limit);
    int rc;

    (void)id;
    TRY(cli_get(c, path.p, &doc, e));
    if (c->json)
        cli_print_json(doc);
    else
        rc = experiment_print_list(c, json_object_get(doc, "experiments"), e);
out:
    json_decref(doc);
    return rc;
}

/* The route's last experiment. */
static int last_id(struct cli *c, const struct experiment_options *o, const char **out,
                   struct err *e)
{
    json_t *doc = NULL;
    struct str path =
        arena_printf(&c->arena, "/v1/experiments?limit=1&route=%s", cli_route_query(c, o->route));
    int rc = cli_get(c, path.p, &doc, e);
    const json_t *last = json_array_get(json_object_get(doc, "experiments"), 0);

    *out = arena_printf(&c->arena, "%s", json_text_of(last, "id")).p;
    json_decref(doc);
    if (rc == ERR_OK && (*out == NULL || **out == '\0'))
        return err_set(e, ERR_NOT_FOUND, "there is no experiment yet on this route");
    return rc;
}

static int report(struct cli *c, const struct experiment_options *o, const char *id, struct err *e)
{
    json_t *doc = NULL;
    int rc = ERR_OK;

    if (!id)
        TRY(last_id(c, o, &id, e));
    TRY(cli_get(c, arena_printf(&c->arena, "/v1/experiments/%s", cli_route_query(c, id)).p, &doc,
                e));
    if (c->json)
        cli_print_json(doc);
    else
        rc = experiment_print_report(c, doc, e);
out:
    json_decref(doc);
    return rc;
}

static int stop(struct cli *c, const struct experiment_options *o, const char *id, struct err *e)
{
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:s, s:s}", "route", o->route, "reason", o->reason, "author",
                             cli_author(c));
    int rc;

    (void)id;
    TRY(cli_post(c, "/v1/experiments/stop", body, &answer, e));
    if (c->json)
        cli_print_json(answer);
    else
        printf("experiment ended, the champion serves; decision %s\n",
               json_number_of(&c->arena, answer, "decision", 0));
out:
    json_decref(body);
    json_decref(answer);
    return rc;
}

static int run(struct cli *c, const struct experiment_options *o, const char *verb, const char *id,
               struct err *e)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *c, const struct experiment_options *o, const char *id,
                   struct err *e);
    } VERBS[] = {
        {"plan", plan}, {"start", start}, {"list", list}, {"report", report}, {"stop", stop}};

    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        if (strcmp(verb, VERBS[i].name) == 0)
            return VERBS[i].run(c, o, id, e);
    return err_set(e, ERR_INVALID, "'%.40s' is none of plan, start, list, report, stop", verb);
}

int cmd_experiment(struct cli *c, int argc, char **argv)
{
    struct experiment_options o = {.route = "", .reason = "experiment", .seed = -1, .limit = 20};
    const struct opt options[] = {
        {"route", 'r', OPT_TEXT, &o.route, 0, 0, "ROUTE", "else the first route"},
        {"arm", 'a', OPT_LIST, &o.arm, 0, 0, "NAME=VALUE,...",
         "one arm, laid over the champion; repeatable"},
        {"grid", 'g', OPT_LIST, &o.grid, 0, 0, "NAME=V,V,...",
         "values of one knob; several give every combination"},
        {"law", 0, OPT_TEXT, &o.law, 0, 0, "LAW",
         "elimination (equal shares), top_two (most to the best two), slices (of time)"},
        {"on-win", 0, OPT_TEXT, &o.on_win, 0, 0, "WHAT",
         "canary (the winner goes on trial), promote, report"},
        {"effect", 0, OPT_TEXT, &o.effect, 0, 0, "D",
         "smallest difference of reward that matters, for the forecast; else 0.05"},
        {"alpha", 0, OPT_TEXT, &o.alpha, 0, 0, "P",
         "most probable share of wrong verdicts, over the whole experiment; else 0.05"},
        {"floor", 0, OPT_TEXT, &o.least_share, 0, 0, "P", "top_two: least share of an arm; 0.02"},
        {"min", 0, OPT_TEXT, &o.min, 0, 0, "TIME", "no winner before, such as 24h"},
        {"max", 0, OPT_TEXT, &o.max, 0, 0, "TIME", "without a winner by then: no verdict; 7d"},
        {"units", 0, OPT_INT, &o.units, 1, INT64_MAX, "N", "the same in scored outputs"},
        {"every", 0, OPT_INT, &o.every, 10, 1000000000, "N",
         "top_two: scored outputs between two looks at the shares; 200"},
        {"slice", 0, OPT_TEXT, &o.slice, 0, 0, "TIME", "slices: length of one; 60s"},
        {"seed", 0, OPT_INT, &o.seed, 0, INT64_MAX, "N", "slices: of their order; else drawn"},
        {"reason", 'm', OPT_TEXT, &o.reason, 0, 0, "TEXT", "kept with the decision"},
        {"limit", 'n', OPT_INT, &o.limit, 1, 1000, "N", "list: how many"},
    };
    const struct cli_usage usage = {
        .line = "milepost experiment plan|start|list|report [ID]|stop [options]",
        .about =
            "Compares several settings of a route at once, beside its champion. Whoever is\n"
            "beaten leaves; the one that is left has won. 'plan' shows the arms and how long\n"
            "it will take; 'start' shows the same and begins. Arms that differ in max_running\n"
            "or prefill_chunk take turns in time, since these belong to the engine.\n"
            "Example: milepost experiment start --grid temperature=0.3,0.6,0.9 --grid "
            "top_p=0.8,0.95",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0],
        .min_args = 1,
        .max_args = 2,
        .words = "plan start list report stop"};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    return run(c, &o, argv[0], n_args > 1 ? argv[1] : NULL, &e) == ERR_OK ? CLI_OK : cli_fail(&e);
}
