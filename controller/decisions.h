/* controller/decisions.h - actions of a law as decisions, with every number a person needs. Pure.
 */
#ifndef CONTROLLER_DECISIONS_H
#define CONTROLLER_DECISIONS_H

#include "controller/course.h"

struct decision_cause {
    uint64_t ord;
    int64_t at_us;
    struct str kind;          /* of the event; empty for a scored row */
    struct str actor, reason; /* of the event; empty for rows and ticks: the law itself */
    struct str why;           /* of a champion event */
    struct str ended;         /* of an upgrade: the experiment that it ended */
    uint64_t champion_before; /* of an upgrade: the challenger */
};

/* Fills out->decision from out->actions. Texts in the arena, or borrowed from cause and out. */
MUST_USE int decisions_of(const struct course *c, const struct decision_cause *cause,
                          struct arena *a, struct course_result *out, struct err *e);

#endif
