/* `milepost config check|print|reference|schema`: the one configuration file of all processes.
 *
 * `check` reads it with the tables of schemas/config and then lets the verifier look at the checks'
 * own parameters (regular expressions and so on), which only it knows. */
#include "controller/cli/cli.h"
#include "controller/cli/process.h"

#include <string.h>
#include <sys/wait.h>

enum { CHECK_TIMEOUT_MS = 30000 };

static int ask_verifier(struct cli *c, struct err *e)
{
    const char *argv[8 + 2 * OPT_LIST_MAX] = {NULL};
    struct process p;
    size_t n = 0;
    int status = 0;

    if (cli_sibling(c, "milepost-verifier", &argv[n++], e) != ERR_OK)
        return e->code;
    argv[n++] = "--config";
    argv[n++] = c->config_path;
    argv[n++] = "--check-config";
    for (size_t i = 0; i < c->set.n; i++) {
        argv[n++] = "--set";
        argv[n++] = c->set.item[i];
    }
    if (process_start(&p, argv, NULL, e) != ERR_OK)
        return e->code;
    if (!process_wait(&p, CHECK_TIMEOUT_MS, &status)) {
        process_stop(&p, 0);
        return err_set(e, ERR_TIMEOUT, "milepost-verifier --check-config took over %d s",
                       CHECK_TIMEOUT_MS / 1000);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ERR_OK;
    return err_set(e, ERR_INVALID, "the verifier refuses %s (see above)", c->config_path);
}

static int check(struct cli *c, struct err *e)
{
    if (c->config_path == NULL)
        return err_set(e, ERR_INVALID,
                       "no configuration file here; give one: milepost config check FILE");
    if (cli_reload(c, e) != ERR_OK || ask_verifier(c, e) != ERR_OK)
        return e->code;
    json_t *answer = json_pack("{s:s, s:b}", "file", c->config_path, "ok", 1);
    if (c->json)
        cli_print_json(answer);
    else
        printf("%s is fine: %u routes, state in " STR_FMT "\n", c->config_path, c->config.routes.n,
               STR_ARG(c->config.state_dir));
    json_decref(answer);
    return ERR_OK;
}

static int print(struct cli *c, const char *verb, struct err *e)
{
    struct buf out;
    int rc = ERR_OK;

    buf_init(&out, 16 * MiB);
    if (strcmp(verb, "reference") == 0 && !c->json)
        cfg_reference(&MILEPOST_CONFIG, &out);
    else if (strcmp(verb, "print") != 0) /* the schema is the reference in JSON */
        rc = cfg_json_schema(&MILEPOST_CONFIG, &out, e);
    else if ((rc = cli_reload(c, e)) == ERR_OK)
        rc = cfg_print(&MILEPOST_CONFIG, &c->config, &out, e);
    if (rc == ERR_OK)
        rc = buf_check(&out, "the configuration's text", e);
    if (rc == ERR_OK)
        fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    return rc;
}

int cmd_config(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost config check [FILE] | print [FILE] | reference | schema",
        .about = "check: read the file as every process would; errors name line, key, what was\n"
                 "found and what is allowed. print: the effective file with all defaults.\n"
                 "reference: every key with type, default, range and a sentence. schema: the same\n"
                 "as JSON Schema.",
        .min_args = 1,
        .max_args = 2,
        .words = "check print reference schema",
        .needs_no_config = true};
    struct err e = {0};
    int n_args, rc;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    c->config_path = cli_find_config(n_args == 2 ? argv[1] : c->config_path);
    if (strcmp(argv[0], "check") == 0)
        rc = check(c, &e);
    else
        rc = print(c, argv[0], &e);
    return rc == ERR_OK ? CLI_OK : cli_fail(&e);
}
