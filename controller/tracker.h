/* controller/tracker.h - which sequence numbers of each outbox have reached the store.
 *
 * Out-of-order arrival is normal: numbers above a hole wait as ranges. A hole closes when its
 * number arrives, or when the engine's oldest held number shows that it was dropped there. Pure;
 * one thread. After a rolled back transaction: throw away and load again. */
#ifndef CONTROLLER_TRACKER_H
#define CONTROLLER_TRACKER_H

#include "schemas/codec.h"

enum { TRACKER_MAX_SOURCES = 256, TRACKER_MAX_RANGES = 1024 };

struct seq_range {
    uint64_t first, last;
};

struct tracker_source {
    char engine[CODEC_MAX_NAME + 1];
    uint64_t epoch;
    uint64_t mark;             /* everything up to here is in the store or was dropped */
    uint64_t announced;        /* mark the engine was told last */
    bool is_changed;           /* the stored mark is another one, or there is none */
    bool has_news;             /* numbers came since the engine was told */
    bool has_rows;             /* something of this outbox was ever stored */
    struct seq_range *waiting; /* [n_waiting] above the mark, ascending, not touching */
    uint32_t n_waiting;
};

struct tracker {
    struct tracker_source source[TRACKER_MAX_SOURCES];
    uint32_t n_source;
};

struct tracker *tracker_new(void); /* NULL = no memory */
void tracker_free(struct tracker *t);
/* NULL when not known, and there is no room for another. */
struct tracker_source *tracker_find(struct tracker *t, struct str engine, uint64_t epoch,
                                    bool may_add);
/* The number is in the store (also when it came again). */
void tracker_add(struct tracker_source *s, uint64_t seq);
/* The engine holds nothing below oldest any more, and says it dropped `dropped` rows over its
 * life. Fills holes[cap] with the ranges that will not come; returns how many. An outbox first seen
 * now may have been committed to another database: then only as many as it says count. */
uint32_t tracker_note_oldest(struct tracker_source *s, uint64_t oldest, uint64_t dropped,
                             struct seq_range *holes, uint32_t cap);

#endif
