/* The second reading. Invariant: nothing here looks at what is not committed, but to compare. */
#include "tests/sim/audit_parts.h"

#include "common/hash.h"
#include "controller/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Laws of our own. */

static int revision_of(void *ctx, uint64_t number, struct policy_revision *out, struct err *e)
{
    struct audit *a = ctx;
    struct revision r;
    struct arena scratch;
    arena_init(&scratch, MiB);
    int rc = store_get_revision(a->store, number, &scratch, &r, e);
    if (rc == ERR_OK)
        *out = course_revision(&r);
    arena_free(&scratch);
    return rc;
}

static uint64_t tag(struct str s)
{
    return hash64(s.p, s.n, 0);
}

static const struct route_config *route_at(const struct audit *a, uint32_t i)
{
    return (const struct route_config *)a->world->config.routes.item + i;
}

static bool is_safe(const struct audit *a, uint32_t route)
{
    const char *phase = a->view[route].phase; /* NULL before the first event */
    return phase && strcmp(phase, "safe") == 0;
}

/* After each feed, once: a view is wide. */
static void look(struct audit *a, uint32_t route)
{
    if (a->course[route].policy)
        policy_view(a->course[route].policy, &a->view[route]);
}

/* While a route is held nobody starts anything on it. */
static void check_held(struct audit *a, const struct course *c, const struct decision *d)
{
    static const char *const STARTS[] = {"canary", "step", "promote", "allocate"};
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++)
        if (str_eq_c(d->action, STARTS[i]))
            world_fail(a->world, "route %s is paused: decision \"%s\"", c->route, STARTS[i]);
}

static void expect_decisions(struct audit *a, uint32_t route, bool was_safe)
{
    const struct course *c = &a->course[route];
    bool is_held = was_safe && is_safe(a, route);
    for (uint32_t i = 0; i < a->result->n; i++) {
        const struct decision *d = &a->result->decision[i];
        if (is_held)
            check_held(a, c, d);
        if (a->n_expected - a->at_expected == EXPECTED_MAX)
            world_fail(a->world, "too many decisions at once");
        struct expected_decision *x = &a->expected[a->n_expected++ % EXPECTED_MAX];
        *x = (struct expected_decision){
            .route = route, .from = d->from_revision, .to = d->to_revision, .log_e = d->log_e};
        snprintf(x->action, sizeof x->action, STR_FMT, STR_ARG(d->action));
        snprintf(x->test, sizeof x->test, STR_FMT, STR_ARG(d->test));
        if (a->result->action[i])
            a->sums.n_action[a->result->action[i]->kind]++;
    }
}

static struct trial_count *count_of(struct audit *a, uint32_t route, uint64_t experiment,
                                    uint64_t revision)
{
    for (uint32_t i = 0; i < a->n_count; i++) {
        struct trial_count *t = &a->count[i];
        if (t->route == route && t->experiment == experiment && t->revision == revision)
            return t;
    }
    if (a->n_count == COUNTS_MAX)
        world_fail(a->world, "too many trials to count");
    a->count[a->n_count] = (struct trial_count){route, experiment, revision, 0, 0};
    return &a->count[a->n_count++];
}

/* Only rows that were admitted under the trial, by its arms, may be in its numbers; what is
 * unscored is counted beside them. */
static void check_arm(struct audit *a, uint32_t route, uint64_t revision, uint64_t n_scored,
                      uint64_t n_unscored, uint64_t experiment)
{
    const struct trial_count *own = count_of(a, route, experiment, revision);
    if (n_scored > own->n_scored || n_unscored > own->n_unscored)
        world_fail(a->world, "route %s: the trial counts %llu rows of revision %llu, %llu are its",
                   a->course[route].route, (unsigned long long)n_scored,
                   (unsigned long long)revision, (unsigned long long)own->n_scored);
}

