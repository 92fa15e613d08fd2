/* A lane's course: wait, start, answer or fail, try again, break. What waits stands in the order
 * of its deadlines (one timeout for all of a lane), so that only the head can be late. */
#include "verifier/remote/lane.h"

#include "common/log.h"

#include <stdlib.h>

enum { BACKOFF_US = 50000, BACKOFF_MAX_US = 5000000, CONNECT_MS = 2000, PROBE_MS = 10000 };
enum { LANE_ARENA_BYTES = 4 * 1024 * 1024, MIN_ATTEMPT_US = 1000, LATER_US = 1000000 };

const char LANE_TIMEOUT[] = "timeout", LANE_SERVER_ERROR[] = "server_error",
           LANE_SHUTDOWN[] = "shutdown", LANE_UNREACHABLE[] = "unreachable",
           LANE_TOO_LARGE[] = "answer_too_large", LANE_UNAVAILABLE[] = "unavailable";
static const char BREAKER_IS_OPEN[] = "breaker_open", OVERLOADED[] = "overloaded",
                  MALFORMED[] = "malformed_answer", REFUSED[] = "request_refused",
                  RATE_LIMITED[] = "rate_limited", SELF_TEST[] = "self_test";

static int copy_headers(struct remote_lane *lane, const char *const *from, struct err *e)
{
    size_t n = 0;
    while (from && from[n])
        n++;
    const char **to = arena_array(&lane->arena, n + 1, sizeof *to);
    for (size_t i = 0; to && i < n; i++) {
        to[i] = arena_str(&lane->arena, str_from(from[i])).p;
        if (!to[i])
            to = NULL;
    }
    lane->c.headers = to;
    return to ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for a remote check");
}

static int copy_config(struct remote_lane *lane, struct err *e)
{
    struct remote_lane_config *c = &lane->c;
    c->url = c->url ? arena_str(&lane->arena, str_from(c->url)).p : NULL;
    c->probe.better = arena_str(&lane->arena, c->probe.better);
    c->probe.worse = arena_str(&lane->arena, c->probe.worse);
    if (!c->probe.worse.p || !c->probe.better.p)
        return err_set(e, ERR_NOMEM, "no memory for a remote check");
    return copy_headers(lane, c->headers, e);
}

static bool has_probe(const struct remote_lane *lane)
{
    return lane->c.probe.is_right != NULL;
}

int remote_lane_open(struct remote_lane **out, const struct remote_lane_config *c, struct err *e)
{
    *out = NULL;
    struct remote_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return err_set(e, ERR_NOMEM, "no memory for a remote check");
    lane->c = *c;
    arena_init(&lane->arena, LANE_ARENA_BYTES);
    lane->waiting.last = &lane->waiting.first;
    lane->delayed.last = &lane->delayed.first;
    lane->breaker = (struct breaker){.limit = (uint32_t)c->limits.breaker_failures,
                                     .open_us = (uint64_t)c->limits.breaker_ms * 1000,
                                     .state = has_probe(lane) ? BREAKER_TRIAL : BREAKER_CLOSED};
    rng_seed(&lane->rng, rng_entropy());
    for (int i = 0; i < 2; i++)
        buf_init(&lane->probe.answer[i], MiB);
    int rc = copy_config(lane, e);
    if (rc == ERR_OK && c->workers)
        rc = workers_open(&lane->workers, c->workers, e);
    if (rc != ERR_OK) {
        remote_lane_close(lane);
        return rc;
    }
    *out = lane;
    return ERR_OK;
}

void remote_lane_close(struct remote_lane *lane)
{
    if (!lane)
        return;
    workers_close(lane->workers);
    for (int i = 0; i < 2; i++)
        buf_free(&lane->probe.answer[i]);
    arena_free(&lane->arena);
    free(lane);
}

