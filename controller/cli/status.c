/* `milepost status`: engines, routes, arms with their tests, as tables or as the API's JSON. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

#include <math.h>

/* "7", or "6 of 7" when the engine lags behind. */
static const char *applied(struct arena *a, const json_t *engine, int64_t desired)
{
    int64_t has = json_int_of(engine, "desired_version");
    if (has == desired)
        return json_number_of(a, engine, "desired_version", 0);
    struct str s = arena_printf(a, "%lld of %lld", (long long)has, (long long)desired);
    return s.p != NULL ? s.p : "-";
}

int print_engines(struct cli *c, const json_t *engines, int64_t desired, struct err *e)
{
    static const char *const titles[] = {"ENGINE",  "SEEN",    ">RUNNING", ">WAITING", ">TOK/S",
                                         ">KV USE", ">OUTBOX", ">DROPPED", ">APPLIED"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 9, e) != ERR_OK)
        return e->code;
    json_array_foreach((json_t *)engines, i, v)
    {
        const char *cells[] = {json_text_of(v, "engine"),
                               age_of(a, json_int_of(v, "age_ms")),
                               json_number_of(a, v, "running", 0),
                               json_number_of(a, v, "waiting", 0),
                               json_number_of(a, v, "tokens_per_second", 1),
                               json_number_of(a, v, "kv_usage", 2),
                               json_number_of(a, v, "outbox_rows", 0),
                               json_number_of(a, v, "outbox_dropped", 0),
                               applied(a, v, desired)};
        table_row(&t, cells);
        if (json_is_true(json_object_get(v, "is_stale")))
            table_tone(&t, 1, TONE_BAD);
        if (json_int_of(v, "outbox_dropped") > 0)
            table_tone(&t, 7, TONE_BAD);
        if (json_int_of(v, "desired_version") != desired)
            table_tone(&t, 8, TONE_WARN);
    }
    if (t.n_row == 0)
        printf("no engine has reported yet\n");
    else
        table_print(&t, stdout);
    return ERR_OK;
}

static void add_arm(struct arena *a, struct table *t, const json_t *route, const char *arm)
{
    const json_t *v = json_object_get(route, arm);

    if (!json_is_object(v))
        return;
    bool is_champion = arm[1] == 'h' && arm[2] == 'a' && arm[3] == 'm';
    const char *cells[] = {is_champion ? json_text_of(route, "route") : "",
                           is_champion ? json_text_of(route, "policy") : "",
                           is_champion ? json_text_of(route, "state") : "",
                           arm,
                           json_number_of(a, v, "revision", 0),
                           json_number_of(a, v, "share", 2),
                           json_number_of(a, v, "n", 0),
                           json_number_of(a, v, "unscored", 0),
                           json_number_of(a, v, "mean", 3),
                           json_number_of(a, v, "lower", 3),
                           json_number_of(a, v, "upper", 3),
                           params_line(a, json_object_get(v, "params"))};
    table_row(t, cells);
    if (is_champion && json_is_true(json_object_get(route, "is_paused")))
        table_tone(t, 2, TONE_WARN);
}

static void print_tests(struct arena *a, const json_t *route)
{
    size_t i;
    json_t *v;

    json_array_foreach(json_object_get(route, "tests"), i, v)
    {
        double log_e = json_real_of(v, "log_e"), bound = json_real_of(v, "log_threshold");
        if (isnan(log_e))
            continue;
        printf("  %s, test %s: e-value %.4g of %.4g needed\n", json_text_of(route, "route"),
               one_line(a, json_text_of(v, "test"), 60), exp(log_e), exp(bound));
    }
}

static int print_routes(struct cli *c, const json_t *routes, struct err *e)
{
    static const char *const titles[] = {"ROUTE", "POLICY", "STATE",   "ARM",
                                         ">REV",  ">SHARE", ">SCORED", ">UNSCORED",
                                         ">MEAN", ">LOWER", ">UPPER",  "PARAMETERS"};
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, &c->arena, titles, 12, e) != ERR_OK)
        return e->code;
    json_array_foreach((json_t *)routes, i, v)
    {
        add_arm(&c->arena, &t, v, "champion");
        add_arm(&c->arena, &t, v, "challenger");
    }
    table_print(&t, stdout);
    json_array_foreach((json_t *)routes, i, v) print_tests(&c->arena, v);
    return ERR_OK;
}

static void print_kill_switch(struct arena *a, const json_t *k)
{
    if (!json_is_true(json_object_get(k, "is_on")))
        return;
    printf("%sall routes are paused%s since %s by %s%s%s; 'milepost resume --all' lets them go "
           "on\n\n",
           tone_begin(stdout, TONE_BAD), tone_end(stdout, TONE_BAD),
           time_of(a, json_int_of(k, "since_us")), one_line(a, json_text_of(k, "actor"), 80),
           *json_text_of(k, "reason") ? ": " : "", one_line(a, json_text_of(k, "reason"), 200));
}

static int print_status(struct cli *c, const json_t *s, struct err *e)
{
    printf("controller %s at %s: %s outputs, %s scores (%s unscored), %s decisions\n\n",
           json_text_of(s, "version"), cli_controller_url(c),
           json_number_of(&c->arena, s, "outputs", 0), json_number_of(&c->arena, s, "scores", 0),
           json_number_of(&c->arena, s, "unscored", 0),
           json_number_of(&c->arena, s, "decisions", 0));
    print_kill_switch(&c->arena, json_object_get(s, "kill_switch"));
    int rc = print_engines(c, json_object_get(s, "engines"), json_int_of(s, "desired_version"), e);
    putchar('\n');
    return rc == ERR_OK ? print_routes(c, json_object_get(s, "routes"), e) : rc;
}

int cmd_status(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost status [--json]",
        .about = "Shows the engines the controller hears from, and per route the arms with their\n"
                 "mean reward, its 95% confidence sequence, and the e-values of running tests."};
    struct err e = {0};
    json_t *status = NULL;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    if (cli_get(c, "/api/status", &status, &e) != ERR_OK)
        return cli_fail(&e);
    code = c->json ? cli_print_json(status)
                   : (print_status(c, status, &e) == ERR_OK ? CLI_OK : cli_fail(&e));
    json_decref(status);
    return code;
}
