/* engine/kernelbench/ceilings.h - what this machine can do at most: reading memory, multiplying
 * bytes, multiplying floats. Measured with threads pinned to the first CPUs of the affinity mask;
 * any thread, one at a time. */
#ifndef ENGINE_KERNELBENCH_CEILINGS_H
#define ENGINE_KERNELBENCH_CEILINGS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CEILING_MAX_THREADS = 256 };

struct ceiling;

/* n_threads reading `bytes` together, each its own part again and again; huge pages where the
 * kernel gives them. In GB/s. ERR_NOMEM, ERR_INVALID. */
MUST_USE int ceiling_open_read(struct ceiling **out, uint32_t n_threads, size_t bytes,
                               struct err *e);
/* The best byte dot product, or the best float instruction, of this processor, in 10^9 operations a
 * second (a multiply-add is two). ERR_NOMEM, ERR_INVALID. */
MUST_USE int ceiling_open_int8(struct ceiling **out, uint32_t n_threads, struct err *e);
MUST_USE int ceiling_open_fp32(struct ceiling **out, uint32_t n_threads, struct err *e);
void ceiling_close(struct ceiling *c);

/* Which instruction; "none" where there is no byte dot product, and rates are 0. */
const char *ceiling_name(const struct ceiling *c);
/* Whether a run leaves nothing of others' in the caches. */
bool ceiling_fills_caches(const struct ceiling *c);
/* The best rate of n runs of some milliseconds each: a limit is what can be reached, not what
 * others left of it. */
enum { CEILING_RUNS = 7 };
double ceiling_best(struct ceiling *c, uint32_t n);

#endif
