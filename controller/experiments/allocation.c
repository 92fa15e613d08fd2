/* controller/experiments/allocation.c - see the header. Pure.
 *
 * P(arm is best) = integral of its density times the others' distribution functions, over a grid
 * that spans every posterior; no random numbers, so replay gives the same shares. */
#include "controller/experiments/allocation.h"

#include "common/rng.h"

#include <math.h>

enum { GRID = 400 };
#define SPAN_SD      7.0
#define PLAY_LEADER  0.5 /* of the requests; the others go to whoever leads without it */
#define SHARE_DIGITS 1e4

struct posterior {
    double a, b, mean, sd;
};

static struct posterior posterior_of(const struct contestant *arm)
{
    struct posterior p = {.a = 1.0 + arm->sum, .b = 1.0 + (double)arm->n - arm->sum};
    double n = p.a + p.b;
    p.mean = p.a / n;
    p.sd = sqrt(p.mean * (1.0 - p.mean) / (n + 1.0));
    return p;
}

static void span(const struct contest *c, double *low, double *high)
{
    *low = 1.0;
    *high = 0.0;
    for (uint32_t k = 0; k < c->n_arm; k++) {
        struct posterior p = posterior_of(&c->arm[k]);
        if (c->arm[k].is_out)
            continue;
        *low = fmin(*low, p.mean - SPAN_SD * p.sd);
        *high = fmax(*high, p.mean + SPAN_SD * p.sd);
    }
    *low = fmax(0.0, *low);
    *high = fmin(1.0, *high);
}

/* Masses of the grid's cells, normalised. */
static void masses(const struct posterior *p, double low, double step, double out[GRID])
{
    double total = 0.0;
    double at_mean = (p->a - 1.0) * log(p->mean) + (p->b - 1.0) * log1p(-p->mean);
    for (int g = 0; g < GRID; g++) {
        double x = low + step * ((double)g + 0.5);
        out[g] = exp((p->a - 1.0) * log(x) + (p->b - 1.0) * log1p(-x) - at_mean);
        total += out[g];
    }
    for (int g = 0; g < GRID; g++)
        out[g] = total > 0.0 ? out[g] / total : 1.0 / GRID;
}

void allocation_best(const struct contest *c, double out[EXPERIMENT_ARMS])
{
    double mass[EXPERIMENT_ARMS][GRID], below[EXPERIMENT_ARMS] = {0};
    double low, high, total = 0.0;
    span(c, &low, &high);
    for (uint32_t k = 0; k < c->n_arm; k++) {
        struct posterior p = posterior_of(&c->arm[k]);
        out[k] = 0.0;
        if (!c->arm[k].is_out)
            masses(&p, low, (high - low) / GRID, mass[k]);
    }
    for (int g = 0; g < GRID; g++) {
        double product = 1.0;
        for (uint32_t k = 0; k < c->n_arm; k++)
            if (!c->arm[k].is_out)
                product *= fmax(1e-300, below[k] + 0.5 * mass[k][g]);
        for (uint32_t k = 0; k < c->n_arm; k++) {
            if (c->arm[k].is_out)
                continue;
            out[k] += mass[k][g] * product / fmax(1e-300, below[k] + 0.5 * mass[k][g]);
            below[k] += mass[k][g];
        }
    }
    for (uint32_t k = 0; k < c->n_arm; k++)
        total += out[k];
    for (uint32_t k = 0; k < c->n_arm; k++)
        out[k] = total > 0.0 ? out[k] / total : 0.0;
}

/* What the arms but one have together; summed, since 1 - psi of a clear leader is only rounding. */
static double others_of(const double *psi, uint32_t n, uint32_t k)
{
    double sum = 0.0;
    for (uint32_t b = 0; b < n; b++)
        sum += b == k ? 0.0 : psi[b];
    return sum;
}

/* P(arm is played) = psi (half + half * sum over other leaders b of psi_b / (1 - psi_b)). */
static void top_two(const struct contest *c, double play[EXPERIMENT_ARMS])
{
    double psi[EXPERIMENT_ARMS], total = 0.0;
    allocation_best(c, psi);
    for (uint32_t k = 0; k < c->n_arm; k++)
        psi[k] = c->arm[k].is_out ? 0.0 : fmax(1e-250, psi[k]);
    for (uint32_t k = 0; k < c->n_arm; k++) {
        double second = 0.0;
        for (uint32_t b = 0; b < c->n_arm; b++)
            if (b != k && psi[b] > 0.0)
                second += psi[b] * (psi[k] / others_of(psi, c->n_arm, b));
        play[k] = PLAY_LEADER * psi[k] + (1.0 - PLAY_LEADER) * second;
        total += play[k];
    }
    for (uint32_t k = 0; k < c->n_arm; k++)
        play[k] /= total;
}

void allocation_shares(const struct contest *c, double floor_share, double out[EXPERIMENT_ARMS])
{
    uint32_t n = contest_n_in(c), leader = contest_leader(c);
    double play[EXPERIMENT_ARMS], rest = 1.0;
    if (c->law == LAW_TOP_TWO)
        top_two(c, play);
    for (uint32_t k = 0; k < c->n_arm; k++) {
        out[k] = c->arm[k].is_out ? 0.0 : 1.0 / (double)n;
        if (c->law != LAW_TOP_TWO || c->arm[k].is_out)
            continue;
        out[k] = floor_share + (1.0 - floor_share * (double)n) * play[k];
        /* Four digits are enough for people, and what engine and law divide by is the same. */
        out[k] = round(out[k] * SHARE_DIGITS) / SHARE_DIGITS;
        rest -= k == leader ? 0.0 : out[k];
    }
    if (c->law == LAW_TOP_TWO)
        out[leader] = rest;
}

uint32_t allocation_order(const struct contest *c, uint64_t seed, uint64_t round,
                          uint32_t out[EXPERIMENT_ARMS])
{
    struct rng r;
    uint32_t n = 0;
    rng_seed(&r, seed + round * 0x9E3779B97F4A7C15ull);
    for (uint32_t k = 0; k < c->n_arm; k++)
        if (!c->arm[k].is_out)
            out[n++] = k;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(&r, i), swapped = out[i - 1];
        out[i - 1] = out[j];
        out[j] = swapped;
    }
    return n;
}
