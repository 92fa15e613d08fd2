/* controller/cli/cli.h - what every sub-command of `milepost` shares.
 *
 * A command is one row of a table and one function run(c, argc, argv), argv without the command's
 * name. It calls cli_begin first, which parses options, answers --help and loads the configuration.
 * stdout carries data, stderr everything else. One thread unless the command says otherwise. */
#ifndef CONTROLLER_CLI_CLI_H
#define CONTROLLER_CLI_CLI_H

#include "common/json.h"
#include "common/options.h"
#include "schemas/config.h"

/* Exit codes of every command. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1, /* it did not work, or the answer is no */
    CLI_USAGE = 2,  /* command line or configuration */
    CLI_CONTINUE = -1
};

struct http_client;

struct cli_usage;

/* Told what a command takes instead of running it: by cli_begin, for completion. */
struct cli_outline {
    void (*show)(void *ctx, const struct cli_usage *u, const struct opt_group *groups, size_t n);
    void *ctx;
};

struct cli {
    const struct cli_outline *outline; /* NULL = run */
    const char *config_path; /* NULL = the first that exists of the usual places, else defaults */
    struct opt_list set;     /* overrides key=value */
    const char *controller;  /* URL, NULL = from the configuration */
    const char *engine;
    bool json; /* print JSON instead of tables */
    bool help;
    struct arena arena; /* lives as long as the command */
    struct milepost_config config;
    struct http_client *http; /* opened at first use */
};

struct cli_command {
    const char *group; /* heading in `milepost --help` */
    const char *name;
    const char *summary;
    int (*run)(struct cli *c, int argc, char **argv);
};

enum { CLI_COMMANDS_N = 23 };
extern const struct cli_command CLI_COMMANDS[CLI_COMMANDS_N];

struct cli_usage {
    const char *line;  /* "milepost scores [--worst] [--limit N]" */
    const char *about; /* a paragraph */
    const struct opt *opt;
    size_t n_opt;
    int min_args, max_args; /* positional */
    const char *words;      /* what the first one may be, blanks between; NULL = anything */
    bool needs_no_config;   /* do not load it */
};

int cmd_up(struct cli *c, int argc, char **argv);
int cmd_status(struct cli *c, int argc, char **argv);
int cmd_chat(struct cli *c, int argc, char **argv);
int cmd_params(struct cli *c, int argc, char **argv);
int cmd_rollback(struct cli *c, int argc, char **argv);
int cmd_promote(struct cli *c, int argc, char **argv);
int cmd_experiment(struct cli *c, int argc, char **argv);
int cmd_stop(struct cli *c, int argc, char **argv);
int cmd_pause(struct cli *c, int argc, char **argv);
int cmd_resume(struct cli *c, int argc, char **argv);
int cmd_scores(struct cli *c, int argc, char **argv);
int cmd_rescore(struct cli *c, int argc, char **argv);
int cmd_config(struct cli *c, int argc, char **argv);
int cmd_doctor(struct cli *c, int argc, char **argv);
int cmd_why(struct cli *c, int argc, char **argv);
int cmd_export(struct cli *c, int argc, char **argv);
int cmd_finetune(struct cli *c, int argc, char **argv);
int cmd_backup(struct cli *c, int argc, char **argv);
int cmd_replay(struct cli *c, int argc, char **argv);
int cmd_bench(struct cli *c, int argc, char **argv);
int cmd_completion(struct cli *c, int argc, char **argv);
int cmd_engine(struct cli *c, int argc, char **argv);
int cmd_demo(struct cli *c, int argc, char **argv);

/* Parses, prints help, loads the configuration. CLI_CONTINUE, or the code to exit with. *n_args
 * positional arguments stand at the front of argv. */
int cli_begin(struct cli *c, const struct cli_usage *u, int argc, char **argv, int *n_args);
/* Adds an override of the configuration, before or after cli_begin loaded it (then reload). */
MUST_USE int cli_reload(struct cli *c, struct err *e);
void cli_end(struct cli *c);
/* Prints the error on stderr; returns the exit code that fits it. */
int cli_fail(const struct err *e);
int cli_print_json(const json_t *v);

/* "http://host:port" of a process, NUL-terminated in the arena; 0.0.0.0 reads as loopback. */
const char *cli_url(struct cli *c, const char *given, struct str host, int64_t port);
const char *cli_engine_url(struct cli *c);
const char *cli_controller_url(struct cli *c);

/* given, else $MILEPOST_CONFIG, else the first of the usual places; NULL = none. */
const char *cli_find_config(const char *given);
/* A route's name as it may stand in a path (RFC 3986, 2.1). */
const char *cli_route_query(struct cli *c, const char *route);

/* Calls of the controller's API (controller/API.md); path begins with '/'. *out is released with
 * json_decref. An error answer becomes an err with the server's message; a connection refused says
 * what to start. body may be NULL. */
MUST_USE int cli_get(struct cli *c, const char *path, json_t **out, struct err *e);
MUST_USE int cli_post(struct cli *c, const char *path, json_t *body, json_t **out, struct err *e);

/* The table of `milepost status` and `engine list`. */
MUST_USE int print_engines(struct cli *c, const json_t *engines, int64_t desired, struct err *e);

/* Path of a program that stands in the same folder as this one. */
MUST_USE int cli_sibling(struct cli *c, const char *name, const char **out, struct err *e);
/* "operator:NAME" of the person at the keyboard, in the arena. */
const char *cli_author(struct cli *c);

#endif