static void check_trial(struct audit *a, uint32_t route)
{
    const struct policy_view *v = &a->view[route];
    const struct policy_action *n = &v->numbers;
    if (!v->challenger || strcmp(v->phase, "canary") != 0)
        return;
    uint64_t experiment = tag(str_from(v->experiment));
    check_arm(a, route, v->champion, n->n_champion, n->n_unscored_champion, experiment);
    check_arm(a, route, v->challenger, n->n_challenger, n->n_unscored_challenger, experiment);
    uint64_t n_unscored = n->n_unscored_champion + n->n_unscored_challenger;
    if (n_unscored > a->trial_unscored[route])
        a->sums.n_trial_unscored += n_unscored - a->trial_unscored[route];
    a->trial_unscored[route] = n_unscored;
}

/* Rows and events. */

struct sim_engine *audit_engine(struct audit *a, struct str id)
{
    for (uint32_t i = 0; i < a->world->plan.n_engines; i++)
        if (str_eq_c(id, a->world->engine[i].id))
            return &a->world->engine[i];
    world_fail(a->world, "a row of engine " STR_FMT, STR_ARG(id));
}

/* Counted once, as it was produced, and what cannot be scored is not a zero. */
static void check_row(struct audit *a, const struct scored_row *row)
{
    struct world *w = a->world;
    struct sim_engine *g = audit_engine(a, row->engine);
    struct fact *f = &g->fact[row->admission < g->n_room ? row->admission : 0];
    unsigned long long n = row->row;
    if (f->seq == 0)
        world_fail(w, "row %llu was never stored by its engine", n);
    if (f->is_committed)
        world_fail(w, "row %llu: its output is counted twice", n);
    if (row->revision != f->revision || row->propensity != f->propensity ||
        tag(row->experiment) != f->experiment || !str_eq(row->route, route_at(a, f->route)->name) ||
        row->is_invalid != f->is_invalid)
        world_fail(w, "row %llu: not what was decided at its admission", n);
    if (row->is_scored == isnan(f->reward))
        world_fail(w, "row %llu: scored is %d, want %d", n, row->is_scored, !isnan(f->reward));
    if (row->is_scored && row->reward != f->reward)
        world_fail(w, "row %llu: reward %g, want %g", n, row->reward, f->reward);
    f->is_committed = true;
    a->sums.n_rows++;
    a->sums.n_unscored += !row->is_scored;
    const struct policy_view *v = &a->view[f->route]; /* as it was before this row */
    a->sums.n_foreign += row->revision != v->champion && row->revision != v->challenger;
    struct trial_count *t = count_of(a, f->route, f->experiment, f->revision);
    t->n_scored += row->is_scored;
    t->n_unscored += !row->is_scored;
}

static int on_row(const struct scored_row *row, void *ctx, struct err *e)
{
    struct audit *a = ctx;
    int rc = ERR_OK;
    check_row(a, row);
    for (uint32_t i = 0; rc == ERR_OK && i < WORLD_ROUTES; i++) {
        bool was_safe = is_safe(a, i);
        arena_reset(&a->arena);
        rc = course_feed_row(&a->course[i], row, &a->arena, a->result, e);
        look(a, i);
        expect_decisions(a, i, was_safe);
        check_trial(a, i);
    }
    a->ord = row->row;
    return rc;
}

static int on_event(const struct stored_event *ev, void *ctx, struct err *e)
{
    struct audit *a = ctx;
    int rc = ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && i < WORLD_ROUTES; i++) {
        bool was_safe = is_safe(a, i);
        arena_reset(&a->arena);
        rc = course_feed_event(&a->course[i], ev, &a->arena, a->result, e);
        look(a, i);
        expect_decisions(a, i, was_safe);
    }
    a->ord = ev->ord;
    return rc;
}

/* Decisions. */

