/* tests/sim/stats_demo.c - how many requests until the controller acts, with a demonstration's
 * settings: no ramp (half the traffic at once), no minimum duration.
 *
 * An operator decides with these numbers whether a canary can end in the time there is. 400
 * canaries a line, 16 requests in flight, four kinds of task. Checked: a bad push with --now is
 * rolled back within a few hundred requests, and a step of 0.15 is promoted in most canaries within
 * 1,000. */
#include "tests/sim/report.h"
#include "tests/sim/route_sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CANARIES = 400, CLIENTS = 16, LIMIT = 4000 };

struct scenario {
    const char *name;
    struct sim_quality champion, challenger;
    double now_share; /* 0 = a proposal at 50% */
    int nth;          /* which experiment of the route: spends alpha_i */
    bool is_pooled;
    enum policy_action_kind wanted;
    double median_bound; /* 0 = only printed */
};

#define SAME(r)                                                                                    \
    {                                                                                              \
        .mean = { r, r, r, r }                                                                     \
    }
#define GRADED(r, d)                                                                               \
    {                                                                                              \
        .mean = {r, r, r, r}, .sd = d                                                              \
    }
#define MIX_LOW                                                                                    \
    {                                                                                              \
        .mean = { 0.85, 0.40, 0.20, 0.00 }                                                         \
    } /* mean 0.3625 */
#define MIX_HIGH                                                                                   \
    {                                                                                              \
        .mean = { 0.98, 0.60, 0.35, 0.10 }                                                         \
    } /* mean 0.5075 */
#define TRUNCATED(r)                                                                               \
    {                                                                                              \
        .mean = {r, r, r, r}, .p_truncated = 0.9                                                   \
    }

static const struct scenario SCENARIOS[] = {
    {"--now 95%, 0.6 -> 0.1, 0/1", SAME(0.6), SAME(0.1), 0.95, 1, 1, ACTION_ROLLBACK, 600},
    {"--now 90%, 0.6 -> 0.1, 0/1", SAME(0.6), SAME(0.1), 0.90, 1, 1, ACTION_ROLLBACK, 400},
    {"--now 95%, 0.6 -> 0.1, 90% cut off", SAME(0.6), TRUNCATED(0.1), 0.95, 1, 1, ACTION_ROLLBACK,
     500},
    {"--now 90%, 0.6 -> 0.1, 90% cut off", SAME(0.6), TRUNCATED(0.1), 0.90, 1, 1, ACTION_ROLLBACK,
     400},
    {"step 0.10 -> 0.30, first", SAME(0.1), SAME(0.3), 0, 1, 1, ACTION_PROMOTE, 400},
    {"step 0.30 -> 0.40, first", SAME(0.3), SAME(0.4), 0, 1, 1, ACTION_PROMOTE, 0},
    {"step 0.30 -> 0.45, first", SAME(0.3), SAME(0.45), 0, 1, 1, ACTION_PROMOTE, 700},
    {"step 0.30 -> 0.45, second", SAME(0.3), SAME(0.45), 0, 2, 1, ACTION_PROMOTE, 0},
    {"step 0.30 -> 0.45, fourth", SAME(0.3), SAME(0.45), 0, 4, 1, ACTION_PROMOTE, 1000},
    {"step 0.30 -> 0.50, first", SAME(0.3), SAME(0.5), 0, 1, 1, ACTION_PROMOTE, 400},
    {"step 0.30 -> 0.50, fourth", SAME(0.3), SAME(0.5), 0, 4, 1, ACTION_PROMOTE, 600},
    {"graded sd 0.25, 0.40 -> 0.50, third", GRADED(0.4, 0.25), GRADED(0.5, 0.25), 0, 3, 1,
     ACTION_PROMOTE, 600},
    {"mix 0.36 -> 0.51, second, strata unknown", MIX_LOW, MIX_HIGH, 0, 2, 1, ACTION_PROMOTE, 0},
    {"mix 0.36 -> 0.51, second, strata told", MIX_LOW, MIX_HIGH, 0, 2, 0, ACTION_PROMOTE, 600},
};

static struct policy_settings settings(const struct scenario *c)
{
    struct policy_settings s = policy_settings_default();
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.min_us = 0;
    s.max_units = 0;
    s.drift_threshold = 0;
    s.now_share = c->now_share > 0 ? c->now_share : 0.95;
    return s;
}

/* Uses up the alphas of the experiments before. */
static void spend(struct route_sim *sim, uint64_t challenger, int n)
{
    struct policy_event stop = {.kind = EVENT_STOP, .now_us = 1000000};
    for (int i = 0; i < n; i++) {
        sim_start(sim, challenger, false, false);
        sim_feed(sim, &stop);
    }
}

static double requests(const struct scenario *c, uint64_t seed)
{
    static struct route_sim sim;
    static const double knob[PARAM_COUNT] = {1.0};
    struct policy_settings s = settings(c);
    sim_open(&sim, &s, seed, CLIENTS, SIM_STRATA);
    sim.is_pooled = c->is_pooled;
    uint64_t champion = sim_add_revision(&sim, knob, &c->champion);
    uint64_t challenger = sim_add_revision(&sim, knob, &c->challenger);
    sim_champion(&sim, champion);
    spend(&sim, challenger, c->nth - 1);
    for (int i = 0; i < 100; i++)
        sim_step(&sim);
    sim_start(&sim, challenger, c->now_share > 0, false);
    uint64_t n = sim_run_until(&sim, c->wanted, LIMIT, NULL);
    sim_close(&sim);
    return n ? (double)n : (double)INFINITY;
}

int main(void)
{
    struct report report = {0};
    static double n[CANARIES];
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++) {
        const struct scenario *c = &SCENARIOS[i];
        int n_done = 0;
        for (int j = 0; j < CANARIES; j++) {
            n[j] = requests(c, (uint64_t)j + 1);
            n_done += isfinite(n[j]) != 0;
        }
        double median = sorted_quantile(n, CANARIES, 0.5);
        printf("     %-44s within %d: %.3f  median %.0f  p90 %.0f\n", c->name, LIMIT,
               (double)n_done / CANARIES, median, sorted_quantile(n, CANARIES, 0.9));
        if (c->median_bound > 0)
            report_at_most(&report, c->name, median, c->median_bound);
    }
    return report_end(&report);
}
