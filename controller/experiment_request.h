/* controller/experiment_request.h - the arms and the plan that an operator asks for. Pure.
 *
 * {"arms":[{"temperature":0.3}, ...], "matrix":{"temperature":[0.3,0.6],"top_p":[0.8,0.95]}, and a
 * plan's keys}: each arm is laid over the champion's parameters; the matrix gives every combination
 * of its values; the champion is always an arm, and no content twice. */
#ifndef CONTROLLER_EXPERIMENT_REQUEST_H
#define CONTROLLER_EXPERIMENT_REQUEST_H

#include "controller/experiments/plan.h"

struct experiment_request {
    const struct route_config *route; /* whose bounds hold; NULL = none */
    struct experiment_plan plan;
    bool has_seed;
    bool has_scheduler_knobs; /* arms differ in what belongs to the engine */
    uint32_t n_arm;
    struct param_set arm[EXPERIMENT_ARMS]; /* [0] is the champion's */
};

/* ERR_INVALID says which arm and why. Texts in the arena. route: see above. */
MUST_USE int experiment_request_read(const struct json_at *at, const struct route_config *route,
                                     const struct param_set *champion, struct arena *a,
                                     struct experiment_request *out, struct err *e);

#endif
