/* Metric families of the verifier. The labels are a closed set: outcome, kind, reason of a drop. */
#include "verifier/pipeline_metrics.h"

#include "verifier/check.h"

#include <stdio.h>

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
static const struct metric_desc UNSCORED = {
    .name = "milepost_verify_unscored_total",
    .help = "Scores that are no score, by the reason of the whole.",
    .type = METRIC_COUNTER,
    .labels = {"reason"},
};
/* From rules, microseconds, to services. */
static const double CHECK_BUCKETS[] = {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
                                       2e-2, 5e-2, .1,   .2,   .5,   1,    2,    5,    10,   30};
static const struct metric_desc CHECK_SECONDS = {
    .name = "milepost_verify_duration_seconds",
    .help = "Time of one check on one output.",
    .type = METRIC_HISTOGRAM,
    .labels = {"kind"},
    .buckets = CHECK_BUCKETS,
    .n_buckets = sizeof CHECK_BUCKETS / sizeof CHECK_BUCKETS[0],
};
static const struct metric_desc CHECK_OUTCOMES = {
    .name = "milepost_checks_total",
    .help = "Results of single checks.",
    .type = METRIC_COUNTER,
    .labels = {"kind", "outcome"},
};

static void add_kinds(struct pipeline_metrics *m, struct metric_family *seconds,
                      struct metric_family *outcomes)
{
    for (size_t i = 0; i < CHECK_KINDS_N && i < PIPELINE_MAX_KINDS; i++) {
        struct pipeline_kind *k = &m->kind[i];
        k->name = CHECK_KINDS[i]->kind;
        k->seconds = metric_child(seconds, &k->name);
        for (int o = SCORE_PASS; o <= SCORE_UNSCORED; o++)
            k->outcome[o] =
                metric_child(outcomes, (const char *[]){k->name, score_outcome_name(o)});
    }
}

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
        .unscored = metrics_add(registry, &UNSCORED),
    };
    add_kinds(m, metrics_add(registry, &CHECK_SECONDS), metrics_add(registry, &CHECK_OUTCOMES));
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

/* By address: a result carries the literal of its kind. */
static const struct pipeline_kind *find_kind(const struct pipeline_metrics *m, const char *name)
{
    for (size_t i = 0; i < CHECK_KINDS_N && i < PIPELINE_MAX_KINDS; i++)
        if (m->kind[i].name == name)
            return &m->kind[i];
    return NULL;
}

static void count_checks(const struct pipeline_metrics *m, const struct score *s)
{
    for (uint32_t i = 0; i < s->n_check; i++) {
        const struct check_result *r = &s->check[i];
        const struct pipeline_kind *k = find_kind(m, r->kind.p);
        if (!k)
            continue;
        metric_observe(k->seconds, (double)r->duration_us / 1e6);
        metric_inc(k->outcome[r->outcome]);
    }
}

/* Reasons are literals of ours, or an output's finish reason: few, and short. */
static void count_unscored(const struct pipeline_metrics *m, struct str reason)
{
    char text[64];
    snprintf(text, sizeof text, STR_FMT, STR_ARG(str_slice(reason, 0, sizeof text - 1)));
    metric_inc(metric_child(m->unscored, (const char *[]){text}));
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
    if ((judged == JUDGED_SCORE || judged == JUDGED_MALFORMED) && !s->is_scored)
        count_unscored(m, s->reason);
    if (judged == JUDGED_SCORE)
        count_checks(m, s);
}

void pipeline_count_drop(struct pipeline_metrics *m, const char *reason)
{
    metric_inc(metric_child(m->dropped, (const char *[]){reason}));
}
