/* controller/store/rollups.h - sums by minute and hour, counts and tallies: what reads must not add
 * up again.
 *
 * Collected in memory during a batch and written in its transaction. Writer thread. */
#ifndef CONTROLLER_STORE_ROLLUPS_H
#define CONTROLLER_STORE_ROLLUPS_H

#include "controller/store/outputs.h"

enum { ROLLUP_CELLS = 64, ROLLUP_TEXT = 72, TOTAL_KINDS = 4 };
#define ROLLUP_MINUTE_US       INT64_C(60000000)
#define ROLLUP_HOUR_US         INT64_C(3600000000)
#define ROLLUP_MINUTES_KEPT_US (48 * ROLLUP_HOUR_US)

struct rollup_cell { /* (route, minute, revision, arm) */
    char route[ROLLUP_TEXT], arm[ROLLUP_TEXT];
    int64_t minute_us;
    uint64_t revision, n, n_unscored, n_length, n_invalid, prompt_tokens, completion_tokens;
    double reward_sum, reward_squares;
    uint64_t first_row, last_row;
};

struct rollups { /* of the running batch */
    struct rollup_cell cell[ROLLUP_CELLS];
    uint32_t n;
};

/* A counted row. Writes what there is when there is no room for another cell. */
MUST_USE int rollups_add(struct rollups *r, struct store *s, const struct scored_row *row,
                         struct err *e);
/* Adds the cells to the tables of hours and minutes and empties them. */
MUST_USE int rollups_write(struct rollups *r, struct store *s, struct err *e);

/* Whether rows of this revision were ever counted. */
MUST_USE int rollups_has(struct store *s, struct str route, uint64_t revision, bool *out,
                         struct err *e);

enum total_kind { TOTAL_OUTPUTS, TOTAL_SCORES, TOTAL_UNSCORED, TOTAL_FEEDBACK };
MUST_USE int store_put_totals(struct store *s, const uint64_t n[TOTAL_KINDS], struct err *e);
MUST_USE int store_get_totals(struct store *s, uint64_t n[TOTAL_KINDS], struct err *e);

MUST_USE int store_put_tally(struct store *s, struct str route, uint64_t revision, struct str state,
                             struct err *e);
/* JSON text in the arena; ERR_NOT_FOUND. */
MUST_USE int store_get_tally(struct store *s, struct str route, uint64_t revision, struct arena *a,
                             struct str *state, struct err *e);

#endif
