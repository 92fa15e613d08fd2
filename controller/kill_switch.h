/* controller/kill_switch.h - one switch that pins the champion of every route.
 *
 * On: each route is put on hold (a running trial or experiment ends, its champion serves everyone,
 * nothing is decided) and nothing but a rollback can be asked for. It outlives a restart, and holds
 * a route that a changed configuration adds. Off: the routes it held go on; one that an operator
 * had paused before stays paused. Writer thread, inside a batch. */
#ifndef CONTROLLER_KILL_SWITCH_H
#define CONTROLLER_KILL_SWITCH_H

#include "controller/commands.h"

MUST_USE int kill_switch_load(struct ledger *l, struct err *e);
/* COMMAND_PAUSE and COMMAND_RESUME of all routes; ERR_CONFLICT when it is so already. */
MUST_USE int kill_switch_command(struct ledger *l, struct command *c, struct err *e);
/* ERR_CONFLICT: the switch is on, and the command is none that may be given then. */
MUST_USE int kill_switch_check(const struct ledger *l, const struct command *c, struct err *e);
/* After the routes were brought up. */
MUST_USE int kill_switch_bring_up(struct ledger *l, struct err *e);

#endif
