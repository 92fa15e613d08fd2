/* Rewards over a range of time, from sums by minute and hour, against sums made here from the rows.
 */
#include "controller/api_read.h"
#include "controller/test_ledger.h"

#include <math.h>

#define HOUR_US INT64_C(3600000000)
enum { HOURS = 72, ROWS_AN_HOUR = 4 };

static struct test_ledger t;

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {"routes=[{name: default, policy: {kind: hold}}]"};
    if (test_ledger_make(&t, overrides, 1) != 0)
        return -1;
    t.fake.wall_now.us = INT64_C(500000) * HOUR_US;
    test_ledger_open(&t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return test_ledger_end(&t);
}

/* Rows of some hours, every 15 minutes; one in five is a challenger's, one in ten unscored. */
static void fill(int hours)
{
    for (uint64_t seq = 1; seq <= (uint64_t)hours * ROWS_AN_HOUR; seq++) {
        bool is_new = seq % 5 == 0;
        struct sample m = {seq,
                           is_new ? 2 : 1,
                           "default",
                           is_new ? "challenger" : "champion",
                           "",
                           0.5,
                           seq % 10 == 3 ? -1 : (double)(seq % 7) / 7.0};
        fake_clock_advance(&t.fake, (uint64_t)HOUR_US / ROWS_AN_HOUR);
        assert_int_equal(test_ledger_take(&t, &m), INTAKE_SCORE);
        test_ledger_commit(&t);
    }
}

struct total {
    double n[2], sum[2], n_points;
};

static struct total totals_of(int64_t hours)
{
    static const char *const ARMS[] = {"champion", "challenger"};
    struct total all = {0};
    json_t *v, *point;
    size_t i;
    assert_ok(
        api_read_rewards(t.ledger->store, STR("default"), hours, t.fake.wall_now.us, &v, &t.e),
        &t.e);
    json_array_foreach(json_object_get(v, "rewards"), i, point)
    {
        all.n_points++;
        for (int k = 0; k < 2; k++) {
            const json_t *arm = json_object_get(point, ARMS[k]);
            double n = json_number_value(json_object_get(arm, "n"));
            double mean = json_number_value(json_object_get(arm, "mean"));
            all.n[k] += n;
            all.sum[k] += n * mean;
            if (n > 0) {
                double running = json_number_value(json_object_get(arm, "running_mean"));
                assert_int_equal(json_integer_value(json_object_get(arm, "revision")), k + 1);
                assert_true(json_number_value(json_object_get(arm, "lower")) <= running);
                assert_true(json_number_value(json_object_get(arm, "upper")) >= running);
            }
        }
    }
    json_decref(v);
    return all;
}

/* What the rows say of the whole minutes or hours that a range touches. */
static void assert_range(int64_t hours, int64_t step_us)
{
    struct total all = totals_of(hours);
    int64_t from = t.fake.wall_now.us - hours * HOUR_US;
    from = (from + step_us - 1) / step_us * step_us;
    for (int k = 0; k < 2; k++) {
        double n = 0, sum = 0;
        for (uint64_t seq = 1; seq <= HOURS * ROWS_AN_HOUR; seq++) {
            int64_t at = INT64_C(500000) * HOUR_US + (int64_t)seq * HOUR_US / ROWS_AN_HOUR;
            bool is_mine = (seq % 5 == 0) == k && seq % 10 != 3;
            if (is_mine && at >= from) {
                n++;
                sum += (double)(seq % 7) / 7.0;
            }
        }
        assert_true(all.n[k] == n && fabs(all.sum[k] - sum) < 1e-9 * n);
    }
    assert_true(all.n_points > 0 && all.n_points <= 62);
}

static void test_sums_are_those_of_the_rows(void **state)
{
    (void)state;
    fill(HOURS);
    assert_range(1, 60000000);
    assert_range(6, 60000000);
    assert_range(48, 60000000);
    assert_range(60, HOUR_US); /* by the hour, in slices of one */
    assert_range(24 * 365, HOUR_US);
    assert_true(test_ledger_number(&t, "SELECT count(*) FROM minutes") <= 2 * 48 * ROWS_AN_HOUR);
    assert_int_equal(test_ledger_number(&t, "SELECT sum(n) FROM rollups"), HOURS * ROWS_AN_HOUR);
}

/* Opened by this version, a store of schema 7 has its minutes too. */
static void test_minutes_are_made_of_old_rows(void **state)
{
    (void)state;
    fill(20);
    struct total before = totals_of(24);
    assert_ok(db_exec(store_db(t.ledger->store), "DROP TABLE minutes; PRAGMA user_version=7", &t.e),
              &t.e);
    test_ledger_drop(&t);
    test_ledger_open(&t);
    struct total after = totals_of(24);
    for (int k = 0; k < 2; k++)
        assert_true(before.n[k] == after.n[k] && fabs(before.sum[k] - after.sum[k]) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sums_are_those_of_the_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_minutes_are_made_of_old_rows, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
