/* Sockets around a crew. Each socket is opened, used and closed by one thread after start; a frame
 * belongs to one thread at a time and moves with its queue. */
#include "verifier/pipeline.h"

#include "common/clock.h"
#include "common/give_way.h"
#include "common/log.h"
#include "common/queue.h"
#include "verifier/pipeline_metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    HELD_MAX_BYTES = 256 * 1024 * 1024,
    RECEIVE_WAIT_MS = 1000,
    NAP_MS = 5,
    GATHER_US = 300,
};
#define FRAME_MAX_BYTES (16 * MiB)

struct frame {
    struct crew_item item;
    struct bus_message message;
    struct pipeline *pipeline;
    struct mono received;
};

/* A way out: its connection and its thread. */
struct lane {
    struct pipeline *pipeline;
    struct queue *done; /* of struct frame */
    struct bus_socket *scores;
    pthread_t emit;
    bool has_emit;
};

struct opening {
    struct lane *lane;
    struct err *e;
    int rc;
};

/* Megabytes delay what is behind them, whatever the checks took: large scores have a connection of
 * their own, and it, its thread and the transport's give way. Scores need no order, each carries
 * its number. */
enum lane_kind { LANE_NORMAL, LANE_LARGE, LANE_COUNT };

struct pipeline {
    struct pipeline_config c;
    struct pipeline_metrics m;
    struct crew *crew;
    struct lane lane[LANE_COUNT];
    struct bus_socket *outputs;
    int wake_fd; /* readable: stopping */
    pthread_t intake;
    bool has_intake;
    atomic_bool is_stopping;
    _Atomic size_t held_bytes;
    _Atomic uint64_t give_up_us; /* after it, unsent scores are dropped; 0 = never */
};

