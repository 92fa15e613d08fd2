/* controller/cli/replay.h - recompute every decision from the stored rows and compare. */
#ifndef CONTROLLER_CLI_REPLAY_H
#define CONTROLLER_CLI_REPLAY_H

#include "controller/cli/cli.h"

struct replay_result {
    uint64_t n_rows, n_decisions; /* rows fed, decisions compared */
    uint64_t n_different;
    char first_difference[240]; /* "" = none */
};

/* On the configured database, read-only: a running controller is not disturbed. */
MUST_USE int cli_replay(struct cli *c, struct replay_result *out, struct err *e);

#endif
