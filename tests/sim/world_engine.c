/* The engine without model and HTTP: what admission decides, how a record reaches the outbox, what
 * goes over the wire and what comes back. Invariant: a fact is written when, and only when, the
 * outbox said that the record is stored. */
#include "tests/sim/audit.h"

#include "common/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RESEND_MS = 150, HEARTBEAT_MS = 60, WINDOW = 512, MAX_TOKENS = 4096 };

static const char *const STRATA[] = {"", "short", "long"};

static void on_desired(void *ctx, const struct desired *d, struct str text)
{
    struct sim_engine *g = ctx;
    struct world *w = g->world;
    struct route_table *t;
    audit_document(w->audit, g->index, d, text);
    WORLD_TRY(w, desired_table_accept(g->outbox, d, text, &t, &world_err));
    route_table_release(g->pending);
    g->pending = t;
    g->pending_at_us = world_now_us(w) + rng_below(&w->rng, 3000);
}

static void on_command(void *ctx, const struct control_command *c)
{
    struct sim_engine *g = ctx;
    wire_post_result(g->wire, c->id, false, STR("not here"));
}

static void apply_pending(struct sim_engine *g)
{
    if (!g->pending || world_now_us(g->world) < g->pending_at_us)
        return;
    audit_apply(g->world->audit, g->index, route_table_version(g->pending));
    route_table_release(g->table);
    g->table = g->pending;
    g->pending = NULL;
    wire_set_applied(g->wire, route_table_version(g->table));
}

void sim_engine_start(struct sim_engine *g)
{
    struct world *w = g->world;
    struct outbox_state st;
    const struct outbox_config oc = {.path = g->path,
                                     .max_bytes = w->plan.outbox_bytes,
                                     .engine = str_from(g->id),
                                     .epoch_seed = rng_u64(&w->rng),
                                     .has_no_writer = true};
    WORLD_TRY(w, outbox_open(&g->outbox, &oc, &world_err));
    outbox_get_state(g->outbox, &st);
    g->next_admission = st.next_admission;
    g->mark = st.committed_seq;
    const struct wire_config wc = {.bus = w->bus,
                                   .clock = &w->clock,
                                   .outbox = g->outbox,
                                   .outputs_address = g->address,
                                   .control_address = "ipc://control",
                                   .engine = str_from(g->id),
                                   .model = STR("m"),
                                   .weights = STR("w"),
                                   .version = STR("sim"),
                                   .resend_ms = RESEND_MS,
                                   .heartbeat_ms = HEARTBEAT_MS,
                                   .window = WINDOW,
                                   .on_desired = on_desired,
                                   .on_command = on_command,
                                   .ctx = g};
    WORLD_TRY(w, wire_open(&g->wire, &wc, &world_err));
    WORLD_TRY(w, desired_table_first(g->outbox, &w->config, &g->table, &world_err));
    audit_restart(w->audit, g->index, route_table_version(g->table));
    wire_set_applied(g->wire, route_table_version(g->table));
}

static void land(struct flight *f)
{
    route_table_release(f->table);
    f->engine->n_flights--;
    f->engine = NULL;
}

static void lose_flights(struct sim_engine *g)
{
    for (uint32_t i = 0; i < WORLD_FLIGHTS; i++) {
        if (!g->flight[i].engine)
            continue;
        g->world->n_lost++;
        land(&g->flight[i]);
    }
}

void sim_engine_stop(struct sim_engine *g, bool is_killed)
{
    struct world *w = g->world;
    if (!g->outbox)
        return;
    wire_close(g->wire);
    if (is_killed)
        outbox_kill(g->outbox);
    else
        outbox_close(g->outbox); /* its callbacks run */
    lose_flights(g);
    route_table_release(g->table);
    route_table_release(g->pending);
    g->table = g->pending = NULL;
    g->wire = NULL;
    g->outbox = NULL;
    g->up_at_us = world_now_us(w) + rng_below(&w->rng, 300000);
}

/* A colder model is right more often; a very hot one often says nothing at all. */
static void generate(struct world *w, struct flight *f, bool has_reference)
{
    double heat = f->effective.v[PARAM_TEMPERATURE];
    bool is_right = rng_uniform(&w->rng) < 0.95 - 0.45 * heat;
    bool is_long = rng_uniform(&w->rng) < 0.05;
    struct fact *fact = &f->fact;
    fact->is_invalid = heat > 1.3 && rng_uniform(&w->rng) < 0.7;
    snprintf(f->text, sizeof f->text, "%s",
             fact->is_invalid ? ""
             : is_long        ? "it may well be one two three four five six seven"
             : is_right       ? "right"
                              : "wrong");
    /* By the checks of world_verifier.c: the gate first, then the comparison, if there is one. */
    if (is_long && !fact->is_invalid)
        fact->reward = 0.0;
    else if (!has_reference)
        fact->reward = NAN;
    else
        fact->reward = is_right && !fact->is_invalid ? 1.0 : 0.0;
}

static struct flight *free_flight(struct sim_engine *g)
{
    for (uint32_t i = 0; i < WORLD_FLIGHTS; i++)
        if (!g->flight[i].engine)
            return &g->flight[i];
    return NULL;
}

