/* engine/kernelbench/timing.h - how long a step takes, beside what the machine could do meanwhile.
 */
#ifndef ENGINE_KERNELBENCH_TIMING_H
#define ENGINE_KERNELBENCH_TIMING_H

#include "engine/kernelbench/ceilings.h"

struct timing {
    double us;     /* median over the rounds of their medians */
    double spread; /* between the quartiles of the rounds, / us */
    /* Median over the rounds of what the ceiling does in the time of a step: bytes or operations.
     * 0 without a ceiling. */
    double could;
};

/* Runs step in rounds of some milliseconds, in is_quick fewer and shorter ones. `beside` (may be
 * NULL) is measured before and after each round: clocks, neighbours and the bandwidth a host leaves
 * change within seconds, so only what is measured side by side compares. Blocks for about half a
 * second, beside a probe that reads for a second or more; any thread. */
MUST_USE int timing_run(int (*step)(void *ctx, struct err *e), void *ctx, struct ceiling *beside,
                        int is_quick, struct timing *out, struct err *e);

#endif
