/* tests/sim/stats_peers.c - what others use, as the law measured it: known answers of 2.10 and the
 * rows of 2.5 and 2.6 that are not ours.
 *
 * None of this serves. It stands here so that the law's reasons for choosing otherwise can be seen
 * again: fast where their assumptions hold, with no bound where they do not. */
#include "common/rng.h"
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARMS = 3, LIMIT = 20000, LAW_RUNS = 300 };
#define DELTA 0.05

/* GrowthBook's asymptotic confidence sequence (arXiv:2103.06476) after n rows, tightest at n_star.
 */
static double growthbook_rho(double n_star, double alpha)
{
    double a = -2.0 * log(alpha);
    return sqrt((a + log(a + 1.0)) / n_star);
}

static double growthbook_half_width(double n, double n_star, double se, double alpha)
{
    double r2 = pow(growthbook_rho(n_star, alpha), 2);
    return se * sqrt(n) *
           sqrt(2.0 * (n * r2 + 1.0) / (n * n * r2) * log(sqrt(n * r2 + 1.0) / alpha));
}

/* Mixture SPRT of two arms with n rows each (Johari et al., arXiv:1512.04922). */
static double msprt(double n, double d, double s2, double tau2)
{
    double v = 2.0 * s2 + n * tau2;
    return sqrt(2.0 * s2 / v) * exp(n * n * tau2 * d * d / (4.0 * s2 * v));
}

/* Generalised likelihood ratio of track-and-stop (Garivier and Kaufmann 2016), plug-in variances,
 * and the light threshold. */
static double glr(double gap, double v_a, double n_a, double v_b, double n_b)
{
    return gap * gap / (2.0 * (v_a / n_a + v_b / n_b));
}

static double glr_threshold(double n, double delta)
{
    return log((1.0 + log(n)) / delta);
}

/* Siegmund's average run length of a one-sided Gaussian CUSUM. */
static double siegmund(double shift, double k, double h)
{
    double delta = shift - k, b = h + 1.166;
    return (exp(-2.0 * delta * b) + 2.0 * delta * b - 1.0) / (2.0 * delta * delta);
}

static void near(struct report *r, const char *what, double ours, double law, double half_digit)
{
    char text[96];
    snprintf(text, sizeof text, "%s: distance from %.10g", what, law);
    report_at_most(r, text, fabs(ours - law), half_digit);
}

static void known_answers(struct report *r)
{
    near(r, "GrowthBook rho", growthbook_rho(5000, 0.05), 0.039840, 5e-7);
    double width = growthbook_half_width(5000, 5000, 0.01, 0.05);
    near(r, "GrowthBook half width", width, 0.030352, 5e-7);
    near(r, "GrowthBook, times the fixed interval", width / (1.959964 * 0.01), 1.549, 5e-4);
    near(r, "mSPRT", msprt(500, 0.05, 0.16, 0.0025), 2.137808, 5e-7);
    near(r, "GLR", glr(0.1, 0.16, 200, 0.21, 200), 2.7027, 5e-5);
    near(r, "GLR threshold", glr_threshold(400, DELTA), 4.9404, 5e-5);
    near(r, "Siegmund h=4, in control", siegmund(0, 0.5, 4), 338.1, 0.05);
    near(r, "Siegmund h=4, one sigma", siegmund(1, 0.5, 4), 8.34, 5e-3);
    near(r, "Siegmund h=5, in control", siegmund(0, 0.5, 5), 938.2, 0.05);
    near(r, "Siegmund h=5, one sigma", siegmund(1, 0.5, 5), 10.34, 5e-3);
}

/* Rows after `change` until the CUSUM of 0/1 rewards passes h; change 0: from the first row on. */
static double cusum_run(struct rng *r, int change, double mean_after)
{
    double c = 0.0;
    for (int n = 1;; n++) {
        double x = rng_uniform(r) < (n > change ? mean_after : 0.80);
        c = fmax(0.0, c + 0.75 - x);
        if (c > 8.0)
            return n > change ? (double)(n - change) : (double)NAN;
    }
}

