/* controller/ledger_load.h - restoring a ledger from its database; for ledger.c. */
#ifndef CONTROLLER_LEDGER_LOAD_H
#define CONTROLLER_LEDGER_LOAD_H

#include "controller/ledger.h"

/* Laws, tallies, commit marks, the desired version: as committed. */
MUST_USE int ledger_load(struct ledger *l, struct err *e);
/* First revisions and changed settings, inside a batch. */
MUST_USE int ledger_bring_up(struct ledger *l, struct err *e);
void ledger_tally(struct ledger_route *r, const struct scored_row *row);
/* Which revisions are counted, after a decision. */
MUST_USE int ledger_tally_follow(struct ledger *l, struct ledger_route *r, struct err *e);
/* Writes the tallies of both arms. */
MUST_USE int ledger_tally_save(struct ledger *l, struct ledger_route *r, struct err *e);

/* Which challenger is in the desired document, and since when; after each change of it. */
void ledger_trials_follow(struct ledger *l);

#endif
