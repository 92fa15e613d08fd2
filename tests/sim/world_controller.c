/* The controller's writer, a turn at a time, and an operator who asks for things at random. */
#include "tests/sim/audit.h"

#include <stdio.h>

void sim_controller_start(struct world *w)
{
    struct loop_options o = {.config = &w->config,
                             .database = w->database,
                             .bus = w->bus,
                             .scores = "ipc://scores",
                             .control = "ipc://control",
                             .metrics = w->metrics,
                             .board = w->board,
                             .clock = w->clock,
                             .seed = rng_u64(&w->rng),
                             .version = "sim"};
    WORLD_TRY(w, loop_open(&w->loop, &o, &world_err));
    audit_commit(w->audit, loop_ledger(w->loop));
}

/* Between two turns: a kill inside one is the business of controller/crash_test.c. */
void sim_controller_stop(struct world *w)
{
    loop_close(w->loop);
    w->loop = NULL;
    w->loop_up_at_us = world_now_us(w) + rng_below(&w->rng, 300000);
}

void sim_controller_turn(struct world *w)
{
    WORLD_TRY(w, loop_turn(w->loop, 0, &world_err));
    audit_commit(w->audit, loop_ledger(w->loop));
}

static void forget(struct command *c)
{
    command_free(c);
}

static struct str temperature(struct world *w, struct arena *a)
{
    return arena_printf(a, "{\"temperature\":%.2f}", 0.1 + 1.5 * rng_uniform(&w->rng));
}

static struct str experiment(struct world *w, struct arena *a)
{
    static const char *const LAWS[] = {"elimination", "top_two"};
    return arena_printf(a,
                        "{\"arms\":[{\"temperature\":%.2f},{\"temperature\":%.2f}],\"law\":\"%s\","
                        "\"max_units\":400,\"min_seconds\":0,\"on_win\":\"promote\"}",
                        1.5 * rng_uniform(&w->rng), 1.2 * rng_uniform(&w->rng),
                        LAWS[rng_below(&w->rng, 2)]);
}

/* What the law refuses now (a canary runs, nothing to stop) is part of the game. */
void sim_controller_act(struct world *w)
{
    static const enum command_kind KINDS[] = {
        COMMAND_PARAMS,     COMMAND_PARAMS,     COMMAND_PARAMS,   COMMAND_PARAMS,
        COMMAND_EXPERIMENT, COMMAND_EXPERIMENT, COMMAND_ROLLBACK, COMMAND_PAUSE,
        COMMAND_RESUME,     COMMAND_RESUME,     COMMAND_STOP,     COMMAND_EXPERIMENT_STOP};
    struct command *c = command_new(KINDS[rng_below(&w->rng, sizeof KINDS / sizeof *KINDS)]);
    if (!c)
        world_fail(w, "no memory for a command");
    c->route = ((const struct route_config *)w->config.routes.item)[rng_below(&w->rng, 2)].name;
    c->author = STR("operator:sim");
    c->reason = STR("a whim");
    c->is_now = world_chance(w, 0.3);
    c->is_all = world_chance(w, 0.4); /* of pause and resume: the kill switch */
    c->params =
        c->kind == COMMAND_EXPERIMENT ? experiment(w, &c->arena) : temperature(w, &c->arena);
    c->done = forget;
    if (!loop_submit(w->loop, c))
        command_free(c);
}
