/* controller/policies/hold.c - the law that never acts by itself.
 *
 * An operator's revision gets its share of the traffic and stays there until the operator promotes,
 * rolls back or stops it. The smallest policy: read this one first. Pure. */
#include "controller/policies/arms.h"
#include "controller/policies/policies.h"

struct hold {
    struct arms arms;
};

static const struct state_field FIELDS[] = {
    STATE_SUB(struct hold, arms, ARMS_FIELDS),
    STATE_END,
};

static void step(const struct policy_settings *s, void *state, const struct policy_event *ev,
                 struct policy_actions *out)
{
    struct hold *h = state;
    arms_clock(&h->arms, ev->now_us);
    if (ev->kind == EVENT_START)
        arms_begin(&h->arms, &ev->start, ev->start.is_now ? s->now_share : s->ramp[0], out);
    else
        arms_operator(&h->arms, ev, out);
}

static const char *refuses(const void *state, const struct policy_event *ev)
{
    const struct hold *h = state;
    return arms_refuses(&h->arms, ev);
}

static uint64_t wake_us(const struct policy_settings *s, const void *state)
{
    (void)s;
    (void)state;
    return 0;
}

static void view(const struct policy_settings *s, const void *state, struct policy_view *out)
{
    const struct hold *h = state;
    (void)s;
    arms_view(&h->arms, out);
}

const struct policy_ops POLICY_HOLD_OPS = {.name = "hold",
                                           .state_bytes = sizeof(struct hold),
                                           .arms_at = offsetof(struct hold, arms),
                                           .fields = FIELDS,
                                           .step = step,
                                           .refuses = refuses,
                                           .wake_us = wake_us,
                                           .view = view};