/* A law acts on a test only when the test has decided. */
static void check_verdict(struct audit *a, const struct decision *d)
{
    bool is_end = str_eq_c(d->action, "promote") || str_eq_c(d->action, "rollback");
    bool is_of_test = str_starts(d->actor, STR("policy:")) && !isnan(d->log_e);
    if (is_end && is_of_test && !(d->log_e >= d->log_threshold))
        world_fail(a->world, "decision %llu: %g does not reach %g", (unsigned long long)d->number,
                   d->log_e, d->log_threshold);
    bool is_bare = str_eq_c(d->action, "promote") && str_starts(d->actor, STR("policy:")) &&
                   isnan(d->log_e) && !str_eq_c(d->test, "experiment");
    if (is_bare)
        world_fail(a->world, "decision %llu: promoted without a test (" STR_FMT ")",
                   (unsigned long long)d->number, STR_ARG(d->reason));
}

/* Returns its route. */
static uint32_t check_expected(struct audit *a, const struct decision *d)
{
    if (a->at_expected == a->n_expected)
        world_fail(a->world, "decision %llu follows from no committed row",
                   (unsigned long long)d->number);
    const struct expected_decision *x = &a->expected[a->at_expected++ % EXPECTED_MAX];
    bool is_same_e = d->log_e == x->log_e || (isnan(d->log_e) && isnan(x->log_e));
    if (!str_eq_c(d->action, x->action) || !str_eq_c(d->test, x->test) ||
        !str_eq(d->route, route_at(a, x->route)->name) || d->from_revision != x->from ||
        d->to_revision != x->to || !is_same_e)
        world_fail(a->world, "decision %llu (" STR_FMT ") differs from what its rows say (%s)",
                   (unsigned long long)d->number, STR_ARG(d->action), x->action);
    return x->route;
}

static int on_decision(uint64_t number, uint64_t ord, struct str json, void *ctx, struct err *e)
{
    struct audit *a = ctx;
    struct decision d, again;
    json_t *v = NULL;
    arena_reset(&a->arena);
    int rc = json_parse(json, 0, &v, e);
    struct json_at at = json_root(v);
    if (rc == ERR_OK)
        rc = decision_decode(&at, &a->arena, &d, e);
    json_decref(v);
    if (rc != ERR_OK)
        return rc;
    again = d;
    rc = decision_seal(&again, e);
    if (number != a->n_decision + 1 || d.number != number ||
        strcmp(d.previous_hash, a->last_hash) != 0 || strcmp(d.hash, again.hash) != 0)
        world_fail(a->world, "decision %llu: the chain is broken", (unsigned long long)number);
    a->n_decision = number;
    memcpy(a->last_hash, d.hash, sizeof a->last_hash);
    a->sums.n_decisions++;
    a->decided[check_expected(a, &d)] = ord;
    check_verdict(a, &d);
    return rc;
}

/* Documents. */

static void know_route(struct audit *a, uint32_t i, struct known_route *out)
{
    const struct policy_view *v = &a->view[i];
    struct policy_revision r;
    bool is_trial = v->challenger && v->share > 0.0;
    char name[2 * POLICY_ID_BYTES];
    *out = (struct known_route){.is_paused = strcmp(v->phase, "safe") == 0, .n_arm = 1};
    out->revision[0] = v->champion;
    out->share[0] = is_trial ? 1.0 - v->share : 1.0;
    out->experiment = tag(is_trial ? str_from(v->experiment) : STR(""));
    if (is_trial) {
        out->revision[1] = v->challenger;
        out->share[out->n_arm++] = v->share;
    }
    if (v->n_arm) {
        snprintf(name, sizeof name, "%s.%llu", v->experiment, (unsigned long long)v->allocation);
        out->experiment = tag(str_from(name));
        out->share[0] = v->arm_share[0];
        out->n_arm = 1;
    }
    for (uint32_t k = 1; k < v->n_arm; k++) {
        if (v->arm_share[k] <= 0.0)
            continue;
        out->revision[out->n_arm] = v->arm_revision[k];
        out->share[out->n_arm++] = v->arm_share[k];
    }
    for (uint32_t k = 0; k < out->n_arm; k++) {
        WORLD_TRY(a->world, revision_of(a, out->revision[k], &r, &world_err));
        out->temperature[k] = r.knob[PARAM_TEMPERATURE];
    }
}

