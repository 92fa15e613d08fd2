/* controller/stats/edetector.c - e-SR and e-CUSUM over a grid of bets.
 *
 * Invariant: every M is finite and >= 0: L lies in (0, 2] for the grid below, and values are
 * capped far above any threshold so that a missing reset cannot overflow. Any thread. */
#include "controller/stats/edetector.h"

#include <math.h>

#define VALUE_CAP 1e300

/* Fractions of the largest admissible lambda, 1/(1-m0): from "falls to zero" to "a small dip". */
static const double FRACTION[EDETECTOR_GRID] = {0.5, 0.25, 0.12, 0.06, 0.03};

struct edetector edetector_start(enum edetector_kind kind, double m0)
{
    return (struct edetector){.m0 = m0, .kind = (uint32_t)kind};
}

double edetector_grow(enum edetector_kind kind, double m, double l)
{
    double grown = kind == EDETECTOR_SR ? (m + 1.0) * l : (m > 1.0 ? m : 1.0) * l;
    return grown < VALUE_CAP ? grown : VALUE_CAP;
}

double edetector_value(const struct edetector *d)
{
    double sum = 0.0;
    for (int j = 0; j < EDETECTOR_GRID; j++)
        sum += d->m[j];
    return sum / EDETECTOR_GRID;
}

double edetector_update(struct edetector *d, double x)
{
    if (isnan(x))
        return edetector_value(d);
    double sum = 0.0;
    for (int j = 0; j < EDETECTOR_GRID; j++) {
        double l = 1.0 + FRACTION[j] / (1.0 - d->m0) * (d->m0 - x);
        d->m[j] = edetector_grow((enum edetector_kind)d->kind, d->m[j], l);
        sum += d->m[j];
    }
    d->steps++;
    double value = sum / EDETECTOR_GRID;
    if (value <= 1.0)
        d->quiet_steps = d->steps;
    return value;
}

void edetector_reset(struct edetector *d)
{
    *d = edetector_start((enum edetector_kind)d->kind, d->m0);
}
