/* common/metrics.h - counters, gauges and histograms, rendered as Prometheus text format 0.0.4.
 *
 * A metric family is created once at start; a labelled child is found (or made) by its label
 * values and then kept by the caller: updates are one relaxed atomic. At most METRIC_MAX_CHILDREN
 * children a family, the rest share one child with every label "other". Any thread. */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H

#include "common/buf.h"

enum { METRIC_MAX_LABELS = 4, METRIC_MAX_CHILDREN = 256 };
enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metrics; /* registry */
struct metric_family;
struct metric; /* one child */

struct metric_desc {
    const char *name; /* milepost_..., base units, counters end in _total */
    const char *help;
    enum metric_type type;
    const char *labels[METRIC_MAX_LABELS]; /* names, NULL-terminated when fewer */
    const double *buckets;                 /* histogram: ascending upper bounds, without +Inf */
    size_t n_buckets;
};

struct metrics *metrics_new(void); /* aborts when memory is out: start-up only */
void metrics_free(struct metrics *m);
/* The desc must stay valid as long as the registry (static const). */
struct metric_family *metrics_add(struct metrics *m, const struct metric_desc *desc);
/* values: one per label name, NULL array for none. Never NULL. Takes a lock: keep the result. */
struct metric *metric_child(struct metric_family *f, const char *const *values);
/* A family without labels. */
struct metric *metrics_add_one(struct metrics *m, const struct metric_desc *desc);

void metric_add(struct metric *c, double v); /* counters and gauges */
void metric_inc(struct metric *c);
void metric_set(struct metric *c, double v);     /* gauges */
void metric_observe(struct metric *c, double v); /* histograms */
double metric_value(const struct metric *c);     /* value, or a histogram's count */
void metrics_render(struct metrics *m, struct buf *out);

/* Shared bucket tables. */
extern const double METRIC_SECONDS[], METRIC_UNIT[], METRIC_TOKENS[];
enum { METRIC_SECONDS_N = 18, METRIC_UNIT_N = 21, METRIC_TOKENS_N = 12 };

#endif