static void cusum_rows(struct report *report)
{
    enum { RUNS = 1000 };
    static double length[RUNS];
    struct rng r;
    rng_seed(&r, 31);
    for (int i = 0; i < RUNS; i++)
        length[i] = cusum_run(&r, 0, 0.80);
    report_mean(report, "CUSUM k=0.75 h=8: mean run at 0.80", length, 4386, RUNS);
    for (int i = 0; i < RUNS;) {
        length[i] = cusum_run(&r, 500, 0.70);
        i += !isnan(length[i]); /* a false alarm before the change is no delay */
    }
    report_mean(report, "CUSUM k=0.75 h=8: delay to 0.70", length, 128, RUNS);
}

/* K arms, one row of each at a time: rows until the GLR of the leader against every other passes
 * the light threshold, or INFINITY after LIMIT rounds; *winner: the leader then. */
static double race(struct rng *r, const double *mean, int n_arm, int *winner)
{
    double sum[ARMS] = {0};
    for (int n = 1; n <= LIMIT; n++) {
        int best = 0;
        double least = INFINITY;
        for (int k = 0; k < n_arm; k++) {
            sum[k] += rng_uniform(r) < mean[k];
            best = sum[k] > sum[best] ? k : best;
        }
        for (int k = 0; k < n_arm; k++) {
            double p = sum[best] / n, q = sum[k] / n;
            double v = p * (1.0 - p) + q * (1.0 - q);
            if (k != best)
                least = fmin(least, p > q && v > 0.0 ? glr(p - q, v, n, 0.0, n) : 0.0);
        }
        *winner = best;
        if (least > glr_threshold((double)n * n_arm, DELTA))
            return (double)n * n_arm;
    }
    return INFINITY;
}

static void two_arms(struct report *report)
{
    enum { RUNS = 1000 };
    static const double EQUAL[] = {0.80, 0.80}, NEAR[] = {0.80, 0.78};
    static double rows[RUNS];
    struct rng r;
    rng_seed(&r, 32);
    int winner, n_declared = 0, n_wrong = 0;
    for (int i = 0; i < RUNS; i++)
        n_declared += isfinite(race(&r, EQUAL, 2, &winner));
    report_share(report, "GLR, equal arms: declares a winner", (double)n_declared / RUNS, 0.070,
                 RUNS);
    for (int i = 0; i < RUNS; i++) {
        rows[i] = fmin(race(&r, NEAR, 2, &winner), 2.0 * LIMIT);
        n_wrong += winner == 1 && rows[i] < 2.0 * LIMIT;
    }
    report_share(report, "GLR, 0.80 against 0.78: wrong winner", (double)n_wrong / RUNS, 0.011,
                 RUNS);
    report_mean(report, "GLR, 0.80 against 0.78: mean rows", rows, 14333, RUNS);
}

static void three_arms(struct report *report)
{
    static const double APART[] = {0.80, 0.70, 0.60}, CLOSE[] = {0.80, 0.76, 0.70};
    static double rows[LAW_RUNS];
    struct rng r;
    rng_seed(&r, 33);
    int winner;
    for (int i = 0; i < LAW_RUNS; i++)
        rows[i] = race(&r, APART, 3, &winner);
    report_median(report, "GLR, 0.80 0.70 0.60: median rows", rows, 831, LAW_RUNS);
    for (int i = 0; i < LAW_RUNS; i++)
        rows[i] = race(&r, CLOSE, 3, &winner);
    report_median(report, "GLR, 0.80 0.76 0.70: median rows", rows, 5415, LAW_RUNS);
}

int main(void)
{
    struct report report = {0};
    known_answers(&report);
    cusum_rows(&report);
    two_arms(&report);
    three_arms(&report);
    return report_end(&report);
}
