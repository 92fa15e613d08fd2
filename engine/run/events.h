/* engine/run/events.h - token events of one step, from the workers to the I/O thread.
 *
 * A fixed set of batches goes round: the worker takes an empty one, fills it during a step and
 * posts it; the I/O thread runs the callbacks and gives it back. No allocation after open. */
#ifndef ENGINE_RUN_EVENTS_H
#define ENGINE_RUN_EVENTS_H

#include "common/queue.h"
#include "engine/sched/sequence.h"

struct event {
    struct sequence *seq; /* freed by the I/O thread after its GEN_END */
    enum gen_event_type type;
    int32_t token;
    float logprob;
    uint32_t n_top;
    struct gen_top top[GEN_MAX_TOP];
    enum gen_finish finish;
    struct err err;
};

struct worker;
struct event_batch {
    uint32_t n, cap;
    struct worker *ended; /* this worker's last batch; NULL: more follow */
    struct event *event;  /* [cap] */
};

struct event_channel;

MUST_USE int event_channel_open(struct event_channel **out, uint32_t events_per_batch,
                                struct err *e);
void event_channel_free(struct event_channel *c);
/* Worker: an empty batch; waits while the I/O thread is behind by all of them. */
struct event_batch *event_channel_begin(struct event_channel *c);
void event_channel_post(struct event_channel *c, struct event_batch *b);
/* I/O: NULL when none waits (timeout_us 0) or none came in time. */
struct event_batch *event_channel_take(struct event_channel *c, int64_t timeout_us);
void event_channel_recycle(struct event_channel *c, struct event_batch *b);
int event_channel_fd(const struct event_channel *c);

#endif
