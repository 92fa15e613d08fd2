/* controller/policies/watch.c - drift and target of the champion.
 *
 * Invariant: m0 of a stratum is frozen before the detector sees its first row. Pure. */
#include "controller/policies/watch.h"

#include <math.h>

#define BELOW_ALPHA 0.05
#define M0_LEAST    0.001 /* a champion at zero cannot fall: its detector is idle */

static const struct state_field STRATUM_FIELDS[] = {
    STATE_SUB(struct watch_stratum, calibration, CONFSEQ_FIELDS),
    STATE_SUB(struct watch_stratum, detector, EDETECTOR_FIELDS),
    STATE_NUMBER(struct watch_stratum, is_frozen, STATE_U32),
    STATE_NUMBER(struct watch_stratum, is_carried, STATE_U32),
    STATE_NUMBER(struct watch_stratum, is_alarmed, STATE_U32),
    STATE_END,
};

const struct state_field WATCH_FIELDS[] = {
    STATE_SUBS(struct watch, stratum, BLOCKS_STRATA, STRATUM_FIELDS),
    STATE_SUB(struct watch, champion, STANDING_FIELDS),
    STATE_SUB(struct watch, baseline, BASELINE_FIELDS),
    STATE_NUMBER(struct watch, settled_units, STATE_U64),
    STATE_NUMBER(struct watch, first_row, STATE_U64),
    STATE_NUMBER(struct watch, last_row, STATE_U64),
    STATE_NUMBER(struct watch, is_alarmed, STATE_U32),
    STATE_NUMBER(struct watch, said_exhausted, STATE_U32),
    STATE_END,
};

void watch_restart(struct watch *w)
{
    *w = (struct watch){.champion = standing_start()};
    for (int i = 0; i < BLOCKS_STRATA; i++)
        w->stratum[i].calibration = confseq_eb_start(BELOW_ALPHA);
}

void watch_change(struct watch *w, const struct standing *standing)
{
    struct watch before = *w;
    watch_restart(w);
    if (standing)
        w->champion = *standing;
    for (int i = 0; i < BLOCKS_STRATA; i++) {
        if (!before.stratum[i].is_frozen)
            continue;
        w->stratum[i].detector = before.stratum[i].detector;
        edetector_reset(&w->stratum[i].detector);
        w->stratum[i].is_frozen = 1;
        w->stratum[i].is_carried = 1;
    }
}

static void calibrate(struct watch_stratum *ws, const struct policy_settings *s, double reward)
{
    confseq_eb_update(&ws->calibration, reward);
    if (ws->calibration.n < s->calibration_units)
        return;
    double m0 = confseq_eb_interval(&ws->calibration).lower - s->epsilon;
    ws->detector = edetector_start(EDETECTOR_SR, fmin(1.0 - M0_LEAST, fmax(M0_LEAST, m0)));
    ws->is_frozen = 1;
    ws->is_carried = 0;
}

double watch_threshold(const struct policy_settings *s, uint32_t n_strata)
{
    return s->drift_threshold * (n_strata ? n_strata : 1);
}

bool watch_add(struct watch *w, const struct policy_settings *s, const struct unit_row *row,
               uint32_t n_strata, struct drift_alarm *alarm)
{
    struct watch_stratum *ws = &w->stratum[row->stratum];
    if (w->first_row == 0)
        w->first_row = row->row;
    w->last_row = row->row;
    standing_add(&w->champion, s->target, row->reward);
    baseline_add(&w->baseline, row, false);
    if (row->experiment == 0)
        w->settled_units++;
    if (s->drift_threshold <= 0.0 || ws->is_alarmed)
        return false;
    bool is_calibrating = !ws->is_frozen || ws->is_carried;
    if (is_calibrating)
        calibrate(ws, s, row->reward);
    if (!ws->is_frozen || (is_calibrating && !ws->is_carried))
        return false; /* no level yet, or this row made it */
    double value = edetector_update(&ws->detector, row->reward);
    double threshold = watch_threshold(s, n_strata);
    if (value < threshold)
        return false;
    *alarm =
        (struct drift_alarm){.log_e = log(value),
                             .log_threshold = log(threshold),
                             .m0 = ws->detector.m0,
                             .is_after_change = ws->is_carried,
                             .units_since_start = ws->detector.steps - ws->detector.quiet_steps};
    ws->is_alarmed = 1;
    w->is_alarmed = 1;
    return true;
}

bool watch_is_below_target(const struct watch *w, const struct policy_settings *s)
{
    return s->target > 0.0 && w->champion.below.log_w >= log_threshold(BELOW_ALPHA);
}

void watch_fill(const struct watch *w, struct policy_action *act)
{
    act->n_champion = w->champion.reward.n;
    if (act->n_champion)
        act->mean_champion = confseq_eb_mean(&w->champion.reward);
    act->first_row = w->first_row;
    act->last_row = w->last_row;
}
