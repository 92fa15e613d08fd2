/* tests/sim/report.h - our number beside the law's, and whether both can be the same number.
 *
 * Tolerances are sampling errors of both sides at REPORT_SIGMAS standard errors. The law's own
 * repetitions are taken as LAW_REPETITIONS where it does not state them. */
#ifndef TESTS_SIM_REPORT_H
#define TESTS_SIM_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#define REPORT_SIGMAS   4.0
#define LAW_REPETITIONS 1000.0

struct report {
    int n_checks, n_failed;
};

/* Shares of n repetitions: binomial error of ours and of the law's. */
void report_share(struct report *r, const char *what, double ours, double law, size_t n);
/* Median of sorted values (INFINITY = never): the law's number must lie between the order
 * statistics n/2 -+ sigmas * sqrt(n)/2 * sqrt(1 + n/LAW_REPETITIONS): free of any distribution. */
void report_median(struct report *r, const char *what, double *values, double law, size_t n);
/* Mean with the standard error measured from the values. */
void report_mean(struct report *r, const char *what, const double *values, double law, size_t n);
/* A bound that must hold. */
void report_at_most(struct report *r, const char *what, double ours, double bound);
void report_at_least(struct report *r, const char *what, double ours, double bound);
/* Prints the total; the exit status. */
int report_end(const struct report *r);

double sorted_quantile(double *values, size_t n, double q); /* sorts in place */

#endif
