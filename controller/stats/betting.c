/* controller/stats/betting.c - wealth processes of paired and of weighted observations.
 *
 * Invariant: log_w is finite. lambda*lo <= 1/2, so 1 + lambda*S >= 1/2 whatever arrives. The bet is
 * computed before the observation enters n, s and q, which is what makes the process a test.
 * Any thread; the caller owns the struct. */
#include "controller/stats/betting.h"

#include <math.h>

struct betting betting_start(void)
{
    return (struct betting){.n = 1.0, .s = 0.0, .q = 0.25};
}

double betting_lambda(const struct betting *b, double lo)
{
    double mean = b->s / b->n;
    double variance = b->q / b->n;
    double kelly = mean / (variance + mean * mean);
    double most = BETTING_MAX_STAKE / lo;
    if (!(kelly > 0.0))
        return 0.0;
    return kelly < most ? kelly : most;
}

double betting_grow(double log_w, double lambda, double s)
{
    return log_w + log1p(lambda * s);
}

double betting_update(struct betting *b, double s, double lo)
{
    if (isnan(s) || !(lo > 0.0))
        return b->log_w;
    if (s < -lo)
        s = -lo;
    b->log_w = betting_grow(b->log_w, betting_lambda(b, lo), s);
    if (b->log_w > b->log_w_max)
        b->log_w_max = b->log_w;
    b->n += 1.0;
    b->s += s;
    double deviation = s - b->s / b->n;
    b->q += deviation * deviation;
    b->steps++;
    return b->log_w;
}

/* S = sign * D + shift * eps. A guardrail's D is a rate of bad events, so growth means D > eps. */
static const struct form {
    double sign;
    double shift;
} FORMS[BET_FORM_COUNT] = {
    [BET_ROLLBACK] = {-1.0, -1.0},
    [BET_NON_INFERIOR] = {1.0, 1.0},
    [BET_SUPERIOR] = {1.0, 0.0},
    [BET_GUARDRAIL] = {1.0, -1.0},
};

struct bet_stake bet_paired(enum bet_form form, double d, double eps)
{
    const struct form *f = &FORMS[form];
    return (struct bet_stake){.s = f->sign * d + f->shift * eps, .lo = 1.0 - f->shift * eps};
}

struct bet_stake bet_ratio(enum bet_ratio_form form, double a, double c, double ratio)
{
    if (form == BET_LARGER)
        return (struct bet_stake){.s = a - ratio * c, .lo = ratio};
    return (struct bet_stake){.s = c / ratio - a, .lo = 1.0};
}

struct bet_stake bet_weighted(enum bet_form form, double reward, int is_challenger, double pi,
                              double eps)
{
    const struct form *f = &FORMS[form];
    double z = is_challenger ? reward / pi : -reward / (1.0 - pi);
    /* Z lies in [-1/(1-pi), 1/pi]; the side the sign turns downwards bounds S. */
    double reach = f->sign < 0.0 ? 1.0 / pi : 1.0 / (1.0 - pi);
    return (struct bet_stake){.s = f->sign * z + f->shift * eps, .lo = reach - f->shift * eps};
}

double alpha_spend(double alpha, uint64_t i)
{
    double k = i ? (double)i : 1.0;
    return 6.0 * alpha / (M_PI * M_PI * k * k);
}

double log_threshold(double alpha)
{
    return -log(alpha);
}
