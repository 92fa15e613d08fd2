/* The loop's thread: takes what was asked, lets each lane start what it may, waits for sockets,
 * pipes, deadlines or a wake-up. Only the lists of what is new are shared, under one lock. */
#include "verifier/remote/lane.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LONGEST_WAIT_US = 1000000, MAX_FDS = 1024 };

struct remote {
    struct http_multi *http;
    struct lane_metrics metrics;
    pthread_t thread;
    atomic_bool is_stopping;
    struct remote_lane *lanes; /* loop thread */
    pthread_mutex_t lock;      /* of what is below */
    struct remote_lane *new_lanes;
    struct remote_job *asked, **last_asked;
    bool is_closed;
};

static struct remote_job *take_new(struct remote *r)
{
    pthread_mutex_lock(&r->lock);
    struct remote_job *jobs = r->asked;
    struct remote_lane *lanes = r->new_lanes;
    r->asked = NULL;
    r->new_lanes = NULL;
    pthread_mutex_unlock(&r->lock);
    for (struct remote_lane *next; lanes; lanes = next) {
        next = lanes->next;
        lanes->next = r->lanes;
        r->lanes = lanes;
    }
    return jobs;
}

static void put_new(struct remote *r)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    for (struct remote_job *job = take_new(r), *next; job; job = next) {
        next = job->next;
        lane_put(job->lane, job, now);
    }
}

static int wait_ms(struct mono wake)
{
    struct mono now = clock_mono(&CLOCK_REAL);
    return (int)((mono_since_us(now, wake) + 999) / 1000);
}

static void *run(void *arg)
{
    struct remote *r = arg;
    while (!atomic_load(&r->is_stopping)) {
        struct pollfd fds[MAX_FDS];
        uint32_t n = 0;
        put_new(r);
        struct mono now = clock_mono(&CLOCK_REAL), wake = {now.us + LONGEST_WAIT_US};
        for (struct remote_lane *lane = r->lanes; lane; lane = lane->next) {
            struct mono until = lane_run(lane, now);
            wake = until.us < wake.us ? until : wake;
            if (lane->workers)
                n += workers_fds(lane->workers, fds + n, MAX_FDS - n);
        }
        http_multi_poll(r->http, fds, n, wait_ms(wake));
    }
    return NULL;
}

int remote_open(struct remote **out, struct metrics *metrics, struct err *e)
{
    *out = NULL;
    struct remote *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for remote checks");
    int rc = http_multi_open(&r->http, e);
    if (rc != ERR_OK) {
        free(r);
        return rc;
    }
    lane_metrics_init(&r->metrics, metrics);
    pthread_mutex_init(&r->lock, NULL);
    int failed = pthread_create(&r->thread, NULL, run, r);
    if (failed) {
        http_multi_close(r->http);
        pthread_mutex_destroy(&r->lock);
        free(r);
        return err_set_sys(e, ERR_NOMEM, failed, "start a thread");
    }
    *out = r;
    return ERR_OK;
}

void remote_stop(struct remote *r)
{
    pthread_mutex_lock(&r->lock);
    bool was_stopped = r->is_closed;
    r->is_closed = true;
    pthread_mutex_unlock(&r->lock);
    if (was_stopped)
        return;
    atomic_store(&r->is_stopping, true);
    http_multi_wake(r->http);
    pthread_join(r->thread, NULL);
    put_new(r);
    for (struct remote_lane *lane = r->lanes; lane; lane = lane->next)
        lane_abandon(lane);
    http_multi_close(r->http);
    r->http = NULL;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    remote_stop(r);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int remote_attach(struct remote *r, struct remote_lane *lane, struct str name, struct err *e)
{
    int rc = lane_attach(lane, r->http, &r->metrics, name, e);
    if (rc != ERR_OK)
        return rc;
    pthread_mutex_lock(&r->lock);
    lane->next = r->new_lanes;
    r->new_lanes = lane;
    pthread_mutex_unlock(&r->lock);
    http_multi_wake(r->http);
    return ERR_OK;
}

void remote_ask(struct remote *r, struct remote_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->is_closed) {
        pthread_mutex_unlock(&r->lock);
        job->done(job, LANE_SHUTDOWN);
        return;
    }
    bool is_first = r->asked == NULL;
    *(is_first ? &r->asked : r->last_asked) = job;
    r->last_asked = &job->next;
    if (is_first) /* else the wake-up of the first one is still to come; under the lock because of
                     remote_stop */
        http_multi_wake(r->http);
    pthread_mutex_unlock(&r->lock);
}
