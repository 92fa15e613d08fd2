/* The three states of a circuit breaker (Nygard, Release It!, ch. 5). Pure. */
#include "verifier/remote/breaker.h"

enum breaker_state breaker_look(struct breaker *b, struct mono now)
{
    if (b->state == BREAKER_OPEN && now.us >= b->until.us)
        b->state = BREAKER_TRIAL;
    return b->state;
}

void breaker_success(struct breaker *b)
{
    b->failures = 0;
    b->state = BREAKER_CLOSED;
}

void breaker_trip(struct breaker *b, struct mono now)
{
    b->state = BREAKER_OPEN;
    b->until.us = now.us + b->open_us;
}

bool breaker_failure(struct breaker *b, struct mono now)
{
    b->failures++;
    /* Answers to what was asked before it opened change nothing. */
    if (b->state == BREAKER_OPEN || b->limit == 0)
        return false;
    if (b->state == BREAKER_CLOSED && b->failures < b->limit)
        return false;
    breaker_trip(b, now);
    return true;
}
