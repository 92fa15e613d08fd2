/* common/progress.h - how far a long command is, for people. One thread. */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include "common/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* A bar on a terminal that redraws in place; elsewhere a plain line every ten seconds. On stderr.
 */
struct progress {
    const char *label; /* borrowed */
    uint64_t total;
    struct mono last; /* line printed */
    bool is_terminal, is_begun;
};
void progress_start(struct progress *p, const char *label, uint64_t total);
void progress_show(struct progress *p, uint64_t done, const char *note);
void progress_end(struct progress *p); /* takes the bar away; the next show brings it back */

#endif
