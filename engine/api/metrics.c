/* Families once at start; the children of an arm are looked up once a request. */
#include "engine/api/metrics.h"

#include <stdio.h>

enum { LABEL_BYTES = 80 };

#define HISTOGRAM(name_, help_, buckets_, n_)                                                      \
    {                                                                                              \
        .name = name_, .help = help_, .type = METRIC_HISTOGRAM, .labels = {"arm"},                 \
        .buckets = buckets_, .n_buckets = n_                                                       \
    }

static const struct metric_desc TTFT =
    HISTOGRAM("milepost_ttft_seconds", "From admission to the first token.", METRIC_SECONDS,
              METRIC_SECONDS_N);
static const struct metric_desc INTER_TOKEN = HISTOGRAM(
    "milepost_inter_token_seconds", "Between two tokens.", METRIC_SECONDS, METRIC_SECONDS_N);
static const struct metric_desc E2E = HISTOGRAM(
    "milepost_e2e_seconds", "From admission to the end.", METRIC_SECONDS, METRIC_SECONDS_N);
static const struct metric_desc OUTPUT_TOKENS =
    HISTOGRAM("milepost_output_tokens", "Tokens of one answer.", METRIC_TOKENS, METRIC_TOKENS_N);
static const struct metric_desc FINISH = {.name = "milepost_finish_total",
                                          .help = "Answers by the reason they ended for.",
                                          .type = METRIC_COUNTER,
                                          .labels = {"reason", "arm"}};
static const struct metric_desc REQUESTS = {.name = "milepost_requests_total",
                                            .help = "Generation requests by route and status.",
                                            .type = METRIC_COUNTER,
                                            .labels = {"route", "status"}};

void api_metrics_init(struct api_metrics *m, struct metrics *registry)
{
    *m = (struct api_metrics){
        .ttft = metrics_add(registry, &TTFT),
        .inter_token = metrics_add(registry, &INTER_TOKEN),
        .e2e = metrics_add(registry, &E2E),
        .output_tokens = metrics_add(registry, &OUTPUT_TOKENS),
        .finish = metrics_add(registry, &FINISH),
        .requests = metrics_add(registry, &REQUESTS),
    };
}

static const char *label(struct str s, char out[LABEL_BYTES])
{
    snprintf(out, LABEL_BYTES, STR_FMT, STR_ARG(s));
    return out;
}

void api_metrics_arm(const struct api_metrics *m, struct str arm, struct arm_metrics *out)
{
    char text[LABEL_BYTES];
    const char *values[] = {label(arm, text)};
    *out = (struct arm_metrics){
        .ttft = metric_child(m->ttft, values),
        .inter_token = metric_child(m->inter_token, values),
        .e2e = metric_child(m->e2e, values),
        .output_tokens = metric_child(m->output_tokens, values),
    };
}

void api_metrics_finish(const struct api_metrics *m, const char *reason, struct str arm)
{
    char text[LABEL_BYTES];
    const char *values[] = {reason, label(arm, text)};
    metric_inc(metric_child(m->finish, values));
}

void api_metrics_request(const struct api_metrics *m, struct str route, int status)
{
    char text[LABEL_BYTES], number[16];
    snprintf(number, sizeof number, "%d", status);
    const char *values[] = {label(route.n ? route : STR("none"), text), number};
    metric_inc(metric_child(m->requests, values));
}
