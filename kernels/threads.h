/* kernels/threads.h - a team of compute threads, each pinned to a core of its own.
 *
 * team_run hands a body to the team's first thread (the leader) and sleeps until it is done; inside
 * the body team_each runs a function on every thread and joins. A thread that waits spins for some
 * microseconds, then sleeps on a futex: an idle team uses no CPU. One caller at a time. */
#ifndef KERNELS_THREADS_H
#define KERNELS_THREADS_H

#include "common/err.h"

#include <stdint.h>

struct team;

typedef void (*team_fn)(void *arg, uint32_t thread, uint32_t n_threads);

/* Cores of the affinity mask, at most the cgroup's CPU quota rounded down, at least 1. */
uint32_t team_usable_cores(void);
/* n_threads 0 = usable cores; never more than those. */
MUST_USE int team_open(struct team **out, uint32_t n_threads, struct err *e);
void team_close(struct team *t);
uint32_t team_size(const struct team *t);
/* Blocks until body returned. */
void team_run(struct team *t, void (*body)(void *arg), void *arg);
/* On the leader, inside a body. Returns when fn has returned on all threads. */
void team_each(struct team *t, team_fn fn, void *arg);

/* The share of thread `i` of `n` in 0..count: contiguous, sizes differ by at most one. */
struct team_range {
    uint32_t from, to;
};
struct team_range team_share(uint32_t count, uint32_t i, uint32_t n);

#endif
