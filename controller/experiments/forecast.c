/* controller/experiments/forecast.c - see the header. Pure: its random numbers have a fixed seed.
 *
 * Rewards keep their range under a shift of their mean: with the right probability a reward is
 * replaced by 1 (or, for a reward near the top, the other arms' by 0). */
#include "controller/experiments/forecast.h"

#include "common/rng.h"
#include "controller/experiments/allocation.h"

#include <math.h>
#include <stdlib.h>

enum { RUNS = 41, BUDGET = 6000000, MOST_ROWS = 2000000, MOST_SLICE_ROWS = 200, SEED = 20150918 };

struct play {
    const struct experiment_plan *plan;
    const struct forecast_facts *facts;
    struct contest *contest;
    struct rng rng;
    double share[EXPERIMENT_ARMS];
    double p_up, p_down; /* best arm: replaced by 1; others: by 0 */
    uint64_t n_rows, limit;
};

static double mean_of(const struct forecast_facts *f)
{
    double sum = 0.0;
    for (size_t i = 0; i < f->n_reward; i++)
        sum += f->reward[i];
    return f->n_reward ? sum / (double)f->n_reward : 0.5;
}

static void set_effect(struct play *p)
{
    double mean = mean_of(p->facts), effect = p->plan->effect;
    bool is_low = mean + effect <= 0.99;
    p->p_up = is_low ? effect / (1.0 - mean) : 0.0;
    p->p_down = is_low ? 0.0 : fmin(1.0, effect / mean);
}

static double draw_reward(struct play *p, bool is_best)
{
    const struct forecast_facts *f = p->facts;
    double coin = rng_uniform(&p->rng);
    double r = f->n_reward ? f->reward[rng_below(&p->rng, f->n_reward)]
                           : (rng_uniform(&p->rng) < 0.5 ? 1.0 : 0.0);
    if (is_best)
        return coin < p->p_up ? 1.0 : r;
    return coin < p->p_down ? 0.0 : r;
}

static uint32_t draw_arm(struct play *p)
{
    double at = rng_uniform(&p->rng), sum = 0.0;
    for (uint32_t k = 0; k + 1 < p->contest->n_arm; k++) {
        sum += p->share[k];
        if (at < sum)
            return k;
    }
    return p->contest->n_arm - 1;
}

static void play_row(struct play *p, uint32_t arm, struct contest_slice *slice)
{
    struct contest_row row = {.arm = arm, .is_scored = true, .share = p->share};
    row.reward = draw_reward(p, arm == 1);
    contest_add(p->contest, &row);
    p->n_rows++;
    if (!slice)
        return;
    slice->n++;
    slice->sum += row.reward;
}

/* A round of slices costs the rows that come in its time; at most MOST_SLICE_ROWS are drawn. */
static void play_round(struct play *p)
{
    struct contest_slice slice[EXPERIMENT_ARMS] = {{0}};
    double expected = p->facts->rate * (double)p->plan->slice_us / 1e6;
    uint64_t n = (uint64_t)fmax(1.0, fmin(MOST_SLICE_ROWS, expected));
    for (uint32_t k = 0; k < p->contest->n_arm; k++) {
        for (uint64_t i = 0; i < n && !p->contest->arm[k].is_out; i++)
            play_row(p, k, &slice[k]);
        if (!p->contest->arm[k].is_out && expected > (double)n)
            p->n_rows += (uint64_t)expected - n;
    }
    contest_add_round(p->contest, slice);
}

static bool drop(struct play *p)
{
    struct contest_verdict v;
    bool is_dropped = false;
    while (contest_beaten(p->contest, p->plan->alpha, p->facts->min_units, &v)) {
        p->contest->arm[v.loser].is_out = 1;
        is_dropped = true;
    }
    return is_dropped;
}

/* Scored outputs until one arm is left; INFINITY = not before the limit. */
static double play_one(struct play *p)
{
    uint64_t looked = 0;
    p->n_rows = 0;
    contest_start(p->contest, p->plan->law, p->contest->n_arm);
    allocation_shares(p->contest, p->plan->floor, p->share);
    while (p->n_rows < p->limit && contest_n_in(p->contest) > 1) {
        if (p->plan->law == LAW_SLICES)
            play_round(p);
        else
            play_row(p, draw_arm(p), NULL);
        bool is_due = p->plan->law == LAW_TOP_TWO && p->n_rows >= looked + p->plan->every_units;
        if (!drop(p) && !is_due)
            continue;
        allocation_shares(p->contest, p->plan->floor, p->share);
        looked = p->n_rows;
    }
    return contest_n_in(p->contest) == 1 ? (double)p->n_rows : (double)INFINITY;
}

static uint64_t limit_of(const struct experiment_plan *p, const struct forecast_facts *f)
{
    double most = MOST_ROWS;
    if (p->max_units)
        most = fmin(most, (double)p->max_units);
    if (f->rate > 0.0)
        most = fmin(most, f->rate * (double)p->max_us / 1e6);
    return (uint64_t)fmax(1.0, most);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double finite_at(const double *sorted, uint32_t n, double q)
{
    double v = sorted[(uint32_t)(q * (double)(n - 1) + 0.5)];
    return isfinite(v) ? v : (double)NAN;
}

void forecast_run(const struct experiment_plan *plan, uint32_t n_arm,
                  const struct forecast_facts *f, struct forecast *out)
{
    struct contest *c = calloc(1, sizeof *c);
    struct play p = {.plan = plan, .facts = f, .contest = c, .limit = limit_of(plan, f)};
    double outputs[RUNS], spent = 0.0, least_s = (double)plan->min_us / 1e6;
    double none = (double)NAN;
    *out = (struct forecast){0, 0, none, none, none, none};
    if (!c)
        return;
    c->n_arm = n_arm;
    set_effect(&p);
    rng_seed(&p.rng, SEED);
    while (out->n_runs < RUNS && (out->n_runs == 0 || spent < BUDGET)) {
        outputs[out->n_runs] = play_one(&p);
        out->n_decided += isfinite(outputs[out->n_runs++]) != 0;
        spent += (double)p.n_rows * (double)n_arm;
    }
    free(c);
    qsort(outputs, out->n_runs, sizeof *outputs, by_value);
    out->outputs_median = finite_at(outputs, out->n_runs, 0.5);
    out->outputs_p90 = finite_at(outputs, out->n_runs, 0.9);
    if (f->rate <= 0.0)
        return;
    out->seconds_median = fmax(least_s, out->outputs_median / f->rate);
    out->seconds_p90 = fmax(least_s, out->outputs_p90 / f->rate);
    if (isnan(out->outputs_median))
        out->seconds_median = none;
    if (isnan(out->outputs_p90))
        out->seconds_p90 = none;
}
