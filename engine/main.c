/* milepost-engine: reads the command line and the configuration, opens the engine, serves.
 *
 * Exit codes: 0 done, 1 failed while running, 2 usage or configuration, 3 device. */
#include "common/log.h"
#include "common/stop.h"
#include "engine/engine.h"
#include "engine/route/route.h"

#include <argp.h>

#ifndef MILEPOST_VERSION
#define MILEPOST_VERSION "0.1.0"
#endif

enum { EXIT_FAILED = 1, EXIT_CONFIG = 2, EXIT_DEVICE = 3, MAX_SET = 128 };
enum { KEY_SET = 256, KEY_CHECK, KEY_PRINT, KEY_NO_LOOP };

struct arguments {
    const char *config;
    const char *set[MAX_SET];
    size_t n_set;
    bool is_check, is_print;
};

static const struct argp_option OPTIONS[] = {
    {"config", 'c', "FILE", 0, "the configuration of all processes", 0},
    {"set", KEY_SET, "KEY=VALUE", 0, "one key over the file, again and again", 0},
    {"no-loop", KEY_NO_LOOP, NULL, 0, "serve alone and record nothing (loop.enabled=false)", 0},
    {"check-config", KEY_CHECK, NULL, 0, "say what is wrong with the configuration, exit", 0},
    {"print-config", KEY_PRINT, NULL, 0, "print the effective configuration, exit", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct arguments *a = state->input;
    if ((key == KEY_SET || key == KEY_NO_LOOP) && a->n_set == MAX_SET)
        argp_failure(state, EXIT_CONFIG, 0, "at most %d keys can be set here", MAX_SET);
    if (key == 'c')
        a->config = value;
    else if (key == KEY_SET)
        a->set[a->n_set++] = value;
    else if (key == KEY_NO_LOOP)
        a->set[a->n_set++] = "loop.enabled=false";
    else if (key == KEY_CHECK)
        a->is_check = true;
    else if (key == KEY_PRINT)
        a->is_print = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "unknown argument '%s'", value);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static int fail(const struct err *e, int code)
{
    fprintf(stderr, "milepost-engine: %s\n", e->msg);
    return e->code == ERR_DEVICE ? EXIT_DEVICE : code;
}

static int print_config(const struct milepost_config *c, struct err *e)
{
    struct buf out;
    buf_init(&out, 4 * MiB);
    int rc = cfg_print(&MILEPOST_CONFIG, c, &out, e);
    if (rc == ERR_OK)
        fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    return rc;
}

/* What the tables of the configuration cannot know by themselves. */
static int check_config(const struct milepost_config *c, struct err *e)
{
    struct route_table *t;
    int rc = route_table_from_config(&t, c, e);
    if (rc != ERR_OK)
        return rc;
    route_table_release(t);
    if (c->engine.model.n == 0)
        return err_set(e, ERR_INVALID,
                       "engine.model is empty: name a GGUF file there, or --set engine.model=FILE");
    return ERR_OK;
}

static int serve(const struct milepost_config *c)
{
    struct engine *g = NULL;
    struct err e = {0};
    int stop_fd = -1;
    int rc = stop_setup(&stop_fd, &e);
    if (rc == ERR_OK)
        rc = engine_open(&g, c, MILEPOST_VERSION, &e);
    if (rc == ERR_OK)
        rc = engine_run(g, stop_fd, &e);
    engine_close(g);
    return rc == ERR_OK ? 0 : fail(&e, EXIT_FAILED);
}

static int run(const struct arguments *args, struct arena *a)
{
    struct err e = {0};
    struct milepost_config c;
    enum log_level level = LOG_INFO;
    int rc = milepost_config_load(args->config, args->set, args->n_set, a, &c, &e);
    if (rc == ERR_OK && args->is_print)
        return print_config(&c, &e) == ERR_OK ? 0 : fail(&e, EXIT_FAILED);
    if (rc == ERR_OK)
        rc = check_config(&c, &e);
    if (rc != ERR_OK)
        return fail(&e, EXIT_CONFIG);
    log_level_parse(c.log_level, &level);
    log_setup("engine", level);
    return args->is_check ? 0 : serve(&c);
}

const char *argp_program_version = "milepost-engine " MILEPOST_VERSION;

int main(int argc, char **argv)
{
    static const struct argp ARGP = {
        OPTIONS,
        parse_option,
        NULL,
        "Serves a language model over HTTP and records every output.\v"
        "Exit: 0 done, 1 failed while running, 2 usage or configuration, 3 device.",
        NULL,
        NULL,
        NULL};
    struct arguments args = {0};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&ARGP, argc, argv, 0, NULL, &args);
    struct arena a;
    arena_init(&a, 16 * MiB);
    int code = run(&args, &a);
    arena_free(&a);
    return code;
}
