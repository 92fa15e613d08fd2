/* Which experts: the largest, the lower of equals, by rising number, with weights that add up. */
#include "common/test.h"
#include "kernels/route.h"

#include <math.h>

static void check(const float *score, uint32_t n, uint32_t n_used, bool is_normed,
                  const uint32_t *want, const double *weights)
{
    const struct kern_mix_shape s = {.n_expert = n, .n_used = n_used, .is_normed = is_normed};
    uint32_t expert[ROUTE_MAX_USED];
    float weight[ROUTE_MAX_USED];
    route_token(&s, score, expert, weight);
    for (uint32_t k = 0; k < n_used; k++) {
        assert_int_equal(expert[k], want[k]);
        assert_true(fabs((double)weight[k] - weights[k]) < 1e-6);
    }
}

static void test_largest_by_number(void **state)
{
    /* ln 1, ln 2, ln 3, ln 4: softmax is 0.1, 0.2, 0.3, 0.4. */
    const float score[] = {1.38629436f, 0, 1.09861229f, 0.69314718f};
    (void)state;
    check(score, 4, 2, true, (uint32_t[]){0, 2}, (double[]){4.0 / 7, 3.0 / 7});
    check(score, 4, 2, false, (uint32_t[]){0, 2}, (double[]){0.4, 0.3});
    check(score, 4, 3, true, (uint32_t[]){0, 2, 3}, (double[]){4.0 / 9, 3.0 / 9, 2.0 / 9});
    check(score, 4, 4, false, (uint32_t[]){0, 1, 2, 3}, (double[]){0.4, 0.1, 0.3, 0.2});
}

static void test_ties_and_extremes(void **state)
{
    (void)state;
    check((float[]){1, 2, 2, 2}, 4, 2, true, (uint32_t[]){1, 2}, (double[]){0.5, 0.5});
    check((float[]){3e38f, -3e38f, 3e38f}, 3, 2, true, (uint32_t[]){0, 2}, (double[]){0.5, 0.5});
    check((float[]){NAN, 0, 1}, 3, 1, true, (uint32_t[]){2}, (double[]){1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest_by_number),
        cmocka_unit_test(test_ties_and_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
