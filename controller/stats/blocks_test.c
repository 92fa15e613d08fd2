/* controller/stats/blocks_test.c - pairing: who meets whom, signs of both roles, bounds. */
#include "controller/stats/blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct block_value reward(double r)
{
    return (struct block_value){{r}};
}

static bool push(struct blocks *b, uint32_t stratum, bool is_challenger, double r, double *d)
{
    struct block_value v = reward(r);
    struct block out;
    bool is_formed = blocks_push(b, stratum, is_challenger, &v, &out);
    if (is_formed)
        *d = out.diff.v[0];
    return is_formed;
}

static void test_k(void **state)
{
    (void)state;
    static const struct {
        double share;
        uint32_t k_max, k;
    } cases[] = {{0.5, 9, 1},    {0.1, 9, 9}, {0.01, 9, 9}, {0.95, 9, 9}, {0.25, 9, 3},
                 {0.95, 99, 16}, {0.4, 9, 1}, {1.0, 9, 9},  {0.0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(blocks_k(cases[i].share, cases[i].k_max), cases[i].k);
}

/* The challenger earns 0.2, the control 0.7: D must be -0.5 whichever arm is the smaller. */
static void test_sign_in_both_roles(void **state)
{
    (void)state;
    static const double shares[3] = {0.1, 0.5, 0.95};
    for (int i = 0; i < 3; i++) {
        struct blocks b = {0};
        blocks_set_share(&b, shares[i], 9);
        double d = 0;
        int formed = 0;
        for (int j = 0; j < 200; j++) {
            bool is_challenger = floor((j + 1) * shares[i]) > floor(j * shares[i]);
            if (push(&b, 0, is_challenger, is_challenger ? 0.2 : 0.7, &d)) {
                formed++;
                assert_true(fabs(d + 0.5) < 1e-12);
            }
        }
        assert_true(formed >= 5);
    }
}

static void test_waits_for_the_other_arm(void **state)
{
    (void)state;
    struct blocks b = {0};
    double d = 9;
    blocks_set_share(&b, 0.25, 9);
    assert_false(push(&b, 0, true, 1.0, &d));
    assert_false(push(&b, 0, true, 0.0, &d));
    assert_false(push(&b, 0, false, 0.0, &d));
    assert_false(push(&b, 0, false, 0.0, &d));
    assert_true(push(&b, 0, false, 1.0, &d)); /* the first challenger row with three controls */
    assert_true(fabs(d - (1.0 - 1.0 / 3)) < 1e-12);
    assert_false(push(&b, 0, false, 1.0, &d));
    assert_false(push(&b, 0, false, 1.0, &d));
    assert_true(push(&b, 0, false, 1.0, &d)); /* then the second */
    assert_true(fabs(d + 1.0) < 1e-12);
}

static void test_strata_do_not_mix(void **state)
{
    (void)state;
    struct blocks b = {0};
    double d = 9;
    blocks_set_share(&b, 0.5, 9);
    assert_false(push(&b, 0, true, 0.9, &d));
    assert_false(push(&b, 1, false, 0.1, &d));
    assert_true(push(&b, 1, true, 0.2, &d));
    assert_true(fabs(d - 0.1) < 1e-12);
    assert_true(push(&b, 0, false, 0.9, &d));
    assert_true(fabs(d) < 1e-12);
    assert_false(push(&b, 999, true, 0.9, &d)); /* out of range: the last stratum, no overrun */
}

static void test_is_bounded(void **state)
{
    (void)state;
    struct blocks b = {0};
    double d = 0;
    blocks_set_share(&b, 0.5, 9);
    for (int i = 0; i < 1000; i++)
        assert_false(push(&b, 0, true, i < 1000 - BLOCKS_WAITING ? 0.0 : 1.0, &d));
    assert_int_equal(b.n_dropped, 1000 - BLOCKS_WAITING);
    assert_true(push(&b, 0, false, 0.0, &d)); /* meets one of the last, not of the first */
    assert_true(fabs(d - 1.0) < 1e-12);
}

static void test_side_change_starts_anew(void **state)
{
    (void)state;
    struct blocks b = {0};
    double d = 0;
    blocks_set_share(&b, 0.1, 9);
    push(&b, 0, true, 0.5, &d);
    blocks_set_share(&b, 0.95, 9);
    assert_int_equal(b.stratum[0].n_small + b.stratum[0].n_large, 0);
    assert_int_equal(b.n_dropped, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_k),
        cmocka_unit_test(test_sign_in_both_roles),
        cmocka_unit_test(test_waits_for_the_other_arm),
        cmocka_unit_test(test_strata_do_not_mix),
        cmocka_unit_test(test_is_bounded),
        cmocka_unit_test(test_side_change_starts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
