/* milepost-engine: reads the command line and the configuration, opens the engine, serves.
 *
 * Exit codes: 0 done, 1 failed while running, 2 usage or configuration, 3 device. */
#include "common/db.h"
#include "common/log.h"
#include "common/program.h"
#include "common/stop.h"
#include "engine/engine.h"
#include "engine/load.h"
#include "engine/ranks.h"
#include "engine/route/route.h"

struct arguments {
    struct program program;
    bool is_alone;
    char **argv;
    int64_t rank; /* 0: serves; others only compute */
    const char *group;
};

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
    int rc =
        COMM_SHM.join(&ranks, args->group, (uint32_t)args->rank, (uint32_t)c->engine.tp_size, &e);
    if (rc == ERR_OK)
        rc = load_rank(&m, &c->engine, ranks, a, &e);
    if (rc == ERR_OK)
        rc = model_follow(m, &e);
    model_close(m);
    COMM_SHM.leave(ranks);
    return program_end(&args->program, rc, PROGRAM_FAILED, &e);
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
    return program_end(&args->program, rc, PROGRAM_FAILED, &e);
}

static int run(const struct arguments *args, struct arena *a)
{
    const struct program *p = &args->program;
    struct err e = {0};
    struct milepost_config c;
    enum log_level level = LOG_INFO;
    int rc = milepost_config_load(p->config, p->set.item, p->set.n, a, &c, &e);
    if (rc == ERR_OK && p->is_print)
        return program_end(p, program_print_config(&MILEPOST_CONFIG, &c, &e), PROGRAM_FAILED, &e);
    if (rc == ERR_OK)
        rc = check_config(&c, &e);
    if (rc != ERR_OK)
        return program_end(p, rc, PROGRAM_USAGE, &e);
    log_level_parse(c.log_level, &level);
    log_setup("engine", level);
    db_setup();
    if (p->is_check)
        return PROGRAM_OK;
    return args->rank ? compute(&c, args, a) : serve(&c, args);
}

int main(int argc, char **argv)
{
    struct arguments args = {.argv = argv};
    const struct opt own[] = {
        {"no-loop", 0, OPT_FLAG, &args.is_alone, 0, 0, NULL,
         "serve alone and record nothing (loop.enabled=false)"},
        {"rank", 0, OPT_INT, &args.rank, 0, UINT16_MAX, "N", NULL}, /* rank 0 starts the others */
        {"group", 0, OPT_TEXT, &args.group, 0, 0, "ID", NULL},
    };
    args.program =
        (struct program){.name = "milepost-engine",
                         .usage = "[options]",
                         .about = "Serves a language model over HTTP and records every output.",
                         .opt = own,
                         .n_opt = sizeof own / sizeof *own};
    int code = program_begin(&args.program, argc, argv);
    if (code != PROGRAM_CONTINUE)
        return code;
    struct opt_list *set = &args.program.set;
    if (args.is_alone && set->n < OPT_LIST_MAX)
        set->item[set->n++] = "loop.enabled=false";
    struct arena a;
    arena_init(&a, 16 * MiB);
    code = run(&args, &a);
    arena_free(&a);
    return code;
}
