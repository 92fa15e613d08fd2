/* tests/sim/stats_validity.c - levels that must hold at every stop, looked at after every row.
 *
 * 1. The weighted form (single requests of an unequal split, pi changing on the way) at the
 *    boundary of each H0, and its power.
 * 2. Confidence sequences over all times up to 1,000: the share of runs in which the interval ever
 *    loses the mean may be at most alpha.
 * 3. Splitting alpha over 20 experiments in a row.
 * 1,000 repetitions (200 for the betting interval); gates are alpha + 3 binomial errors. */
#include "common/rng.h"
#include "controller/stats/betting.h"
#include "controller/stats/confseq.h"
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>

enum { RUNS = 1000, ROWS = 5000, LENGTH = 1000, RUNS_BETTING = 200 };
#define ALPHA        0.05
#define GATE         (ALPHA + 3.0 * 0.0069) /* sqrt(0.05 * 0.95 / 1000) */
#define EPSILON      0.02
#define GATE_BETTING (ALPHA + 3.0 * 0.0154) /* 200 runs: 1000 tests each */

/* Share of runs in which the test of `form` reaches 1/alpha; the split goes 5% to 10% to 50%. */
static double weighted_share(enum bet_form form, double control, double challenger, uint64_t seed)
{
    struct rng r;
    rng_seed(&r, seed);
    int n_crossed = 0;
    for (int i = 0; i < RUNS; i++) {
        struct betting w = betting_start();
        double log_e = 0.0;
        for (int n = 0; n < ROWS && log_e < log_threshold(ALPHA); n++) {
            double pi = n < 1000 ? 0.05 : n < 2000 ? 0.1 : 0.5;
            int is_challenger = rng_uniform(&r) < pi;
            double reward = rng_uniform(&r) < (is_challenger ? challenger : control);
            struct bet_stake s = bet_weighted(form, reward, is_challenger, pi, EPSILON);
            log_e = betting_update(&w, s.s, s.lo);
        }
        n_crossed += log_e >= log_threshold(ALPHA);
    }
    return (double)n_crossed / RUNS;
}

static void check_weighted(struct report *report)
{
    report_at_most(report, "weighted rollback at drop = eps",
                   weighted_share(BET_ROLLBACK, 0.8, 0.78, 1), GATE);
    report_at_most(report, "weighted non-inferior at drop = eps",
                   weighted_share(BET_NON_INFERIOR, 0.8, 0.78, 2), GATE);
    report_at_most(report, "weighted superior at equal arms",
                   weighted_share(BET_SUPERIOR, 0.8, 0.8, 3), GATE);
    report_at_least(report, "weighted rollback at drop 0.4",
                    weighted_share(BET_ROLLBACK, 0.8, 0.4, 4), 0.95);
    report_at_least(report, "weighted superior at gain 0.4",
                    weighted_share(BET_SUPERIOR, 0.4, 0.8, 5), 0.95);
}

struct misses {
    int bernstein, mixture, stitched, betting;
};

/* One run of mean 0.7: which intervals lost it at some time. */
static void run_intervals(struct rng *r, bool is_graded, struct misses *m, bool with_betting)
{
    static double x[LENGTH];
    struct confseq_eb eb = confseq_eb_start(ALPHA);
    bool is_lost[3] = {false};
    double sum = 0.0;
    double mean = 0.7;
    for (int t = 1; t <= LENGTH; t++) {
        /* Graded: uniform on [0.4, 1]. */
        double u = rng_uniform(r);
        x[t - 1] = is_graded ? 0.4 + 0.6 * u : (double)(u < mean);
        sum += x[t - 1];
        confseq_eb_update(&eb, x[t - 1]);
        struct interval v = confseq_eb_interval(&eb);
        double gap = fabs(sum / t - mean);
        is_lost[0] |= mean < v.lower || mean > v.upper;
        is_lost[1] |= gap > confseq_normal_mixture(t, 0.25, 100, ALPHA);
        is_lost[2] |= gap > confseq_stitched(t, ALPHA);
    }
    m->bernstein += is_lost[0];
    m->mixture += is_lost[1];
    m->stitched += is_lost[2];
    if (!with_betting)
        return;
    /* Its running intersection: what it excludes at the end it excluded at some time. */
    struct interval b = confseq_betting(x, LENGTH, ALPHA);
    m->betting += mean < b.lower || mean > b.upper;
}

static void check_coverage(struct report *report, bool is_graded)
{
    struct rng r;
    struct misses m = {0};
    rng_seed(&r, is_graded ? 21 : 22);
    for (int i = 0; i < RUNS; i++)
        run_intervals(&r, is_graded, &m, i < RUNS_BETTING);
    const char *kind = is_graded ? "graded" : "0/1";
    const struct {
        const char *name;
        int n;
    } lines[] = {{"empirical Bernstein", m.bernstein},
                 {"normal mixture", m.mixture},
                 {"stitched", m.stitched}};
    for (int i = 0; i < 3; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s interval, %s: ever lost the mean", lines[i].name, kind);
        report_at_most(report, what, (double)lines[i].n / RUNS, GATE);
    }
    report_at_most(report, is_graded ? "betting interval, graded" : "betting interval, 0/1",
                   (double)m.betting / RUNS_BETTING, GATE_BETTING);
}

/* A route that tries 20 equal challengers in a row: chance that any is ever called better. */
static double any_false_promotion(void)
{
    struct rng r;
    rng_seed(&r, 31);
    int n_false = 0;
    for (int i = 0; i < RUNS; i++) {
        bool is_false = false;
        for (uint64_t k = 1; k <= 20 && !is_false; k++) {
            struct betting w = betting_start();
            for (int n = 0; n < 500 && !is_false; n++) {
                double d = (rng_uniform(&r) < 0.5) - (rng_uniform(&r) < 0.5);
                struct bet_stake s = bet_paired(BET_SUPERIOR, d, EPSILON);
                is_false = betting_update(&w, s.s, s.lo) >= log_threshold(alpha_spend(ALPHA, k));
            }
        }
        n_false += is_false;
    }
    return (double)n_false / RUNS;
}

int main(void)
{
    struct report report = {0};
    check_weighted(&report);
    check_coverage(&report, false);
    check_coverage(&report, true);
    report_at_most(&report, "any false promotion in 20 experiments", any_false_promotion(), GATE);
    return report_end(&report);
}
