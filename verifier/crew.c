/* An item belongs to one thread at a time: putter, worker, then either `done` or nobody while it is
 * parked, then the joiner. Its scratch arena travels with it. */
#include "verifier/crew.h"

#include "common/clock.h"
#include "common/give_way.h"
#include "common/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* A worker hands on what took longer: with a few workers, a few such outputs would stop them all.
 */
enum { SLICE_US = 2000 };
#define HEAVY_WAITING_MAX_BYTES (64 * MiB)
enum { PARKED_MAX = 16384, PARKED_OVERHEAD_BYTES = 32 * 1024, NAP_MS = 5 };
#define PARKED_MAX_BYTES  (256 * MiB)
#define FRAME_ARENA_BYTES (256 * MiB) /* scratch of one output: 20 times its text */

struct crew {
    struct crew_config c;
    struct queue *work, *heavy, *ready; /* of struct crew_item */
    pthread_t worker[2 * CREW_MAX_WORKERS], joiner;
    uint32_t n_worker;
    _Atomic size_t heavy_bytes; /* in that queue */
    bool has_joiner;
    atomic_bool is_giving_up;
    _Atomic uint32_t n_parked;
    _Atomic size_t parked_bytes;
};

static void nap(void)
{
    struct timespec t = {.tv_nsec = NAP_MS * 1000000L};
    nanosleep(&t, NULL);
}

/* Gives the item back; its arena stays with the caller, who may reuse it afterwards. */
static struct arena finish(struct crew *c, struct crew_item *item)
{
    struct arena a = item->arena;
    bool is_dropped = atomic_load(&c->is_giving_up) && item->parked_bytes > 0;
    buf_init(&item->answer, c->c.max_frame_bytes);
    if (item->judging) {
        item->judging->arena = &a;
        item->judged = judge_end(item->judging, &item->answer, &item->error);
        item->score = &item->judging->score;
    }
    if (is_dropped || !item->judging)
        item->judged = JUDGED_DROPPED;
    item->done(item);
    return a;
}

static void on_ready(void *ctx)
{
    struct crew_item *item = ctx;
    queue_try_put(item->crew->ready, item); /* has room for all that may be parked */
}

/* Counts the item as parked before it can be ready; false: no room for one more. */
static bool park(struct crew *c, struct crew_item *item)
{
    item->parked_bytes = 0;
    if (!c->c.remote)
        return false;
    uint32_t n = atomic_fetch_add(&c->n_parked, 1);
    size_t bytes = item->frame.n * 4 + PARKED_OVERHEAD_BYTES;
    size_t held = atomic_fetch_add(&c->parked_bytes, bytes);
    item->parked_bytes = bytes;
    if (n < PARKED_MAX && held + bytes <= PARKED_MAX_BYTES)
        return true;
    atomic_fetch_sub(&c->n_parked, 1);
    atomic_fetch_sub(&c->parked_bytes, bytes);
    item->parked_bytes = 0;
    return false;
}

static void unpark(struct crew *c, size_t bytes)
{
    if (bytes == 0)
        return;
    atomic_fetch_sub(&c->n_parked, 1);
    atomic_fetch_sub(&c->parked_bytes, bytes);
}

/* The item takes the arena along when it has to wait; true: it does not. */
static bool begin(struct crew *c, struct crew_item *item, uint32_t slice_us)
{
    bool may_wait = park(c, item);
    item->crew = c;
    item->judging = arena_alloc(&item->arena, sizeof *item->judging);
    if (item->judging) {
        *item->judging = (struct judging){.judge = &c->c.judge,
                                          .frame = item->frame,
                                          .arena = &item->arena,
                                          .remote = may_wait ? c->c.remote : NULL,
                                          .refusal = c->c.remote ? "overloaded" : "not_asked",
                                          .skip = item->skip,
                                          .slice_us = slice_us,
                                          .on_ready = on_ready,
                                          .ctx = item};
        return judge_begin(item->judging);
    }
    return true;
}

static bool put_heavy(struct crew *c, struct crew_item *item,
                      bool (*put_into)(struct queue *q, void *item))
{
    size_t bytes = item->frame.n;
    atomic_fetch_add(&c->heavy_bytes, bytes);
    bool is_put = put_into(c->heavy, item);
    if (!is_put)
        atomic_fetch_sub(&c->heavy_bytes, bytes);
    return is_put;
}

/* Nothing local is left to do: done, or waiting with its arena. The thread has one afterwards. */
static void settle(struct crew *c, struct crew_item *item, bool is_complete, struct arena *a)
{
    if (!is_complete) {
        arena_init(a, FRAME_ARENA_BYTES);
        return;
    }
    unpark(c, item->parked_bytes);
    item->parked_bytes = 0;
    *a = finish(c, item);
    arena_reset(a);
}

/* Judges one; the arena is the thread's, emptied. */
static void work_on(struct crew *c, struct crew_item *item, uint32_t slice_us, struct arena *a)
{
    item->arena = *a;
    bool is_complete = begin(c, item, slice_us);
    bool is_heavy = is_complete && item->judging && judge_is_heavy(item->judging);
    if (is_heavy && put_heavy(c, item, queue_try_put)) {
        arena_init(a, FRAME_ARENA_BYTES);
        return;
    }
    if (is_heavy)
        is_complete = judge_resume(item->judging);
    settle(c, item, is_complete, a);
}

