/* controller/replay_audit.h - do the columns people query say what the sealed texts say?
 *
 * Decisions are chained and rows are hashed as JSON; the columns beside them are copies for
 * queries, and a changed copy would mislead whoever reads it. Reads only. */
#ifndef CONTROLLER_REPLAY_AUDIT_H
#define CONTROLLER_REPLAY_AUDIT_H

#include "controller/store/store.h"

/* ERR_OK with out empty: all agree. Else out says the first difference. */
MUST_USE int replay_audit(struct store *s, char *out, size_t cap, struct err *e);

#endif
