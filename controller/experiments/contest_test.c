/* Who meets whom, what a duel needs, shares and orders. Known answers computed apart. */
#include "common/test.h"

#include "controller/experiments/allocation.h"
#include "controller/experiments/contest.h"
#include "controller/experiments/forecast.h"

#include <math.h>
#include <stdlib.h>

static void give(struct contest *c, uint32_t arm, double reward)
{
    struct contest_row row = {.arm = arm, .is_scored = reward >= 0.0, .reward = reward};
    contest_add(c, &row);
}

static void test_first_come_first_paired(void **state)
{
    static struct lineup l;
    struct lineup_block b[EXPERIMENT_ARMS];
    const bool none[3] = {false}, second[3] = {false, true, false};
    (void)state;
    lineup_start(&l, 3);
    assert_int_equal(lineup_push(&l, 0, 0, (struct lineup_value){0.1, 0.1}, none, b), 0);
    assert_int_equal(lineup_push(&l, 0, 0, (struct lineup_value){0.2, 0.2}, none, b), 0);
    assert_int_equal(lineup_push(&l, 0, 1, (struct lineup_value){0.3, 0.3}, none, b), 1);
    assert_true(b[0].arm == 1 && b[0].other == 0 && b[0].theirs.low == 0.1);
    assert_int_equal(lineup_push(&l, 0, 2, (struct lineup_value){0.4, 0.4}, none, b), 2);
    assert_true(b[0].other == 0 && b[0].theirs.low == 0.1); /* each pair by itself */
    assert_true(b[1].other == 1 && b[1].theirs.low == 0.3);
    assert_int_equal(lineup_push(&l, 0, 2, (struct lineup_value){0.5, 0.5}, second, b), 1);
    assert_true(b[0].other == 0 && b[0].theirs.low == 0.2);
    assert_int_equal(lineup_push(&l, 1, 1, (struct lineup_value){0.6, 0.6}, none, b), 0);
}

static void test_a_long_lead_forgets_its_oldest(void **state)
{
    static struct lineup l;
    struct lineup_block b[EXPERIMENT_ARMS];
    const bool none[2] = {false};
    (void)state;
    lineup_start(&l, 2);
    for (int i = 0; i < LINEUP_WAITING + 3; i++) {
        struct lineup_value v = {i, i};
        assert_int_equal(lineup_push(&l, 0, 0, v, none, b), 0);
    }
    assert_int_equal(l.n_dropped, 3);
    for (int i = 0; i < LINEUP_WAITING; i++) {
        assert_int_equal(lineup_push(&l, 0, 1, (struct lineup_value){0, 0}, none, b), 1);
        assert_true(b[0].theirs.low == i + 3);
    }
    assert_int_equal(lineup_push(&l, 0, 1, (struct lineup_value){0, 0}, none, b), 0);
}

/* D = 1 each time: stakes 0, 0.8, 1 (cut to one half), so W = 1, 1.5, 2.25, ... */
static void test_a_duel_needs_both_bets(void **state)
{
    static struct contest c;
    struct contest_verdict v;
    (void)state;
    contest_start(&c, LAW_ELIMINATION, 2);
    for (int i = 0; i < 25; i++) {
        give(&c, 0, 0.0);
        give(&c, 1, 1.0);
    }
    assert_true(fabs(contest_duel(&c, 1, 0)->scored.log_w - 24.0 * log(1.5)) < 1e-12);
    assert_true(contest_beaten(&c, 0.05, 20, &v) && v.winner == 1 && v.loser == 0);
    assert_true(v.log_threshold == log(2.0 / 0.05));
    assert_false(contest_beaten(&c, 0.05, 26, &v));
    /* As many unscored outputs of the winner: with 0 filled in, the same evidence is gone. */
    contest_start(&c, LAW_ELIMINATION, 2);
    for (int i = 0; i < 50; i++) {
        give(&c, 0, 0.0);
        give(&c, 0, -1.0);
        give(&c, 1, 1.0);
        give(&c, 1, -1.0);
    }
    assert_true(contest_duel(&c, 1, 0)->scored.log_w > log(40.0));
    assert_true(contest_duel(&c, 1, 0)->filled.log_w < log(40.0));
    assert_false(contest_beaten(&c, 0.05, 20, &v));
}

