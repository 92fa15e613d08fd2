/* Two queues of the same batches: full ones towards the I/O thread, empty ones back. */
#include "engine/run/events.h"

#include <stdlib.h>

enum { N_BATCHES = 64 };

struct event_channel {
    struct queue *full, *empty;
    struct event_batch batch[N_BATCHES];
};

int event_channel_open(struct event_channel **out, uint32_t events_per_batch, struct err *e)
{
    int rc = ERR_OK;
    struct event_channel *c = calloc(1, sizeof *c);
    *out = c;
    if (!c)
        return err_set(e, ERR_NOMEM, "event channel");
    TRY(queue_open(&c->full, N_BATCHES, true, e));
    TRY(queue_open(&c->empty, N_BATCHES, false, e));
    for (int i = 0; i < N_BATCHES; i++) {
        struct event_batch *b = &c->batch[i];
        b->cap = events_per_batch;
        b->event = calloc(events_per_batch, sizeof *b->event);
        if (!b->event || !queue_try_put(c->empty, b))
            TRY(err_set(e, ERR_NOMEM, "events of %u requests", events_per_batch));
    }
    return ERR_OK;
out:
    event_channel_free(c);
    *out = NULL;
    return rc;
}

void event_channel_free(struct event_channel *c)
{
    if (!c)
        return;
    for (int i = 0; i < N_BATCHES; i++)
        free(c->batch[i].event);
    queue_free(c->full);
    queue_free(c->empty);
    free(c);
}

struct event_batch *event_channel_begin(struct event_channel *c)
{
    struct event_batch *b = queue_take(c->empty, -1);
    b->n = 0;
    b->ended = NULL;
    return b;
}

void event_channel_post(struct event_channel *c, struct event_batch *b)
{
    (void)queue_put(c->full, b); /* room for all batches: never waits */
}

struct event_batch *event_channel_take(struct event_channel *c, int64_t timeout_us)
{
    return timeout_us ? queue_take(c->full, timeout_us) : queue_try_take(c->full);
}

void event_channel_recycle(struct event_channel *c, struct event_batch *b)
{
    (void)queue_put(c->empty, b);
}

int event_channel_fd(const struct event_channel *c)
{
    return queue_fd(c->full);
}
