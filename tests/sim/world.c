/* Events in random order at random times. Invariant: the same plan gives the same run. */
#include "tests/sim/audit.h"

#include "common/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVENT_US = 1500, SETTLE_EVENTS = 400000 };

uint64_t world_now_us(const struct world *w)
{
    return w->time.now.us;
}

bool world_chance(struct world *w, double p)
{
    return p > 0.0 && rng_uniform(&w->rng) < p;
}

/* For whoever looks for the reason. */
static void write_database(const struct world *w)
{
    sqlite3_int64 n = 0;
    unsigned char *bytes = w->disk ? sqlite3_serialize(db_handle(w->disk), "main", &n, 0) : NULL;
    FILE *f = fopen(w->database, "wb");
    if (f && bytes && fwrite(bytes, 1, (size_t)n, f) == (size_t)n)
        printf("\nthe database is %s\n", w->database);
    if (f)
        fclose(f);
    sqlite3_free(bytes);
}

void world_fail(const struct world *w, const char *fmt, ...)
{
    va_list args;
    printf("FAIL seed %llu, event %llu, %llu us: ", (unsigned long long)w->plan.seed,
           (unsigned long long)w->n_events, (unsigned long long)world_now_us(w));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\nto see it again, with the same build: %s\n", w->plan.again);
    write_database(w);
    fflush(stdout);
    _exit(1);
}

static void open_config(struct world *w)
{
    static const char POLICY[] =
        "policy: {ramp: [\"0.25\", \"0.5\"], ramp_units: 30, min_minutes: 0, min_units: 20, "
        "max_units: 500, pair_deadline_ms: 1500, calibration_units: 80, drift_threshold: 2000, "
        "session_ms: 400, stale_ms: 3000, target: 0.7, propose: true}";
    char routes[1200];
    snprintf(routes, sizeof routes,
             "routes=[{name: default, params: {temperature: 1.0}, %s}, {name: math, params: "
             "{temperature: 0.7}, %s}]",
             POLICY, POLICY);
    const char *const overrides[] = {"controller.batch_rows=1024", "controller.batch_ms=1", routes};
    WORLD_TRY(w, milepost_config_load(NULL, overrides, 3, &w->arena, &w->config, &world_err));
}

static void open_engine(struct world *w, uint32_t i)
{
    struct sim_engine *g = &w->engine[i];
    g->world = w;
    g->index = i;
    snprintf(g->id, sizeof g->id, "e%u", i);
    snprintf(g->path, sizeof g->path, "%s/outbox%u", w->folder, i);
    snprintf(g->address, sizeof g->address, "ipc://outputs%u", i);
    g->n_room = 2 * w->plan.n_requests + 4096; /* what dies with an engine takes numbers too */
    g->fact = calloc(g->n_room, sizeof *g->fact);
    g->admission_of = calloc(g->n_room, sizeof *g->admission_of);
    if (!g->fact || !g->admission_of)
        world_fail(w, "no memory");
    WORLD_TRY(w, db_open(&g->disk, g->path, DB_SYNC_NORMAL, &world_err));
    sim_engine_start(g);
}

/* It stands near the front of a record. */
static uint64_t seq_of(const struct world *w, struct str message)
{
    const struct str key = STR("\"seq\":");
    ptrdiff_t at = str_find(str_slice(message, 0, 256), key, 0);
    if (at < 0)
        world_fail(w, "an output without a seq");
    return strtoull(message.p + at + key.n, NULL, 10);
}

/* Outputs only: what else goes over the bus has other addresses. */
static void on_send(void *ctx, struct str address, struct str message)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < w->plan.n_engines; i++)
        if (str_eq_c(address, w->engine[i].address))
            audit_send(w->audit, &w->engine[i], seq_of(w, message));
}

void world_open(struct world *w, const struct world_plan *p)
{
    bool has_memory_disk = access("/dev/shm", W_OK) == 0;
    *w = (struct world){.plan = *p, .time = {{1000000}, {1000000000}}};
    rng_seed(&w->rng, p->seed);
    w->clock = fake_clock_as_clock(&w->time);
    snprintf(w->folder, sizeof w->folder, "%s/milepost-sim-XXXXXX",
             has_memory_disk ? "/dev/shm" : "/tmp");
    if (!mkdtemp(w->folder))
        world_fail(w, "no folder");
    snprintf(w->database, sizeof w->database, "%s/m.db", w->folder);
    arena_init(&w->arena, 16 * MiB);
    w->metrics = metrics_new();
    w->board = board_new();
    open_config(w);
    WORLD_TRY(w, bus_open_memory(&w->bus, &world_err));
    w->plan.faults.clock = &w->clock;
    w->plan.faults.seed = p->seed;
    w->plan.faults.on_send = on_send;
    w->plan.faults.ctx = w;
    bus_memory_set_faults(w->bus, &w->plan.faults);
    w->audit = audit_new(w);
    WORLD_TRY(w, db_open(&w->disk, w->database, DB_SYNC_NORMAL, &world_err));
    sim_controller_start(w);
    sim_verifier_open(w);
    sim_verifier_start(w);
    for (uint32_t i = 0; i < p->n_engines; i++)
        open_engine(w, i);
}

