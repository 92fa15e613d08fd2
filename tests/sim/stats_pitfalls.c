/* tests/sim/stats_pitfalls.c - the traps of law 2.8: what goes wrong without the rule, and that the
 * serving code is not caught.
 *
 * Each trap shows the naive number (it must be bad, else the trap is not one) and ours (it must
 * keep alpha 0.05 within 3 binomial errors of the repetitions). No arm is better in any of them. */
#include "controller/stats/admission.h"
#include "controller/stats/betting.h"
#include "controller/stats/blocks.h"
#include "controller/stats/edetector.h"
#include "tests/sim/report.h"
#include "tests/sim/route_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 1000 };
#define ALPHA 0.05
#define GATE  (ALPHA + 3.0 * 0.0069) /* sqrt(0.05 * 0.95 / 1000) */

/* A canary at 1:1 over single rows, eps 0. True when it is rolled back. */
struct canary {
    struct blocks blocks;
    struct betting w;
};

static struct canary canary_start(void)
{
    struct canary c;
    memset(&c, 0, sizeof c);
    blocks_set_share(&c.blocks, 0.5, 1);
    c.w = betting_start();
    return c;
}

static bool canary_add(struct canary *c, bool is_challenger, double reward)
{
    struct block_value v = {{reward}};
    struct block b;
    if (!blocks_push(&c->blocks, 0, is_challenger, &v, &b))
        return false;
    struct bet_stake stake = bet_paired(BET_ROLLBACK, b.diff.v[0], 0.0);
    return betting_update(&c->w, stake.s, stake.lo) >= log_threshold(ALPHA);
}

/* Every record delivered `copies` times; with_queue: through the admission queue. */
static double duplicates(int copies, bool with_queue)
{
    static struct admission_queue q;
    struct rng r;
    rng_seed(&r, 11);
    int n_rollback = 0;
    for (int i = 0; i < RUNS; i++) {
        struct canary c = canary_start();
        bool is_out = false;
        memset(&q, 0, sizeof q);
        for (uint64_t n = 1; n <= 4000 && !is_out; n++) {
            double reward = rng_uniform(&r) < 0.8;
            struct unit_row row = {.source = 1, .admission = n, .reward = reward};
            for (int k = 0; k < copies && !is_out; k++) {
                if (with_queue && !(admission_put(&q, &row) && admission_take(&q, 0, 1, &row)))
                    continue;
                is_out = canary_add(&c, n % 2, reward);
            }
        }
        n_rollback += is_out;
    }
    return (double)n_rollback / RUNS;
}

struct arrival {
    double at;
    struct unit_row row;
};

static int by_time(const void *a, const void *b)
{
    double x = ((const struct arrival *)a)->at;
    double y = ((const struct arrival *)b)->at;
    return (x > y) - (x < y);
}

enum { WARM = 600, REQUESTS = 3600 };

/* One request a second; passes are scored after Exp(60 s), fails after Exp(5 s). The champion has
 * served for WARM seconds when the canary starts. */
static void make_arrivals(struct arrival *out, struct rng *r)
{
    for (int i = 0; i < REQUESTS; i++) {
        bool is_pass = rng_uniform(r) < 0.8;
        double delay = -log1p(-rng_uniform(r)) * (is_pass ? 60.0 : 5.0);
        bool is_challenger = i >= WARM && rng_uniform(r) < 0.5;
        out[i] = (struct arrival){.at = i + delay,
                                  .row = {.source = 1,
                                          .admission = (uint64_t)i + 1,
                                          .revision = is_challenger,
                                          .reward = is_pass}};
    }
    qsort(out, REQUESTS, sizeof *out, by_time);
}

/* Rows admitted before the start of the canary are not concurrent and never pair. */
static bool add_concurrent(struct canary *c, const struct unit_row *row, bool is_strict)
{
    if (is_strict && row->admission <= WARM)
        return false;
    return canary_add(c, row->revision, row->reward);
}

static double delayed(bool in_order)
{
    static struct arrival arrivals[REQUESTS];
    static struct admission_queue q;
    struct rng r;
    rng_seed(&r, 12);
    int n_rollback = 0;
    for (int i = 0; i < RUNS; i++) {
        struct canary c = canary_start();
        bool is_out = false;
        memset(&q, 0, sizeof q);
        make_arrivals(arrivals, &r);
        for (int j = 0; j < REQUESTS && !is_out; j++) {
            struct unit_row *row = &arrivals[j].row;
            uint64_t now_us = (uint64_t)(arrivals[j].at * 1e6);
            row->committed_us = now_us;
            if (!in_order) {
                is_out = add_concurrent(&c, row, false);
                continue;
            }
            admission_put(&q, row);
            struct unit_row next;
            while (!is_out && admission_take(&q, now_us, (uint64_t)600 * 1000000, &next))
                is_out = add_concurrent(&c, &next, true);
        }
        n_rollback += is_out;
    }
    return (double)n_rollback / RUNS;
}

