/* controller/stats/units.h - turns of one conversation become one observation.
 *
 * Turns of a session share a user, a topic and an arm: they are not independent, and counted singly
 * they would make a test too sure (CONTROL.md 2.8). The unit of assignment is the unit of analysis:
 * rows of a session are averaged, and the average counts once, a fixed time after the session's
 * first row. When it closes depends on time and order alone, never on values, so the tests stay
 * fair. What the session says later is not counted again, as long as it is remembered.
 *
 * Pure and bounded: past UNITS_OPEN the oldest session closes early. O(open units) a row. */
#ifndef CONTROLLER_STATS_UNITS_H
#define CONTROLLER_STATS_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum { UNITS_OPEN = 64, UNITS_REMEMBERED = 512, UNIT_VALUES = 12 };

/* One observation: what a test may want of it. NaN = not known. */
struct unit {
    uint64_t session; /* 0 = a request that stands alone */
    uint64_t opened_us;
    uint32_t is_challenger, stratum;
    double propensity;         /* of its arm, at the first row */
    double value[UNIT_VALUES]; /* means */
    uint32_t n[UNIT_VALUES];   /* rows in each mean; 0 = NaN */
};

struct units {
    struct unit open[UNITS_OPEN]; /* oldest first */
    uint32_t n_open;
    uint64_t closed[UNITS_REMEMBERED]; /* a ring */
    uint32_t n_closed, at;
    uint64_t n_excluded; /* rows of sessions that were counted already */
};

/* Averages the row into its session's open unit. False: the session was counted already, or changed
 * its arm. *is_new: it is the first row of its session. Call units_take until it is empty-handed
 * before the next. */
bool units_add(struct units *u, const struct unit *row, bool *is_new);
/* The next unit that is complete at this time, in the order of first rows. */
bool units_take(struct units *u, uint64_t now_us, uint64_t window_us, struct unit *out);
/* When units_take may give one without a row coming in; 0 = never. */
uint64_t units_wake_us(const struct units *u, uint64_t window_us);

#endif
