/* verifier/service.h - the process from its configuration: check sets, pipeline, HTTP. */
#ifndef VERIFIER_SERVICE_H
#define VERIFIER_SERVICE_H

#include "verifier/check_set.h"

struct service_sets { /* one per route, in the configuration's order */
    struct check_set **set;
    uint32_t n;
};

/* Opens the checks of every route. ERR_INVALID: route, check, key, what is allowed. */
MUST_USE int service_open_sets(const struct milepost_config *c, struct arena *a,
                               struct service_sets *out, struct err *e);
void service_close_sets(struct service_sets *sets);

/* Runs until stop_fd (see common/stop.h) is readable; then finishes what it holds. Blocks. */
MUST_USE int service_run(const struct milepost_config *c, const struct service_sets *sets,
                         int stop_fd, struct arena *a, struct err *e);

#endif
