/* `milepost params show|set|history|diff`: a route's parameters and their revisions.
 *
 * `set` checks names and ranges here, with the same table as the engine, before anything is sent;
 * the controller checks again. */
#include "controller/cli/assignment.h"
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

#include <string.h>

struct params_options {
    const char *route, *reason;
    bool now;
    int64_t limit;
};

static const char *const TITLES[] = {">REV",  ">PARENT",    "CREATED", "AUTHOR",
                                     "STATE", "PARAMETERS", "REASON"};

static const char *state_of(const json_t *revision)
{
    if (json_is_true(json_object_get(revision, "is_champion")))
        return "champion";
    if (json_is_true(json_object_get(revision, "is_challenger")))
        return "on trial";
    return json_is_true(json_object_get(revision, "is_quarantined")) ? "quarantined" : "";
}

static void add_revision(struct arena *a, struct table *t, const json_t *v, const char *state)
{
    const char *cells[] = {json_number_of(a, v, "number", 0),
                           json_number_of(a, v, "parent", 0),
                           time_of(a, json_int_of(v, "created_us")),
                           json_text_of(v, "author"),
                           state,
                           params_line(a, json_object_get(v, "params")),
                           one_line(a, json_text_of(v, "reason"), 60)};
    table_row(t, cells);
}

static int show(struct cli *c, const struct params_options *o, struct err *e)
{
    struct table t;
    json_t *doc = NULL;
    struct str path = arena_printf(&c->arena, "/api/params?route=%s", cli_route_query(c, o->route));
    int rc;

    TRY(cli_get(c, path.p, &doc, e));
    if (c->json) {
        cli_print_json(doc);
        goto out;
    }
    TRY(table_init(&t, &c->arena, TITLES, 7, e));
    const json_t *champion = json_object_get(doc, "champion");
    const json_t *challenger = json_object_get(doc, "challenger");
    add_revision(&c->arena, &t, champion, "champion");
    if (json_is_object(challenger))
        add_revision(&c->arena, &t, challenger, "challenger");
    table_print(&t, stdout);
out:
    json_decref(doc);
    return rc;
}

static int revisions(struct cli *c, const struct params_options *o, json_t **doc, struct err *e)
{
    struct str path = arena_printf(&c->arena, "/api/revisions?route=%s&limit=%lld",
                                   cli_route_query(c, o->route), (long long)o->limit);

    return path.p != NULL ? cli_get(c, path.p, doc, e) : err_set(e, ERR_NOMEM, "path");
}

static int history(struct cli *c, const struct params_options *o, struct err *e)
{
    struct table t;
    json_t *doc = NULL, *v;
    size_t i;
    int rc;

    TRY(revisions(c, o, &doc, e));
    if (c->json) {
        cli_print_json(doc);
        goto out;
    }
    TRY(table_init(&t, &c->arena, TITLES, 7, e));
    json_array_foreach(json_object_get(doc, "revisions"), i, v)
        add_revision(&c->arena, &t, v, state_of(v));
    table_print(&t, stdout);
out:
    json_decref(doc);
    return rc;
}

static const json_t *find_revision(const json_t *doc, int64_t number)
{
    size_t i;
    json_t *v;

    json_array_foreach(json_object_get(doc, "revisions"), i, v)
    {
        if (json_int_of(v, "number") == number)
            return json_object_get(v, "params");
    }
    return NULL;
}

