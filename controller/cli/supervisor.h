/* controller/cli/supervisor.h - engine, verifier and controller as children of one process.
 *
 * Starts them, waits until each answers /health, restarts one that dies (0.5 s, doubling to 30 s;
 * back to 0.5 s after a minute of life) and stops them in the order engine, verifier, controller,
 * so that what the engine still holds is scored and committed. One thread. */
#ifndef CONTROLLER_CLI_SUPERVISOR_H
#define CONTROLLER_CLI_SUPERVISOR_H

#include "controller/cli/cli.h"

enum supervised { SUP_CONTROLLER, SUP_VERIFIER, SUP_ENGINE, SUP_COUNT };

struct supervisor;

struct supervisor_options {
    const char *only; /* comma separated names to run, NULL = all that the configuration wants */
    int start_timeout_ms; /* for all to become healthy */
    int grace_ms;         /* of each at the stop */
};

/* Checks folders, the model file and that the ports are free, takes the state folder's lock, then
 * starts the children. Errors say what to change. */
MUST_USE int supervisor_open(struct supervisor **out, struct cli *c,
                             const struct supervisor_options *o, struct err *e);
/* Blocks until all answer. ERR_CANCELLED: a stop signal came. A child that dies before it ever
 * answered is an error holding the last lines of its log. */
MUST_USE int supervisor_wait_ready(struct supervisor *s, struct err *e);
/* Waits up to timeout_ms, restarts what died and prints it. ERR_CANCELLED after a stop signal. */
MUST_USE int supervisor_run(struct supervisor *s, int timeout_ms, struct err *e);
/* A second signal meanwhile kills the rest at once. */
void supervisor_close(struct supervisor *s);

#endif
