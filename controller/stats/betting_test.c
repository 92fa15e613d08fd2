/* controller/stats/betting_test.c - known answers of betting, e-detectors, intervals, split check.
 */
#include "controller/stats/betting.h"
#include "controller/stats/confseq.h"
#include "controller/stats/edetector.h"
#include "controller/stats/srm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define assert_near(a, b, tol) assert_true(fabs((a) - (b)) <= (tol))

static const double SERIES[8] = {1, 0, 1, 1, 0, 1, 1, 1};

static void test_fixed_stake(void **state)
{
    (void)state;
    double log_w = 0.0;
    int step = 0;
    while (log_w < log(20.0)) {
        log_w = betting_grow(log_w, 0.5, 0.5);
        step++;
    }
    assert_int_equal(step, 14);
    assert_near(exp(log_w), 22.7374, 5e-5);
}

static void test_kelly_series(void **state)
{
    (void)state;
    struct betting b = betting_start();
    for (int i = 0; i < 8; i++)
        betting_update(&b, SERIES[i] - 0.5, 0.5);
    assert_near(exp(b.log_w), 0.794897, 5e-7);
    assert_int_equal(b.steps, 8);
}

static void test_wealth_survives_bad_input(void **state)
{
    (void)state;
    struct betting b = betting_start();
    for (int i = 0; i < 100; i++)
        betting_update(&b, 1.0, 1.0);
    betting_update(&b, -1e9, 1.0);
    betting_update(&b, (double)NAN, 1.0);
    assert_true(isfinite(b.log_w));
    assert_int_equal(b.steps, 101);
}

/* Each form must win on the side it names and lose on the other. */
static void test_signs_paired(void **state)
{
    (void)state;
    static const double worse = -0.5;
    assert_true(bet_paired(BET_ROLLBACK, worse, 0.02).s > 0);
    assert_true(bet_paired(BET_ROLLBACK, -worse, 0.02).s < 0);
    assert_true(bet_paired(BET_NON_INFERIOR, worse, 0.02).s < 0);
    assert_true(bet_paired(BET_NON_INFERIOR, 0.0, 0.02).s > 0);
    assert_true(bet_paired(BET_SUPERIOR, -worse, 0.02).s > 0);
    assert_true(bet_paired(BET_SUPERIOR, worse, 0.02).s < 0);
    assert_true(bet_paired(BET_GUARDRAIL, 0.5, 0.05).s > 0);
    assert_true(bet_paired(BET_GUARDRAIL, 0.0, 0.05).s < 0);
}

/* S >= -lo at both ends of D, with equality at one. */
static void test_bounds(void **state)
{
    (void)state;
    for (int f = 0; f < BET_FORM_COUNT; f++) {
        struct bet_stake low = bet_paired((enum bet_form)f, -1.0, 0.02);
        struct bet_stake high = bet_paired((enum bet_form)f, 1.0, 0.02);
        assert_near(fmin(low.s, high.s), -low.lo, 1e-12);
        for (int arm = 0; arm < 2; arm++) {
            struct bet_stake w = bet_weighted((enum bet_form)f, 1.0, arm, 0.1, 0.02);
            assert_true(w.s >= -w.lo - 1e-12);
        }
    }
    assert_near(bet_paired(BET_ROLLBACK, 0, 0.02).lo, 1.02, 1e-12);
    assert_near(bet_paired(BET_NON_INFERIOR, 0, 0.02).lo, 0.98, 1e-12);
    assert_near(bet_weighted(BET_ROLLBACK, 0, 1, 0.1, 0.02).lo, 10.02, 1e-12);
    assert_near(bet_weighted(BET_NON_INFERIOR, 0, 1, 0.1, 0.02).lo, 1 / 0.9 - 0.02, 1e-12);
}

/* At the tolerated ratio the bet is even; beyond it the wealth grows; S >= -lo everywhere. */
static void test_ratios(void **state)
{
    (void)state;
    assert_near(bet_ratio(BET_LARGER, 0.6, 0.2, 3.0).s, 0.0, 1e-12);
    assert_true(bet_ratio(BET_LARGER, 0.7, 0.2, 3.0).s > 0.0);
    assert_near(bet_ratio(BET_SMALLER, 0.2, 0.6, 3.0).s, 0.0, 1e-12);
    assert_true(bet_ratio(BET_SMALLER, 0.1, 0.6, 3.0).s > 0.0);
    for (int corner = 0; corner < 4; corner++) {
        double a = corner & 1, c = corner >> 1;
        for (int f = 0; f < 2; f++) {
            struct bet_stake x = bet_ratio((enum bet_ratio_form)f, a, c, 3.0);
            assert_true(x.s >= -x.lo);
        }
    }
}

static void test_signs_weighted(void **state)
{
    (void)state;
    /* A challenger that always earns nothing against a control that always earns 1. */
    struct betting rollback = betting_start();
    struct betting promote = betting_start();
    for (int i = 0; i < 400; i++) {
        int is_challenger = i % 10 == 0;
        double reward = is_challenger ? 0.0 : 1.0;
        struct bet_stake r = bet_weighted(BET_ROLLBACK, reward, is_challenger, 0.1, 0.02);
        struct bet_stake p = bet_weighted(BET_NON_INFERIOR, reward, is_challenger, 0.1, 0.02);
        betting_update(&rollback, r.s, r.lo);
        betting_update(&promote, p.s, p.lo);
    }
    assert_true(rollback.log_w > log(20.0));
    assert_true(promote.log_w < 0.1);
}

