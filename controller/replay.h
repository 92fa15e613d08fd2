/* controller/replay.h - runs every law again over the committed rows and compares each decision.
 *
 * Opens the database read-only, in one snapshot: it may run beside a live controller. Checks the
 * hash chain, every decision with all its numbers, and every law's last state. Blocking; reads the
 * whole database once. */
#ifndef CONTROLLER_REPLAY_H
#define CONTROLLER_REPLAY_H

#include "common/db.h"

#include <stdint.h>

struct replay_report {
    bool agrees;
    bool decisions_agree; /* the chain and every decision do; states and columns may not */
    uint64_t n_rows, n_events, n_decisions, n_routes;
    uint64_t first_decision; /* number of the first that differs; 0 = none or not a decision */
    /* Decisions of another version of the laws (law_version.h): the chain holds over them, they are
     * not recomputed. law_from: the place from which on all routes are; 0 = everything is. */
    uint64_t n_sealed, law_from;
    uint64_t n_texts_expired; /* outputs of which the hash stands for the text (retention) ... */
    uint64_t texts_from;      /* ... up to before this row; 0 = no text is there */
    char difference[512];     /* what differs first: recomputed against stored */
};

/* ERR_OK when the comparison could be made, whatever it says; else the database cannot be read. */
MUST_USE int replay_run(const char *database, struct replay_report *out, struct err *e);

/* The chain and the decisions only, without the last states and the columns beside sealed texts,
 * which cost ten times as much. stop (may be NULL): db_stop_when. */
MUST_USE int replay_decisions(const char *database, const struct db_stop *stop,
                              struct replay_report *out, struct err *e);

#endif
