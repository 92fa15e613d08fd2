/* common/queue.h - bounded first-in first-out of pointers between threads.
 *
 * Any number of producers and consumers. Closing wakes all waiters; what is queued can still be
 * taken. An optional eventfd makes it pollable: it is readable while items wait. */
#ifndef COMMON_QUEUE_H
#define COMMON_QUEUE_H

#include "common/err.h"

#include <stdint.h>

struct queue;

MUST_USE int queue_open(struct queue **out, size_t capacity, bool with_eventfd, struct err *e);
void queue_free(struct queue *q);                      /* does not free the items */
bool queue_try_put(struct queue *q, void *item);       /* false: full or closed */
bool queue_put(struct queue *q, void *item);           /* waits for room; false: closed */
void *queue_try_take(struct queue *q);                 /* NULL: empty */
void *queue_take(struct queue *q, int64_t timeout_us); /* <0 = no limit; NULL: timeout, closed */
/* As queue_take without a limit, for a thread with much small work: an empty queue is given a
 * moment (300 us) to gather items before the thread sleeps for the next one, so that under load one
 * wake-up serves many. */
void *queue_take_gathered(struct queue *q);
void queue_close(struct queue *q);
size_t queue_count(struct queue *q);
int queue_fd(const struct queue *q); /* -1 without eventfd; take until NULL after each wake-up */

#endif
