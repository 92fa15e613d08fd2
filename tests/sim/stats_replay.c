/* tests/sim/stats_replay.c - random courses: invariants after every event, and exact replay.
 *
 * 200 seeds (40 under ASan); each mixes traffic with random operator events and lost, late,
 * repeated and foreign rows. Every event fed is kept; a second policy is fed the same, passing
 * through the JSON text at random moments as after a kill, and must give the same actions and the
 * same final state. */
#include "common/hash.h"
#include "tests/sim/report.h"
#include "tests/sim/route_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 40 };
#else
enum { SEEDS = 200 };
#endif
enum { STEPS = 3000, EVENTS_MAX = 2 * STEPS };

struct kept {
    struct policy_event event;
    char experiment[POLICY_ID_BYTES];
    uint64_t digest; /* of the actions it caused */
};

struct course {
    struct route_sim sim;
    struct kept *kept; /* [EVENTS_MAX] */
    size_t n_kept;
    int n_broken;
};

static double quality_mean(double temperature)
{
    return fmax(0.05, 0.9 - 0.5 * temperature);
}

static struct sim_quality quality_of(const double knob[PARAM_COUNT])
{
    double mean = quality_mean(knob[PARAM_TEMPERATURE]);
    return (struct sim_quality){.mean = {mean, mean, mean, mean},
                                .p_truncated = knob[PARAM_MAX_NEW_TOKENS] < 50 ? 0.7 : 0.05,
                                .p_unscored = 0.03,
                                .p_invalid = 0.01};
}

static void expect(struct course *c, bool is_good, const char *what)
{
    if (is_good)
        return;
    c->n_broken++;
    printf("FAIL after event %zu: %s\n", c->n_kept, what);
}

static void check_invariants(struct course *c, const struct policy_actions *acts)
{
    struct policy_view v;
    policy_view(c->sim.policy, &v);
    bool is_canary = strcmp(v.phase, "canary") == 0;
    expect(c, is_canary == (v.challenger != 0), "a challenger exactly in the canary");
    expect(c, !is_canary || (v.share > 0.0 && v.share < 1.0), "share inside (0,1)");
    expect(c, v.challenger != v.champion, "arms differ");
    expect(c, acts->n < POLICY_ACTIONS_MAX, "room for every action");
    for (uint32_t i = 0; i < v.n_test; i++)
        expect(c, isfinite(v.test[i].log_e), "finite wealth");
    for (uint32_t i = 0; i < acts->n; i++) {
        const struct policy_action *a = &acts->a[i];
        bool is_end = a->kind == ACTION_ROLLBACK || a->kind == ACTION_PROMOTE;
        expect(c, !is_end || a->to_revision == v.champion, "the end names who serves");
        expect(c, !is_end || a->reason[0], "the end has a reason");
    }
}

/* Every number and word of the actions. */
static uint64_t digest(const struct policy_actions *acts)
{
    uint64_t hash = acts->n;
    for (uint32_t i = 0; i < acts->n; i++) {
        const struct policy_action *a = &acts->a[i];
        char text[1024];
        int n =
            snprintf(text, sizeof text,
                     "%d %s %s %s %s %llu %llu %d %a %a %a %a %a %a %a %a %a %llu %llu %llu %llu",
                     (int)a->kind, a->test, a->reason, a->experiment, a->hash,
                     (unsigned long long)a->from_revision, (unsigned long long)a->to_revision,
                     (int)a->knob, a->value, a->share, a->log_e, a->log_threshold, a->mean_champion,
                     a->mean_challenger, a->effect, a->effect_lower, a->effect_upper,
                     (unsigned long long)a->n_champion, (unsigned long long)a->n_challenger,
                     (unsigned long long)a->first_row, (unsigned long long)a->last_row);
        hash = hash64(text, (size_t)n < sizeof text ? (size_t)n : sizeof text, hash);
    }
    return hash;
}

static void keep(void *ctx, const struct policy_event *ev, const struct policy_actions *acts)
{
    struct course *c = ctx;
    check_invariants(c, acts);
    if (c->n_kept == EVENTS_MAX)
        return;
    struct kept *k = &c->kept[c->n_kept++];
    k->event = *ev;
    struct str id = ev->kind == EVENT_ROW     ? ev->row.experiment
                    : ev->kind == EVENT_START ? ev->start.experiment
                                              : str_from("");
    snprintf(k->experiment, sizeof k->experiment, STR_FMT, STR_ARG(id));
    k->digest = digest(acts);
}

