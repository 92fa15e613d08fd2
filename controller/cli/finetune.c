/* `milepost finetune`: asks the controller for a dataset, waits until it is there, says where. The
 * controller's webhooks that want `finetune` are told by the controller, also after this ended. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"
#include "controller/cli/since.h"

#include <string.h>
#include <time.h>

enum { LOOK_EVERY_MS = 200 };

struct finetune {
    const char *route, *since, *until, *reason;
    bool only_scored, no_wait;
};

static int ask(struct cli *c, const struct finetune *x, const char **id, struct err *e)
{
    struct wall now = clock_wall(&CLOCK_REAL), since = {0}, until = {0};
    json_t *answer = NULL;
    int rc = x->since ? since_parse(x->since, now, &since, e) : ERR_OK;
    if (rc == ERR_OK && x->until)
        rc = since_parse(x->until, now, &until, e);
    if (rc != ERR_OK)
        return rc;
    json_t *body = json_pack("{s:s, s:I, s:I, s:b, s:s, s:s}", "route", x->route, "since_us",
                             (json_int_t)since.us, "until_us", (json_int_t)until.us, "only_scored",
                             x->only_scored, "reason", x->reason, "author", cli_author(c));
    rc = cli_post(c, "/api/finetune", body, &answer, e);
    json_decref(body);
    if (rc == ERR_OK) {
        *id = arena_str(&c->arena, str_from(json_text_of(answer, "dataset"))).p;
        rc = *id ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for an id");
    }
    json_decref(answer);
    return rc;
}

/* Until it is there or has failed. */
static int wait_for(struct cli *c, const char *id, json_t **out, struct err *e)
{
    const char *path = arena_printf(&c->arena, "/api/datasets/%s", id).p;
    struct progress p;
    int rc = path ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a path");
    progress_start(&p, "export", 0);
    for (uint64_t i = 0; rc == ERR_OK; i++) {
        rc = cli_get(c, path, out, e);
        if (rc != ERR_OK || strcmp(json_text_of(*out, "state"), "asked") != 0)
            break;
        json_decref(*out);
        progress_show(&p, i, "the controller writes the file");
        nanosleep(&(struct timespec){0, LOOK_EVERY_MS * 1000000L}, NULL);
    }
    progress_end(&p);
    return rc;
}

static int print_dataset(struct cli *c, const json_t *d)
{
    size_t n_notices = json_array_size(json_object_get(d, "notices"));
    bool is_there = strcmp(json_text_of(d, "state"), "there") == 0;
    if (c->json)
        return cli_print_json(d) == CLI_OK && is_there ? CLI_OK : CLI_FAILED;
    if (!is_there) {
        fprintf(stderr, "milepost: the export failed: %s\n", json_text_of(d, "error"));
        return CLI_FAILED;
    }
    printf("%s\n%s outputs, %s bytes, revisions %s to %s\nsha256 %s\n", json_text_of(d, "path"),
           json_number_of(&c->arena, d, "outputs", 0), json_number_of(&c->arena, d, "bytes", 0),
           json_number_of(&c->arena, d, "first_revision", 0),
           json_number_of(&c->arena, d, "last_revision", 0), json_text_of(d, "sha256"));
    if (n_notices == 0)
        printf("no webhook is told: none in controller.webhooks has the event finetune\n");
    else
        printf("%zu webhook%s told\n", n_notices, n_notices == 1 ? " is" : "s are");
    return CLI_OK;
}

int cmd_finetune(struct cli *c, int argc, char **argv)
{
    struct finetune x = {.route = "", .reason = ""};
    const struct opt options[] = {
        {"route", 'r', OPT_TEXT, &x.route, 0, 0, "ROUTE", "else the first route"},
        {"since", 0, OPT_TEXT, &x.since, 0, 0, "T", "2h, 7d, 2026-01-31, ... (UTC); default: all"},
        {"until", 0, OPT_TEXT, &x.until, 0, 0, "T", "up to then; default: now"},
        {"scored", 0, OPT_FLAG, &x.only_scored, 0, 0, NULL, "leave out what is unscored"},
        {"reason", 'm', OPT_TEXT, &x.reason, 0, 0, "TEXT", "told to the webhooks"},
        {"no-wait", 0, OPT_FLAG, &x.no_wait, 0, 0, NULL, "do not wait for the file"},
    };
    const struct cli_usage usage = {
        .line = "milepost finetune [--route ROUTE] [--since T] [--scored] [--reason TEXT] [--json]",
        .about =
            "The controller exports scored outputs for training (as 'milepost export' does) to\n"
            "a file in its folder controller.datasets, and posts path, size, SHA-256 and range\n"
            "of revisions to the webhooks that want 'finetune'.",
        .opt = options,
        .n_opt = sizeof options / sizeof *options};
    struct err e = {0};
    const char *id = NULL;
    json_t *dataset = NULL;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    int rc = ask(c, &x, &id, &e);
    if (rc == ERR_OK && x.no_wait) {
        printf("dataset %s\n", id);
        return CLI_OK;
    }
    if (rc == ERR_OK)
        rc = wait_for(c, id, &dataset, &e);
    code = rc == ERR_OK ? print_dataset(c, dataset) : cli_fail(&e);
    json_decref(dataset);
    return code;
}
