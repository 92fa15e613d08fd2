/* common/stop.h - SIGINT and SIGTERM as a readable descriptor.
 *
 * stop_setup blocks both signals (call it before threads start, so that all inherit the mask) and
 * ignores SIGPIPE and SIGXFSZ. The fd becomes readable at the first signal. */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#include "common/err.h"

MUST_USE int stop_setup(int *fd, struct err *e);
/* Reads the signal number from fd; 0 when none waits. Never blocks. */
int stop_read(int fd);
/* For a child process before exec: unblocks what stop_setup blocked. */
void stop_reset_child(void);

#endif
