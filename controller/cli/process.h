/* controller/cli/process.h - one child program: start, wait without blocking, stop.
 *
 * The child gets its own process group (a Ctrl-C in the terminal reaches only us), dies with us
 * (parent-death signal), and writes to a log file. fd is a pidfd: readable when it has ended. */
#ifndef CONTROLLER_CLI_PROCESS_H
#define CONTROLLER_CLI_PROCESS_H

#include "common/err.h"

#include <sys/types.h>

enum { PROCESS_MAX_ARGS = 160 };

struct process {
    pid_t pid; /* 0 = none */
    int fd;
};

/* argv is NULL-terminated, argv[0] the path. Standard input is /dev/null, both outputs append to
 * log_path, or stay ours when it is NULL. */
MUST_USE int process_start(struct process *p, const char *const *argv, const char *log_path,
                           struct err *e);
/* Waits up to timeout_ms. True when it has ended, *status as by waitpid; then pid is 0. */
bool process_wait(struct process *p, int timeout_ms, int *status);
void process_signal(const struct process *p, int signal_number);
/* SIGTERM, up to grace_ms, then SIGKILL; returns once it has ended. True when it went by itself. */
bool process_stop(struct process *p, int grace_ms);
/* "exit code 2", "killed by SIGSEGV" into out[cap]. */
void process_describe(int status, char *out, size_t cap);

#endif
