/* verifier/crew.h - threads that judge frames: workers for what is local, one joiner for frames
 * whose remote checks have all come back.
 *
 *   put -> queue -> worker: judge_begin --- complete ----------------> judge_end -> done
 *      \-> heavy -> worker            \-- waits (no thread) -> joiner: judge_end -> done
 * Frames above CREW_LARGE_BYTES, and what took more than 2 ms of a worker's CPU time, have a queue
 * and half as many workers of their own, which the system schedules behind the others: however many
 * come, they never hold up the light ones.
 * When too many bytes of them wait, no check runs on them and they are unscored ("overloaded").
 * A frame that waits holds memory only; above a bound its route's remote checks are unscored
 * ("overloaded"), so that a slow service never stops the others. */
#ifndef VERIFIER_CREW_H
#define VERIFIER_CREW_H

#include "verifier/judge.h"

enum { CREW_MAX_WORKERS = 64, CREW_LARGE_BYTES = 64 * 1024 };

struct crew;

struct crew_item {    /* first in a struct of the caller's */
    struct str frame; /* the caller's, until done */
    /* Once, from a thread of the crew; may block; owns the item from then on. judged is
     * JUDGED_DROPPED when the crew gave up; else score (valid during the call) and answer. */
    void (*done)(struct crew_item *item);

    enum judged judged;
    struct buf answer;
    const struct score *score;
    struct err error;

    struct crew *crew; /* the crew's own from here */
    const char *skip;
    struct arena arena;
    struct judging *judging;
    size_t parked_bytes;
};

struct crew_config {
    struct judge judge;
    struct remote *remote; /* NULL: nothing remote is asked */
    uint32_t workers, max_queue;
    size_t max_frame_bytes;
};

MUST_USE int crew_open(struct crew **out, const struct crew_config *c, struct err *e);
/* Takes no more, judges what it holds, waits up to grace_ms for what is remote, then stops the
 * remote and drops the rest: `done` runs no more. Idempotent. Accepts NULL. */
void crew_stop(struct crew *c, uint32_t grace_ms);
void crew_close(struct crew *c, uint32_t grace_ms); /* stops, frees: nobody may use it any more */
bool crew_put(struct crew *c, struct crew_item *item);     /* waits for room; false: closed */
bool crew_try_put(struct crew *c, struct crew_item *item); /* false: full or closed */
size_t crew_count(struct crew *c);                         /* waiting for a worker, or parked */

#endif
