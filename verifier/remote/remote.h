/* verifier/remote/remote.h - questions to what lives outside this process, all on one thread.
 *
 * A lane is one service as one check uses it: an HTTP address or a pool of worker processes, with
 * its bound on what is asked at once and on what waits, its retries and its circuit breaker. A job
 * is one question. Asking never blocks: a service that is slow or gone costs no other lane and no
 * worker thread anything. Every job is done exactly once, by its deadline at the latest. */
#ifndef VERIFIER_REMOTE_REMOTE_H
#define VERIFIER_REMOTE_REMOTE_H

#include "common/clock.h"
#include "common/metrics.h"
#include "verifier/options.h"

struct remote;
struct remote_lane;
struct workers_config;

struct remote_limits { /* what a user may set: rows by REMOTE_OPTIONS */
    int64_t concurrency, queue, retries, attempt_ms, breaker_failures, breaker_ms;
};
#define REMOTE_LIMITS_DEFAULT                                                                      \
    {                                                                                              \
        .concurrency = 8, .queue = 1024, .retries = 1, .breaker_failures = 5, .breaker_ms = 5000   \
    }
#define REMOTE_OPTION(type, member, key, low, high, help)                                          \
    {                                                                                              \
#key, OPTION_INT, offsetof(type, member.key), low, high, NULL, help                        \
    }
#define REMOTE_OPTIONS(type, member)                                                               \
    REMOTE_OPTION(type, member, concurrency, 1, 256, "questions asked at once"),                   \
        REMOTE_OPTION(type, member, queue, 1, 65536, "questions that may wait"),                   \
        REMOTE_OPTION(type, member, retries, 0, 10, "after a timeout or a 5xx"),                   \
        REMOTE_OPTION(type, member, attempt_ms, 0, 600000, "one attempt; 0 = timeout_ms"),         \
        REMOTE_OPTION(type, member, breaker_failures, 0, 1000, "in a row; 0 = no breaker"),        \
        REMOTE_OPTION(type, member, breaker_ms, 10, 3600000, "not asked after it opened")

/* Two texts whose order is known: asked before anything else, and again after the breaker opened.
 */
struct remote_probe {
    struct str better, worse; /* questions; empty = no self-test */
    /* Loop thread. False: *why says what is wrong (a literal). */
    bool (*is_right)(const void *ctx, struct str better, struct str worse, const char **why);
    const void *ctx;
};

struct remote_lane_config { /* texts are copied, but for the probe's ctx */
    const char *kind;       /* of the check; a literal */
    const char *url;        /* HTTP, or NULL and workers */
    const char *const *headers;
    const struct workers_config *workers;
    size_t max_answer_bytes;
    struct remote_limits limits;
    struct remote_probe probe;
};

MUST_USE int remote_lane_open(struct remote_lane **out, const struct remote_lane_config *c,
                              struct err *e);
void remote_lane_close(struct remote_lane *lane); /* after the remote it was attached to */

struct remote_job {
    struct remote_lane *lane;
    struct str question; /* until done */
    struct mono deadline;
    /* Loop thread. False: that is no answer, which counts as a failure of the service. */
    bool (*read)(struct remote_job *job, struct str answer);
    /* Loop thread, once. failure: NULL, or why there is no answer (a literal). Must not block. */
    void (*done)(struct remote_job *job, const char *failure);

    struct remote_job *next; /* the loop's own from here */
    struct mono due, started;
    uint32_t attempts;
};

/* Starts the loop's thread. */
MUST_USE int remote_open(struct remote **out, struct metrics *metrics, struct err *e);
/* What is under way is done with "shutdown", and from now on everything asked. Idempotent. */
void remote_stop(struct remote *r);
void remote_close(struct remote *r); /* stops, frees; accepts NULL */
/* name: route/check, for metrics and logs; copied. Before the lane's first job. */
MUST_USE int remote_attach(struct remote *r, struct remote_lane *lane, struct str name,
                           struct err *e);
/* Any thread. The lane must be attached. */
void remote_ask(struct remote *r, struct remote_job *job);

#endif
