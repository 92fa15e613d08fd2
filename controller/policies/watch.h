/* controller/policies/watch.h - the champion alone: did its reward drift, is it below its target.
 *
 * Per stratum: the first calibration_units rewards freeze m0 (lower confidence bound minus
 * epsilon), then an e-SR detector runs; the threshold is multiplied by the number of strata, so
 * that all together alarm falsely once in drift_threshold rows on average. An alarm stays on until
 * the champion changes or an operator resumes the route. Pure. */
#ifndef CONTROLLER_POLICIES_WATCH_H
#define CONTROLLER_POLICIES_WATCH_H

#include "controller/policies/trial.h"
#include "controller/stats/edetector.h"

struct watch_stratum {
    struct confseq_eb calibration;
    struct edetector detector;
    uint32_t is_frozen;  /* detector runs */
    uint32_t is_carried; /* with the level of the champion before, until this one has its own */
    uint32_t is_alarmed;
};

struct watch {
    struct watch_stratum stratum[BLOCKS_STRATA];
    struct standing champion;
    struct baseline baseline;
    uint64_t settled_units; /* scored rows admitted after the last change took effect */
    uint64_t first_row, last_row;
    uint32_t is_alarmed;
    uint32_t said_exhausted;
};

struct drift_alarm {
    double log_e, log_threshold, m0;
    uint64_t units_since_start; /* rows since the likely start of the change */
    bool
        is_after_change; /* the last change of parameters is younger than the level it fell below */
};

extern const struct state_field WATCH_FIELDS[];

/* From nothing: another quantity is watched from here on. */
void watch_restart(struct watch *w);
/* Another champion: its standing goes on from its canary (NULL: none), and until it has shown a
 * level of its own it must hold the one before, so that a fall right after a change is seen as one.
 */
void watch_change(struct watch *w, const struct standing *standing);

/* A scored row of the champion's revision, in admission order. True when its stratum alarms now. */
bool watch_add(struct watch *w, const struct policy_settings *s, const struct unit_row *row,
               uint32_t n_strata, struct drift_alarm *alarm);

/* The one-sided 95% confidence sequence of the champion's mean lies below the target. */
bool watch_is_below_target(const struct watch *w, const struct policy_settings *s);

double watch_threshold(const struct policy_settings *s, uint32_t n_strata);

void watch_fill(const struct watch *w, struct policy_action *act);

#endif
