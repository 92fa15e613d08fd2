/* `milepost scores`: recent outputs with their check results, the worst first on request. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

#include <math.h>

/* "json=fail(no value) length=pass" */
static const char *checks_line(struct arena *a, const json_t *checks)
{
    struct str line = STR("");
    size_t i;
    json_t *v;

    json_array_foreach((json_t *)checks, i, v)
    {
        const char *reason = json_text_of(v, "reason");
        line = arena_printf(a, STR_FMT "%s%s=%s%s%s%s", STR_ARG(line), line.n ? " " : "",
                            json_text_of(v, "id"), json_text_of(v, "outcome"), reason[0] ? "(" : "",
                            one_line(a, reason, 30), reason[0] ? ")" : "");
    }
    return line.p != NULL ? line.p : "";
}

static int print_scores(struct cli *c, const json_t *scores, struct err *e)
{
    static const char *const titles[] = {">ROW",    "REQUEST", "ROUTE",  ">REV", "ARM",
                                         ">REWARD", "FINISH",  "CHECKS", "TEXT"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 9, e) != ERR_OK)
        return e->code;
    json_array_foreach((json_t *)scores, i, v)
    {
        const char *cells[] = {json_number_of(a, v, "row", 0),
                               one_line(a, json_text_of(v, "request_id"), 30),
                               json_text_of(v, "route"),
                               json_number_of(a, v, "revision", 0),
                               json_text_of(v, "arm"),
                               json_number_of(a, v, "reward", 3),
                               json_text_of(v, "finish_reason"),
                               checks_line(a, json_object_get(v, "checks")),
                               one_line(a, json_text_of(v, "text"), 50)};
        table_row(&t, cells);
        double reward = json_real_of(v, "reward");
        table_tone(&t, 5,
                   isnan(reward)   ? TONE_WARN
                   : reward < 0.5  ? TONE_BAD
                   : reward >= 1.0 ? TONE_GOOD
                                   : TONE_PLAIN);
    }
    if (t.n_row == 0)
        printf("no scores yet\n");
    else
        table_print(&t, stdout);
    return ERR_OK;
}

int cmd_scores(struct cli *c, int argc, char **argv)
{
    bool worst = false;
    const char *route = "";
    int64_t limit = 20;
    const struct opt options[] = {
        {"worst", 'w', OPT_FLAG, &worst, 0, 0, NULL, "lowest reward first, of the last 1000"},
        {"route", 'r', OPT_TEXT, &route, 0, 0, "ROUTE", "only this route"},
        {"limit", 'n', OPT_INT, &limit, 1, 1000, "N", "how many"},
    };
    const struct cli_usage usage = {
        .line = "milepost scores [--worst] [--route ROUTE] [--limit N] [--json]",
        .about = "Shows recent outputs with reward and check results. A reward of - is unscored.",
        .opt = options,
        .n_opt = 3};
    struct err e = {0};
    json_t *doc = NULL;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    struct str path = arena_printf(&c->arena, "/api/scores?worst=%d&limit=%lld&route=%s", worst,
                                   (long long)limit, cli_route_query(c, route));
    if (path.p == NULL || cli_get(c, path.p, &doc, &e) != ERR_OK)
        return cli_fail(&e);
    code = CLI_OK;
    if (c->json)
        code = cli_print_json(doc);
    else if (print_scores(c, json_object_get(doc, "scores"), &e) != ERR_OK)
        code = cli_fail(&e);
    json_decref(doc);
    return code;
}
