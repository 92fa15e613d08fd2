/* controller/cli/preflight.h - what can be refused before anything starts, in plain words. */
#ifndef CONTROLLER_CLI_PREFLIGHT_H
#define CONTROLLER_CLI_PREFLIGHT_H

#include "controller/cli/cli.h"

/* Creates the state folder and its log folder; takes the lock that keeps a second `milepost up`
 * off it. *lock_fd holds the lock until closed. */
MUST_USE int preflight_state(struct cli *c, int *lock_fd, struct err *e);
/* ERR_CONFLICT names the port that another program listens on, and the key that changes it. */
MUST_USE int preflight_ports(struct cli *c, bool engine, bool loop, struct err *e);
MUST_USE int preflight_model(struct cli *c, struct err *e);
/* A port on loopback that nothing listens on at this moment, as text. */
MUST_USE int preflight_free_port(char out[16], struct err *e);

#endif
