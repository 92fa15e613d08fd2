/* controller/store/revisions.h - revisions, quarantined contents, experiments. */
#ifndef CONTROLLER_STORE_REVISIONS_H
#define CONTROLLER_STORE_REVISIONS_H

#include "controller/store/store.h"
#include "schemas/revision.h"

/* Gives r the next number and its hash, and inserts it. */
MUST_USE int store_add_revision(struct store *s, struct revision *r, struct err *e);
/* ERR_NOT_FOUND; ERR_CORRUPT when the stored hash does not fit. Texts in the arena. */
MUST_USE int store_get_revision(struct store *s, uint64_t number, struct arena *a,
                                struct revision *out, struct err *e);
/* Last revision of a route by an author; number 0 when there is none. */
MUST_USE int store_last_revision_by(struct store *s, struct str route, struct str author,
                                    uint64_t *number, struct err *e);

MUST_USE int store_quarantine(struct store *s, struct str route, struct str hash, uint64_t revision,
                              uint64_t decision, int64_t at_us, struct err *e);
MUST_USE int store_is_quarantined(struct store *s, struct str route, struct str hash, bool *out,
                                  struct err *e);

struct experiment_start {
    struct str id, route, actor;
    uint64_t champion, challenger, decision;
    int64_t at_us;
};
MUST_USE int store_start_experiment(struct store *s, const struct experiment_start *x,
                                    struct err *e);
MUST_USE int store_end_experiment(struct store *s, struct str id, struct str outcome,
                                  uint64_t decision, int64_t at_us, struct err *e);

#endif