int lane_attach(struct remote_lane *lane, struct http_multi *http, const struct lane_metrics *m,
                struct str name, struct err *e)
{
    lane->name = arena_str(&lane->arena, name);
    if (!lane->name.p)
        return err_set(e, ERR_NOMEM, "no memory for a remote check");
    lane->http = http;
    lane->families = m;
    const char *labels[] = {lane->name.p};
    lane->retries = metric_child(m->retries, labels);
    lane->opens = metric_child(m->opens, labels);
    lane->open = metric_child(m->open, labels);
    lane->running_now = metric_child(m->running, labels);
    lane->waiting_now = metric_child(m->waiting, labels);
    lane->seconds = metric_child(m->seconds, labels);
    lane->tested = has_probe(lane) ? metric_child(m->tested, labels) : NULL;
    if (lane->workers)
        workers_set_metrics(lane->workers, metric_child(m->worker_starts, labels));
    return ERR_OK;
}

/* Lists. */

static void list_append(struct job_list *l, struct remote_job *job)
{
    job->next = NULL;
    *l->last = job;
    l->last = &job->next;
    l->n++;
}

static void list_prepend(struct job_list *l, struct remote_job *job)
{
    job->next = l->first;
    l->first = job;
    if (!job->next)
        l->last = &job->next;
    l->n++;
}

static void list_remove(struct job_list *l, struct remote_job **at)
{
    struct remote_job *job = *at;
    *at = job->next;
    if (!job->next)
        l->last = at;
    l->n--;
}

static void list_fail(struct job_list *l, const char *failure)
{
    while (l->first) {
        struct remote_job *job = l->first;
        list_remove(l, &l->first);
        job->done(job, failure);
    }
}

/* Attempts. */

static bool is_probe(const struct remote_job *job)
{
    const struct remote_job *own = job->lane->probe.job;
    return job == own || job == own + 1;
}

static const char *status_failure(int status)
{
    if (status >= 200 && status < 300)
        return NULL;
    if (status == 429)
        return RATE_LIMITED;
    return status >= 500 ? LANE_SERVER_ERROR : REFUSED;
}

static const char *error_failure(int rc)
{
    static const struct {
        int code;
        const char *failure;
    } TABLE[] = {
        {ERR_TIMEOUT, LANE_TIMEOUT}, {ERR_NOMEM, LANE_TOO_LARGE}, {ERR_CANCELLED, LANE_SHUTDOWN}};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (TABLE[i].code == rc)
            return TABLE[i].failure;
    return LANE_UNREACHABLE;
}

static void on_http(void *ctx, int rc, const struct http_result *r, const struct err *e)
{
    (void)e;
    const char *failure = rc == ERR_OK ? status_failure(r->status) : error_failure(rc);
    lane_answered(ctx, failure, rc == ERR_OK ? buf_str(&r->body) : STR(""));
}

/* False: not now (no worker is free). */
static bool start_attempt(struct remote_lane *lane, struct remote_job *job, struct mono now)
{
    uint64_t left_us = mono_since_us(now, job->deadline);
    uint64_t attempt_us = (uint64_t)lane->c.limits.attempt_ms * 1000;
    if (attempt_us == 0 || attempt_us > left_us)
        attempt_us = left_us;
    if (lane->workers) {
        struct mono end = {now.us + attempt_us};
        if (!workers_start(lane->workers, job, end, now))
            return false;
    }
    job->started = now;
    job->attempts++;
    lane->n_running++;
    if (lane->workers)
        return true;
    uint32_t ms = (uint32_t)((attempt_us + 999) / 1000);
    struct http_call call = {.url = lane->c.url,
                             .body = job->question,
                             .headers = lane->c.headers,
                             .timeout_ms = ms,
                             .connect_timeout_ms = ms < CONNECT_MS ? ms : CONNECT_MS,
                             .max_response_bytes = lane->c.max_answer_bytes};
    if (http_multi_start(lane->http, &call, on_http, job, NULL) != ERR_OK)
        lane_answered(job, LANE_UNREACHABLE, STR(""));
    return true;
}

