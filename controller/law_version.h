/* controller/law_version.h - a database whose decisions were made by another version of the laws.
 *
 * Where this version's laws make the same decisions of its rows (replay says so), the laws' states
 * are made again from the rows and all goes on. Where they do not, each route begins anew from the
 * champion it had: an event of kind "law" marks the place, a running trial ends without a verdict,
 * a route on hold stays so. Decisions before the mark stay sealed by the chain, and replay says
 * from which row on it recomputes. Writer thread. */
#ifndef CONTROLLER_LAW_VERSION_H
#define CONTROLLER_LAW_VERSION_H

#include "controller/ledger.h"

/* Before ledger_load; reads the whole database once when the version is another one. */
MUST_USE int law_version_check(struct ledger *l, struct err *e);

/* In the first batch, before and after the route's settings are brought up. */
MUST_USE int law_version_mark(struct ledger *l, struct ledger_route *r, struct err *e);
MUST_USE int law_version_restart(struct ledger *l, struct ledger_route *r, struct err *e);
/* After all routes: also marks those that the configuration no longer names. */
MUST_USE int law_version_keep(struct ledger *l, struct err *e);

#endif
