/* Metric families of remote checks, one child per lane (route/check). */
#include "verifier/remote/lane.h"

#define ROW(var, metric, what, kind, ...)                                                          \
    static const struct metric_desc var = {                                                        \
        .name = "milepost_remote_" metric, .help = what, .type = kind, .labels = {__VA_ARGS__}}

ROW(ATTEMPTS, "attempts_total", "Questions sent to a service, by what came back.", METRIC_COUNTER,
    "check", "outcome");
ROW(RETRIES, "retries_total", "Questions asked again after a timeout or a 5xx.", METRIC_COUNTER,
    "check");
ROW(OPENS, "breaker_opens_total", "Times the circuit breaker opened.", METRIC_COUNTER, "check");
ROW(OPEN, "breaker_open", "1 while the service is not asked: breaker open, or being tried.",
    METRIC_GAUGE, "check");
ROW(RUNNING, "running", "Questions under way.", METRIC_GAUGE, "check");
ROW(WAITING, "waiting", "Questions that wait here.", METRIC_GAUGE, "check");
ROW(TESTED, "self_test", "1 when the last self-test ordered its two texts rightly.", METRIC_GAUGE,
    "check");
ROW(WORKER_STARTS, "worker_starts_total", "Worker processes started.", METRIC_COUNTER, "check");

static const struct metric_desc SECONDS = {
    .name = "milepost_remote_seconds",
    .help = "Time of one attempt, whatever came back.",
    .type = METRIC_HISTOGRAM,
    .labels = {"check"},
    .buckets = METRIC_SECONDS,
    .n_buckets = METRIC_SECONDS_N,
};

void lane_metrics_init(struct lane_metrics *m, struct metrics *registry)
{
    *m = (struct lane_metrics){
        .attempts = metrics_add(registry, &ATTEMPTS),
        .retries = metrics_add(registry, &RETRIES),
        .opens = metrics_add(registry, &OPENS),
        .open = metrics_add(registry, &OPEN),
        .running = metrics_add(registry, &RUNNING),
        .waiting = metrics_add(registry, &WAITING),
        .seconds = metrics_add(registry, &SECONDS),
        .tested = metrics_add(registry, &TESTED),
        .worker_starts = metrics_add(registry, &WORKER_STARTS),
    };
}