static void know_version(struct audit *a)
{
    int64_t version = 0;
    WORLD_TRY(a->world, store_number(a->store,
                                     "SELECT CAST(value AS INTEGER) FROM settings WHERE "
                                     "key='desired_version'",
                                     &version, &world_err));
    if ((uint64_t)version < a->version || version >= VERSIONS_MAX)
        world_fail(a->world, "the desired version went from %llu to %lld",
                   (unsigned long long)a->version, (long long)version);
    if ((uint64_t)version == a->version)
        return;
    a->version = (uint64_t)version;
    for (uint32_t i = 0; i < WORLD_ROUTES; i++)
        know_route(a, i, &a->document[version].route[i]);
}

void audit_document(struct audit *a, uint32_t engine, const struct desired *d, struct str text)
{
    if (!a->document)
        return;
    a->sums.n_documents++;
    if (d->version <= a->handed[engine])
        world_fail(a->world, "engine %u was handed version %llu after %llu", engine,
                   (unsigned long long)d->version, (unsigned long long)a->handed[engine]);
    a->handed[engine] = d->version;
    if (d->version > a->version)
        world_fail(a->world, "an engine heard of version %llu before it was committed",
                   (unsigned long long)d->version);
    uint64_t *known = &a->document[d->version].text;
    if (*known && *known != tag(text))
        world_fail(a->world, "version %llu is another document than it was",
                   (unsigned long long)d->version);
    *known = tag(text);
    for (uint32_t i = 0; i < d->n_route; i++) {
        const struct desired_route *r = &d->route[i];
        const struct known_route *k = &a->document[d->version].route[i];
        bool is_same = r->n_arm == k->n_arm && r->is_paused == k->is_paused &&
                       tag(r->experiment) == k->experiment;
        for (uint32_t j = 0; is_same && j < r->n_arm; j++)
            is_same = r->arm[j].revision.number == k->revision[j] && r->arm[j].share == k->share[j];
        if (!is_same)
            world_fail(a->world, "version %llu, route " STR_FMT ": not what was decided",
                       (unsigned long long)d->version, STR_ARG(r->name));
    }
}

void audit_apply(struct audit *a, uint32_t engine, uint64_t version)
{
    if (version < a->applied[engine])
        world_fail(a->world, "engine %u went back from version %llu to %llu", engine,
                   (unsigned long long)a->applied[engine], (unsigned long long)version);
    a->applied[engine] = version;
}

void audit_restart(struct audit *a, uint32_t engine, uint64_t version)
{
    if (a->document && version > a->version)
        world_fail(a->world, "engine %u starts with version %llu, which was never committed",
                   engine, (unsigned long long)version);
    a->applied[engine] = version;
    a->handed[engine] = 0;
    a->sent[engine] = 0;
}

void audit_admission(struct audit *a, const struct flight *f)
{
    const struct known_route *r;
    if (!a->document || f->fact.desired_version == 0) /* its own configuration, nobody heard yet */
        return;
    r = &a->document[f->fact.desired_version].route[f->fact.route];
    if (r->is_paused) {
        a->sums.n_paused++;
        if (f->fact.revision != r->revision[0] || f->fact.propensity != 1.0)
            world_fail(a->world, "a paused route served revision %llu",
                       (unsigned long long)f->fact.revision);
        return;
    }
    for (uint32_t k = 0; k < r->n_arm; k++)
        if (f->fact.revision == r->revision[k] && f->fact.propensity == r->share[k] &&
            f->effective.v[PARAM_TEMPERATURE] == r->temperature[k])
            return;
    world_fail(a->world, "revision %llu with share %g is no arm of version %llu",
               (unsigned long long)f->fact.revision, f->fact.propensity,
               (unsigned long long)f->fact.desired_version);
}