static bool can(const struct route_sim *s, enum policy_event_kind kind)
{
    struct policy_view v;
    policy_view(s->policy, &v);
    bool is_canary = strcmp(v.phase, "canary") == 0;
    bool is_safe = strcmp(v.phase, "safe") == 0;
    if (kind == EVENT_RESUME)
        return is_safe;
    if (kind == EVENT_HOLD)
        return !is_safe;
    if (kind == EVENT_STOP || kind == EVENT_PROMOTE || kind == EVENT_ROLLBACK)
        return is_canary;
    return true;
}

static void operator_acts(struct course *c, struct rng *r)
{
    static const enum policy_event_kind KINDS[] = {EVENT_TICK, EVENT_STOP,  EVENT_PROMOTE,
                                                   EVENT_HOLD, EVENT_CRASH, EVENT_ROLLBACK};
    struct route_sim *s = &c->sim;
    struct policy_event ev = {.kind = KINDS[rng_below(r, sizeof KINDS / sizeof *KINDS)],
                              .now_us = (uint64_t)(s->now_s * 1e6)};
    if (can(s, EVENT_RESUME))
        ev.kind = EVENT_RESUME;
    if (can(s, ev.kind))
        sim_feed(s, &ev);
}

static void push_revision(struct course *c, struct rng *r)
{
    struct route_sim *s = &c->sim;
    if (s->challenger || can(s, EVENT_RESUME) || s->n_revisions + 20 > SIM_REVISIONS)
        return;
    double knob[PARAM_COUNT] = {0};
    knob[PARAM_TEMPERATURE] = 1.8 * rng_uniform(r);
    knob[PARAM_MAX_NEW_TOKENS] = 20.0 + 100.0 * rng_uniform(r);
    struct sim_quality q = quality_of(knob);
    sim_start(s, sim_add_revision(s, knob, &q), rng_uniform(r) < 0.5, false);
}

/* A row that is lost in the order, repeated, foreign, or of a source nobody knows. */
static void odd_row(struct course *c, struct rng *r)
{
    struct route_sim *s = &c->sim;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = (uint64_t)(s->now_s * 1e6)};
    ev.row = s->in_flight[rng_below(r, (uint64_t)s->clients)].row;
    uint64_t what = rng_below(r, 4);
    if (what == 0)
        ev.row.admission = rng_below(r, s->n_admitted + 1);
    if (what == 1)
        ev.row.source = 2 + rng_below(r, 20);
    if (what == 2) {
        ev.row.is_foreign = true;
        ev.row.admission = ++s->n_admitted;
    }
    if (what == 3)
        ++s->n_admitted; /* never comes: a hole until the deadline */
    else
        sim_feed(s, &ev);
}

static struct policy_settings settings(void)
{
    struct policy_settings s = policy_settings_default();
    s.min_us = 20000000;
    s.ramp[0] = 0.2;
    s.ramp[1] = 0.5;
    s.n_ramp = 2;
    s.ramp_units = 50;
    s.max_units = 600;
    s.max_us = (uint64_t)300 * 1000000;
    s.pair_deadline_us = 5000000;
    s.calibration_units = 100;
    s.target = 0.6;
    s.proposes = true;
    s.temperature_step = 0.3;
    return s;
}

static void run_course(struct course *c, uint64_t seed)
{
    struct policy_settings s = settings();
    struct rng r;
    rng_seed(&r, seed * 7919);
    sim_open(&c->sim, &s, seed, 16, SIM_STRATA);
    c->sim.quality_of = quality_of;
    c->sim.on_event = keep;
    c->sim.ctx = c;
    double knob[PARAM_COUNT] = {0};
    knob[PARAM_TEMPERATURE] = 1.5;
    knob[PARAM_MAX_NEW_TOKENS] = 120;
    struct sim_quality q = quality_of(knob);
    sim_champion(&c->sim, sim_add_revision(&c->sim, knob, &q));
    for (int i = 0; i < STEPS; i++) {
        sim_step(&c->sim);
        double dice = rng_uniform(&r);
        if (dice < 0.002)
            operator_acts(c, &r);
        else if (dice < 0.004)
            push_revision(c, &r);
        else if (dice < 0.02)
            odd_row(c, &r);
    }
}

