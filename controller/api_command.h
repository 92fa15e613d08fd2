/* controller/api_command.h - a POST's body as a command of an operator. HTTP loop thread. */
#ifndef CONTROLLER_API_COMMAND_H
#define CONTROLLER_API_COMMAND_H

#include "controller/commands.h"

/* Fills the command of c->kind from the body, into its arena. ERR_INVALID names the field. */
MUST_USE int api_read_command(const struct milepost_config *config, struct str body,
                              struct command *c, struct err *e);
/* Empty or absent: the first route. ERR_NOT_FOUND. */
MUST_USE int api_find_route(const struct milepost_config *c, struct str given, struct str *out,
                            struct err *e);

#endif
