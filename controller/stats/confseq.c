/* controller/stats/confseq.c - confidence sequences.
 *
 * Invariant: weights and bets of observation i use observations before i only, which is what makes
 * each interval valid at every time. Formula numbers are those of the papers named in the header.
 * Any thread. */
#include "controller/stats/confseq.h"

#include "controller/stats/betting.h"

#include <math.h>
#include <stdbool.h>

double confseq_normal_mixture(double t, double sigma2, double rho, double alpha)
{
    double v = sigma2 * t + rho;
    return sqrt(v * log(v / (rho * alpha * alpha))) / t;
}

double confseq_stitched(double t, double alpha)
{
    /* 1.7 sqrt((ln ln 2t + 0.72 ln(10.4/alpha)) / t) is for 1-sub-Gaussian data. */
    double width = log(log(2.0 * t)) + 0.72 * log(10.4 / alpha);
    return 0.5 * 1.7 * sqrt(width / t);
}

struct confseq_eb confseq_eb_start(double alpha)
{
    return (struct confseq_eb){.alpha = alpha};
}

void confseq_eb_update(struct confseq_eb *c, double x)
{
    if (isnan(x))
        return;
    x = fmin(1.0, fmax(0.0, x));
    double i = (double)c->n + 1.0;
    double mean_before = (0.5 + c->sum_x) / i;
    double variance_before = (0.25 + c->sum_dev) / i;
    double lambda = sqrt(2.0 * log(2.0 / c->alpha) / (i * log(1.0 + i) * variance_before));
    lambda = fmin(0.5, lambda);
    double psi = -log1p(-lambda) - lambda;
    double v = (x - mean_before) * (x - mean_before);
    c->sum_lambda += lambda;
    c->sum_lx += lambda * x;
    c->sum_vpsi += v * psi;
    c->n++;
    c->sum_x += x;
    double mean_after = (0.5 + c->sum_x) / (i + 1.0);
    c->sum_dev += (x - mean_after) * (x - mean_after);
}

double confseq_eb_mean(const struct confseq_eb *c)
{
    return c->n ? c->sum_x / (double)c->n : 0.5;
}

struct interval confseq_eb_interval(const struct confseq_eb *c)
{
    if (c->n == 0)
        return (struct interval){0.5, -INFINITY, INFINITY};
    double centre = c->sum_lx / c->sum_lambda;
    double radius = (log(2.0 / c->alpha) + c->sum_vpsi) / c->sum_lambda;
    return (struct interval){centre, centre - radius, centre + radius};
}

#define GRID 1000

/* Highest log wealth ever reached by betting that the mean is above (sign 1) or below (-1) m. */
static double peak_wealth(const double *x, size_t n, double m, double sign)
{
    struct betting b = betting_start();
    double lo = sign > 0.0 ? m : 1.0 - m;
    for (size_t i = 0; i < n; i++) {
        double s = sign * (x[i] - m);
        if (lo > 0.0)
            betting_update(&b, s, lo);
        else if (s > 0.0)
            return INFINITY; /* data off the edge: a mean of exactly 0 or 1 is impossible */
    }
    return b.log_w_max;
}

/* The wealth W+/2 against m reaches 1/alpha at some time. */
static bool is_excluded(const double *x, size_t n, double m, double sign, double alpha)
{
    return peak_wealth(x, n, m, sign) - log(2.0) >= log_threshold(alpha);
}

struct interval confseq_betting(const double *x, size_t n, double alpha)
{
    struct interval out = {0.5, 0.0, 1.0};
    if (n == 0)
        return out;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    out.centre = sum / (double)n;
    int low = 0;
    int high = GRID;
    while (low < GRID && is_excluded(x, n, (double)low / GRID, 1.0, alpha))
        low++;
    while (high > low && is_excluded(x, n, (double)high / GRID, -1.0, alpha))
        high--;
    /* The cut runs between two grid points: give the reader the wider side. */
    out.lower = low > 0 ? (double)(low - 1) / GRID : 0.0;
    out.upper = high < GRID ? (double)(high + 1) / GRID : 1.0;
    return out;
}