static void fill(struct sim_engine *g, struct flight *f, struct str unit)
{
    struct world *w = g->world;
    bool has_reference = rng_uniform(&w->rng) >= 0.04;
    generate(w, f, has_reference);
    snprintf(f->metadata, sizeof f->metadata, "%s",
             has_reference ? "{\"reference\":\"right\"}" : "{}");
    f->output = (struct output){.request_id = str_from(f->id),
                                .unit = unit,
                                .stratum = str_from(STRATA[rng_below(&w->rng, 3)]),
                                .prompt = STR("say it"),
                                .text = str_from(f->text),
                                .token_ids = f->token,
                                .logprobs = f->logprob,
                                .n_tokens = 4,
                                .completion_tokens = 4,
                                .prompt_tokens = 3,
                                .effective = f->effective,
                                .finish_reason = STR("stop"),
                                .queue_us = 50,
                                .ttft_us = 1000 + rng_below(&w->rng, 1000),
                                .decode_us = 20000 + rng_below(&w->rng, 20000),
                                .created_us = w->time.wall_now.us,
                                .model = STR("m"),
                                .weights = STR("w"),
                                .metadata = str_from(f->metadata)};
    route_mark(f->table, &f->choice, g->next_admission, &f->output);
    f->fact.revision = f->output.revision;
    f->fact.propensity = f->output.propensity;
    f->fact.desired_version = f->output.desired_version;
    f->fact.experiment = hash64(f->output.experiment.p, f->output.experiment.n, 0);
}

/* "e0-17-1234" */
static void name_request(struct flight *f)
{
    const struct sim_engine *g = f->engine;
    struct buf b = {.p = f->id, .cap = sizeof f->id, .max_bytes = sizeof f->id - 1};
    buf_put_c(&b, g->id);
    buf_put_char(&b, '-');
    buf_put_u64(&b, g->next_admission);
    buf_put_char(&b, '-');
    buf_put_u64(&b, g->world->n_admitted);
}

/* Two users of a few come back; the rest are requests that stand alone. */
void sim_engine_admit(struct sim_engine *g)
{
    struct world *w = g->world;
    struct flight *f = free_flight(g);
    struct params client = {0};
    if (!f || w->n_admitted - w->n_lost >= w->plan.n_requests)
        return;
    *f = (struct flight){.engine = g, .table = route_table_hold(g->table)};
    name_request(f);
    if (rng_uniform(&w->rng) < 0.2)
        snprintf(f->unit, sizeof f->unit, "user-%u", (unsigned)rng_below(&w->rng, 12));
    f->fact.route = rng_uniform(&w->rng) < 0.3;
    struct str name = ((const struct route_config *)w->config.routes.item)[f->fact.route].name;
    struct str unit = route_unit(str_from(f->unit), STR(""), str_from(f->id));
    WORLD_TRY(w, route_choose(f->table, name, unit, &f->choice, &world_err));
    route_settle(&f->choice, &client, MAX_TOKENS, &f->effective);
    fill(g, f, unit);
    audit_admission(w->audit, f);
    f->end_us = world_now_us(w) + (uint64_t)(-w->plan.service_us * log1p(-rng_uniform(&w->rng)));
    g->next_admission++;
    g->n_flights++;
    w->n_admitted++;
}

static void on_stored(void *ctx, bool is_stored)
{
    struct flight *f = ctx;
    struct sim_engine *g = f->engine;
    struct world *w = g->world;
    if (!is_stored)
        world_fail(w, "engine %s: a record was not stored", g->id);
    f->fact.seq = f->output.seq;
    if (f->output.seq != g->n_seq + 1 || f->output.admission >= g->n_room)
        world_fail(w, "engine %s: seq %llu after %llu", g->id, (unsigned long long)f->output.seq,
                   (unsigned long long)g->n_seq);
    g->n_seq = f->output.seq;
    g->admission_of[f->output.seq] = f->output.admission;
    g->fact[f->output.admission] = f->fact;
    w->n_stored++;
    land(f);
}

void sim_engine_finish(struct sim_engine *g)
{
    uint64_t now_us = world_now_us(g->world);
    for (uint32_t i = 0; i < WORLD_FLIGHTS; i++) {
        struct flight *f = &g->flight[i];
        if (!f->engine || now_us < f->end_us)
            continue;
        const struct outbox_item item = {.output = &f->output, .on_stored = on_stored, .ctx = f};
        f->end_us = UINT64_MAX; /* stored once */
        outbox_put(g->outbox, &item);
    }
    if (world_chance(g->world, 0.9)) { /* else it waits: a kill now loses it */
        outbox_write(g->outbox);
        outbox_drain(g->outbox);
    }
}

void sim_engine_turn(struct sim_engine *g)
{
    struct outbox_state st;
    wire_turn(g->wire);
    apply_pending(g);
    outbox_write(g->outbox);
    outbox_drain(g->outbox);
    outbox_get_state(g->outbox, &st);
    audit_mark(g->world->audit, g, st.committed_seq);
}

bool sim_engine_rests(const struct sim_engine *g, uint64_t desired_version)
{
    struct outbox_state st;
    if (!g->outbox || g->n_flights || g->pending)
        return false;
    outbox_get_state(g->outbox, &st);
    return st.rows == 0 && route_table_version(g->table) == desired_version;
}

void sim_engine_free(struct sim_engine *g)
{
    sim_engine_stop(g, false);
    free(g->fact);
    free(g->admission_of);
}