/* The live controller against the second reading. */

static void compare_tests(struct audit *a, const struct policy_view *live,
                          const struct policy_view *mine)
{
    bool is_same = live->n_test == mine->n_test && strcmp(live->phase, mine->phase) == 0 &&
                   live->champion == mine->champion && live->challenger == mine->challenger &&
                   live->share == mine->share;
    for (uint32_t i = 0; is_same && i < live->n_test; i++)
        is_same = live->test[i].log_e == mine->test[i].log_e &&
                  live->test[i].log_threshold == mine->test[i].log_threshold;
    if (!is_same)
        world_fail(a->world, "the wealth of a live test differs from that of the stored rows");
}

static void compare_state(struct audit *a, const struct course *live, const struct course *mine)
{
    const struct course *both[2] = {live, mine};
    for (int i = 0; i < 2; i++) {
        buf_reset(&a->state[i]);
        policy_state_write(both[i]->policy, &a->state[i]);
    }
    if (a->state[0].failed || !str_eq(buf_str(&a->state[0]), buf_str(&a->state[1])))
        world_fail(a->world, "route %s: the live law's state differs from that of the stored rows",
                   live->route);
}

/* A decision and the state it left are one transaction: a kill after it must find both. */
static void compare_stored_text(struct audit *a, const struct course *live)
{
    struct stored_state st;
    arena_reset(&a->arena);
    buf_reset(&a->state[0]);
    buf_reset(&a->state[1]);
    policy_state_write(live->policy, &a->state[0]);
    policy_settings_write(policy_settings_of(live->policy), &a->state[1]);
    WORLD_TRY(a->world,
              store_get_state(a->store, str_from(live->route), &a->arena, &st, &world_err));
    if (!str_eq(st.state, buf_str(&a->state[0])) || !str_eq(st.settings, buf_str(&a->state[1])) ||
        !str_eq_c(st.rows_hash, live->rows_hash))
        world_fail(a->world, "route %s: the state stored with a decision is another one",
                   live->route);
}

/* Rows may have come since it was stored, but nothing that was decided. */
static void compare_stored(struct audit *a, uint32_t route, const struct course *live,
                           const struct policy_view *v, uint64_t before)
{
    struct db_stmt *q;
    WORLD_TRY(a->world,
              store_statement(a->store,
                              "SELECT ord,law,phase,experiment,champion,challenger,share FROM "
                              "policy_state WHERE route=?1",
                              &q, &world_err));
    db_bind_str(q, 1, str_from(live->route));
    WORLD_TRY(a->world, db_step(q, &world_err));
    uint64_t ord = (uint64_t)db_col_i64(q, 0);
    if (ord > live->ord || ord < a->decided[route])
        world_fail(a->world, "route %s: the stored state is of %llu, the last decision of %llu",
                   live->route, (unsigned long long)ord, (unsigned long long)a->decided[route]);
    if (!str_eq_c(db_col_str(q, 1), policy_law_name(policy_settings_of(live->policy)->kind)) ||
        !str_eq_c(db_col_str(q, 2), v->phase) || !str_eq_c(db_col_str(q, 3), v->experiment) ||
        (uint64_t)db_col_i64(q, 4) != v->champion || (uint64_t)db_col_i64(q, 5) != v->challenger ||
        db_col_f64(q, 6) != v->share)
        world_fail(a->world,
                   "route %s: phase, revisions or share of the stored state are not those "
                   "of the live law",
                   live->route);
    db_reset(q);
    if (a->decided[route] > before)
        compare_stored_text(a, live);
}

