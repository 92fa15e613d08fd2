/* Experiments with K arms, by the contest that serves: the table of CONTROL.md 2.6, false winners
 * when all arms are equal, top-two shares with their intervals, slices of time. Fixed seeds.
 * MILEPOST_LONG=1 runs the law's own number of repetitions everywhere. */
#include "common/rng.h"
#include "controller/experiments/allocation.h"
#include "controller/experiments/contest.h"
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 300, LIMIT = 400000, MIN_UNITS = 20 };
#define ALPHA 0.05

struct race {
    uint32_t law, n_arm;
    double mean[EXPERIMENT_ARMS];
    uint64_t limit;
    double p_unscored[EXPERIMENT_ARMS];
};

struct ending {
    uint64_t rows;     /* until one arm is left; LIMIT without an end */
    bool is_over;      /* one arm is left */
    bool is_best_out;  /* an arm with the highest mean was beaten */
    bool is_any_out;   /* any arm was beaten */
    bool has_missed;   /* an interval left its arm's true mean at some look */
    double mean_share; /* of the best arm, over all rows */
};

static uint32_t draw(struct rng *r, const double *share, uint32_t n)
{
    double at = rng_uniform(r), sum = 0.0;
    for (uint32_t k = 0; k + 1 < n; k++) {
        sum += share[k];
        if (at < sum)
            return k;
    }
    return n - 1;
}

static double best_of(const struct race *race)
{
    double best = 0.0;
    for (uint32_t k = 0; k < race->n_arm; k++)
        best = fmax(best, race->mean[k]);
    return best;
}

static void look_at_intervals(const struct race *race, const struct contest *c, struct ending *end)
{
    for (uint32_t k = 0; k < race->n_arm; k++) {
        struct interval v = contest_reward(c, k);
        if (c->arm[k].n && (race->mean[k] < v.lower || race->mean[k] > v.upper))
            end->has_missed = true;
    }
}

static bool drop(const struct race *race, struct contest *c, struct ending *end)
{
    struct contest_verdict v;
    bool is_dropped = false;
    while (contest_beaten(c, ALPHA, MIN_UNITS, &v)) {
        c->arm[v.loser].is_out = 1;
        end->is_any_out = true;
        end->is_best_out |= race->mean[v.loser] >= best_of(race);
        is_dropped = true;
    }
    return is_dropped;
}

static struct ending run(const struct race *race, struct contest *c, uint64_t seed)
{
    struct rng r;
    struct ending end = {0};
    double share[EXPERIMENT_ARMS], of_best = 0.0;
    rng_seed(&r, seed);
    contest_start(c, race->law, race->n_arm);
    allocation_shares(c, 0.02, share);
    for (end.rows = 1; end.rows < race->limit && contest_n_in(c) > 1; end.rows++) {
        uint32_t k = draw(&r, share, race->n_arm);
        struct contest_row row = {.arm = k, .share = share};
        row.reward = rng_uniform(&r) < race->mean[k];
        row.is_scored = rng_uniform(&r) >= race->p_unscored[k];
        contest_add(c, &row);
        of_best += race->mean[k] >= best_of(race);
        bool is_due = race->law == LAW_TOP_TWO && end.rows % 100 == 0;
        if (is_due)
            look_at_intervals(race, c, &end);
        if (drop(race, c, &end) || is_due)
            allocation_shares(c, 0.02, share);
    }
    end.is_over = contest_n_in(c) == 1;
    end.mean_share = of_best / (double)end.rows;
    return end;
}

static void table(struct report *rep, const char *what, const struct race *race, double law,
                  size_t n)
{
    static struct contest c;
    double rows[REPETITIONS];
    char text[160];
    int n_wrong = 0;
    for (size_t i = 0; i < n; i++) {
        struct ending end = run(race, &c, 1000 + i);
        rows[i] = end.is_over ? (double)end.rows : (double)INFINITY;
        n_wrong += end.is_best_out;
    }
    report_median(rep, what, rows, law, n);
    snprintf(text, sizeof text, "%s: wrong winners", what);
    report_share(rep, text, n_wrong / (double)n, 0.0, n);
}

static void best_arm_tables(struct report *rep, size_t n_long)
{
    const struct race near3 = {LAW_ELIMINATION, 3, {0.80, 0.70, 0.60}, LIMIT, {0}};
    const struct race far3 = {LAW_ELIMINATION, 3, {0.80, 0.76, 0.70}, LIMIT, {0}};
    const struct race nine = {
        LAW_ELIMINATION, 9, {0.80, 0.78, 0.76, 0.74, 0.72, 0.70, 0.68, 0.66, 0.64}, LIMIT, {0}};
    table(rep, "K=3 0.80 0.70 0.60: median requests", &near3, 960, REPETITIONS);
    table(rep, "K=3 0.80 0.76 0.70: median requests", &far3, 6110, REPETITIONS);
    table(rep, "K=9 steps of 0.02: median requests", &nine, 38923, n_long);
}

