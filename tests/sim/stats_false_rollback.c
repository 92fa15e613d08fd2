/* tests/sim/stats_false_rollback.c - the law's gate: 2,000 canaries without a change, alpha 0.05,
 * through the canary policy that serves (queue, blocks, every test, every look).
 *
 * Reject when false rollbacks, of any cause, exceed 0.05 + 3 sqrt(0.05 0.95 / 2000) = 0.0646. Half
 * of the canaries run at 50%, half as --now at 95%; 16 requests in flight, so that outputs are
 * committed out of order. Then the same at the boundary (true drop = eps), where the rollback test
 * alone must keep alpha, and with a real drop, where it must act. */
#include "tests/sim/report.h"
#include "tests/sim/route_sim.h"

#include <stdio.h>
#include <string.h>

enum { CANARIES = 2000, ROWS = 2000, CLIENTS = 16 };
#define GATE 0.0646

struct totals {
    int n_rollback, n_by_test, n_promote;
};

static struct policy_settings settings(void)
{
    struct policy_settings s = policy_settings_default();
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.min_us = 0;
    s.max_units = 0;
    s.drift_threshold = 0;
    return s;
}

/* One canary of `drop` from 0.80; what became of it after ROWS outputs at most. */
static void run_one(uint64_t seed, double drop, bool is_now, struct totals *t)
{
    static struct route_sim sim;
    static const double knob[PARAM_COUNT] = {1.0};
    struct sim_quality good = {.mean = {0.9, 0.8, 0.8, 0.7}};
    struct sim_quality other = good;
    for (int i = 0; i < SIM_STRATA; i++)
        other.mean[i] -= drop;
    struct policy_settings s = settings();
    sim_open(&sim, &s, seed, CLIENTS, SIM_STRATA);
    uint64_t champion = sim_add_revision(&sim, knob, &good);
    uint64_t challenger = sim_add_revision(&sim, knob, &other);
    sim_champion(&sim, champion);
    sim_start(&sim, challenger, is_now, false);
    for (int i = 0; i < ROWS && sim.challenger; i++)
        sim_step(&sim);
    t->n_rollback += sim.count[ACTION_ROLLBACK] > 0;
    t->n_promote += sim.count[ACTION_PROMOTE] > 0;
    t->n_by_test += sim.count[ACTION_ROLLBACK] > 0 && strcmp(sim.last.a[0].test, "rollback") == 0;
    sim_close(&sim);
}

static struct totals run_all(uint64_t seed, double drop)
{
    struct totals t = {0};
    for (int i = 0; i < CANARIES; i++)
        run_one(seed + (uint64_t)i, drop, i % 2 == 1, &t);
    printf("drop %.2f: %d canaries, %d rolled back (%d by the rollback test), %d promoted\n", drop,
           CANARIES, t.n_rollback, t.n_by_test, t.n_promote);
    return t;
}

int main(void)
{
    struct report report = {0};
    struct totals none = run_all(1, 0.0);
    report_at_most(&report, "no change: false rollbacks", (double)none.n_rollback / CANARIES, GATE);
    report_at_most(&report, "no change: false promotions", (double)none.n_promote / CANARIES, GATE);
    struct totals edge = run_all(100000, 0.02);
    report_at_most(&report, "drop = eps: rollbacks by the test", (double)edge.n_by_test / CANARIES,
                   GATE);
    struct totals drop = run_all(200000, 0.3);
    report_at_least(&report, "drop 0.3: rollbacks", (double)drop.n_rollback / CANARIES, 0.99);
    return report_end(&report);
}
