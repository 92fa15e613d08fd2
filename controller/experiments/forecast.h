/* controller/experiments/forecast.h - how long an experiment will take, before it starts.
 *
 * Plays the contest itself, with rewards drawn from the route's own recent ones: one arm is better
 * than all others by the smallest effect that was asked for, which is the hardest case that still
 * matters. Pure; about a second at most. */
#ifndef CONTROLLER_EXPERIMENTS_FORECAST_H
#define CONTROLLER_EXPERIMENTS_FORECAST_H

#include "controller/experiments/plan.h"

struct forecast_facts {
    const double *reward; /* recent rewards of the champion; none = fair coins */
    size_t n_reward;
    double rate; /* scored outputs a second; 0 = unknown */
    uint64_t min_units;
};

struct forecast {
    uint32_t n_runs, n_decided;         /* an end before max_seconds and max_units */
    double outputs_median, outputs_p90; /* scored; NaN when fewer than that share decided */
    double seconds_median, seconds_p90; /* NaN without a rate; at least min_seconds */
};

void forecast_run(const struct experiment_plan *p, uint32_t n_arm, const struct forecast_facts *f,
                  struct forecast *out);

#endif
