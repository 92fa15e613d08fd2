/* `milepost pause`, `resume`, `promote`, `stop`: an operator's hand on a route's law. Each is one
 * POST that the controller records as an event and a decision. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

struct steering {
    const char *name, *path, *about, *done;
    const char *of_all; /* done with --all; NULL = there is no such option */
};

static const struct steering PAUSE = {
    "pause", "/api/pause",
    "Freezes the route: a running trial or experiment ends, everyone gets the champion, nothing "
    "is\n"
    "decided. --all is the kill switch: every route at once, also after a restart and for routes\n"
    "that are added, until 'milepost resume --all'.",
    "paused", "all routes are paused"};
static const struct steering RESUME = {
    "resume", "/api/resume",
    "Lets the route's law go on. --all turns the kill switch off: the routes it paused go on.",
    "goes on", "the routes go on"};
static const struct steering PROMOTE = {
    "promote", "/api/promote",
    "Makes the revision on trial the champion, without waiting for its test.", "promoted", NULL};
static const struct steering STOP = {
    "stop", "/api/stop", "Ends the running trial; the champion stays.", "trial ended", NULL};

static int steer(struct cli *c, int argc, char **argv, const struct steering *s)
{
    const char *route = "", *reason = "";
    bool is_all = false;
    const struct opt options[] = {
        {"route", 'r', OPT_TEXT, &route, 0, 0, "ROUTE", "else the first route"},
        {"reason", 'm', OPT_TEXT, &reason, 0, 0, "TEXT", "kept with the decision"},
        {"all", 'a', OPT_FLAG, &is_all, 0, 0, NULL, "every route: the kill switch"},
    };
    char line[128];
    snprintf(line, sizeof line, "milepost %s [--route ROUTE%s] [--reason TEXT] [--json]", s->name,
             s->of_all ? " | --all" : "");
    const struct cli_usage usage = {
        .line = line, .about = s->about, .opt = options, .n_opt = s->of_all ? 3 : 2};
    struct err e = {0};
    json_t *answer = NULL;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    json_t *body =
        json_pack("{s:s, s:s, s:s}", "route", route, "reason", reason, "author", cli_author(c));
    if (is_all)
        json_object_set_new(body, "all", json_true());
    int rc = cli_post(c, s->path, body, &answer, &e);
    json_decref(body);
    if (rc != ERR_OK)
        return cli_fail(&e);
    code = CLI_OK;
    if (c->json)
        code = cli_print_json(answer);
    else
        printf("%s; decision %s\n", is_all ? s->of_all : s->done,
               json_number_of(&c->arena, answer, "decision", 0));
    json_decref(answer);
    return code;
}

int cmd_pause(struct cli *c, int argc, char **argv)
{
    return steer(c, argc, argv, &PAUSE);
}

int cmd_resume(struct cli *c, int argc, char **argv)
{
    return steer(c, argc, argv, &RESUME);
}

int cmd_promote(struct cli *c, int argc, char **argv)
{
    return steer(c, argc, argv, &PROMOTE);
}

int cmd_stop(struct cli *c, int argc, char **argv)
{
    return steer(c, argc, argv, &STOP);
}
