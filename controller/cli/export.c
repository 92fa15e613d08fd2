/* `milepost export`: scored outputs as JSON lines on stdout or in a file, read beside a live
 * controller. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"
#include "controller/cli/since.h"
#include "controller/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct export
{
    const char *route, *since, *until, *format, *output;
    bool only_scored;
};

static bool show(void *ctx, uint64_t done, uint64_t total)
{
    struct progress *p = ctx;
    p->total = total;
    progress_show(p, done, "");
    return true;
}

static int fill_query(struct cli *c, const struct export *x, struct dataset_query *q, struct err *e)
{
    struct wall now = clock_wall(&CLOCK_REAL), at = {0};
    const struct cfg_list *routes = &c->config.routes;
    const struct route_config *r = x->route ? milepost_config_route(&c->config, str_from(x->route))
                                   : routes->n > 0 ? routes->item
                                                   : NULL;
    int rc = strcmp(x->format, "jsonl") == 0
                 ? ERR_OK
                 : err_set(e, ERR_INVALID, "--format: must be jsonl, got \"%s\"", x->format);
    if (rc == ERR_OK && x->route && !r)
        rc = err_set(e, ERR_INVALID, "--route: the configuration has no route \"%s\"", x->route);
    q->route = r ? r->name : STR("default");
    q->only_scored = x->only_scored;
    if (rc == ERR_OK && x->since)
        rc = since_parse(x->since, now, &at, e);
    q->since_us = at.us;
    at.us = 0;
    if (rc == ERR_OK && x->until)
        rc = since_parse(x->until, now, &at, e);
    q->until_us = at.us;
    return rc;
}

static int write_file(struct cli *c, const struct export *x, struct dataset_query *q,
                      struct dataset_report *report, struct err *e)
{
    struct store *s = NULL;
    struct progress p;
    const char *path = milepost_config_path(&c->config, c->config.controller.database, &c->arena);
    int fd =
        x->output ? open(x->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : STDOUT_FILENO;
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno, "cannot write %s", x->output);
    progress_start(&p, "export", 0);
    q->progress = show;
    q->ctx = &p;
    int rc = store_open_readonly(&s, path, e);
    if (rc == ERR_OK)
        rc = dataset_write(s, q, fd, report, e);
    progress_end(&p);
    store_close(s);
    if (x->output && close(fd) != 0 && rc == ERR_OK)
        rc = err_set_sys(e, ERR_IO, errno, "cannot write %s", x->output);
    return rc;
}

static int print_report(struct cli *c, const struct export *x, const struct dataset_report *r)
{
    FILE *to = x->output ? stdout : stderr; /* stdout carries the data */
    if (!c->json) {
        fprintf(to, "%llu outputs, %.1f MB; %llu left out whose text is no longer there\n",
                (unsigned long long)r->n_rows, (double)r->n_bytes * 1e-6,
                (unsigned long long)r->n_without_text);
        return CLI_OK;
    }
    json_t *v = json_pack("{s:I, s:I, s:I}", "outputs", (json_int_t)r->n_rows, "bytes",
                          (json_int_t)r->n_bytes, "without_text", (json_int_t)r->n_without_text);
    int failed = json_dumpf(v, to, JSON_COMPACT);
    fputc('\n', to);
    json_decref(v);
    return failed ? CLI_FAILED : CLI_OK;
}

int cmd_export(struct cli *c, int argc, char **argv)
{
    struct export x = {.format = "jsonl"};
    const struct opt options[] = {
        {"route", 'r', OPT_TEXT, &x.route, 0, 0, "ROUTE", "default: the first"},
        {"since", 0, OPT_TEXT, &x.since, 0, 0, "T", "2h, 7d, 2026-01-31, ... (UTC); default: all"},
        {"until", 0, OPT_TEXT, &x.until, 0, 0, "T", "up to then; default: now"},
        {"scored", 0, OPT_FLAG, &x.only_scored, 0, 0, NULL, "leave out what is unscored"},
        {"format", 0, OPT_TEXT, &x.format, 0, 0, "jsonl", "one object a line"},
        {"output", 'o', OPT_TEXT, &x.output, 0, 0, "FILE", "default: stdout"},
    };
    const struct cli_usage usage = {
        .line = "milepost export [--route R] [--since T] [--format jsonl] [-o FILE] [--json]",
        .about =
            "Writes scored outputs for training: messages, text, token ids, log probabilities,\n"
            "reward, the checks' parts, revision and arm. May run beside a live controller. With\n"
            "--json a summary follows on stdout (on stderr when the data is there).",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0]};
    struct dataset_query q = {0};
    struct dataset_report report = {0};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    int rc = fill_query(c, &x, &q, &e);
    if (rc == ERR_OK)
        rc = write_file(c, &x, &q, &report, &e);
    return rc == ERR_OK ? print_report(c, &x, &report) : cli_fail(&e);
}
