/* The latency guardrail from stored rows: what the live law held, replay finds again from the
 * columns of times, at every moment of a canary; and a changed column is found. */
#include "controller/intake.h"
#include "controller/replay.h"
#include "controller/sample_frame.h"
#include "controller/test_database.h"

#include "common/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_BEFORE = 120, ROWS_MAX = 2000, REPLAY_EVERY = 100 };

static struct test_database database;
static struct err e;
static struct arena arena;
static struct milepost_config config;
static struct fake_clock fake;
static struct ledger *ledger;
static struct intake *intake;
static uint64_t seq;

static void open_ledger(void)
{
    struct ledger_options o = {
        .database = database.path, .config = &config, .clock = fake_clock_as_clock(&fake)};
    assert_ok(ledger_open(&ledger, &o, &e), &e);
    intake = intake_new(ledger);
    assert_non_null(intake);
}

static void close_ledger(void)
{
    intake_free(intake);
    ledger_close(ledger);
    ledger = NULL;
}

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7}, policy: {ramp: [\"0.5\"], "
        "min_minutes: 0, pair_deadline_ms: 500, calibration_units: 40, propose: false, "
        "latency_ratio: 1.5}}]"};
    if (test_database_make(&database) != 0)
        return -1;
    arena_init(&arena, 16 * MiB);
    fake = (struct fake_clock){.wall_now = {1000000000}};
    seq = 0;
    if (milepost_config_load(NULL, overrides, 1, &arena, &config, &e) != ERR_OK)
        return -1;
    open_ledger();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_ledger();
    arena_free(&arena);
    return test_database_remove(&database);
}

static struct policy_view view(void)
{
    struct policy_view v;
    policy_view(ledger->route[0].course.policy, &v);
    return v;
}

/* As an engine in that state serves it; the challenger earns the same and takes twice as long. */
static void put_row(void)
{
    struct policy_view v = view();
    struct intake_result r;
    struct buf frame;
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
    fake_clock_advance(&fake, 20000);
    buf_init(&frame, MiB);
    sample_frame_timed(&m, fake.wall_now.us, ttft_us, 3 * ttft_us, &frame);
    assert_ok(ledger_begin(ledger, &e), &e);
    assert_ok(intake_frame(intake, buf_str(&frame), &r, &e), &e);
    assert_int_equal(r.kind, INTAKE_SCORE);
    assert_ok(ledger_commit(ledger, &e), &e);
    buf_free(&frame);
}

static void start_canary(void)
{
    struct revision r = {.route = STR("default"),
                         .parent = view().champion,
                         .author = STR("operator:test"),
                         .reason = STR("a test"),
                         .created = {fake.wall_now.us}};
    char payload[96];
    assert_ok(ledger_begin(ledger, &e), &e);
    assert_ok(params_put(&r.params.defaults, PARAM_TEMPERATURE, 0.6, &e), &e);
    assert_ok(store_add_revision(ledger->store, &r, &e), &e);
    snprintf(payload, sizeof payload, "{\"revision\":%llu,\"experiment\":\"slow\"}",
             (unsigned long long)r.number);
    struct ledger_event ev = {.route = &ledger->route[0],
                              .kind = "start",
                              .actor = STR("operator:test"),
                              .reason = STR("a test"),
                              .payload = str_from(payload)};
    assert_ok(ledger_event(ledger, &ev, NULL, &e), &e);
    assert_ok(ledger_commit(ledger, &e), &e);
}

static void assert_replay(bool agrees, const char *what)
{
    struct replay_report report;
    assert_ok(replay_run(database.path, &report, &e), &e);
    if (report.agrees != agrees)
        fail_msg("%s: replay says %d: %s", what, report.agrees, report.difference);
}

static double latency_wealth(void)
{
    struct policy_view v = view();
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
    for (int i = 0; i < ROWS_MAX && view().challenger; i++) {
        put_row();
        if (latency_wealth() > highest)
            highest = latency_wealth();
        if (i % REPLAY_EVERY == 0)
            assert_replay(true, "in the canary");
    }
    assert_true(highest > 0.0);
}

static void test_replay_finds_the_latency_guardrail_again(void **state)
{
    (void)state;
    int64_t n = 0;
    run_canary();
    assert_ok(store_number(ledger->store,
                           "SELECT count(*) FROM decisions WHERE action='rollback' AND "
                           "json_extract(json,'$.test')='guardrail_latency'",
                           &n, &e),
              &e);
    assert_int_equal(n, 1);
    assert_replay(true, "after the rollback");
}

static void add_to(const char *column, int by)
{
    struct db *db;
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE outputs SET %s=%s+(%d) WHERE id=150", column, column, by);
    assert_ok(db_open(&db, database.path, DB_SYNC_NORMAL, &e), &e);
    assert_ok(db_exec(db, sql, &e), &e);
    db_close(db);
}

static void test_a_changed_time_is_found(void **state)
{
    static const char *const COLUMNS[] = {"ttft_us", "decode_us", "queue_us", "cached_tokens",
                                          "desired_version"};
    (void)state;
    run_canary();
    close_ledger();
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++) {
        add_to(COLUMNS[i], 1);
        assert_replay(false, COLUMNS[i]);
        add_to(COLUMNS[i], -1);
    }
    open_ledger();
    assert_replay(true, "put back");
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
