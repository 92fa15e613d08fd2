/* controller/stats/ipw.c - inverse propensity weights, one sum per tail.
 *
 * E[exp(l (xi - c) - (xi - c)^2 psi(l))] <= exp(l (mu - c)) for xi - c >= -1 and 0 <= l < 1, with
 * psi(l) = -ln(1 - l) - l: the product over requests is a supermartingale. Any thread. */
#include "controller/stats/ipw.h"

#include <math.h>

/* The level the stakes are tuned for; the interval holds at any level. */
#define TUNED_ALPHA 0.05
#define MAX_LAMBDA  0.75

static void side_update(struct ipw_side *s, uint64_t n, double xi)
{
    double i = (double)n + 1.0;
    double centre = fmin(1.0, (0.5 + s->sum_x) / i);
    double spread = (0.25 + s->sum_dev) / i;
    double lambda =
        fmin(MAX_LAMBDA, sqrt(2.0 * log(2.0 / TUNED_ALPHA) / (i * log(1.0 + i) * spread)));
    double gap = xi - centre;
    s->sum_lambda += lambda;
    s->sum_lx += lambda * xi;
    s->sum_vpsi += gap * gap * (-log1p(-lambda) - lambda);
    s->sum_x += xi;
    s->sum_dev += gap * gap;
}

void ipw_update(struct ipw *w, double reward, int is_mine, double share)
{
    if (!(reward >= 0.0 && reward <= 1.0 && share > 0.0 && share <= 1.0))
        return;
    double weight = is_mine ? 1.0 / share : 0.0;
    side_update(&w->low, w->n, reward * weight);
    side_update(&w->high, w->n, (1.0 - reward) * weight);
    w->n++;
}

double ipw_mean(const struct ipw *w)
{
    if (w->n == 0)
        return 0.5;
    /* The two estimates differ by the noise of the assignment, which their mean takes out. */
    double n = (double)w->n;
    double mean = 0.5 * (w->low.sum_x / n + 1.0 - w->high.sum_x / n);
    return fmin(1.0, fmax(0.0, mean));
}

static double side_bound(const struct ipw_side *s, double alpha)
{
    if (s->sum_lambda <= 0.0)
        return 0.0;
    return fmax(0.0, (s->sum_lx - log(1.0 / alpha) - s->sum_vpsi) / s->sum_lambda);
}

struct interval ipw_interval(const struct ipw *w, double alpha)
{
    double lower = side_bound(&w->low, alpha / 2.0);
    double upper = 1.0 - side_bound(&w->high, alpha / 2.0);
    return (struct interval){.centre = ipw_mean(w), .lower = lower, .upper = fmax(lower, upper)};
}