/* The policy after a kill: what its text says, in a new process. */
static struct policy *restarted(struct policy *p)
{
    struct policy *fresh = NULL;
    struct err e = {0};
    json_t *v = policy_state_encode(p);
    if (!v || policy_open(&fresh, policy_settings_of(p), &e) != ERR_OK ||
        policy_state_decode(fresh, v, &e) != ERR_OK) {
        fprintf(stderr, "restart: %s\n", e.msg);
        abort();
    }
    json_decref(v);
    policy_close(p);
    return fresh;
}

/* A tick before policy_wake_us() may do nothing: callers need not store it. Tried on a copy. */
static void check_early_tick(struct course *c, struct policy *p, uint64_t now_us)
{
    uint64_t wake_us = policy_wake_us(p);
    struct policy *copy = NULL;
    struct policy_actions acts;
    struct err e = {0};
    struct policy_event tick = {.kind = EVENT_TICK, .now_us = now_us};
    if (wake_us > now_us && now_us + 60000000 < wake_us)
        tick.now_us = now_us + 60000000;
    else if (wake_us > now_us)
        tick.now_us = wake_us - 1;
    else if (wake_us)
        return;
    json_t *v = policy_state_encode(p);
    if (policy_open(&copy, policy_settings_of(p), &e) != ERR_OK ||
        policy_state_decode(copy, v, &e) != ERR_OK || policy_step(copy, &tick, &acts, &e) != ERR_OK)
        abort();
    expect(c, acts.n == 0, "a tick before the wake time does nothing");
    json_decref(v);
    policy_close(copy);
}

static void replay_course(struct course *c, uint64_t seed)
{
    struct policy_settings s = settings();
    struct policy *p = NULL;
    struct policy_actions acts;
    struct err e = {0};
    struct rng r;
    rng_seed(&r, seed);
    if (policy_open(&p, &s, &e) != ERR_OK)
        abort();
    for (size_t i = 0; i < c->n_kept; i++) {
        struct kept *k = &c->kept[i];
        if (k->event.kind == EVENT_ROW)
            k->event.row.experiment = str_from(k->experiment);
        if (k->event.kind == EVENT_START)
            k->event.start.experiment = str_from(k->experiment);
        if (policy_step(p, &k->event, &acts, &e) != ERR_OK)
            expect(c, false, "replay refuses an event that happened");
        expect(c, digest(&acts) == k->digest, "replay gives the same actions");
        if (rng_uniform(&r) < 0.01)
            check_early_tick(c, p, k->event.now_us);
        if (rng_uniform(&r) < 0.01)
            p = restarted(p);
    }
    json_t *ours = policy_state_encode(c->sim.policy);
    json_t *again = policy_state_encode(p);
    expect(c, json_equal(ours, again), "replay ends in the same state");
    json_decref(ours);
    json_decref(again);
    policy_close(p);
}

int main(void)
{
    struct report report = {0};
    uint64_t total[ACTION_KIND_COUNT] = {0};
    static struct course c;
    c.kept = calloc(EVENTS_MAX, sizeof *c.kept);
    if (!c.kept)
        return 1;
    size_t n_events = 0;
    double seconds = 0.0, n_requests = 0.0; /* of this core; others' load does not count */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int before = c.n_broken;
        c.n_kept = 0;
        clock_t start = clock();
        run_course(&c, seed);
        seconds += (double)(clock() - start) / CLOCKS_PER_SEC;
        n_requests += (double)c.sim.n_committed;
        replay_course(&c, seed);
        if (c.n_broken != before)
            printf("FAIL seed %llu\n", (unsigned long long)seed);
        for (int k = 0; k < ACTION_KIND_COUNT; k++)
            total[k] += c.sim.count[k];
        n_events += c.n_kept;
        sim_close(&c.sim);
    }
    printf("%d seeds, %zu events\n", SEEDS, n_events);
    for (int k = 0; k <= ACTION_ALERT; k++) /* of the law */
        report_at_least(&report, policy_action_name((enum policy_action_kind)k), (double)total[k],
                        1);
    report_at_most(&report, "broken invariants", c.n_broken, 0);
    printf("%.2f million simulated requests a minute, invariants checked after each\n",
           n_requests / seconds * 60e-6);
    free(c.kept);
    return report_end(&report);
}