static void *run_worker(void *arg)
{
    struct crew *c = arg;
    struct arena a;
    arena_init(&a, FRAME_ARENA_BYTES);
    for (struct crew_item *item; (item = queue_take_gathered(c->work)) != NULL;)
        work_on(c, item, SLICE_US, &a);
    arena_free(&a);
    return NULL;
}

static void work_on_heavy(struct crew *c, struct crew_item *item)
{
    struct arena a;
    size_t waited = atomic_fetch_sub(&c->heavy_bytes, item->frame.n);
    arena_init(&a, FRAME_ARENA_BYTES);
    item->skip = waited > HEAVY_WAITING_MAX_BYTES ? "overloaded" : NULL;
    if (item->judging)
        settle(c, item, judge_resume(item->judging), &a);
    else
        work_on(c, item, 0, &a);
    arena_free(&a); /* give back what one hostile output needed */
}

static void *run_heavy_worker(void *arg)
{
    struct crew *c = arg;
    give_way();
    for (struct crew_item *item; (item = queue_take(c->heavy, -1)) != NULL;)
        work_on_heavy(c, item);
    return NULL;
}

static void *run_joiner(void *arg)
{
    struct crew *c = arg;
    for (struct crew_item *item; (item = queue_take(c->ready, -1)) != NULL;) {
        size_t bytes = item->parked_bytes;
        struct arena a = finish(c, item);
        arena_free(&a);
        unpark(c, bytes);
    }
    return NULL;
}

static uint32_t clamp_u32(uint32_t v, uint32_t low, uint32_t high)
{
    return v < low ? low : v > high ? high : v;
}

static int start_workers(struct crew *c, uint32_t n, void *(*run)(void *), struct err *e)
{
    int failed = 0;
    for (uint32_t i = 0; i < n && !failed; i++) {
        failed = pthread_create(&c->worker[c->n_worker], NULL, run, c);
        c->n_worker += failed == 0;
    }
    return failed ? err_set_sys(e, ERR_NOMEM, failed, "start a thread") : ERR_OK;
}

static int start_threads(struct crew *c, uint32_t workers, struct err *e)
{
    int failed = pthread_create(&c->joiner, NULL, run_joiner, c);
    c->has_joiner = failed == 0;
    int rc = failed ? err_set_sys(e, ERR_NOMEM, failed, "start a thread") : ERR_OK;
    if (rc == ERR_OK)
        rc = start_workers(c, workers, run_worker, e);
    return rc == ERR_OK ? start_workers(c, (workers + 1) / 2, run_heavy_worker, e) : rc;
}

int crew_open(struct crew **out, const struct crew_config *config, struct err *e)
{
    *out = NULL;
    struct crew *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ERR_NOMEM, "no memory for worker threads");
    c->c = *config;
    uint32_t capacity = clamp_u32(config->max_queue, 1, 1u << 20);
    int rc = queue_open(&c->work, capacity, false, e);
    if (rc == ERR_OK)
        rc = queue_open(&c->heavy, capacity, false, e);
    if (rc == ERR_OK)
        rc = queue_open(&c->ready, PARKED_MAX, false, e);
    if (rc == ERR_OK)
        rc = start_threads(c, clamp_u32(config->workers, 1, CREW_MAX_WORKERS), e);
    if (rc != ERR_OK) {
        crew_close(c, 0);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

static void wait_for_parked(struct crew *c, uint32_t grace_ms)
{
    struct mono start = clock_mono(&CLOCK_REAL);
    while (atomic_load(&c->n_parked) > 0 &&
           mono_since_us(start, clock_mono(&CLOCK_REAL)) < grace_ms * 1000ull)
        nap();
    if (atomic_load(&c->n_parked) == 0)
        return;
    atomic_store(&c->is_giving_up, true);
    remote_stop(c->c.remote);
    while (atomic_load(&c->n_parked) > 0) /* every job is done by now: only the joiner's work */
        nap();
}

void crew_stop(struct crew *c, uint32_t grace_ms)
{
    if (!c)
        return;
    if (c->work)
        queue_close(c->work);
    if (c->heavy)
        queue_close(c->heavy);
    for (uint32_t i = 0; i < c->n_worker; i++)
        pthread_join(c->worker[i], NULL);
    c->n_worker = 0;
    wait_for_parked(c, grace_ms);
    if (c->ready)
        queue_close(c->ready);
    if (c->has_joiner)
        pthread_join(c->joiner, NULL);
    c->has_joiner = false;
}

void crew_close(struct crew *c, uint32_t grace_ms)
{
    if (!c)
        return;
    crew_stop(c, grace_ms);
    queue_free(c->work);
    queue_free(c->heavy);
    queue_free(c->ready);
    free(c);
}

static bool put(struct crew *c, struct crew_item *item,
                bool (*put_into)(struct queue *q, void *item))
{
    return item->frame.n <= CREW_LARGE_BYTES ? put_into(c->work, item)
                                             : put_heavy(c, item, put_into);
}

bool crew_put(struct crew *c, struct crew_item *item)
{
    return put(c, item, queue_put);
}

bool crew_try_put(struct crew *c, struct crew_item *item)
{
    return put(c, item, queue_try_put);
}

size_t crew_count(struct crew *c)
{
    return queue_count(c->work) + queue_count(c->heavy) + atomic_load(&c->n_parked);
}