static void test_probability_of_the_best(void **state)
{
    static struct contest c;
    double best[EXPERIMENT_ARMS];
    (void)state;
    contest_start(&c, LAW_TOP_TWO, 2);
    c.arm[0] = (struct contestant){.n = 10, .sum = 5.0};
    c.arm[1] = (struct contestant){.n = 10, .sum = 8.0};
    allocation_best(&c, best);
    assert_true(fabs(best[1] - 0.9086687306501539) < 1e-4);
    assert_true(fabs(best[0] + best[1] - 1.0) < 1e-12);
}

static void test_shares(void **state)
{
    static struct contest c;
    double share[EXPERIMENT_ARMS], sum = 0.0;
    (void)state;
    contest_start(&c, LAW_TOP_TWO, 4);
    for (uint32_t k = 0; k < 4; k++)
        c.arm[k] = (struct contestant){.n = 1000, .sum = 500.0 + 100.0 * k};
    c.arm[3].is_out = 1;
    allocation_shares(&c, 0.05, share);
    for (uint32_t k = 0; k < 4; k++)
        sum += share[k];
    assert_true(fabs(sum - 1.0) < 1e-12 && share[3] == 0.0);
    assert_true(fabs(share[0] - 0.05) < 1e-12 && share[1] > 0.4 &&
                share[2] > 0.45); /* the top two */
    contest_start(&c, LAW_ELIMINATION, 4);
    c.arm[1].is_out = 1;
    allocation_shares(&c, 0.05, share);
    assert_true(share[0] == 1.0 / 3.0 && share[1] == 0.0 && share[2] == share[3]);
}

static void test_orders_are_permutations_of_the_seed(void **state)
{
    static struct contest c;
    uint32_t order[EXPERIMENT_ARMS], again[EXPERIMENT_ARMS], first[5] = {0};
    (void)state;
    contest_start(&c, LAW_SLICES, 5);
    for (uint64_t round = 0; round < 1000; round++) {
        uint32_t seen = 0;
        assert_int_equal(allocation_order(&c, 7, round, order), 5);
        assert_int_equal(allocation_order(&c, 7, round, again), 5);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(order[i], again[i]);
            seen |= 1u << order[i];
        }
        assert_int_equal(seen, 31);
        first[order[0]]++;
    }
    for (int i = 0; i < 5; i++)
        assert_true(first[i] > 150 && first[i] < 250);
}

/* The table's case 0.80 against 0.70 twice: between K=3 of the table and its two arms alone. */
static void test_forecast(void **state)
{
    double reward[10] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    struct experiment_plan plan = experiment_plan_default();
    struct forecast_facts facts = {reward, 10, 2.0, 20};
    struct forecast v;
    (void)state;
    plan.effect = 0.1;
    forecast_run(&plan, 3, &facts, &v);
    assert_true(v.n_runs == v.n_decided && v.n_runs > 20);
    assert_true(v.outputs_median > 600 && v.outputs_median < 4000);
    assert_true(v.outputs_p90 > v.outputs_median);
    assert_true(v.seconds_median == v.outputs_median / 2.0);
    plan.max_units = 100; /* too short: said, not guessed */
    forecast_run(&plan, 3, &facts, &v);
    assert_true(v.n_decided == 0 && isnan(v.outputs_median) && isnan(v.seconds_median));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_come_first_paired),
        cmocka_unit_test(test_a_long_lead_forgets_its_oldest),
        cmocka_unit_test(test_a_duel_needs_both_bets),
        cmocka_unit_test(test_probability_of_the_best),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_orders_are_permutations_of_the_seed),
        cmocka_unit_test(test_forecast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
