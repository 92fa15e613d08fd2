/* controller/experiment_command.h - an operator starts an experiment. Writer thread. */
#ifndef CONTROLLER_EXPERIMENT_COMMAND_H
#define CONTROLLER_EXPERIMENT_COMMAND_H

#include "controller/commands.h"

/* c->params: the request (controller/experiment_request.h). Errors and savepoint as in commands.c:
 * ERR_INVALID, ERR_CONFLICT leave nothing behind. */
MUST_USE int experiment_command_start(struct ledger *l, struct ledger_route *r, struct command *c,
                                      struct err *e);

#endif
