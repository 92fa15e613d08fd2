/* verifier/remote/breaker.h - when to stop asking a service that fails. Pure.
 *
 * Closed: ask. After `failures` in a row it opens: do not ask for open_us. Then one trial at a
 * time: success closes, failure opens again. A lane with a self-test begins untested: as half open,
 * with the self-test as the trial. */
#ifndef VERIFIER_REMOTE_BREAKER_H
#define VERIFIER_REMOTE_BREAKER_H

#include "common/clock.h"

#include <stdbool.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_TRIAL };

struct breaker {
    uint32_t limit; /* failures in a row that open it; 0 = never */
    uint64_t open_us;
    enum breaker_state state;
    uint32_t failures; /* in a row */
    struct mono until; /* while open */
};

/* Moves from open to trial when it is time, and gives the state. */
enum breaker_state breaker_look(struct breaker *b, struct mono now);
void breaker_success(struct breaker *b);
/* True when this failure opened it. */
bool breaker_failure(struct breaker *b, struct mono now);
void breaker_trip(struct breaker *b, struct mono now); /* opens it whatever the count */

#endif
