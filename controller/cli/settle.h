/* controller/cli/settle.h - waiting until the engine serves the controller's revisions.
 *
 * Before its first contact an engine serves the configuration as revision 0; rows of that time
 * belong to no revision of the database. */
#ifndef CONTROLLER_CLI_SETTLE_H
#define CONTROLLER_CLI_SETTLE_H

#include "controller/cli/supervisor.h"

/* Blocks, keeping the children alive meanwhile. ERR_TIMEOUT after `seconds`; ERR_CANCELLED: a stop
 * signal came. */
MUST_USE int settle_wait(struct cli *c, struct supervisor *s, uint32_t seconds, struct err *e);

#endif
