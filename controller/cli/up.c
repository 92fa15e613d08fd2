/* `milepost up`: the three processes of one machine, until Ctrl-C. */
#include "controller/cli/cli.h"
#include "controller/cli/settle.h"
#include "controller/cli/supervisor.h"

#include <unistd.h>

enum { SETTLE_S = 10 };

struct up_options {
    const char *model, *host, *port, *state_dir, *only;
    bool no_loop;
    int64_t start_timeout_s, grace_s;
};

/* --port 8080 is --set engine.port=8080, and so on: one way in for every process. */
static int add_overrides(struct cli *c, const struct up_options *o, struct err *e)
{
    const struct {
        const char *key, *value;
    } row[] = {{"engine.model", o->model},
               {"engine.host", o->host},
               {"engine.port", o->port},
               {"state_dir", o->state_dir},
               {"loop.enabled", o->no_loop ? "false" : NULL}};

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        if (row[i].value == NULL)
            continue;
        struct str text = arena_printf(&c->arena, "%s=%s", row[i].key, row[i].value);
        if (text.p == NULL || c->set.n == OPT_LIST_MAX)
            return err_set(e, ERR_INVALID, "more than %d --set", OPT_LIST_MAX);
        c->set.item[c->set.n++] = text.p;
    }
    return cli_reload(c, e);
}

static void print_ready_json(struct cli *c)
{
    json_t *v = json_pack("{s:s, s:s}", "api", cli_engine_url(c), "logs",
                          milepost_config_path(&c->config, STR("log"), &c->arena));

    if (c->config.loop.enabled)
        json_object_set_new(v, "dashboard", json_string(cli_controller_url(c)));
    cli_print_json(v);
    json_decref(v);
}

static void print_ready(struct cli *c)
{
    const char *api = cli_engine_url(c);

    printf("\nMilepost is up.\n\n  API        %s/v1\n", api);
    if (c->config.loop.enabled)
        printf("  dashboard  %s/\n", cli_controller_url(c));
    printf("  logs       %s/*.log\n\nTry it:\n\n"
           "  curl -N %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"
           "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of "
           "France?\"}],\"stream\":true}'\n\nCtrl-C stops everything.\n",
           milepost_config_path(&c->config, STR("log"), &c->arena), api);
}

/* Serving comes first: an engine that hears no controller yet is a remark, not a failure. */
static int settle(struct cli *c, const struct up_options *o, struct supervisor *s, struct err *e)
{
    if (!c->config.loop.enabled || o->only)
        return ERR_OK;
    int rc = settle_wait(c, s, SETTLE_S, e);
    if (rc != ERR_TIMEOUT)
        return rc;
    fprintf(stderr, "milepost: %s yet; it serves the configuration's parameters until then\n",
            e->msg);
    return ERR_OK;
}

static int run(struct cli *c, const struct up_options *o, struct err *e)
{
    struct supervisor_options so = {.only = o->only,
                                    .start_timeout_ms = (int)o->start_timeout_s * 1000,
                                    .grace_ms = (int)o->grace_s * 1000};
    struct supervisor *s = NULL;
    int rc;

    TRY(add_overrides(c, o, e));
    TRY(supervisor_open(&s, c, &so, e));
    TRY(supervisor_wait_ready(s, e));
    TRY(settle(c, o, s, e));
    if (c->json)
        print_ready_json(c);
    else
        print_ready(c);
    fflush(stdout);
    while ((rc = supervisor_run(s, 1000, e)) == ERR_OK) {
    }
out:
    if (rc == ERR_CANCELLED)
        fprintf(stderr, "milepost: stopping\n");
    supervisor_close(s);
    if (rc == ERR_CANCELLED)
        fprintf(stderr, "milepost: stopped\n");
    return rc == ERR_CANCELLED ? ERR_OK : rc;
}

int cmd_up(struct cli *c, int argc, char **argv)
{
    struct up_options o = {.start_timeout_s = 120, .grace_s = 10};
    const struct opt options[] = {
        {"model", 'm', OPT_TEXT, &o.model, 0, 0, "FILE", "GGUF file (engine.model)"},
        {"port", 'p', OPT_TEXT, &o.port, 0, 0, "N", "of the API (engine.port)"},
        {"host", 0, OPT_TEXT, &o.host, 0, 0, "ADDRESS", "of the API (engine.host)"},
        {"state-dir", 0, OPT_TEXT, &o.state_dir, 0, 0, "FOLDER", "database, outbox, logs"},
        {"no-loop", 0, OPT_FLAG, &o.no_loop, 0, 0, NULL, "serve only: no verifier, no controller"},
        {"only", 0, OPT_TEXT, &o.only, 0, 0, "NAMES", "start only these: engine,verifier"},
        {"start-timeout", 0, OPT_INT, &o.start_timeout_s, 1, 3600, "S", "until all must answer"},
        {"grace", 0, OPT_INT, &o.grace_s, 0, 600, "S", "for each to stop by itself"},
    };
    const struct cli_usage usage = {
        .line = "milepost up [--model FILE] [--port N] [options]",
        .about = "Starts engine, verifier and controller with one configuration, prints the\n"
                 "addresses once all answer, restarts one that dies, and stays until Ctrl-C.",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0]};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    return run(c, &o, &e) == ERR_OK ? CLI_OK : cli_fail(&e);
}
