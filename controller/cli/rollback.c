/* `milepost rollback`: an operator's way back, recorded as a decision like every other change. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

int cmd_rollback(struct cli *c, int argc, char **argv)
{
    const char *route = "", *reason = "operator rollback";
    int64_t to = 0;
    const struct opt options[] = {
        {"to", 't', OPT_INT, &to, 0, INT64_MAX, "REVISION", "0: the one before this"},
        {"route", 'r', OPT_TEXT, &route, 0, 0, "ROUTE", "else the first route"},
        {"reason", 'm', OPT_TEXT, &reason, 0, 0, "TEXT", "kept with the decision"},
    };
    const struct cli_usage usage = {
        .line = "milepost rollback [--to REVISION] [--route ROUTE] [--reason TEXT] [--json]",
        .about = "Makes an earlier revision the champion at once and ends a running trial.",
        .opt = options,
        .n_opt = 3};
    struct err e = {0};
    json_t *answer = NULL;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    json_t *body = json_pack("{s:s, s:I, s:s, s:s}", "route", route, "to", (json_int_t)to, "reason",
                             reason, "author", cli_author(c));
    int rc = cli_post(c, "/api/rollback", body, &answer, &e);
    json_decref(body);
    if (rc != ERR_OK)
        return cli_fail(&e);
    code = CLI_OK;
    if (c->json)
        code = cli_print_json(answer);
    else
        printf("revision %s serves; decision %s\n",
               json_number_of(&c->arena, answer, "revision", 0),
               json_number_of(&c->arena, answer, "decision", 0));
    json_decref(answer);
    return code;
}
