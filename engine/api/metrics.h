/* engine/api/metrics.h - what clients see, per arm and per route. Any thread. */
#ifndef ENGINE_API_METRICS_H
#define ENGINE_API_METRICS_H

#include "common/metrics.h"
#include "common/str.h"

struct api_metrics {
    struct metric_family *ttft, *inter_token, *e2e, *output_tokens, *finish, *requests;
};

struct arm_metrics { /* the children of one arm */
    struct metric *ttft, *inter_token, *e2e, *output_tokens;
};

void api_metrics_init(struct api_metrics *m, struct metrics *registry);
void api_metrics_arm(const struct api_metrics *m, struct str arm, struct arm_metrics *out);
void api_metrics_finish(const struct api_metrics *m, const char *reason, struct str arm);
/* route empty = refused before its route was known. */
void api_metrics_request(const struct api_metrics *m, struct str route, int status);

#endif