static bool wants_retry(struct remote_lane *lane, const struct remote_job *job, const char *failure,
                        struct mono now, struct mono *due)
{
    bool may = failure == LANE_TIMEOUT || failure == LANE_SERVER_ERROR;
    if (!may || job->attempts > (uint64_t)lane->c.limits.retries ||
        lane->breaker.state != BREAKER_CLOSED)
        return false;
    double base = BACKOFF_US * (double)(1u << (job->attempts < 10 ? job->attempts - 1 : 9));
    double wait = base * (0.5 + rng_uniform(&lane->rng));
    due->us = now.us + (uint64_t)(wait < BACKOFF_MAX_US ? wait : BACKOFF_MAX_US);
    return due->us + MIN_ATTEMPT_US < job->deadline.us;
}

static void note_failure(struct remote_lane *lane, const char *failure, struct mono now)
{
    if (!breaker_failure(&lane->breaker, now))
        return;
    metric_inc(lane->opens);
    log_event(LOG_WARN, "remote.breaker_open", "check=" STR_FMT " after=%u reason=%s",
              STR_ARG(lane->name), lane->breaker.failures, failure);
    list_fail(&lane->waiting, BREAKER_IS_OPEN);
    list_fail(&lane->delayed, BREAKER_IS_OPEN);
}

static void note_success(struct remote_lane *lane)
{
    if (lane->breaker.state == BREAKER_TRIAL)
        log_event(LOG_INFO, "remote.breaker_closed", "check=" STR_FMT, STR_ARG(lane->name));
    /* An answer to a question from before it opened proves little. */
    if (lane->breaker.state != BREAKER_OPEN)
        breaker_success(&lane->breaker);
}

bool lane_answered(struct remote_job *job, const char *failure, struct str answer)
{
    struct remote_lane *lane = job->lane;
    struct mono now = clock_mono(&CLOCK_REAL), due;
    lane->n_running--;
    metric_observe(lane->seconds, (double)mono_since_us(job->started, now) / 1e6);
    if (!failure && !job->read(job, answer))
        failure = MALFORMED;
    metric_inc(metric_child(lane->families->attempts,
                            (const char *[]){lane->name.p, failure ? failure : "answered"}));
    if (failure != LANE_SHUTDOWN && !is_probe(job)) {
        if (failure)
            note_failure(lane, failure, now);
        else
            note_success(lane);
        if (failure && wants_retry(lane, job, failure, now, &due)) {
            metric_inc(lane->retries);
            job->due = due;
            list_append(&lane->delayed, job);
            return false;
        }
    }
    job->done(job, failure);
    return failure == NULL;
}

/* Self-test. */

static void end_probe(struct remote_lane *lane)
{
    struct lane_probe *p = &lane->probe;
    struct mono now = clock_mono(&CLOCK_REAL);
    const char *why = p->failure;
    bool is_right = !why && lane->c.probe.is_right(lane->c.probe.ctx, buf_str(&p->answer[0]),
                                                   buf_str(&p->answer[1]), &why);
    p->is_running = false;
    if (why == LANE_SHUTDOWN)
        return;
    p->has_ended = true;
    metric_set(lane->tested, is_right);
    log_event(is_right ? LOG_INFO : LOG_WARN, "remote.self_test", "check=" STR_FMT " result=%s",
              STR_ARG(lane->name), is_right ? "passed" : why);
    if (is_right) {
        note_success(lane);
        return;
    }
    breaker_trip(&lane->breaker, now);
    list_fail(&lane->waiting, p->failure ? p->failure : SELF_TEST);
}

static void on_probe_done(struct remote_job *job, const char *failure)
{
    struct lane_probe *p = &job->lane->probe;
    p->failure = p->failure ? p->failure : failure;
    if (--p->n_open == 0)
        end_probe(job->lane);
}

static bool read_probe(struct remote_job *job, struct str answer)
{
    struct buf *b = &job->lane->probe.answer[job - job->lane->probe.job];
    buf_reset(b);
    buf_put_str(b, answer);
    return !b->failed;
}

