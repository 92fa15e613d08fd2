/* Rewards over a range of time, from sums by minute and hour, against sums made here from the rows.
 */
#include "controller/api_read.h"
#include "controller/intake.h"
#include "controller/sample_frame.h"
#include "controller/test_database.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define HOUR_US INT64_C(3600000000)
enum { HOURS = 72, ROWS_AN_HOUR = 4 };

static struct test_database database;
static struct err e;
static struct arena arena;
static struct milepost_config config;
static struct fake_clock fake;
static struct ledger *ledger;

static void open_ledger(void)
{
    struct ledger_options o = {
        .database = database.path, .config = &config, .clock = fake_clock_as_clock(&fake)};
    assert_ok(ledger_open(&ledger, &o, &e), &e);
}

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {"routes=[{name: default, policy: {kind: hold}}]"};
    if (test_database_make(&database) != 0)
        return -1;
    arena_init(&arena, 16 * MiB);
    fake = (struct fake_clock){.wall_now = {INT64_C(500000) * HOUR_US}};
    if (milepost_config_load(NULL, overrides, 1, &arena, &config, &e) != ERR_OK)
        return -1;
    open_ledger();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ledger_close(ledger);
    arena_free(&arena);
    return test_database_remove(&database);
}

/* Rows of some hours, every 15 minutes; one in five is a challenger's, one in ten unscored. */
static void fill(int hours)
{
    struct intake *intake = intake_new(ledger);
    for (uint64_t seq = 1; seq <= (uint64_t)hours * ROWS_AN_HOUR; seq++) {
        struct intake_result r;
        struct buf frame;
        bool is_new = seq % 5 == 0;
        struct sample m = {seq,
                           is_new ? 2 : 1,
                           "default",
                           is_new ? "challenger" : "champion",
                           "",
                           0.5,
                           seq % 10 == 3 ? -1 : (double)(seq % 7) / 7.0};
        fake_clock_advance(&fake, (uint64_t)HOUR_US / ROWS_AN_HOUR);
        buf_init(&frame, MiB);
        sample_frame(&m, fake.wall_now.us, &frame);
        assert_ok(ledger_begin(ledger, &e), &e);
        assert_ok(intake_frame(intake, buf_str(&frame), &r, &e), &e);
        assert_ok(ledger_commit(ledger, &e), &e);
        buf_free(&frame);
    }
    intake_free(intake);
}

static int64_t number(const char *sql)
{
    int64_t n;
    assert_ok(store_number(ledger->store, sql, &n, &e), &e);
    return n;
}

struct total {
    double n[2], sum[2], n_points;
};

static struct total totals_of(int64_t hours)
{
    static const char *const ARMS[] = {"champion", "challenger"};
    struct total t = {0};
    json_t *v, *point;
    size_t i;
    assert_ok(api_read_rewards(ledger->store, STR("default"), hours, fake.wall_now.us, &v, &e), &e);
    json_array_foreach(json_object_get(v, "rewards"), i, point)
    {
        t.n_points++;
        for (int k = 0; k < 2; k++) {
            const json_t *arm = json_object_get(point, ARMS[k]);
            double n = json_number_value(json_object_get(arm, "n"));
            double mean = json_number_value(json_object_get(arm, "mean"));
            t.n[k] += n;
            t.sum[k] += n * mean;
            if (n > 0) {
                double running = json_number_value(json_object_get(arm, "running_mean"));
                assert_int_equal(json_integer_value(json_object_get(arm, "revision")), k + 1);
                assert_true(json_number_value(json_object_get(arm, "lower")) <= running);
                assert_true(json_number_value(json_object_get(arm, "upper")) >= running);
            }
        }
    }
    json_decref(v);
    return t;
}

/* What the rows say of the whole minutes or hours that a range touches. */
static void assert_range(int64_t hours, int64_t step_us)
{
    struct total t = totals_of(hours);
    int64_t from = fake.wall_now.us - hours * HOUR_US;
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
        assert_true(t.n[k] == n && fabs(t.sum[k] - sum) < 1e-9 * n);
    }
    assert_true(t.n_points > 0 && t.n_points <= 62);
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
    assert_true(number("SELECT count(*) FROM minutes") <= 2 * 48 * ROWS_AN_HOUR);
    assert_int_equal(number("SELECT sum(n) FROM rollups"), HOURS * ROWS_AN_HOUR);
}

/* Opened by this version, a store of schema 7 has its minutes too. */
static void test_minutes_are_made_of_old_rows(void **state)
{
    (void)state;
    fill(20);
    struct total before = totals_of(24);
    assert_ok(db_exec(store_db(ledger->store), "DROP TABLE minutes; PRAGMA user_version=7", &e),
              &e);
    ledger_close(ledger);
    open_ledger();
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
