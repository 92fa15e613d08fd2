/* tests/sim/route_sim.c - virtual engine, verifier and controller around one policy.
 *
 * Invariant: the same seed and calls give the same events. Single thread. */
#include "tests/sim/route_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const STRATA[SIM_STRATA] = {"json", "math", "choice", "format"};

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "simulation: %s: %s\n", what, e->msg);
    abort();
}

static double exponential(struct rng *r, double mean)
{
    return -mean * log1p(-rng_uniform(r));
}

static void admit(struct route_sim *s, struct sim_request *q)
{
    bool is_challenger = s->challenger && rng_uniform(&s->rng) < s->share;
    uint64_t number = is_challenger ? s->challenger : s->champion;
    const struct sim_quality *quality = &s->quality[number];
    int stratum = (int)rng_below(&s->rng, (uint64_t)s->n_strata);
    double mean = quality->mean[stratum];
    double reward = quality->sd > 0.0
                        ? fmin(1.0, fmax(0.0, mean + quality->sd * rng_normal(&s->rng)))
                        : (double)(rng_uniform(&s->rng) < mean);
    q->row = (struct policy_row){
        .source = 1,
        .admission = ++s->n_admitted,
        .revision = number,
        .experiment = s->challenger ? str_from(s->experiment) : str_from(""),
        .stratum = str_from(s->is_pooled ? "" : STRATA[stratum]),
        .propensity = !s->challenger  ? 1.0
                      : is_challenger ? s->share
                                      : 1.0 - s->share,
        .is_scored = rng_uniform(&s->rng) >= quality->p_unscored,
        .reward = reward,
        .finish = rng_uniform(&s->rng) < quality->p_truncated ? FINISH_LENGTH : FINISH_STOP,
        .is_invalid = rng_uniform(&s->rng) < quality->p_invalid,
    };
    q->end_s = s->now_s + exponential(&s->rng, quality->seconds > 0.0 ? quality->seconds : 1.0);
}

void sim_open(struct route_sim *s, const struct policy_settings *settings, uint64_t seed,
              int clients, int n_strata)
{
    struct err e = {0};
    memset(s, 0, sizeof *s);
    if (policy_open(&s->policy, settings, &e) != ERR_OK)
        die("policy_open", &e);
    rng_seed(&s->rng, seed);
    s->clients = clients;
    s->n_strata = n_strata;
    s->now_s = 1.0;
}

void sim_close(struct route_sim *s)
{
    policy_close(s->policy);
}

uint64_t sim_add_revision(struct route_sim *s, const double knob[PARAM_COUNT],
                          const struct sim_quality *q)
{
    uint64_t number = ++s->n_revisions;
    if (number >= SIM_REVISIONS)
        abort();
    struct policy_revision *r = &s->revision[number];
    r->number = number;
    snprintf(r->hash, sizeof r->hash, "%064llu", (unsigned long long)number);
    memcpy(r->knob, knob, sizeof r->knob);
    s->quality[number] = *q;
    return number;
}

static void carry_out(struct route_sim *s, const struct policy_action *act);

/* A proposal starts its canary inside carry_out(), so actions nest one level. */
void sim_feed(struct route_sim *s, const struct policy_event *ev)
{
    struct err e = {0};
    struct policy_actions acts;
    if (policy_step(s->policy, ev, &acts, &e) != ERR_OK)
        die("policy_step", &e);
    if (s->on_event)
        s->on_event(s->ctx, ev, &acts);
    for (uint32_t i = 0; i < acts.n; i++) {
        s->count[acts.a[i].kind]++;
        carry_out(s, &acts.a[i]);
    }
    s->last.n = acts.n;
    memcpy(s->last.a, acts.a, acts.n * sizeof acts.a[0]);
}

static uint64_t now_us(const struct route_sim *s)
{
    return (uint64_t)(s->now_s * 1e6);
}

void sim_champion(struct route_sim *s, uint64_t number)
{
    struct policy_event ev = {.kind = EVENT_CHAMPION, .now_us = now_us(s)};
    ev.champion = s->revision[number];
    s->champion = number;
    s->challenger = 0;
    sim_feed(s, &ev);
    for (int i = 0; i < s->clients && s->n_admitted < (uint64_t)s->clients; i++)
        admit(s, &s->in_flight[i]);
}

void sim_start(struct route_sim *s, uint64_t number, bool is_now, bool is_own)
{
    struct policy_event ev = {.kind = EVENT_START, .now_us = now_us(s)};
    snprintf(s->experiment, sizeof s->experiment, "x%llu", (unsigned long long)++s->n_experiments);
    ev.start = (struct policy_start){.experiment = str_from(s->experiment),
                                     .challenger = s->revision[number],
                                     .is_now = is_now,
                                     .is_own = is_own};
    s->challenger = number;
    sim_feed(s, &ev);
}

static void carry_out(struct route_sim *s, const struct policy_action *act)
{
    double knob[PARAM_COUNT];
    struct sim_quality quality;
    switch (act->kind) {
    case ACTION_START_CANARY:
        memcpy(knob, s->revision[act->from_revision].knob, sizeof knob);
        knob[act->knob] = act->value;
        quality = s->quality_of ? s->quality_of(knob) : s->quality[act->from_revision];
        sim_start(s, sim_add_revision(s, knob, &quality), false, true);
        break;
    case ACTION_SET_SPLIT:
        s->share = act->share;
        break;
    case ACTION_PROMOTE:
    case ACTION_ROLLBACK:
    case ACTION_EXPIRE:
        s->champion = act->to_revision;
        s->challenger = 0;
        break;
    default:
        break;
    }
}

void sim_step(struct route_sim *s)
{
    struct sim_request *first = &s->in_flight[0];
    for (int i = 1; i < s->clients; i++)
        if (s->in_flight[i].end_s < first->end_s)
            first = &s->in_flight[i];
    s->now_s = first->end_s;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = now_us(s)};
    ev.row = first->row;
    ev.row.row = ++s->n_committed;
    sim_feed(s, &ev);
    admit(s, first);
}

uint64_t sim_run_until(struct route_sim *s, enum policy_action_kind kind, uint64_t limit,
                       struct policy_action *act)
{
    for (uint64_t i = 1; i <= limit; i++) {
        uint64_t before = s->count[kind];
        sim_step(s);
        if (s->count[kind] == before)
            continue;
        for (uint32_t j = 0; act && j < s->last.n; j++)
            if (s->last.a[j].kind == kind)
                *act = s->last.a[j];
        return i;
    }
    return 0;
}
