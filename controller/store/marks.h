/* controller/store/marks.h - how far each outbox is committed, what its engine dropped, engines. */
#ifndef CONTROLLER_STORE_MARKS_H
#define CONTROLLER_STORE_MARKS_H

#include "controller/store/store.h"

typedef int stored_mark_fn(struct str engine, uint64_t epoch, uint64_t seq, void *ctx,
                           struct err *e);
MUST_USE int store_put_mark(struct store *s, struct str engine, uint64_t epoch, uint64_t seq,
                            struct err *e);
MUST_USE int store_walk_marks(struct store *s, stored_mark_fn *fn, void *ctx, struct err *e);
/* Sequence numbers above `after` that are committed, in order: outputs, feedback, rejects. */
MUST_USE int store_walk_seqs(struct store *s, struct str engine, uint64_t epoch, uint64_t after,
                             stored_mark_fn *fn, void *ctx, struct err *e);
MUST_USE int store_put_gap(struct store *s, struct str engine, uint64_t epoch, uint64_t first,
                           uint64_t last, int64_t at_us, struct err *e);

struct stored_engine {
    struct str engine, model, weights, version;
    uint64_t epoch, desired_version, crashes;
    int64_t seen_us;
};
/* Crashes heard of this outbox so far; ERR_NOT_FOUND: it is new here. */
MUST_USE int store_get_crashes(struct store *s, struct str engine, uint64_t epoch, uint64_t *out,
                               struct err *e);
MUST_USE int store_put_engine(struct store *s, const struct stored_engine *g, struct err *e);

#endif
