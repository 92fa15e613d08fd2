/* Known answers of inverse propensity weights (computed apart, by other code), and the tails of
 * chi-square that the split of K arms needs. */
#include "common/test.h"

#include "controller/stats/ipw.h"
#include "controller/stats/srm.h"

#include <math.h>

static void test_known_interval(void **state)
{
    struct ipw w = {0};
    int n_mine = 0;
    (void)state;
    for (int t = 0; t < 400; t++) {
        int is_mine = t % 5 == 0 || t % 5 == 2;
        double reward = is_mine && n_mine % 4 == 3 ? 0.0 : 1.0;
        n_mine += is_mine;
        ipw_update(&w, reward, is_mine, 0.4);
    }
    struct interval v = ipw_interval(&w, 0.05);
    assert_true(fabs(v.centre - 0.7500000000) < 1e-9);
    assert_true(fabs(v.lower - 0.4283675211) < 1e-9);
    assert_true(fabs(v.upper - 0.9455406067) < 1e-9);
}

static void test_what_is_no_reward_is_left_out(void **state)
{
    struct ipw w = {0};
    (void)state;
    ipw_update(&w, (double)NAN, 1, 0.5);
    ipw_update(&w, 1.5, 1, 0.5);
    ipw_update(&w, 0.5, 1, 0.0);
    struct interval v = ipw_interval(&w, 0.05);
    assert_int_equal(w.n, 0);
    assert_true(v.lower == 0.0 && v.upper == 1.0 && v.centre == 0.5);
}

static void test_chi_square_tails(void **state)
{
    (void)state;
    assert_true(fabs(chi2_tail(16.0, 1) - 6.334e-5) < 1e-8);
    assert_true(fabs(chi2_tail(3.841459, 1) - 0.05) < 1e-6);
    assert_true(fabs(chi2_tail(5.991465, 2) - 0.05) < 1e-6);
    assert_true(fabs(chi2_tail(7.814728, 3) - 0.05) < 1e-6);
    assert_true(fabs(chi2_tail(15.507313, 8) - 0.05) < 1e-6);
    assert_true(fabs(chi2_tail(37.697298, 15) - 0.001) < 1e-6);
    assert_true(chi2_tail(0.0, 2) == 1.0 && chi2_tail(0.0, 3) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_interval),
        cmocka_unit_test(test_what_is_no_reward_is_left_out),
        cmocka_unit_test(test_chi_square_tails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
