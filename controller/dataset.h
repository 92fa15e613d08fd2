/* controller/dataset.h - scored outputs as lines of JSON, for whoever trains on them.
 *
 * One object a line: request_id, engine, epoch, seq, choice, route, revision, arm, experiment,
 * finish_reason, created_us, weights, messages or prompt, text, token_ids, logprobs (under the
 * sampling distribution before filters, T = 1), effective parameters, metadata, reward (null:
 * unscored), reason, checks (the parts). Reader thread; streams, so memory does not grow. */
#ifndef CONTROLLER_DATASET_H
#define CONTROLLER_DATASET_H

#include "controller/store/store.h"

struct dataset_query {
    struct str route;
    int64_t since_us, until_us; /* of the commit; until 0 = no end */
    bool only_scored;
    /* Every so many lines; may be NULL. False ends the export: ERR_CANCELLED. */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

struct dataset_report {
    uint64_t n_rows, n_bytes;
    uint64_t n_without_text; /* left out: the text has expired (retention) or cannot be read */
    uint64_t first_row, last_row, first_revision, last_revision; /* of the lines; 0 = none */
};

/* Writes to fd. */
MUST_USE int dataset_write(struct store *s, const struct dataset_query *q, int fd,
                           struct dataset_report *out, struct err *e);

#endif
