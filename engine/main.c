/* milepost-engine: reads the command line and the configuration, opens the engine, serves.
 *
 * Exit codes: 0 done, 1 failed while running, 2 usage or configuration, 3 device. */
#include "common/log.h"
#include "common/stop.h"
#include "engine/engine.h"
#include "engine/load.h"
#include "engine/ranks.h"
#include "engine/route/route.h"

#include <argp.h>
#include <stdlib.h>

#ifndef MILEPOST_VERSION
#define MILEPOST_VERSION "0.1.0"
#endif

enum { EXIT_FAILED = 1, EXIT_CONFIG = 2, EXIT_DEVICE = 3, MAX_SET = 128 };
enum { KEY_SET = 256, KEY_CHECK, KEY_PRINT, KEY_NO_LOOP, KEY_RANK, KEY_GROUP };

struct arguments {
    const char *config;
    const char *set[MAX_SET];
    size_t n_set;
    bool is_check, is_print;
    char **argv;
    uint32_t rank; /* 0: serves; others only compute */
    const char *group;
};

static const struct argp_option OPTIONS[] = {
    {"config", 'c', "FILE", 0, "the configuration of all processes", 0},
    {"set", KEY_SET, "KEY=VALUE", 0, "one key over the file, again and again", 0},
    {"no-loop", KEY_NO_LOOP, NULL, 0, "serve alone and record nothing (loop.enabled=false)", 0},
    {"check-config", KEY_CHECK, NULL, 0, "say what is wrong with the configuration, exit", 0},
    {"print-config", KEY_PRINT, NULL, 0, "print the effective configuration, exit", 0},
    {"rank", KEY_RANK, "N", OPTION_HIDDEN, "compute as rank N of --group; rank 0 starts it", 0},
    {"group", KEY_GROUP, "ID", OPTION_HIDDEN, "what rank 0 made for its ranks", 0},
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
    else if (key == KEY_RANK)
        a->rank = (uint32_t)strtoul(value, NULL, 10);
    else if (key == KEY_GROUP)
        a->group = value;
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

/* Another rank than the first: no server, no records, only arithmetic. */
static int compute(const struct milepost_config *c, const struct arguments *args, struct arena *a)
{
    struct comm *ranks = NULL;
    struct model *m = NULL;
    struct err e = {0};
    int rc = COMM_SHM.join(&ranks, args->group, args->rank, (uint32_t)c->engine.tp_size, &e);
    if (rc == ERR_OK)
        rc = load_rank(&m, &c->engine, ranks, a, &e);
    if (rc == ERR_OK)
        rc = model_follow(m, &e);
    model_close(m);
    COMM_SHM.leave(ranks);
    return rc == ERR_OK ? 0 : fail(&e, EXIT_FAILED);
}

static int serve(const struct milepost_config *c, const struct arguments *args)
{
    struct engine *g = NULL;
    struct ranks *ranks = NULL;
    struct err e = {0};
    int stop_fd = -1;
    int rc = stop_setup(&stop_fd, &e);
    if (rc == ERR_OK && c->engine.tp_size > 1)
        rc = ranks_start(&ranks, (uint32_t)c->engine.tp_size, args->argv, &e);
    if (rc == ERR_OK)
        rc = engine_open(&g, c, ranks_comm(ranks), MILEPOST_VERSION, &e);
    if (rc == ERR_OK)
        rc = engine_run(g, stop_fd, &e);
    engine_close(g);
    ranks_close(ranks);
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
    if (args->is_check)
        return 0;
    return args->rank ? compute(&c, args, a) : serve(&c, args);
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
    struct arguments args = {.argv = argv};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&ARGP, argc, argv, 0, NULL, &args);
    struct arena a;
    arena_init(&a, 16 * MiB);
    int code = run(&args, &a);
    arena_free(&a);
    return code;
}
