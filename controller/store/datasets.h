/* controller/store/datasets.h - datasets that were asked for, and the files they became.
 *
 * Rows are added and ended by the writer; the exporter reads them on a connection of its own. */
#ifndef CONTROLLER_STORE_DATASETS_H
#define CONTROLLER_STORE_DATASETS_H

#include "controller/store/store.h"

enum dataset_state { DATASET_ASKED, DATASET_THERE, DATASET_FAILED };

struct stored_dataset {
    struct str id, route, actor, reason;
    int64_t since_us, until_us; /* of the commit; [since, until) */
    bool only_scored;
    int64_t asked_us;
    enum dataset_state state;
    struct str error; /* FAILED */
    /* THERE: */
    struct str path, sha256;
    uint64_t n_bytes, n_outputs, n_without_text;
    uint64_t first_row, last_row, first_revision, last_revision; /* 0 = it is empty */
};

MUST_USE int store_ask_dataset(struct store *s, const struct stored_dataset *d, struct err *e);
/* state, error and all that is only known at the end, of the row d->id. */
MUST_USE int store_end_dataset(struct store *s, const struct stored_dataset *d, int64_t now_us,
                               struct err *e);
/* The first that waits; texts in the arena. ERR_NOT_FOUND. */
MUST_USE int store_next_dataset(struct store *s, struct arena *a, struct stored_dataset *out,
                                struct err *e);
/* How many wait. */
MUST_USE int store_count_asked(struct store *s, int64_t *out, struct err *e);
/* Whether the author asked for one of this route at or after a time. */
MUST_USE int store_has_asked(struct store *s, struct str route, struct str actor, int64_t since_us,
                             bool *out, struct err *e);

#endif
