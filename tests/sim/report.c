/* tests/sim/report.c - comparison of simulated numbers with written ones. Single thread. */
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void line(struct report *r, const char *what, double ours, const char *relation, double law,
                 const char *tolerance, bool is_good)
{
    r->n_checks++;
    r->n_failed += !is_good;
    printf("%-4s %-58s ours %10.4f  %s %10.4f  %s\n", is_good ? "ok" : "FAIL", what, ours, relation,
           law, tolerance);
}

void report_share(struct report *r, const char *what, double ours, double law, size_t n)
{
    char text[64];
    double p = (ours * (double)n + law * LAW_REPETITIONS) / ((double)n + LAW_REPETITIONS);
    double error = sqrt(p * (1.0 - p) * (1.0 / (double)n + 1.0 / LAW_REPETITIONS));
    double tolerance = REPORT_SIGMAS * error + 0.001; /* the law's numbers have three digits */
    snprintf(text, sizeof text, "+- %.4f (%zu repetitions)", tolerance, n);
    line(r, what, ours, "law", law, text, fabs(ours - law) <= tolerance);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double sorted_quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof *values, by_value);
    size_t i = (size_t)(q * (double)n);
    return values[i < n ? i : n - 1];
}

void report_median(struct report *r, const char *what, double *values, double law, size_t n)
{
    char text[96];
    double median = sorted_quantile(values, n, 0.5);
    double count = (double)n;
    double reach = REPORT_SIGMAS * 0.5 * sqrt(count) * sqrt(1.0 + count / LAW_REPETITIONS) / count;
    double low = sorted_quantile(values, n, fmax(0.0, 0.5 - reach));
    double high = sorted_quantile(values, n, fmin(1.0, 0.5 + reach));
    snprintf(text, sizeof text, "in [%.0f, %.0f] (%zu repetitions)", low, high, n);
    line(r, what, median, "law", law, text, law >= low && law <= high);
}

void report_mean(struct report *r, const char *what, const double *values, double law, size_t n)
{
    char text[64];
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    double variance = squares / (double)n;
    double error = sqrt(variance * (1.0 / (double)n + 1.0 / LAW_REPETITIONS));
    snprintf(text, sizeof text, "+- %.1f (%zu repetitions)", REPORT_SIGMAS * error, n);
    line(r, what, mean, "law", law, text, fabs(mean - law) <= REPORT_SIGMAS * error);
}

void report_at_most(struct report *r, const char *what, double ours, double bound)
{
    line(r, what, ours, "<= ", bound, "", ours <= bound);
}

void report_at_least(struct report *r, const char *what, double ours, double bound)
{
    line(r, what, ours, ">= ", bound, "", ours >= bound);
}

int report_end(const struct report *r)
{
    printf("%d checks, %d failed\n", r->n_checks, r->n_failed);
    return r->n_failed ? 1 : 0;
}
