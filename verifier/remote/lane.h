/* verifier/remote/lane.h - inside of a lane; for the files of this folder. Loop thread only. */
#ifndef VERIFIER_REMOTE_LANE_H
#define VERIFIER_REMOTE_LANE_H

#include "common/http_multi.h"
#include "common/rng.h"
#include "verifier/remote/breaker.h"
#include "verifier/remote/remote.h"
#include "verifier/remote/workers.h"

struct lane_metrics { /* families, shared by all lanes */
    struct metric_family *attempts, *retries, *opens, *open, *running, *waiting, *seconds, *tested;
    struct metric_family *worker_starts;
};

struct job_list {
    struct remote_job *first, **last;
    uint32_t n;
};

struct lane_probe { /* the self-test under way */
    struct remote_job job[2];
    struct buf answer[2];
    const char *failure;
    uint32_t n_open;
    bool is_running, has_ended; /* has_ended: at least once, whatever came out */
};

struct remote_lane {
    struct remote_lane *next;
    struct remote_lane_config c;
    struct arena arena;
    struct str name;
    struct http_multi *http;
    struct workers *workers; /* or NULL */
    struct job_list waiting, delayed;
    uint32_t n_running;
    struct breaker breaker;
    struct lane_probe probe;
    struct rng rng;
    const struct lane_metrics *families;
    struct metric *retries, *opens, *open, *running_now, *waiting_now, *seconds, *tested;
};

void lane_metrics_init(struct lane_metrics *m, struct metrics *registry);
MUST_USE int lane_attach(struct remote_lane *lane, struct http_multi *http,
                         const struct lane_metrics *families, struct str name, struct err *e);
/* Takes the job in, or is done with it at once. */
void lane_put(struct remote_lane *lane, struct remote_job *job, struct mono now);
/* Starts what may start, ends what is late. Returns when to look again at the latest. */
struct mono lane_run(struct remote_lane *lane, struct mono now);
/* Ends what is not running; running attempts end through their transport. */
void lane_abandon(struct remote_lane *lane);
/* One attempt ended; failure NULL = answer. From the transports. False: it was no answer. */
bool lane_answered(struct remote_job *job, const char *failure, struct str answer);

extern const char LANE_TIMEOUT[], LANE_SERVER_ERROR[], LANE_SHUTDOWN[], LANE_UNREACHABLE[],
    LANE_TOO_LARGE[], LANE_UNAVAILABLE[];

#endif
