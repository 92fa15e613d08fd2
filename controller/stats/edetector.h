/* controller/stats/edetector.h - change detection on one stream: "the mean fell below m0".
 *
 * For each lambda of a fixed grid L_t = 1 + lambda (m0 - x_t), which has mean <= 1 while the mean
 * of x is >= m0. e-SR: M = (M+1) L; e-CUSUM: M = max(M,1) L; the detector is the equal-weight mean
 * over the grid. Alarming at M >= T gives a mean time to false alarm >= T without assuming
 * independence. Shin, Ramdas, Rinaldo, arXiv:2203.03532.
 *
 * Pure: plain struct, no allocation, no clock. O(grid). */
#ifndef CONTROLLER_STATS_EDETECTOR_H
#define CONTROLLER_STATS_EDETECTOR_H

#include <stdbool.h>
#include <stdint.h>

#define EDETECTOR_GRID 5

enum edetector_kind { EDETECTOR_SR, EDETECTOR_CUSUM };

struct edetector {
    double m0;                /* mean that must hold, 0 < m0 < 1; frozen at start */
    double m[EDETECTOR_GRID]; /* one detector per lambda */
    uint64_t steps;           /* since the last reset */
    uint64_t quiet_steps;     /* value of steps when M was last <= 1 : likely start of a change */
    uint32_t kind;            /* enum edetector_kind */
};

struct edetector edetector_start(enum edetector_kind kind, double m0);

/* Feeds x in [0,1]; returns the mixture M. The caller compares with its threshold and resets. */
double edetector_update(struct edetector *d, double x);

/* Current mixture value. */
double edetector_value(const struct edetector *d);

/* Back to zero evidence, same m0. */
void edetector_reset(struct edetector *d);

/* One step of one detector with a given factor L; for tests and mixtures. */
double edetector_grow(enum edetector_kind kind, double m, double l);

#endif
