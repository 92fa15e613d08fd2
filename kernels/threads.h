/* kernels/threads.h - a team of compute threads, each pinned to a core of its own where the team
 * has a thread for every core of the affinity mask; a smaller team leaves its place to the kernel.
 *
 * team_run hands a body to the team's first thread (the leader) and sleeps until it is done; inside
 * the body team_each cuts work into shares. A thread has neighbouring shares of its own
 * (team_share of them by thread), taken in order; those it has not begun are done by whoever is
 * through with his. So a thread that another process keeps off its core is not waited for: where
 * cores are shared, a fixed split would wait a scheduler's slice at every join. A thread that waits
 * spins for some microseconds, then sleeps on a futex: an idle team uses no CPU. One caller at a
 * time. */
#ifndef KERNELS_THREADS_H
#define KERNELS_THREADS_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct team;

enum { TEAM_MAX_SHARES = 65535 };

/* One share of the work; thread < team_size, for scratch. What it computes must not depend on the
 * thread. */
typedef void (*team_fn)(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread);

/* Cores of the affinity mask, at most the cgroup's CPU quota rounded down, at least 1. */
uint32_t team_usable_cores(void);
/* n_threads 0 = usable cores; never more than those. */
MUST_USE int team_open(struct team **out, uint32_t n_threads, struct err *e);
void team_close(struct team *t);
uint32_t team_size(const struct team *t);
/* Blocks until body returned. */
void team_run(struct team *t, void (*body)(void *arg), void *arg);
/* On the leader, inside a body: fn for each of n_shares, at most TEAM_MAX_SHARES. Returns when all
 * are done. */
void team_each(struct team *t, uint32_t n_shares, team_fn fn, void *arg);
/* The same without waiting: the job begins when those before it are over, in this call or in the
 * next one of these, of team_join or at the end of the body; so threads go from one job to the
 * next without the leader's word. */
enum { TEAM_ARG_BYTES = 256 };
struct team_job {
    uint32_t n_shares;
    team_fn fn;
    const void *arg; /* n_bytes of it are kept, at most TEAM_ARG_BYTES */
    size_t n_bytes;
    const void *first; /* first_bytes that every thread reads first: fetched while it waits */
    size_t first_bytes;
};
void team_post(struct team *t, const struct team_job *job);
/* On the leader: all jobs are over. */
void team_join(struct team *t);
/* Inside a share, the i-th time that it finds what another share makes not there yet: a moment.
 * Only after 200 us the core is given away, since whoever else wants it keeps it for milliseconds.
 */
void team_relax(uint32_t i);
/* team_each, an item at a time, of any number. */
void team_each_item(struct team *t, uint32_t n,
                    void (*fn)(void *arg, uint32_t item, uint32_t thread), void *arg);
/* A good number of shares for `count` equal items: some for each thread, at most count. */
uint32_t team_shares(const struct team *t, uint32_t count);

/* Share `i` of `n` of 0..count: contiguous, sizes differ by at most one. */
struct team_range {
    uint32_t from, to;
};
struct team_range team_share(uint32_t count, uint32_t i, uint32_t n);

#endif