/* before: the ord up to which the last look went. */
static void compare_live(struct audit *a, const struct ledger *live, uint64_t before)
{
    if (live->is_open)
        world_fail(a->world, "a batch is open after the turn");
    if (live->n_outputs != a->sums.n_rows || live->n_decisions != a->n_decision)
        world_fail(a->world, "the controller counts %llu outputs, %llu are committed",
                   (unsigned long long)live->n_outputs, (unsigned long long)a->sums.n_rows);
    for (uint32_t i = 0; i < WORLD_ROUTES; i++) {
        const struct course *l = &live->route[i].course, *m = &a->course[i];
        struct policy_view lv;
        policy_view(l->policy, &lv);
        compare_tests(a, &lv, &a->view[i]);
        compare_stored(a, i, l, &lv, before);
        if (strcmp(l->rows_hash, m->rows_hash) != 0)
            world_fail(a->world, "route %s: the rows' chain differs", l->route);
        if (a->n_commit % WHOLE_STATE_EVERY == 0)
            compare_state(a, l, m);
    }
}

void audit_commit(struct audit *a, const struct ledger *live)
{
    struct world *w = a->world;
    if (!a->document)
        return;
    if (!a->store)
        WORLD_TRY(w, store_open_readonly(&a->store, w->database, &world_err));
    uint64_t before = a->ord;
    WORLD_TRY(w, store_walk_order(a->store, a->ord, on_row, on_event, a, &world_err));
    audit_gaps(a);
    if (a->ord == before && a->n_commit)
        return;
    WORLD_TRY(w, store_walk_decisions(a->store, a->n_decision, on_decision, a, &world_err));
    if (a->at_expected != a->n_expected)
        world_fail(w, "a decision that follows from committed rows is missing");
    know_version(a);
    compare_live(a, live, before);
    a->n_commit++;
}

void audit_event(struct audit *a)
{
    const struct world *w = a->world;
    if (!a->document)
        return;
    if (a->sums.n_rows > w->n_stored)
        world_fail(w, "more rows than outputs");
    for (uint32_t i = 0; i < w->plan.n_engines; i++) {
        const struct sim_engine *g = &w->engine[i];
        if (g->table && route_table_version(g->table) != a->applied[i])
            world_fail(w, "engine %s serves a version nobody applied", g->id);
        if (a->applied[i] > a->version)
            world_fail(w, "engine %s is ahead of what is committed", g->id);
    }
}

void audit_end(struct audit *a)
{
    struct world *w = a->world;
    struct replay_report report;
    if (!a->document)
        return;
    for (uint32_t i = 0; i < w->plan.n_engines; i++)
        audit_delivered(a, &w->engine[i]);
    for (uint32_t i = 0; i < WORLD_ROUTES; i++)
        compare_state(a, &loop_ledger(w->loop)->route[i].course, &a->course[i]);
    WORLD_TRY(w, replay_run(w->database, &report, &world_err));
    if (!report.agrees)
        world_fail(w, "replay: %s", report.difference);
}

struct audit *audit_new(struct world *w)
{
    struct audit *a = calloc(1, sizeof *a);
    if (!a)
        world_fail(w, "no memory");
    a->world = w;
    arena_init(&a->arena, 64 * MiB);
    for (int i = 0; i < 2; i++)
        buf_init(&a->state[i], 16 * MiB);
    if (!w->plan.is_audited)
        return a;
    a->document = calloc(VERSIONS_MAX, sizeof *a->document);
    a->result = calloc(1, sizeof *a->result);
    if (!a->document || !a->result)
        world_fail(w, "no memory");
    for (uint32_t i = 0; i < WORLD_ROUTES; i++)
        course_init(&a->course[i], route_at(a, i)->name, revision_of, a);
    return a;
}

void audit_free(struct audit *a)
{
    for (uint32_t i = 0; a->document && i < WORLD_ROUTES; i++)
        course_close(&a->course[i]);
    store_close(a->store);
    arena_free(&a->arena);
    for (int i = 0; i < 2; i++)
        buf_free(&a->state[i]);
    free(a->document);
    free(a->result);
    free(a);
}

const struct audit_sums *audit_sums(const struct audit *a)
{
    return &a->sums;
}
