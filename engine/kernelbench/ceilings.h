/* engine/kernelbench/ceilings.h - what this machine can do at most: reading memory, multiplying
 * bytes, multiplying floats. Measured with threads pinned to the first CPUs of the affinity mask,
 * the best of several runs. Blocks for about half a second each; any thread, one at a time. */
#ifndef ENGINE_KERNELBENCH_CEILINGS_H
#define ENGINE_KERNELBENCH_CEILINGS_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

enum { CEILING_MAX_THREADS = 256 };

/* GB/s of n_threads reading `bytes` together, each its own part again and again; huge pages where
 * the kernel gives them. ERR_NOMEM. */
MUST_USE int ceiling_read(uint32_t n_threads, size_t bytes, double *gb_s, struct err *e);

/* 10^9 operations a second (a multiply-add is two) of the best instructions of this processor.
 * *name says which; rate 0 and name "none" when there is no byte dot product. */
MUST_USE int ceiling_int8(uint32_t n_threads, double *gop_s, const char **name, struct err *e);
MUST_USE int ceiling_fp32(uint32_t n_threads, double *gflop_s, const char **name, struct err *e);

#endif