/* Verifier timeouts 2% against 7%, equal quality; unscored taken for 0, or through the policy. */
static double timeouts_as_zero(void)
{
    struct rng r;
    rng_seed(&r, 13);
    int n_rollback = 0;
    for (int i = 0; i < RUNS; i++) {
        struct canary c = canary_start();
        bool is_out = false;
        for (int n = 0; n < 40000 && !is_out; n++) {
            bool is_challenger = n % 2;
            bool is_lost = rng_uniform(&r) < (is_challenger ? 0.07 : 0.02);
            is_out = canary_add(&c, is_challenger, !is_lost && rng_uniform(&r) < 0.8);
        }
        n_rollback += is_out;
    }
    return (double)n_rollback / RUNS;
}

struct ends {
    double by_reward, by_guardrail; /* rollbacks */
    double alerts;                  /* of the guardrail on unscored outputs */
};

static void count_end(void *ctx, const struct policy_event *ev, const struct policy_actions *acts)
{
    struct ends *ends = ctx;
    (void)ev;
    for (uint32_t i = 0; i < acts->n; i++) {
        const struct policy_action *act = &acts->a[i];
        bool is_unscored = strcmp(act->test, "guardrail_unscored") == 0;
        ends->by_reward += act->kind == ACTION_ROLLBACK && strcmp(act->test, "rollback") == 0;
        ends->by_guardrail += act->kind == ACTION_ROLLBACK && is_unscored;
        ends->alerts += act->kind == ACTION_ALERT && is_unscored;
    }
}

static struct ends timeouts_by_policy(double p_challenger)
{
    static struct route_sim sim;
    static const double knob[PARAM_COUNT] = {1.0};
    struct sim_quality a = {.mean = {0.8}, .p_unscored = 0.02};
    struct sim_quality b = {.mean = {0.8}, .p_unscored = p_challenger};
    struct policy_settings s = policy_settings_default();
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.max_units = 0;
    s.drift_threshold = 0;
    struct ends ends = {0};
    for (int i = 0; i < RUNS; i++) {
        sim_open(&sim, &s, (uint64_t)i + 1, 16, 1);
        sim.on_event = count_end;
        sim.ctx = &ends;
        uint64_t champion = sim_add_revision(&sim, knob, &a);
        uint64_t challenger = sim_add_revision(&sim, knob, &b);
        sim_champion(&sim, champion);
        sim_start(&sim, challenger, false, false);
        for (int n = 0; n < 4000 && sim.challenger; n++)
            sim_step(&sim);
        sim_close(&sim);
    }
    ends.by_reward /= RUNS;
    ends.by_guardrail /= RUNS;
    ends.alerts /= RUNS;
    return ends;
}

/* Classes earning 0.9 and 0.6 whose mix goes from 80/20 to 60/40, equal quality in each class. */
static void mix_shift(double *pooled, double *stratified)
{
    struct rng r;
    rng_seed(&r, 14);
    int n_pooled = 0;
    int n_stratified = 0;
    for (int i = 0; i < RUNS; i++) {
        struct edetector all = edetector_start(EDETECTOR_SR, 0.82);
        struct edetector class[2] = {edetector_start(EDETECTOR_SR, 0.88),
                                     edetector_start(EDETECTOR_SR, 0.58)};
        bool is_pooled = false;
        bool is_stratified = false;
        for (int n = 0; n < 10000; n++) {
            int c = rng_uniform(&r) < (n < 5000 ? 0.2 : 0.4);
            double reward = rng_uniform(&r) < (c ? 0.6 : 0.9);
            is_pooled |= edetector_update(&all, reward) >= 1e4;
            is_stratified |= edetector_update(&class[c], reward) >= 2e4;
        }
        n_pooled += is_pooled;
        n_stratified += is_stratified;
    }
    *pooled = (double)n_pooled / RUNS;
    *stratified = (double)n_stratified / RUNS;
}

int main(void)
{
    struct report report = {0};
    report_at_least(&report, "duplicates x3, taken as they come: false", duplicates(3, false), 0.3);
    report_at_most(&report, "duplicates x3, admission queue: false", duplicates(3, true), GATE);
    report_at_least(&report, "delayed rewards in order of arrival: false", delayed(false), 0.12);
    report_at_most(&report, "delayed rewards in order of admission: false", delayed(true), GATE);
    report_at_least(&report, "timeouts 2%/7% taken for zero: false", timeouts_as_zero(), 0.5);
    struct ends t = timeouts_by_policy(0.07);
    /* Without any timeout it is 0.0095 here (8,000 runs); plus 3 errors. */
    report_at_most(&report, "timeouts 2%/7%, policy: false by reward", t.by_reward, 0.019);
    report_at_most(&report, "timeouts 2%/7%, policy: guardrail speaks (edge)", t.alerts, GATE);
    t = timeouts_by_policy(0.30);
    report_at_least(&report, "timeouts 2%/30%, policy: guardrail speaks", t.alerts, 0.95);
    report_at_most(&report, "timeouts 2%/30%, policy: rolled back for it", t.by_guardrail, 0.0);
    report_at_most(&report, "timeouts 2%/30%, policy: false by reward", t.by_reward, 0.019);
    double pooled;
    double stratified;
    mix_shift(&pooled, &stratified);
    report_at_least(&report, "mix 80/20 to 60/40, pooled drift: alarms", pooled, 0.95);
    report_at_most(&report, "mix 80/20 to 60/40, stratified drift: alarms", stratified, GATE);
    return report_end(&report);
}
