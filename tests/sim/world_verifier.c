/* The verifier without threads: frames are pulled while there is room, judged in random order as
 * by workers of different speed, and pushed while the controller takes them. A kill forgets what is
 * held. Two versions of the checks judge alike, so that the simulator knows every reward. */
#include "tests/sim/audit.h"

#include <stdio.h>
#include <string.h>

enum { FRAME_BYTES = 1 << 20, JUDGED_A_TURN = 48 };

void sim_verifier_open(struct world *w)
{
    static const char *const LIMITS[WORLD_CHECK_SETS] = {"{\"unit\":\"words\",\"max\":8}",
                                                         "{\"unit\":\"words\",\"max\":9}"};
    struct sim_verifier *v = &w->verifier;
    for (int k = 0; k < WORLD_CHECK_SETS; k++) {
        for (size_t i = 0; i < WORLD_ROUTES; i++) {
            struct check_config check[] = {{.id = STR("short"),
                                            .kind = STR("length"),
                                            .params = str_from(LIMITS[k]),
                                            .gate = true,
                                            .weight = 1,
                                            .timeout_ms = 1000},
                                           {.id = STR("answer"),
                                            .kind = STR("exact"),
                                            .params = STR("{}"),
                                            .weight = 1,
                                            .timeout_ms = 1000}};
            struct route_config route = {
                .name = ((const struct route_config *)w->config.routes.item)[i].name,
                .checks = {check, 2}};
            WORLD_TRY(w, check_set_open(&v->set[k][i], &route, &world_err));
        }
    }
    buf_init(&v->answer, FRAME_BYTES);
    arena_init(&v->arena, 8 * MiB);
}

void sim_verifier_start(struct world *w)
{
    const struct bus_options pull = {.kind = BUS_PULL, .address = "ipc://outputs0,ipc://outputs1"};
    const struct bus_options push = {.kind = BUS_PUSH, .address = "ipc://scores"};
    struct sim_verifier *v = &w->verifier;
    WORLD_TRY(w, bus_socket_open(&v->outputs, w->bus, &pull, &world_err));
    WORLD_TRY(w, bus_socket_open(&v->scores, w->bus, &push, &world_err));
}

void sim_verifier_stop(struct world *w)
{
    struct sim_verifier *v = &w->verifier;
    bus_socket_close(v->outputs);
    bus_socket_close(v->scores);
    v->outputs = v->scores = NULL;
    while (v->n_held)
        bus_message_free(&v->held[--v->n_held]);
    v->up_at_us = world_now_us(w) + rng_below(&w->rng, 200000);
    if (world_chance(w, 0.1))
        v->using = !v->using;
}

static void pull(struct sim_verifier *v)
{
    while (v->n_held < WORLD_HELD && bus_take(v->outputs, 0, &v->held[v->n_held], NULL) == ERR_OK)
        v->n_held++;
}

/* False: the controller takes nothing now. */
static bool judge_one(struct world *w, uint32_t at)
{
    struct sim_verifier *v = &w->verifier;
    struct judge judge = {STR("v1"), v->set[v->using], WORLD_ROUTES, &w->clock};
    struct score score;
    struct err e;
    arena_reset(&v->arena);
    if (judge_frame(&judge, v->held[at].bytes, &v->arena, &score, &v->answer, &e) != JUDGED_SCORE)
        world_fail(w, "the verifier refused an output: %s", e.msg);
    if (bus_send(v->scores, STR(""), buf_str(&v->answer), &e) != ERR_OK)
        return false;
    bus_message_free(&v->held[at]);
    v->held[at] = v->held[--v->n_held];
    return true;
}

void sim_verifier_turn(struct world *w)
{
    struct sim_verifier *v = &w->verifier;
    pull(v);
    for (int i = 0; i < JUDGED_A_TURN && v->n_held; i++)
        if (!judge_one(w, (uint32_t)rng_below(&w->rng, v->n_held)))
            return;
}

void sim_verifier_close(struct world *w)
{
    struct sim_verifier *v = &w->verifier;
    sim_verifier_stop(w);
    for (int k = 0; k < WORLD_CHECK_SETS; k++)
        for (int i = 0; i < WORLD_ROUTES; i++)
            check_set_close(v->set[k][i]);
    buf_free(&v->answer);
    arena_free(&v->arena);
}
