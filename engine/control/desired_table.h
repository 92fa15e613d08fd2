/* engine/control/desired_table.h - desired documents as tables, and the one a restart begins with.
 */
#ifndef ENGINE_CONTROL_DESIRED_TABLE_H
#define ENGINE_CONTROL_DESIRED_TABLE_H

#include "engine/record/outbox.h"
#include "engine/route/route.h"

/* A document from the bus: its table, and its text into the outbox, for the next start. Any thread.
 * A document that makes no table is refused, logged and not kept. */
MUST_USE int desired_table_accept(struct outbox *o, const struct desired *d, struct str text,
                                  struct route_table **out, struct err *e);
/* The state a restarted engine goes on with: the one stored, else the configuration's. */
MUST_USE int desired_table_first(struct outbox *o, const struct milepost_config *c,
                                 struct route_table **out, struct err *e);

#endif
