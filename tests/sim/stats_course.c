/* tests/sim/stats_course.c - a whole course on one route, as the demonstration runs it.
 *
 * The route starts at temperature 1.5, too hot; the canary law lowers it by 0.3 (or 0.45) a step to
 * its target, each step winning its canary at 50%. Then an operator pushes temperature 1.8 with 8
 * new tokens, --now at 95%. Four kinds of task, told as strata; 16 requests in flight. Printed:
 * requests of each phase over 200 courses. Checked: every course ends at the right temperature with
 * the bad push quarantined, in the number of requests that six minutes at 7 requests/s allow. */
#include "tests/sim/report.h"
#include "tests/sim/route_sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COURSES = 200, CLIENTS = 16, LIMIT = 6000, IN_TIME = 6 * 60 * 7 };

/* Rewards of a small model: hotter is worse, more so for the harder kinds. */
static struct sim_quality quality_of(const double knob[PARAM_COUNT])
{
    static const double best[SIM_STRATA] = {0.95, 0.75, 0.6, 0.4};
    struct sim_quality q = {.p_truncated = knob[PARAM_MAX_NEW_TOKENS] < 20 ? 0.95 : 0.1};
    double heat = fmax(0.0, (knob[PARAM_TEMPERATURE] - 0.4) / 1.1);
    for (int i = 0; i < SIM_STRATA; i++) {
        double kept = fmax(0.0, 1.0 - 0.85 * heat);
        q.mean[i] = best[i] * kept * (knob[PARAM_MAX_NEW_TOKENS] < 20 ? 0.3 : 1.0);
    }
    return q;
}

static struct policy_settings settings(double temperature_step)
{
    struct policy_settings s = policy_settings_default();
    s.ramp[0] = 0.5;
    s.n_ramp = 1;
    s.min_us = 0;
    s.max_units = 1500;
    s.pair_deadline_us = 10000000;
    s.calibration_units = 100;
    s.cooldown_units = 20;
    s.target = 0.55;
    s.temperature_step = temperature_step;
    s.temperature_min = 0.3;
    return s;
}

struct course {
    double steps, push, total; /* requests */
    double temperature;
    bool is_quarantined;
};

static void start_hot(struct route_sim *sim)
{
    double knob[PARAM_COUNT] = {0};
    knob[PARAM_TEMPERATURE] = 1.5;
    knob[PARAM_MAX_NEW_TOKENS] = 128;
    struct sim_quality q = quality_of(knob);
    sim_champion(sim, sim_add_revision(sim, knob, &q));
}

/* Until the champion is good enough: a while without a proposal. */
static double lower_the_temperature(struct route_sim *sim)
{
    uint64_t at = sim->n_committed;
    while (sim->n_committed - at < LIMIT) {
        if (sim->revision[sim->champion].knob[PARAM_TEMPERATURE] < 0.65)
            break;
        sim_step(sim);
    }
    return (double)(sim->n_committed - at);
}

static double push_bad(struct route_sim *sim)
{
    struct policy_event stop = {.kind = EVENT_STOP, .now_us = (uint64_t)(sim->now_s * 1e6)};
    if (sim->challenger)
        sim_feed(sim, &stop);
    double knob[PARAM_COUNT];
    memcpy(knob, sim->revision[sim->champion].knob, sizeof knob);
    knob[PARAM_TEMPERATURE] = 1.8;
    knob[PARAM_MAX_NEW_TOKENS] = 8;
    struct sim_quality q = quality_of(knob);
    sim_start(sim, sim_add_revision(sim, knob, &q), true, false);
    return (double)sim_run_until(sim, ACTION_ROLLBACK, LIMIT, NULL);
}

static struct course run_course(uint64_t seed, double temperature_step)
{
    static struct route_sim sim;
    struct policy_settings s = settings(temperature_step);
    struct course c = {0};
    sim_open(&sim, &s, seed, CLIENTS, SIM_STRATA);
    sim.quality_of = quality_of;
    start_hot(&sim);
    c.steps = lower_the_temperature(&sim);
    uint64_t quarantined = sim.count[ACTION_QUARANTINE];
    c.push = push_bad(&sim);
    c.is_quarantined = sim.count[ACTION_QUARANTINE] == quarantined + 1;
    c.temperature = sim.revision[sim.champion].knob[PARAM_TEMPERATURE];
    c.total = (double)sim.n_committed;
    sim_close(&sim);
    return c;
}

static void run_courses(struct report *report, double temperature_step)
{
    static double steps[COURSES];
    static double push[COURSES];
    static double total[COURSES];
    int n_right = 0;
    int n_quarantined = 0;
    for (int i = 0; i < COURSES; i++) {
        struct course c = run_course((uint64_t)i + 1, temperature_step);
        steps[i] = c.steps;
        push[i] = c.push;
        total[i] = c.total;
        n_right += c.temperature > 0.2 && c.temperature < 0.65;
        n_quarantined += c.is_quarantined;
    }
    printf("     steps of %.2f from 1.5 to 0.6: requests median %.0f, p90 %.0f\n", temperature_step,
           sorted_quantile(steps, COURSES, 0.5), sorted_quantile(steps, COURSES, 0.9));
    printf("     bad push: requests until rollback median %.0f, p90 %.0f\n",
           sorted_quantile(push, COURSES, 0.5), sorted_quantile(push, COURSES, 0.9));
    report_at_least(report, "courses that end between 0.2 and 0.65", (double)n_right / COURSES,
                    0.99);
    report_at_least(report, "bad pushes quarantined", (double)n_quarantined / COURSES, 1.0);
    report_at_most(report, "whole course, median requests", sorted_quantile(total, COURSES, 0.5),
                   IN_TIME);
}

int main(void)
{
    struct report report = {0};
    double knob[PARAM_COUNT] = {0};
    knob[PARAM_MAX_NEW_TOKENS] = 128;
    for (double t = 1.5; t > 0.5; t -= 0.15) {
        knob[PARAM_TEMPERATURE] = t;
        struct sim_quality q = quality_of(knob);
        printf("     mean reward at temperature %.2f: %.3f\n", t,
               (q.mean[0] + q.mean[1] + q.mean[2] + q.mean[3]) / 4);
    }
    run_courses(&report, 0.3);
    run_courses(&report, 0.45);
    return report_end(&report);
}
