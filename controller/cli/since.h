/* controller/cli/since.h - a point in time as people type it. */
#ifndef CONTROLLER_CLI_SINCE_H
#define CONTROLLER_CLI_SINCE_H

#include "common/clock.h"
#include "common/err.h"

/* "90m", "2h", "7d" before now; "2026-01-31", "2026-01-31 12:30", "2026-01-31T12:30:05Z" in UTC.
 * ERR_INVALID says what is allowed. */
MUST_USE int since_parse(const char *text, struct wall now, struct wall *out, struct err *e);

#endif
