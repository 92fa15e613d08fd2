/* controller/stats/srm.c - check of the split against what was promised at each admission.
 *
 * For one fixed pi this is Pearson's chi-square over the two arms. A fixed-sample test: the caller
 * looks at it at doubling sample sizes only, not after every row. Any thread. */
#include "controller/stats/srm.h"

#include <math.h>

void srm_add(struct srm *s, int is_challenger, double pi)
{
    if (!(pi > 0.0 && pi < 1.0))
        return;
    s->n++;
    s->observed += is_challenger ? 1.0 : 0.0;
    s->expected += pi;
    s->variance += pi * (1.0 - pi);
}

double srm_chi2(const struct srm *s)
{
    double gap = s->observed - s->expected;
    return s->variance > 0.0 ? gap * gap / s->variance : 0.0;
}

double chi2_tail1(double chi2)
{
    /* A chi-square of one degree is a squared normal. */
    return erfc(sqrt(chi2 / 2.0));
}

double chi2_tail(double chi2, uint32_t df)
{
    /* Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), from Q(1/2, x) or Q(1, x). */
    double x = chi2 / 2.0, a = df % 2 ? 0.5 : 1.0;
    double q = df % 2 ? chi2_tail1(chi2) : exp(-x);
    for (; 2.0 * a < (double)df && x > 0.0; a += 1.0)
        q += exp(a * log(x) - x - lgamma(a + 1.0));
    return fmin(1.0, q);
}

double srm_p(const struct srm *s)
{
    return chi2_tail1(srm_chi2(s));
}