static void nap_us(long us)
{
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

static void frame_free(struct frame *f)
{
    atomic_fetch_sub(&f->pipeline->held_bytes, f->message.bytes.n + f->item.answer.cap);
    bus_message_free(&f->message);
    buf_free(&f->item.answer);
    free(f);
}

/* Judged: counts, and hands what there is to send to the emitter. A thread of the crew. */
static void on_judged(struct crew_item *item)
{
    struct frame *f = (struct frame *)item;
    struct pipeline *p = f->pipeline;
    if (item->score && item->judged != JUDGED_DROPPED)
        pipeline_count(&p->m, item->judged, item->score);
    else
        pipeline_count_drop(&p->m, item->error.code == ERR_OK ? "shutdown" : "malformed");
    if (item->judged == JUDGED_MALFORMED || item->error.code != ERR_OK)
        log_event(LOG_WARN, "verify.malformed", "answered=%d error=\"%s\"",
                  item->judged == JUDGED_MALFORMED, item->error.msg);
    atomic_fetch_add(&p->held_bytes, item->answer.cap);
    atomic_fetch_sub(&p->held_bytes, f->message.bytes.n);
    bus_message_free(&f->message); /* inside the answer now */
    struct lane *l = &p->lane[item->answer.n > CREW_LARGE_BYTES ? LANE_LARGE : LANE_NORMAL];
    if (item->judged == JUDGED_DROPPED || !queue_put(l->done, f))
        frame_free(f);
}

/* Takes the message over; NULL when memory is out. */
static struct frame *frame_new(struct pipeline *p, struct bus_message *m)
{
    struct frame *f = malloc(sizeof *f);
    if (!f)
        return NULL;
    *f = (struct frame){.item = {.frame = m->bytes, .done = on_judged},
                        .message = *m,
                        .pipeline = p,
                        .received = clock_mono(&CLOCK_REAL)};
    atomic_fetch_add(&p->held_bytes, m->bytes.n);
    *m = (struct bus_message){0};
    return f;
}

static void nap(void)
{
    nap_us(NAP_MS * 1000L);
}

/* An empty socket gets a moment before the thread sleeps in it: see queue_take_gathered. */
static int take(struct pipeline *p, struct bus_message *m, struct err *e)
{
    int rc = bus_take(p->outputs, 0, m, e);
    if (rc != ERR_TIMEOUT)
        return rc;
    nap_us(GATHER_US);
    (void)bus_poll(&p->outputs, 1, p->wake_fd, RECEIVE_WAIT_MS);
    return bus_take(p->outputs, 0, m, e);
}

static void *run_intake(void *arg)
{
    struct pipeline *p = arg;
    while (!atomic_load(&p->is_stopping)) {
        struct err e = {0};
        if (atomic_load(&p->held_bytes) > HELD_MAX_BYTES) {
            nap();
            continue;
        }
        struct bus_message m;
        int rc = take(p, &m, &e);
        if (rc == ERR_TIMEOUT)
            continue;
        struct frame *f = rc == ERR_OK ? frame_new(p, &m) : NULL;
        if (!f) { /* the engine sends it again */
            bus_message_free(&m);
            pipeline_count_drop(&p->m, "receive");
            log_event(LOG_WARN, "verify.receive", "error=\"%s\"", e.msg);
            nap();
            continue;
        }
        metric_inc(p->m.received);
        if (!crew_put(p->crew, &f->item))
            frame_free(f);
    }
    return NULL;
}

static bool has_given_up(struct pipeline *p)
{
    uint64_t at = atomic_load(&p->give_up_us);
    return at != 0 && clock_mono(&CLOCK_REAL).us >= at;
}

/* Waits while the controller is away: that is what stops the pulling. */
static void send_one(struct lane *l, const struct frame *f)
{
    struct pipeline *p = l->pipeline;
    struct err e = {0};
    int rc;
    bool has_waited = false;
    while ((rc = bus_send(l->scores, STR(""), buf_str(&f->item.answer), &e)) == ERR_BUSY &&
           !has_given_up(p)) {
        if (!has_waited)
            metric_inc(p->m.stalls);
        has_waited = true;
        nap();
    }
    if (rc == ERR_OK) {
        metric_inc(p->m.sent);
        metric_observe(p->m.held_seconds,
                       (double)mono_since_us(f->received, clock_mono(&CLOCK_REAL)) / 1e6);
        return;
    }
    pipeline_count_drop(&p->m, rc == ERR_BUSY ? "shutdown" : "send");
    log_event(LOG_WARN, "verify.send", "error=\"%s\"", e.msg);
}

static double count_held(struct pipeline *p)
{
    size_t n = crew_count(p->crew);
    for (int i = 0; i < LANE_COUNT; i++)
        n += queue_count(p->lane[i].done);
    return (double)n;
}

static void *run_emit(void *arg)
{
    struct lane *l = arg;
    if (l == &l->pipeline->lane[LANE_LARGE])
        give_way();
    for (struct frame *f; (f = queue_take_gathered(l->done)) != NULL;) {
        send_one(l, f);
        metric_set(l->pipeline->m.queue_depth, count_held(l->pipeline));
        frame_free(f);
    }
    return NULL;
}

static int open_lane(struct lane *l, struct bus *bus, struct err *e)
{
    const struct pipeline_config *c = &l->pipeline->c;
    const struct bus_options push = {.kind = BUS_PUSH,
                                     .address = c->scores,
                                     .high_water = (int)c->max_queue,
                                     .max_message_bytes = FRAME_MAX_BYTES,
                                     .security = c->security};
    return bus_socket_open(&l->scores, bus, &push, e);
}

/* The transport starts its threads with the first socket, as heirs of the thread that opens it. */
static void *run_open_large(void *arg)
{
    struct opening *o = arg;
    give_way();
    const struct pipeline_config *c = &o->lane->pipeline->c;
    o->rc = open_lane(o->lane, c->large_bus ? c->large_bus : c->bus, o->e);
    return NULL;
}

static int open_large_lane(struct lane *l, struct err *e)
{
    struct opening o = {.lane = l, .e = e};
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, run_open_large, &o);
    if (failed)
        return err_set_sys(e, ERR_NOMEM, failed, "start a thread");
    pthread_join(thread, NULL);
    return o.rc;
}

