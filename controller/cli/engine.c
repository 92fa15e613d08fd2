/* `milepost engine list|drain|resume|flush-cache|load-weights`: orders to one engine, through the
 * controller, which passes its answer back. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

#include <string.h>

struct engine_action {
    const char *name, *order; /* order: as engines know it; NULL = list */
    int n_args;               /* after the action, without the engine's name */
};

static const struct engine_action ACTIONS[] = {
    {"list", NULL, 0},
    {"orders", NULL, 0},
    {"drain", "drain", 0},
    {"resume", "resume", 0},
    {"flush-cache", "flush_cache", 0},
    {"load-weights", "load_weights", 1},
};

enum { N_ACTIONS = sizeof ACTIONS / sizeof *ACTIONS };

/* The name was checked against the words of the usage. */
static const struct engine_action *find_action(const char *name)
{
    size_t i = 0;
    while (i + 1 < N_ACTIONS && strcmp(name, ACTIONS[i].name) != 0)
        i++;
    return &ACTIONS[i];
}

static int list_engines(struct cli *c, struct err *e)
{
    json_t *status = NULL;
    if (cli_get(c, "/api/status", &status, e) != ERR_OK)
        return cli_fail(e);
    json_t *engines = json_object_get(status, "engines");
    int code = CLI_OK;
    if (c->json)
        code = cli_print_json(engines);
    else if (print_engines(c, engines, json_int_of(status, "desired_version"), e) != ERR_OK)
        code = cli_fail(e);
    json_decref(status);
    return code;
}

static int list_orders(struct cli *c, struct err *e)
{
    static const char *const titles[] = {"WHEN", "ENGINE", "ORDER", "BY", "ANSWER"};
    struct table t;
    json_t *orders = NULL, *v;
    size_t i;
    if (cli_get(c, "/api/engine/orders", &orders, e) != ERR_OK)
        return cli_fail(e);
    int code = c->json ? cli_print_json(json_object_get(orders, "orders")) : CLI_OK;
    if (!c->json && table_init(&t, &c->arena, titles, 5, e) == ERR_OK) {
        json_array_foreach(json_object_get(orders, "orders"), i, v)
        {
            const char *cells[] = {
                time_of(&c->arena, json_int_of(v, "at_us")), json_text_of(v, "engine"),
                arena_printf(&c->arena, "%s %s", json_text_of(v, "command"),
                             one_line(&c->arena, json_text_of(v, "argument"), 60))
                    .p,
                json_text_of(v, "actor"), one_line(&c->arena, json_text_of(v, "answer"), 100)};
            table_row(&t, cells);
            if (!json_is_true(json_object_get(v, "is_ok")))
                table_tone(&t, 4, TONE_BAD);
        }
        table_print(&t, stdout);
    }
    json_decref(orders);
    return code;
}

static int give_order(struct cli *c, const struct engine_action *a, const char *engine,
                      const char *argument, struct err *e)
{
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:s, s:s, s:s}", "engine", engine, "command", a->order,
                             "argument", argument, "author", cli_author(c));
    int rc = cli_post(c, "/api/engine", body, &answer, e);
    json_decref(body);
    if (rc != ERR_OK)
        return cli_fail(e);
    int code = CLI_OK;
    if (c->json)
        code = cli_print_json(answer);
    else
        printf("%s: %s\n", json_text_of(answer, "engine"),
               one_line(&c->arena, json_text_of(answer, "message"), 240));
    json_decref(answer);
    return code;
}

int cmd_engine(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost engine list | orders | drain | resume | flush-cache | load-weights FILE  "
                "[ENGINE]",
        .about =
            "Shows the engines and orders one of them; ENGINE may be left out when there is one.\n"
            "  list          who is there, what each applies and holds\n"
            "  orders        what was ordered, by whom, and what the engines answered\n"
            "  drain         no new requests are taken; those in flight go on\n"
            "  resume        requests are taken again\n"
            "  flush-cache   prefixes that no request holds are forgotten\n"
            "  load-weights  FILE, a path on the engine's machine, serves from the next request "
            "on;\n"
            "                forgotten at a restart of the engine",
        .min_args = 1,
        .max_args = 3,
        .words = "list orders drain resume flush-cache load-weights"};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    const struct engine_action *a = find_action(argv[0]);
    bool takes_engine = a->order != NULL;
    if (n_args < 1 + a->n_args || n_args > 1 + a->n_args + takes_engine) {
        err_set(&e, ERR_INVALID, "engine %s%s%s", a->name, a->n_args ? " needs a FILE" : "",
                takes_engine ? "; after it at most the name of an engine" : " takes no argument");
        return cli_fail(&e);
    }
    if (!takes_engine)
        return strcmp(a->name, "list") == 0 ? list_engines(c, &e) : list_orders(c, &e);
    return give_order(c, a, n_args > 1 + a->n_args ? argv[1 + a->n_args] : "",
                      a->n_args ? argv[1] : "", &e);
}