/* Kills and restarts. */

static void raise_the_dead(struct world *w)
{
    uint64_t now_us = world_now_us(w);
    if (!w->loop && now_us >= w->loop_up_at_us)
        sim_controller_start(w);
    if (!w->verifier.outputs && now_us >= w->verifier.up_at_us)
        sim_verifier_start(w);
    for (uint32_t i = 0; i < w->plan.n_engines; i++)
        if (!w->engine[i].outbox && now_us >= w->engine[i].up_at_us)
            sim_engine_start(&w->engine[i]);
}

static void restart_one(struct world *w)
{
    uint64_t which = rng_below(&w->rng, 3);
    struct sim_engine *g = &w->engine[rng_below(&w->rng, w->plan.n_engines)];
    if (which == 0 && g->outbox)
        sim_engine_stop(g, world_chance(w, 0.5));
    else if (which == 1 && w->verifier.outputs)
        sim_verifier_stop(w);
    else if (which == 2 && w->loop)
        sim_controller_stop(w);
    else
        return;
    w->n_restarts[which]++;
}

static void engine_event(struct world *w, double dice)
{
    struct sim_engine *g = &w->engine[rng_below(&w->rng, w->plan.n_engines)];
    if (!g->outbox)
        return;
    if (dice < 0.3) {
        for (uint64_t n = w->is_settling ? 0 : rng_below(&w->rng, w->plan.burst); n; n--)
            sim_engine_admit(g);
    } else if (dice < 0.45) {
        sim_engine_finish(g);
    } else {
        sim_engine_turn(g);
    }
}

void world_step(struct world *w)
{
    double dice = rng_uniform(&w->rng);
    fake_clock_advance(&w->time, (uint64_t)(-EVENT_US * log1p(-rng_uniform(&w->rng))));
    w->n_events++;
    raise_the_dead(w);
    if (!w->is_settling && world_chance(w, w->plan.restarts))
        restart_one(w);
    if (!w->is_settling && w->loop && world_chance(w, w->plan.operator_acts))
        sim_controller_act(w);
    if (dice < 0.72)
        engine_event(w, dice);
    else if (dice < 0.95 && w->verifier.outputs)
        sim_verifier_turn(w);
    else if (dice >= 0.95 && w->loop)
        sim_controller_turn(w);
    audit_event(w->audit);
}

static bool is_at_rest(const struct world *w)
{
    if (!w->loop || !w->verifier.outputs)
        return false;
    for (uint32_t i = 0; i < w->plan.n_engines; i++)
        if (!sim_engine_rests(&w->engine[i], loop_ledger(w->loop)->desired_version))
            return false;
    return true;
}

void world_run(struct world *w)
{
    while (w->n_admitted - w->n_lost < w->plan.n_requests)
        world_step(w);
    struct bus_faults calm = w->plan.faults;
    calm.loss = calm.duplicate = calm.reorder = 0.0;
    bus_memory_set_faults(w->bus, &calm);
    w->is_settling = true;
    uint64_t until = w->n_events + SETTLE_EVENTS;
    while (!is_at_rest(w) && w->n_events < until)
        world_step(w);
    if (!is_at_rest(w))
        world_fail(w, "engines and controller do not come to rest");
}

void world_end(struct world *w)
{
    audit_end(w->audit);
}

static void remove_file(const char *path)
{
    static const char *const SUFFIX[] = {"", "-wal", "-shm", ".lock"};
    for (int i = 0; i < 4; i++) {
        char file[160];
        snprintf(file, sizeof file, "%s%s", path, SUFFIX[i]);
        unlink(file);
    }
}

void world_close(struct world *w)
{
    for (uint32_t i = 0; i < w->plan.n_engines; i++) {
        sim_engine_free(&w->engine[i]);
        db_close(w->engine[i].disk);
        remove_file(w->engine[i].path);
    }
    sim_verifier_close(w);
    loop_close(w->loop);
    audit_free(w->audit);
    db_close(w->disk);
    bus_close(w->bus);
    board_free(w->board);
    metrics_free(w->metrics);
    arena_free(&w->arena);
    remove_file(w->database);
    rmdir(w->folder);
}