static int open_sockets(struct pipeline *p, struct err *e)
{
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake_fd < 0)
        return err_set_sys(e, ERR_IO, errno, "pipeline eventfd");
    const struct bus_options pull = {.kind = BUS_PULL,
                                     .address = p->c.outputs,
                                     .high_water = (int)p->c.max_queue,
                                     .max_message_bytes = FRAME_MAX_BYTES,
                                     .security = p->c.security};
    int rc = bus_socket_open(&p->outputs, p->c.bus, &pull, e);
    if (rc != ERR_OK)
        return err_wrap(e, "loop.outputs");
    rc = open_lane(&p->lane[LANE_NORMAL], p->c.bus, e);
    if (rc == ERR_OK)
        rc = open_large_lane(&p->lane[LANE_LARGE], e);
    return rc == ERR_OK ? rc : err_wrap(e, "loop.scores");
}

static int open_queues(struct pipeline *p, struct err *e)
{
    int rc = ERR_OK;
    for (int i = 0; i < LANE_COUNT && rc == ERR_OK; i++) {
        p->lane[i].pipeline = p;
        rc = queue_open(&p->lane[i].done, p->c.max_queue, false, e);
    }
    return rc;
}

static int start_threads(struct pipeline *p, struct err *e)
{
    int failed = 0;
    for (struct lane *l = p->lane; l < p->lane + LANE_COUNT && !failed; l++) {
        failed = pthread_create(&l->emit, NULL, run_emit, l);
        l->has_emit = failed == 0;
    }
    if (!failed) {
        failed = pthread_create(&p->intake, NULL, run_intake, p);
        p->has_intake = failed == 0;
    }
    return failed ? err_set_sys(e, ERR_NOMEM, failed, "start a thread") : ERR_OK;
}

static uint32_t clamp_u32(uint32_t v, uint32_t low, uint32_t high)
{
    return v < low ? low : v > high ? high : v;
}

int pipeline_start(struct pipeline **out, const struct pipeline_config *c, struct err *e)
{
    *out = NULL;
    struct pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "no memory for the pipeline");
    p->c = *c;
    p->wake_fd = -1;
    p->c.max_queue = clamp_u32(c->max_queue, 1, 1u << 20);
    pipeline_metrics_init(&p->m, c->metrics);
    const struct crew_config crew = {.judge = c->judge,
                                     .remote = c->remote,
                                     .workers = c->workers,
                                     .max_queue = p->c.max_queue,
                                     .max_frame_bytes = FRAME_MAX_BYTES};
    int rc = open_queues(p, e);
    if (rc == ERR_OK)
        rc = crew_open(&p->crew, &crew, e);
    if (rc == ERR_OK)
        rc = open_sockets(p, e);
    if (rc == ERR_OK)
        rc = start_threads(p, e);
    if (rc != ERR_OK) {
        pipeline_stop(p, 0);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

void pipeline_stop(struct pipeline *p, uint32_t grace_ms)
{
    if (!p)
        return;
    atomic_store(&p->give_up_us, clock_mono(&CLOCK_REAL).us + (uint64_t)grace_ms * 1000 + 1);
    atomic_store(&p->is_stopping, true);
    if (p->wake_fd >= 0)
        (void)!write(p->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    if (p->has_intake)
        pthread_join(p->intake, NULL);
    crew_stop(p->crew, grace_ms);
    for (struct lane *l = p->lane; l < p->lane + LANE_COUNT; l++) {
        if (l->done)
            queue_close(l->done);
        if (l->has_emit)
            pthread_join(l->emit, NULL);
    }
    crew_close(p->crew, 0); /* the emitters counted it until now */
    bus_socket_close(p->outputs);
    for (struct lane *l = p->lane; l < p->lane + LANE_COUNT; l++) {
        bus_socket_close(l->scores);
        queue_free(l->done);
    }
    if (p->wake_fd >= 0)
        close(p->wake_fd);
    free(p);
}
