/* controller/stats/srm.h - sample ratio mismatch: did each arm get the share it was promised?
 *
 * Every assignment carries its own probability, so a split that changes on the way stays exact:
 * chi2 = (observed - sum pi)^2 / sum pi (1 - pi), one degree of freedom. A small p says that rows
 * of one arm are lost or mis-assigned, and that no verdict of the experiment can be trusted. Pure.
 */
#ifndef CONTROLLER_STATS_SRM_H
#define CONTROLLER_STATS_SRM_H

#include <stdint.h>

#define SRM_ALERT_P 0.001

struct srm {
    uint64_t n;
    double observed; /* rows of the challenger */
    double expected; /* sum of pi */
    double variance; /* sum of pi (1 - pi) */
};

void srm_add(struct srm *s, int is_challenger, double pi);
double srm_chi2(const struct srm *s); /* 0 while the variance is 0 */
double srm_p(const struct srm *s);
/* Upper tail of chi-square with one degree of freedom, with df >= 1 degrees. */
double chi2_tail1(double chi2);
double chi2_tail(double chi2, uint32_t df);

#endif
