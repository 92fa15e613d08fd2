/* verifier/pipeline_metrics.h - what the pipeline counts. Any thread. */
#ifndef VERIFIER_PIPELINE_METRICS_H
#define VERIFIER_PIPELINE_METRICS_H

#include "common/metrics.h"
#include "verifier/judge.h"

enum { PIPELINE_MAX_KINDS = 32 };

struct pipeline_metrics {
    struct metric *received, *sent, *stalls, *queue_depth, *held_seconds, *feedback, *malformed;
    struct metric *outcome[4]; /* by enum score_outcome, of whole scores */
    struct metric_family *dropped, *unscored;
    /* Of each kind in the registry: found once, for finding takes a lock and prints labels. */
    struct pipeline_kind {
        const char *name;
        struct metric *seconds, *outcome[4];
    } kind[PIPELINE_MAX_KINDS];
};

void pipeline_metrics_init(struct pipeline_metrics *m, struct metrics *registry);
void pipeline_count(struct pipeline_metrics *m, enum judged judged, const struct score *s);
void pipeline_count_drop(struct pipeline_metrics *m, const char *reason);

#endif
