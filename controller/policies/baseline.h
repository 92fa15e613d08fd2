/* controller/policies/baseline.h - what the champion's outputs are like: length, time, and how its
 * reward goes with length.
 *
 * Scales for the ratio guardrails, and the curve f of the length residual r - f(length) of
 * CONTROL.md 2.9: a reward model's bias towards a length is not linear, so f is a mean per doubling
 * of the length, drawn towards the overall mean where rows are few. Learned from the champion alone
 * and frozen before a trial uses it. Pure. */
#ifndef CONTROLLER_POLICIES_BASELINE_H
#define CONTROLLER_POLICIES_BASELINE_H

#include "controller/policies/state_codec.h"
#include "controller/stats/admission.h"

enum { BASELINE_BINS = 12, BASELINE_SCALE_ROWS = 20, BASELINE_CURVE_ROWS = 200 };

struct baseline {
    uint64_t n_tokens, n_latency;      /* rows in the sums */
    double sum_tokens, sum_latency_us; /* of outputs that ended by themselves or by length */
    double n[BASELINE_BINS];           /* scored rows per bin of length */
    double sum[BASELINE_BINS];         /* of their rewards */
};

extern const struct state_field BASELINE_FIELDS[];

/* A row of the champion. Parts that are known well enough are frozen when `is_freezing`. */
void baseline_add(struct baseline *b, const struct unit_row *row, bool is_freezing);
/* Length and time as shares of `reach` times the champion's mean, cut at 1; NaN while unknown. */
double baseline_tokens(const struct baseline *b, const struct unit_row *row, double reach);
double baseline_latency(const struct baseline *b, const struct unit_row *row, double reach);
/* (r - f(length) + 1) / 2, in [0,1]; NaN while f is unknown. */
double baseline_residual(const struct baseline *b, const struct unit_row *row);

#endif
