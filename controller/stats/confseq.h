/* controller/stats/confseq.h - intervals that hold at every time at once.
 *
 * Used for display, for "is the champion below its target" and for the interval of a gain.
 * Pure: plain structs, no clock, no randomness. */
#ifndef CONTROLLER_STATS_CONFSEQ_H
#define CONTROLLER_STATS_CONFSEQ_H

#include <stddef.h>

#include <stdint.h>

struct interval {
    double centre;
    double lower;
    double upper;
};

/* Half width of the mean after t observations, normal mixture: sigma2 is the sub-Gaussian
 * variance factor (1/4 for data in [0,1]), rho > 0 sets where it is tightest.
 * Howard, Ramdas, McAuliffe, Sekhon, arXiv:1810.08240. */
double confseq_normal_mixture(double t, double sigma2, double rho, double alpha);

/* Half width of the mean after t >= 1 observations of [0,1] data, stitched (same paper). */
double confseq_stitched(double t, double alpha);

/* Empirical Bernstein with predictable weights for data in [0,1]; adapts to the variance.
 * Waudby-Smith and Ramdas, arXiv:2010.09686. */
struct confseq_eb {
    double alpha;
    uint64_t n;
    double sum_x;      /* plain sum, for the plain mean */
    double sum_dev;    /* sum of (x_j - m_j)^2 */
    double sum_lambda; /* weights */
    double sum_lx;     /* weighted data */
    double sum_vpsi;   /* sum of v psi(lambda) */
};

struct confseq_eb confseq_eb_start(double alpha);
void confseq_eb_update(struct confseq_eb *c, double x); /* x in [0,1], clamped; NaN is ignored */
double confseq_eb_mean(const struct confseq_eb *c);     /* plain mean; 1/2 when empty */
/* The weighted centre with its radius, not cut to [0,1]. [-inf, inf] when empty. */
struct interval confseq_eb_interval(const struct confseq_eb *c);

/* Betting interval of n values in [0,1]: every m of a 1000-point grid whose two-sided wealth
 * stayed below 1/alpha. The tightest here; O(1000 n), for reports. centre is the plain mean. */
struct interval confseq_betting(const double *x, size_t n, double alpha);

#endif