static void start_probe(struct remote_lane *lane, struct mono now)
{
    struct lane_probe *p = &lane->probe;
    const struct str question[2] = {lane->c.probe.better, lane->c.probe.worse};
    p->failure = NULL;
    p->is_running = true;
    p->n_open = 2;
    for (int i = 0; i < 2; i++) {
        p->job[i] = (struct remote_job){.lane = lane,
                                        .question = question[i],
                                        .deadline = {now.us + PROBE_MS * 1000ull},
                                        .read = read_probe,
                                        .done = on_probe_done};
        if (!start_attempt(lane, &p->job[i], now))
            on_probe_done(&p->job[i], LANE_UNAVAILABLE);
    }
}

/* The course of what was asked. */

void lane_put(struct remote_lane *lane, struct remote_job *job, struct mono now)
{
    enum breaker_state state = breaker_look(&lane->breaker, now);
    bool is_trial = state == BREAKER_TRIAL;
    if (state == BREAKER_OPEN || (is_trial && has_probe(lane) && lane->probe.has_ended) ||
        (is_trial && !has_probe(lane) && lane->n_running + lane->waiting.n > 0))
        job->done(job, BREAKER_IS_OPEN);
    else if (lane->waiting.n + lane->delayed.n >= (uint64_t)lane->c.limits.queue)
        job->done(job, OVERLOADED);
    else
        list_append(&lane->waiting, job);
}

static void expire_waiting(struct remote_lane *lane, struct mono now)
{
    while (lane->waiting.first && lane->waiting.first->deadline.us < now.us + MIN_ATTEMPT_US) {
        struct remote_job *job = lane->waiting.first;
        list_remove(&lane->waiting, &lane->waiting.first);
        bool is_down = lane->workers && lane->n_running == 0;
        job->done(job, is_down ? LANE_UNAVAILABLE : LANE_TIMEOUT);
    }
}

static void bring_back_delayed(struct remote_lane *lane, struct mono now, struct mono *wake)
{
    for (struct remote_job **at = &lane->delayed.first; *at;) {
        struct remote_job *job = *at;
        if (job->due.us <= now.us) {
            list_remove(&lane->delayed, at);
            list_prepend(&lane->waiting, job);
            continue;
        }
        wake->us = job->due.us < wake->us ? job->due.us : wake->us;
        at = &job->next;
    }
}

static uint32_t allowed_to_run(struct remote_lane *lane, struct mono now)
{
    enum breaker_state state = breaker_look(&lane->breaker, now);
    if (state == BREAKER_TRIAL && has_probe(lane) && !lane->probe.is_running)
        start_probe(lane, now);
    if (state == BREAKER_TRIAL)
        return has_probe(lane) ? 0 : 1;
    return state == BREAKER_CLOSED ? (uint32_t)lane->c.limits.concurrency : 0;
}

struct mono lane_run(struct remote_lane *lane, struct mono now)
{
    struct mono wake = {now.us + LATER_US};
    if (lane->workers)
        wake = workers_run(lane->workers, now);
    bring_back_delayed(lane, now, &wake);
    expire_waiting(lane, now);
    uint32_t allowed = allowed_to_run(lane, now);
    while (lane->waiting.first && lane->n_running < allowed) {
        struct remote_job *job = lane->waiting.first;
        list_remove(&lane->waiting, &lane->waiting.first);
        if (start_attempt(lane, job, now))
            continue;
        list_prepend(&lane->waiting, job);
        break;
    }
    if (lane->waiting.first && lane->waiting.first->deadline.us < wake.us)
        wake = lane->waiting.first->deadline;
    if (has_probe(lane) && lane->breaker.state == BREAKER_OPEN && lane->breaker.until.us < wake.us)
        wake = lane->breaker.until;
    metric_set(lane->open, lane->breaker.state != BREAKER_CLOSED);
    metric_set(lane->running_now, lane->n_running);
    metric_set(lane->waiting_now, lane->waiting.n + lane->delayed.n);
    return wake;
}

void lane_abandon(struct remote_lane *lane)
{
    list_fail(&lane->waiting, LANE_SHUTDOWN);
    list_fail(&lane->delayed, LANE_SHUTDOWN);
    if (lane->workers)
        workers_abandon(lane->workers);
}
