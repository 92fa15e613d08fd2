/* tests/sim/stats_detector.c - the table of the drift detectors, law 2.5, from edetector.c.
 *
 * m0 0.78, threshold 1e4, Bernoulli rewards, good mean 0.80, change at row 2,000. Runs without a
 * change are at the boundary 0.78 and censored at 1e5 rows. Repetitions: 2,000 (e-SR) and 1,000
 * (e-CUSUM) without a change, 4,000 for delays. */
#include "common/rng.h"
#include "controller/stats/edetector.h"
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>

enum { DELAYS = 4000, RUNS_SR = 2000, RUNS_CUSUM = 1000, CHANGE_AT = 2000, CENSOR = 100000 };
#define M0        0.78
#define THRESHOLD 1e4

/* Rows until the alarm, at most `limit`. */
static int run_length(enum edetector_kind kind, struct rng *r, double before, double after,
                      int limit)
{
    struct edetector d = edetector_start(kind, M0);
    for (int t = 1; t <= limit; t++) {
        double mean = t <= CHANGE_AT ? before : after;
        if (edetector_update(&d, rng_uniform(r) < mean ? 1.0 : 0.0) >= THRESHOLD)
            return t;
    }
    return limit + 1;
}

struct delay_row {
    enum edetector_kind kind;
    double after, law;
};

/* Mean delay after the change over the runs that did not alarm before it. */
static void check_delays(struct report *report, const struct delay_row *row, uint64_t seed,
                         int *n_early)
{
    static double delay[DELAYS];
    struct rng r;
    rng_seed(&r, seed);
    size_t n = 0;
    *n_early = 0;
    for (int j = 0; j < DELAYS; j++) {
        int t = run_length(row->kind, &r, 0.80, row->after, CENSOR);
        if (t > CHANGE_AT)
            delay[n++] = t - CHANGE_AT;
        else
            (*n_early)++;
    }
    char what[96];
    snprintf(what, sizeof what, "%s delay to %.2f", row->kind == EDETECTOR_SR ? "e-SR" : "e-CUSUM",
             row->after);
    report_mean(report, what, delay, row->law, n);
    printf("     median %.0f\n", sorted_quantile(delay, n, 0.5));
}

static void check_false_alarms(struct report *report, const int n_early[2])
{
    report_share(report, "e-SR false alarm before 2,000 at mean 0.80", (double)n_early[0] / DELAYS,
                 0.02, DELAYS);
    report_share(report, "e-CUSUM false alarm before 2,000 at mean 0.80",
                 (double)n_early[1] / DELAYS, 0.001, DELAYS);
}

static void check_run_lengths(struct report *report)
{
    static double length[RUNS_SR];
    struct rng r;
    rng_seed(&r, 77);
    double sum = 0.0;
    for (int j = 0; j < RUNS_SR; j++) {
        length[j] = run_length(EDETECTOR_SR, &r, M0, M0, CENSOR);
        sum += length[j];
    }
    report_mean(report, "e-SR mean run at the boundary (censored at 1e5)", length, 11282, RUNS_SR);
    report_at_least(report, "e-SR mean run against its bound, less 4 errors", sum / RUNS_SR,
                    THRESHOLD * (1.0 - 4.0 / sqrt(RUNS_SR)));
    int n_censored = 0;
    sum = 0.0;
    for (int j = 0; j < RUNS_CUSUM; j++) {
        int t = run_length(EDETECTOR_CUSUM, &r, M0, M0, CENSOR);
        n_censored += t > CENSOR;
        length[j] = fmin(t, CENSOR);
        sum += length[j];
    }
    report_mean(report, "e-CUSUM mean run, censored", length, 78496, RUNS_CUSUM);
    report_share(report, "e-CUSUM share censored", (double)n_censored / RUNS_CUSUM, 0.60,
                 RUNS_CUSUM);
}

int main(void)
{
    static const struct delay_row ROWS[] = {
        {EDETECTOR_SR, 0.70, 260},    {EDETECTOR_SR, 0.60, 77},     {EDETECTOR_SR, 0.40, 25},
        {EDETECTOR_CUSUM, 0.70, 510}, {EDETECTOR_CUSUM, 0.60, 112}, {EDETECTOR_CUSUM, 0.40, 30},
    };
    struct report report = {0};
    int n_early[2] = {0, 0};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        check_delays(&report, &ROWS[i], 500 + i, &n_early[ROWS[i].kind]);
    check_false_alarms(&report, n_early);
    check_run_lengths(&report);
    return report_end(&report);
}