/* All arms equal: whoever is beaten is beaten wrongly, whenever one looks. */
static void equal_arms(struct report *rep, uint32_t law, const char *name, size_t n)
{
    static struct contest c;
    const struct race race = {law, 3, {0.8, 0.8, 0.8}, 10000, {0}};
    char text[160];
    double out = 0.0, missed = 0.0;
    for (size_t i = 0; i < n; i++) {
        struct ending end = run(&race, &c, 50000 + i);
        out += end.is_any_out;
        missed += end.has_missed;
    }
    snprintf(text, sizeof text, "%s, three equal arms: runs with a false winner", name);
    report_at_most(rep, text, out / (double)n, ALPHA);
    snprintf(text, sizeof text, "%s, three equal arms: intervals that missed at any look", name);
    report_at_most(rep, text, missed / (double)n, 3.0 * ALPHA);
}

/* Verifier time-outs on one arm only, equal quality: nobody may win by them (CONTROL.md 2.8). */
static void unscored_arms(struct report *rep, size_t n)
{
    static struct contest c;
    const struct race race = {LAW_ELIMINATION, 2, {0.8, 0.8}, 10000, {0.02, 0.07}};
    double out = 0.0;
    for (size_t i = 0; i < n; i++)
        out += run(&race, &c, 70000 + i).is_any_out;
    report_at_most(rep, "2% against 7% unscored, equal quality: false winners", out / (double)n,
                   ALPHA);
}

static void top_two(struct report *rep, size_t n)
{
    static struct contest c;
    const struct race race = {LAW_TOP_TWO, 3, {0.80, 0.70, 0.60}, LIMIT, {0}};
    double wrong = 0.0, missed = 0.0, share = 0.0, rows[REPETITIONS];
    for (size_t i = 0; i < n; i++) {
        struct ending end = run(&race, &c, 90000 + i);
        rows[i] = (double)end.rows;
        wrong += end.is_best_out;
        missed += end.has_missed;
        share += end.mean_share / (double)n;
    }
    printf("top two 0.80 0.70 0.60: median requests %.0f\n", sorted_quantile(rows, n, 0.5));
    report_at_most(rep, "top two: wrong winners", wrong, 0.0);
    report_at_most(rep, "top two: runs with an interval that missed", missed / (double)n,
                   3.0 * ALPHA);
    report_at_least(rep, "top two: share of the best arm (equal shares give less than 0.4)", share,
                    0.45);
}

/* Arms differ by 0.1 in the mean of a slice of 40 outputs; the hours drift by more than that. */
static void slices(struct report *rep, size_t n)
{
    static struct contest c;
    double rounds[REPETITIONS], wrong = 0.0;
    for (size_t i = 0; i < n; i++) {
        struct rng r;
        struct contest_verdict v;
        rng_seed(&r, 110000 + i);
        contest_start(&c, LAW_SLICES, 3);
        for (rounds[i] = 1; rounds[i] < 5000; rounds[i]++) {
            struct contest_slice slice[3] = {{0}};
            uint32_t order[EXPERIMENT_ARMS];
            allocation_order(&c, 7, (uint64_t)rounds[i], order);
            for (uint32_t at = 0; at < 3; at++) {
                uint32_t k = order[at];
                double hour = 0.1 * sin(0.3 * (3.0 * rounds[i] + at));
                struct contest_row row = {.arm = k, .is_scored = true};
                for (int j = 0; j < 40; j++) {
                    row.reward = rng_uniform(&r) < 0.7 + hour - (k == 1 ? 0.0 : 0.1);
                    contest_add(&c, &row);
                    slice[k].n++;
                    slice[k].sum += row.reward;
                }
            }
            contest_add_round(&c, slice);
            if (!contest_beaten(&c, ALPHA, MIN_UNITS, &v))
                continue;
            wrong += v.loser == 1;
            break;
        }
    }
    printf(
        "slices of 40 outputs, effect 0.1 under drift: median rounds to the first verdict %.0f\n",
        sorted_quantile(rounds, n, 0.5));
    report_at_most(rep, "slices: wrong verdicts", wrong, 0.0);
    report_at_most(rep, "slices: median rounds to the first verdict",
                   sorted_quantile(rounds, n, 0.5), 200.0);
}

int main(void)
{
    struct report rep = {0};
    bool is_long = getenv("MILEPOST_LONG") != NULL;
    best_arm_tables(&rep, is_long ? REPETITIONS : 25);
    equal_arms(&rep, LAW_ELIMINATION, "elimination", is_long ? 2000 : 300);
    equal_arms(&rep, LAW_TOP_TWO, "top two", is_long ? 1000 : 100);
    unscored_arms(&rep, is_long ? 2000 : 200);
    top_two(&rep, is_long ? REPETITIONS : 60);
    slices(&rep, is_long ? REPETITIONS : 100);
    return report_end(&rep);
}
