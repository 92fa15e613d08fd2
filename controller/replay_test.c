/* The latency guardrail from stored rows: what the live law held, replay finds again from the
 * columns of times, at every moment of a canary; and a changed column is found. */
#include "controller/test_ledger.h"

#include "common/test.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_BEFORE = 120, ROWS_MAX = 2000, REPLAY_EVERY = 100 };

static struct test_ledger t;
static uint64_t seq;

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7}, policy: {ramp: [\"0.5\"], "
        "min_minutes: 0, pair_deadline_ms: 500, calibration_units: 40, propose: false, "
        "latency_ratio: 1.5}}]"};
    seq = 0;
    if (test_ledger_make(&t, overrides, 1) != 0)
        return -1;
    test_ledger_open(&t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return test_ledger_end(&t);
}

/* As an engine in that state serves it; the challenger earns the same and takes twice as long. */
static void put_row(void)
{
    struct policy_view v = test_ledger_view(&t);
    seq++;
    bool is_challenger = v.challenger && seq % 2;
    uint64_t ttft_us = (is_challenger ? 60000 : 30000) + seq % 7 * 1000;
    struct sample m = {seq,
                       is_challenger ? v.challenger : v.champion,
                       "default",
                       is_challenger ? "challenger" : "champion",
                       v.challenger ? v.experiment : "",
                       v.challenger ? 0.5 : 1.0,
                       seq * 3 % 5 ? 1.0 : 0.0};
    fake_clock_advance(&t.fake, 20000);
    assert_int_equal(test_ledger_take_timed(&t, &m, ttft_us, 3 * ttft_us), INTAKE_SCORE);
    test_ledger_commit(&t);
}

static void start_canary(void)
{
    test_ledger_begin(&t);
    assert_ok(test_ledger_start(&t, test_ledger_revision(&t, 0.6), false, NULL), &t.e);
    test_ledger_commit(&t);
}

static double latency_wealth(void)
{
    struct policy_view v = test_ledger_view(&t);
    for (uint32_t i = 0; i < v.n_test; i++)
        if (strcmp(v.test[i].name, "guardrail_latency") == 0)
            return v.test[i].log_e;
    return 0.0;
}

static void run_canary(void)
{
    double highest = 0.0;
    for (int i = 0; i < ROWS_BEFORE; i++)
        put_row();
    start_canary();
    for (int i = 0; i < ROWS_MAX && test_ledger_view(&t).challenger; i++) {
        put_row();
        if (latency_wealth() > highest)
            highest = latency_wealth();
        if (i % REPLAY_EVERY == 0)
            test_ledger_replay(&t, true, "in the canary");
    }
    assert_true(highest > 0.0);
}

static void test_replay_finds_the_latency_guardrail_again(void **state)
{
    (void)state;
    run_canary();
    assert_int_equal(
        test_ledger_number(&t, "SELECT count(*) FROM decisions WHERE action='rollback' AND "
                               "json_extract(json,'$.test')='guardrail_latency'"),
        1);
    test_ledger_replay(&t, true, "after the rollback");
}

static void add_to(const char *column, int by)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE outputs SET %s=%s+(%d) WHERE id=150", column, column, by);
    test_ledger_tamper(&t, sql);
}

static void test_a_changed_time_is_found(void **state)
{
    static const char *const COLUMNS[] = {"ttft_us", "decode_us", "queue_us", "cached_tokens",
                                          "desired_version"};
    (void)state;
    run_canary();
    test_ledger_drop(&t);
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) {
        add_to(COLUMNS[i], 1);
        test_ledger_replay(&t, false, COLUMNS[i]);
        add_to(COLUMNS[i], -1);
    }
    test_ledger_open(&t);
    test_ledger_replay(&t, true, "put back");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replay_finds_the_latency_guardrail_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_changed_time_is_found, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
