/* engine/ranks.h - the processes that compute one model together (engine.tp_size above 1).
 *
 * The serving process is rank 0. It starts the others from its own executable and command line;
 * they only compute, ignore the signals of a terminal and of a service manager, and die with it.
 * One that ends early ends the group: the next step fails with ERR_DEVICE, and the engine with exit
 * code 3. */
#ifndef ENGINE_RANKS_H
#define ENGINE_RANKS_H

#include "common/err.h"
#include "kernels/comm/comm.h"

#include <sched.h>

struct ranks;

/* argv: this process's, repeated for the others with --rank and --group. Call before any thread
 * exists; blocks until all have joined, ten seconds at most. */
MUST_USE int ranks_start(struct ranks **out, uint32_t size, char *const *argv, struct err *e);
/* After the model was closed; NULL: nothing. Those that do not end by themselves are killed. */
void ranks_close(struct ranks *r);
struct comm *ranks_comm(const struct ranks *r); /* NULL for NULL */

/* Each rank has cores of its own: limits the calling thread, and threads it starts, to this rank's
 * share of its cores where there are enough of them. *old for ranks_restore_cores. NULL comm:
 * nothing. */
void ranks_take_cores(const struct comm *c, cpu_set_t *old);
void ranks_restore_cores(const struct comm *c, const cpu_set_t *old);

#endif
