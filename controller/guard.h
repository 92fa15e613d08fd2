/* controller/guard.h - the last look at parameters before they may serve anyone. Pure.
 *
 * Closed list of knobs with bounds (schemas/params.h), the route's own bounds and largest steps
 * (routes[].bounds), and for the policy's own proposals the steps of its settings. Whether a
 * content is quarantined is asked of the store. */
#ifndef CONTROLLER_GUARD_H
#define CONTROLLER_GUARD_H

#include "controller/policy_settings.h"
#include "schemas/revision.h"

/* Any author. ERR_INVALID names parameter, value and range; ERR_CONFLICT when next has the same
 * content as base (the champion; NULL for a first revision). route NULL: no bounds of its own. What
 * next leaves as it is may be outside bounds that were set later. */
MUST_USE int guard_check(const struct route_config *route, const struct param_set *base,
                         const struct param_set *next, struct err *e);

/* A proposal of the law itself: one knob, within the route's bounds, at most one step away. */
MUST_USE int guard_check_proposal(const struct route_config *route, const struct policy_settings *s,
                                  const struct param_set *base, const struct param_set *next,
                                  struct err *e);

#endif
