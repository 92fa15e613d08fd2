/* controller/stats/betting.h - tests by betting: wealth that may be looked at any time.
 *
 * W starts at 1 and is multiplied by 1 + lambda*S for every block, where E[S | past] <= 0 under H0.
 * Ville's inequality: P(W ever reaches 1/alpha) <= alpha under H0, whenever one looks or stops.
 * The stake lambda is chosen from earlier blocks only (approximate Kelly, variance floor from one
 * pseudo observation). Waudby-Smith and Ramdas, arXiv:2010.09686.
 *
 * Pure: plain structs, no allocation, no clock. Same inputs give bit-identical state. O(1). */
#ifndef CONTROLLER_STATS_BETTING_H
#define CONTROLLER_STATS_BETTING_H

#include <stdint.h>

/* Largest share of the wealth risked in one block: lambda <= BETTING_MAX_STAKE / lo. */
#define BETTING_MAX_STAKE 0.5

struct betting {
    double log_w;     /* ln of the wealth */
    double log_w_max; /* its highest value so far */
    double n;         /* pseudo observation included */
    double s;         /* sum of S */
    double q;         /* sum of squared deviations, starts at 1/4 */
    uint64_t steps;   /* observations seen */
};

/* What H0 says about D = challenger minus control, each in [0,1]. */
enum bet_form {
    BET_ROLLBACK,     /* H0: E[D] >= -eps. Large wealth: the challenger is worse by more than eps */
    BET_NON_INFERIOR, /* H0: E[D] <= -eps. Large wealth: not worse by more than eps */
    BET_SUPERIOR,     /* H0: E[D] <= 0.    Large wealth: better */
    BET_GUARDRAIL,    /* H0: E[D] <= eps, D of a bad event's rate. Large wealth: it got worse */
    BET_FORM_COUNT
};

/* S and the bound S >= -lo that one observation gives a form. */
struct bet_stake {
    double s;
    double lo;
};

struct betting betting_start(void);

/* The stake the next observation will be played with; lo > 0. */
double betting_lambda(const struct betting *b, double lo);

/* Plays one observation and returns the new log wealth. s >= -lo must hold: smaller values
 * (a caller's bug) are clamped to -lo so that the wealth stays positive; NaN is ignored. */
double betting_update(struct betting *b, double s, double lo);

/* Wealth after one step with a stake fixed by the caller; for mixtures and for tests. */
double betting_grow(double log_w, double lambda, double s);

/* One paired block: d in [-1,1], 0 <= eps < 1. */
struct bet_stake bet_paired(enum bet_form form, double d, double eps);

/* Ratio of two means, each of values in [0,1]: challenger a, control c, ratio >= 1. */
enum bet_ratio_form {
    BET_LARGER, /* H0: E[a] <= ratio E[c]. Large wealth: it grew beyond the ratio */
    BET_SMALLER /* H0: E[a] >= E[c] / ratio. Large wealth: it shrank beyond it */
};
struct bet_stake bet_ratio(enum bet_ratio_form form, double a, double c, double ratio);

/* One single request of an unequal random split (inverse propensity weights, Karampatziakis et
 * al., arXiv:2102.09540): reward in [0,1], pi = probability of the challenger at its admission,
 * 0 < pi < 1. pi may change from request to request. */
struct bet_stake bet_weighted(enum bet_form form, double reward, int is_challenger, double pi,
                              double eps);

/* Level of the i-th decision (i >= 1) when all decisions together get alpha: the levels
 * 6 alpha / (pi^2 i^2) sum to alpha (Basel problem). */
double alpha_spend(double alpha, uint64_t i);

/* ln(1/alpha). */
double log_threshold(double alpha);

#endif