/* Prints the keys whose values differ; one object per key with --json. */
static int print_diff(struct cli *c, const json_t *from, const json_t *to)
{
    json_t *all = json_copy((json_t *)from), *result = json_object(), *unused;
    const char *key;

    json_object_update(all, (json_t *)to);
    json_object_foreach(all, key, unused)
    {
        json_t *a = json_object_get(from, key), *b = json_object_get(to, key);
        if (a != NULL && b != NULL && json_equal(a, b))
            continue;
        json_object_set_new(result, key, json_pack("{s:O?, s:O?}", "from", a, "to", b));
        if (c->json)
            continue;
        char *left = a != NULL ? json_dumps(a, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
        char *right = b != NULL ? json_dumps(b, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
        printf("%s: %s -> %s\n", key, left ? left : "unset", right ? right : "unset");
        free(left);
        free(right);
    }
    if (c->json)
        cli_print_json(result);
    else if (json_object_size(result) == 0)
        printf("no difference\n");
    json_decref(all);
    json_decref(result);
    return ERR_OK;
}

static int diff(struct cli *c, struct params_options *o, int n_args, char **args, struct err *e)
{
    json_t *doc = NULL;
    int64_t number[2];
    const json_t *side[2];
    int rc = ERR_OK;

    if (n_args != 2)
        return err_set(e, ERR_INVALID, "diff needs two revision numbers: milepost params diff 3 5");
    o->limit = 1000;
    TRY(revisions(c, o, &doc, e));
    for (int i = 0; i < 2; i++) {
        TRY(str_to_i64(str_from(args[i]), &number[i], e));
        side[i] = find_revision(doc, number[i]);
        if (side[i] == NULL)
            TRY(err_set(e, ERR_NOT_FOUND, "%s has no revision %s; see 'params history'",
                        o->route[0] ? o->route : "the first route", args[i]));
    }
    rc = print_diff(c, side[0], side[1]);
out:
    json_decref(doc);
    return rc;
}

static int change_of(struct cli *c, int n_args, char **args, json_t **out, struct err *e)
{
    struct param_set parsed;
    int rc = ERR_OK;

    *out = json_object();
    if (n_args == 0)
        return err_set(e, ERR_INVALID, "set needs NAME=VALUE, such as temperature=0.5");
    for (int i = 0; rc == ERR_OK && i < n_args; i++)
        rc = assignment_put(*out, args[i], e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(*out);
    return param_set_decode(&root, &c->arena, &parsed, e);
}

static int set(struct cli *c, const struct params_options *o, int n_args, char **args,
               struct err *e)
{
    json_t *params = NULL, *answer = NULL, *body = NULL;
    int rc;

    TRY(change_of(c, n_args, args, &params, e));
    body = json_pack("{s:s, s:O, s:b, s:s, s:s}", "route", o->route, "params", params, "now",
                     o->now, "reason", o->reason, "author", cli_author(c));
    TRY(cli_post(c, "/api/params", body, &answer, e));
    if (c->json)
        cli_print_json(answer);
    else
        printf("revision %s is on trial%s; decision %s (milepost status shows it)\n",
               json_number_of(&c->arena, answer, "revision", 0),
               o->now ? " with most of the traffic" : ", ramping up from a small share",
               json_number_of(&c->arena, answer, "decision", 0));
out:
    json_decref(params);
    json_decref(body);
    json_decref(answer);
    return rc;
}

static int run(struct cli *c, struct params_options *o, int n_args, char **args, struct err *e)
{
    const char *verb = n_args > 0 ? args[0] : "show";

    if (strcmp(verb, "show") == 0)
        return show(c, o, e);
    if (strcmp(verb, "history") == 0)
        return history(c, o, e);
    if (strcmp(verb, "diff") == 0)
        return diff(c, o, n_args - 1, args + 1, e);
    return set(c, o, n_args - 1, args + 1, e);
}

int cmd_params(struct cli *c, int argc, char **argv)
{
    struct params_options o = {.route = "", .reason = "operator change", .limit = 50};
    const struct opt options[] = {
        {"route", 'r', OPT_TEXT, &o.route, 0, 0, "ROUTE", "else the first route"},
        {"now", 0, OPT_FLAG, &o.now, 0, 0, NULL,
         "set: most of the traffic at once, a small share stays behind as the control"},
        {"reason", 'm', OPT_TEXT, &o.reason, 0, 0, "TEXT", "set: kept with the revision"},
        {"limit", 'n', OPT_INT, &o.limit, 1, 1000, "N", "history: how many"},
    };
    const struct cli_usage usage = {
        .line = "milepost params [show | set NAME=VALUE... | history | diff A B] [options]",
        .about = "Shows or changes what a route's requests get. Every change is a new revision on\n"
                 "trial against the serving one: it is promoted or rolled back by its rewards.\n"
                 "Names: temperature top_p top_k min_p repetition_penalty presence_penalty\n"
                 "frequency_penalty max_new_tokens max_running prefill_chunk; caps.NAME for the\n"
                 "most a client may ask for.",
        .opt = options,
        .n_opt = 4,
        .max_args = 64,
        .words = "show set history diff"};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    return run(c, &o, n_args, argv, &e) == ERR_OK ? CLI_OK : cli_fail(&e);
}
