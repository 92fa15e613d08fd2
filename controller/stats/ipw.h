/* controller/stats/ipw.h - mean reward of an arm whose share changes with what was seen.
 *
 * xi = r 1[arm]/pi has the arm's mean reward as its expectation when pi, the arm's share at that
 * admission, is known; it is at least 0 but has no small upper bound. A predictable centre that is
 * cut at 1 makes xi - centre >= -1, and then empirical Bernstein gives a lower confidence sequence
 * that pays nothing for the heavy upper tail; the upper one is the lower one of 1 - r.
 * Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro, arXiv:2210.10768; the inequality is of Fan,
 * Grama, Liu, arXiv:1305.0463. Pure. O(1). */
#ifndef CONTROLLER_STATS_IPW_H
#define CONTROLLER_STATS_IPW_H

#include "controller/stats/confseq.h"

struct ipw_side { /* a lower bound of the mean of xi */
    double sum_x, sum_dev;
    double sum_lambda, sum_lx, sum_vpsi;
};

struct ipw {
    uint64_t n;
    struct ipw_side low, high; /* of r, of 1 - r */
};

/* One request of the whole split: reward in [0,1]; is_mine: it went to this arm; share in (0,1] is
 * this arm's at the admission. */
void ipw_update(struct ipw *w, double reward, int is_mine, double share);
double ipw_mean(const struct ipw *w); /* plain mean of xi, cut to [0,1]; 1/2 when empty */
/* Holds at every time at once with probability 1 - alpha; cut to [0,1]. */
struct interval ipw_interval(const struct ipw *w, double alpha);

#endif
