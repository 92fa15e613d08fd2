/* Metric families of the verifier. The labels are a closed set: outcome, kind, reason of a drop. */
#include "verifier/pipeline_metrics.h"

static const struct metric_desc RECEIVED = {
    .name = "milepost_verify_received_total",
    .help = "Frames pulled from the engines.",
    .type = METRIC_COUNTER,
};
static const struct metric_desc SENT = {
    .name = "milepost_verify_sent_total",
    .help = "Messages pushed to the controller.",
    .type = METRIC_COUNTER,
};
static const struct metric_desc STALLS = {
    .name = "milepost_verify_stalls_total",
    .help = "Messages that had to wait for the controller.",
    .type = METRIC_COUNTER,
};
static const struct metric_desc DEPTH = {
    .name = "milepost_queue_depth",
    .help = "Frames held by this verifier.",
    .type = METRIC_GAUGE,
};
static const struct metric_desc HELD = {
    .name = "milepost_verify_held_seconds",
    .help = "Time from pulling an output to pushing its score.",
    .type = METRIC_HISTOGRAM,
    .buckets = METRIC_SECONDS,
    .n_buckets = METRIC_SECONDS_N,
};
static const struct metric_desc FEEDBACK = {
    .name = "milepost_verify_feedback_total",
    .help = "Feedback messages passed on.",
    .type = METRIC_COUNTER,
};
static const struct metric_desc MALFORMED = {
    .name = "milepost_verify_malformed_total",
    .help = "Frames that did not decode and were answered as unscored.",
    .type = METRIC_COUNTER,
};
static const struct metric_desc SCORES = {
    .name = "milepost_scores_total",
    .help = "Scores by outcome of the whole: pass 1, fail 0, value between, unscored.",
    .type = METRIC_COUNTER,
    .labels = {"outcome"},
};
static const struct metric_desc DROPPED = {
    .name = "milepost_verify_dropped_total",
    .help = "Frames lost here; the engine sends them again until they are committed.",
    .type = METRIC_COUNTER,
    .labels = {"reason"},
};
static const struct metric_desc CHECK_SECONDS = {
    .name = "milepost_verify_duration_seconds",
    .help = "Time of one check on one output.",
    .type = METRIC_HISTOGRAM,
    .labels = {"kind"},
    .buckets = METRIC_SECONDS,
    .n_buckets = METRIC_SECONDS_N,
};
static const struct metric_desc CHECK_OUTCOMES = {
    .name = "milepost_checks_total",
    .help = "Results of single checks.",
    .type = METRIC_COUNTER,
    .labels = {"kind", "outcome"},
};

void pipeline_metrics_init(struct pipeline_metrics *m, struct metrics *registry)
{
    *m = (struct pipeline_metrics){
        .received = metrics_add_one(registry, &RECEIVED),
        .sent = metrics_add_one(registry, &SENT),
        .stalls = metrics_add_one(registry, &STALLS),
        .queue_depth = metrics_add_one(registry, &DEPTH),
        .held_seconds = metrics_add_one(registry, &HELD),
        .feedback = metrics_add_one(registry, &FEEDBACK),
        .malformed = metrics_add_one(registry, &MALFORMED),
        .dropped = metrics_add(registry, &DROPPED),
        .check_seconds = metrics_add(registry, &CHECK_SECONDS),
        .check_outcomes = metrics_add(registry, &CHECK_OUTCOMES),
    };
    struct metric_family *scores = metrics_add(registry, &SCORES);
    for (int i = SCORE_PASS; i <= SCORE_UNSCORED; i++)
        m->outcome[i] = metric_child(scores, (const char *[]){score_outcome_name(i)});
}

static enum score_outcome whole_outcome(const struct score *s)
{
    if (!s->is_scored)
        return SCORE_UNSCORED;
    return s->reward >= 1 ? SCORE_PASS : s->reward <= 0 ? SCORE_FAIL : SCORE_VALUE;
}

static void count_checks(struct pipeline_metrics *m, const struct score *s)
{
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        const char *labels[] = {r->kind.p, score_outcome_name(r->outcome)};
        metric_observe(metric_child(m->check_seconds, labels), (double)r->duration_us / 1e6);
        metric_inc(metric_child(m->check_outcomes, labels));
    }
}

void pipeline_count(struct pipeline_metrics *m, enum judged judged, const struct score *s)
{
    if (judged == JUDGED_FEEDBACK)
        metric_inc(m->feedback);
    else if (judged == JUDGED_DROPPED)
        pipeline_count_drop(m, "malformed");
    else
        metric_inc(m->outcome[whole_outcome(s)]);
    if (judged == JUDGED_MALFORMED)
        metric_inc(m->malformed);
    if (judged == JUDGED_SCORE)
        count_checks(m, s);
}

void pipeline_count_drop(struct pipeline_metrics *m, const char *reason)
{
    metric_inc(metric_child(m->dropped, (const char *[]){reason}));
}