static void test_spending(void **state)
{
    (void)state;
    double sum = 0.0;
    for (uint64_t i = 1; i <= 100000; i++)
        sum += alpha_spend(0.05, i);
    assert_near(sum, 0.05, 1e-5);
    assert_near(alpha_spend(0.05, 1), 0.0303964, 1e-7);
    assert_near(log_threshold(0.05), log(20.0), 1e-12);
}

static void test_edetector_cusum(void **state)
{
    (void)state;
    double m = 0.0;
    int step = 0;
    while (m < 1000.0) {
        m = edetector_grow(EDETECTOR_CUSUM, m, 1.8);
        step++;
    }
    assert_int_equal(step, 12);
    assert_near(m, 1156.831, 5e-4);
}

static void test_edetector_sr(void **state)
{
    (void)state;
    static const double expected[5] = {1.8, 5.04, 10.872, 21.3696, 40.2653};
    double m = 0.0;
    int step = 0;
    while (m < 1000.0) {
        m = edetector_grow(EDETECTOR_SR, m, 1.8);
        if (step < 5)
            assert_near(m, expected[step], 5e-5);
        step++;
    }
    assert_int_equal(step, 11);
    assert_near(m, 1443.789, 5e-4);
}

/* A stream far below m0 alarms, one above does not; the likely start is where the fall began. */
static void test_edetector_direction(void **state)
{
    (void)state;
    struct edetector d = edetector_start(EDETECTOR_CUSUM, 0.6);
    for (int i = 0; i < 200; i++)
        assert_true(edetector_update(&d, 0.8) < 10.0);
    double value = 0.0;
    for (int i = 0; i < 100; i++)
        value = edetector_update(&d, 0.1);
    assert_true(value > 1e4);
    assert_true(d.quiet_steps >= 200 && d.quiet_steps <= 203);
    edetector_reset(&d);
    assert_near(edetector_value(&d), 0.0, 0.0);
    assert_near(d.m0, 0.6, 0.0);
}

static void test_empirical_bernstein(void **state)
{
    (void)state;
    struct confseq_eb c = confseq_eb_start(0.05);
    for (int i = 0; i < 8; i++)
        confseq_eb_update(&c, SERIES[i]);
    struct interval v = confseq_eb_interval(&c);
    assert_near(v.centre, 0.75, 5e-7);
    assert_near(v.upper - v.centre, 1.023233, 5e-7);
    c = confseq_eb_start(0.05);
    for (int i = 0; i < 1000; i++)
        confseq_eb_update(&c, i % 2 == 0 ? 1.0 : 0.0);
    v = confseq_eb_interval(&c);
    assert_near(v.centre, 0.500778, 5e-7);
    assert_near(v.upper - v.centre, 0.063030, 5e-7);
}

static void test_fixed_widths(void **state)
{
    (void)state;
    assert_near(confseq_normal_mixture(1000, 0.25, 100, 0.05), 0.050354, 5e-7);
    assert_near(confseq_stitched(1000, 0.05), 0.065131, 5e-7);
}

static void test_betting_interval(void **state)
{
    (void)state;
    double x[400];
    for (int i = 0; i < 400; i++)
        x[i] = i % 4 ? 1.0 : 0.0;
    struct interval v = confseq_betting(x, 400, 0.05);
    assert_near(v.centre, 0.75, 1e-12);
    assert_true(v.lower > 0.64 && v.lower < 0.75 && v.upper > 0.75 && v.upper < 0.86);
    v = confseq_betting(x, 0, 0.05);
    assert_true(v.lower <= 0.0 && v.upper >= 1.0);
}

static void test_split_check(void **state)
{
    (void)state;
    assert_near(chi2_tail1(16), 6.3e-5, 5e-7);
    assert_near(chi2_tail1(4), 0.0455, 5e-5);
    struct srm s = {0};
    for (int i = 0; i < 10000; i++)
        srm_add(&s, i < 5200, 0.5);
    assert_near(srm_chi2(&s), 16.0, 1e-9);
    assert_true(srm_p(&s) < SRM_ALERT_P);
    struct srm fair = {0};
    for (int i = 0; i < 10000; i++)
        srm_add(&fair, i < 5100, 0.5);
    assert_near(srm_chi2(&fair), 4.0, 1e-9);
    assert_true(srm_p(&fair) > SRM_ALERT_P);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_stake),
        cmocka_unit_test(test_kelly_series),
        cmocka_unit_test(test_wealth_survives_bad_input),
        cmocka_unit_test(test_signs_paired),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_signs_weighted),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_spending),
        cmocka_unit_test(test_edetector_cusum),
        cmocka_unit_test(test_edetector_sr),
        cmocka_unit_test(test_edetector_direction),
        cmocka_unit_test(test_empirical_bernstein),
        cmocka_unit_test(test_fixed_widths),
        cmocka_unit_test(test_betting_interval),
        cmocka_unit_test(test_split_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
