/* controller/crash_test.c - killed at every step of the state machine, and a changed row behind
 * every decision.
 *
 * One scripted course goes through every action of the law: steps of the ramp, promotion, rollback,
 * quarantine, a stop, a crashed engine, expiry, drift with a revert that is confirmed, hold and
 * resume. It is run undisturbed, then once more with a kill before and after the commit of every
 * batch that decided something and of its neighbours: the same decisions with the same hashes, and
 * after each batch the same state to the last bit (CONTROL.md 2.10 asks for 1e-12). */
#include "controller/intake.h"
#include "controller/replay.h"
#include "controller/sample_frame.h"
#include "controller/test_database.h"

#include "common/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_ROWS = 5, BATCHES_MAX = 600, REVISIONS = 10, N_TAMPERED = 5 };

enum what { ROWS, START, EVENT };
static const struct {
    enum what what;
    int n_batches;    /* of ROWS */
    const char *kind; /* of EVENT */
} SCRIPT[] = {
    {ROWS, 12, NULL}, {START, 0, NULL},   {ROWS, 45, NULL},    {START, 0, NULL},
    {ROWS, 35, NULL}, {START, 0, NULL},   {ROWS, 4, NULL},     {EVENT, 0, "stop"},
    {START, 0, NULL}, {ROWS, 4, NULL},    {EVENT, 0, "crash"}, {START, 0, NULL},
    {ROWS, 50, NULL}, {START, 0, NULL},   {ROWS, 2, NULL},     {EVENT, 0, "promote"},
    {ROWS, 50, NULL}, {EVENT, 0, "hold"}, {ROWS, 2, NULL},     {EVENT, 0, "resume"},
    {ROWS, 2, NULL},
};

static const char *const ACTIONS[] = {"step", "promote", "rollback",   "expire", "canary",
                                      "hold", "alert",   "quarantine", "resume"};

/* By number: promoted by its tests, rolled back, stopped, crashed, expires, bad but promoted. */
static const double QUALITY[REVISIONS] = {0, 0.2, 0.9, 0.1, 0.9, 0.9, 0.9, 0.2};

struct after {      /* a batch */
    uint64_t state; /* hash of the law's whole state */
    uint64_t n_decisions;
};

static struct test_database database;
static struct err e;
static struct arena config_arena;
static struct milepost_config config;
static struct fake_clock fake;
static struct ledger *ledger;
static struct intake *intake;
static uint64_t seq, dealt[REVISIONS];
static struct after reference[BATCHES_MAX], *now_at;
static bool is_killing;
static int n_kills, at_batch;

static void open_ledger(void)
{
    struct ledger_options o = {
        .database = database.path, .config = &config, .clock = fake_clock_as_clock(&fake)};
    assert_ok(ledger_open(&ledger, &o, &e), &e);
    intake = intake_new(ledger);
    assert_non_null(intake);
}

static void drop_ledger(void)
{
    intake_free(intake);
    ledger_close(ledger);
    intake = NULL;
    ledger = NULL;
}

static void remove_database(void)
{
    test_database_clear(&database);
}

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7, max_new_tokens: 64}, policy: {ramp: "
        "[\"0.25\", \"0.5\"], ramp_units: 20, min_minutes: 0, pair_deadline_ms: 500, max_units: "
        "80, calibration_units: 40, propose: false, drift_threshold: 1000}}]"};
    if (test_database_make(&database) != 0)
        return -1;
    arena_init(&config_arena, 16 * MiB);
    return milepost_config_load(NULL, overrides, 1, &config_arena, &config, &e) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    remove_database();
    arena_free(&config_arena);
    return test_database_remove(&database);
}

static struct policy_view view(void)
{
    struct policy_view v;
    policy_view(ledger->route[0].course.policy, &v);
    return v;
}

/* The next output, as an engine with the desired state in force would admit it. */
static void put_row(void)
{
    struct policy_view v = view();
    struct intake_result r;
    struct buf frame;
    double share = v.challenger ? v.share : 0.0;
    seq++;
    bool is_challenger =
        floor((double)seq * share) > floor((double)(seq - 1) * share) && v.challenger;
    uint64_t number = is_challenger ? v.challenger : v.champion;
    double luck = (double)dealt[number]++ * 0.6180339887498949;
    struct sample m = {seq,
                       number,
                       "default",
                       is_challenger ? "challenger" : "champion",
                       v.challenger ? v.experiment : "",
                       is_challenger ? share : 1.0 - share,
                       luck - floor(luck) < QUALITY[number]};
    buf_init(&frame, MiB);
    sample_frame(&m, fake.wall_now.us, &frame);
    assert_ok(intake_frame(intake, buf_str(&frame), &r, &e), &e);
    assert_int_equal(r.kind, INTAKE_SCORE);
    buf_free(&frame);
}

static void put_event(const char *kind, struct str payload)
{
    struct ledger_event ev = {.route = &ledger->route[0],
                              .kind = kind,
                              .actor = STR("operator:test"),
                              .reason = STR("a test"),
                              .payload = payload};
    assert_ok(ledger_event(ledger, &ev, NULL, &e), &e);
}

static void put_start(void)
{
    struct revision r = {.route = STR("default"),
                         .parent = view().champion,
                         .author = STR("operator:test"),
                         .reason = STR("a test"),
                         .created = {fake.wall_now.us}};
    uint64_t newest = (uint64_t)0;
    char payload[96];
    int64_t n = 0;
    assert_ok(store_number(ledger->store, "SELECT max(number) FROM revisions", &n, &e), &e);
    newest = (uint64_t)n;
    assert_ok(params_put(&r.params.defaults, PARAM_TEMPERATURE, 0.1 * (double)(newest + 7), &e),
              &e);
    assert_ok(store_add_revision(ledger->store, &r, &e), &e);
    snprintf(payload, sizeof payload, "{\"revision\":%llu,\"experiment\":\"e%llu\"}",
             (unsigned long long)r.number, (unsigned long long)r.number);
    put_event("start", str_from(payload));
}

static uint64_t state_hash(void)
{
    json_t *v = policy_state_encode(ledger->route[0].course.policy);
    struct buf b;
    buf_init(&b, 16 * MiB);
    assert_ok(json_write(v, &b, &e), &e);
    uint64_t hash = hash64(b.p, b.n, 1);
    buf_free(&b);
    json_decref(v);
    return hash;
}

static void fill_batch(size_t i)
{
    assert_ok(ledger_begin(ledger, &e), &e);
    if (SCRIPT[i].what == START)
        put_start();
    else if (SCRIPT[i].what == EVENT)
        put_event(SCRIPT[i].kind, STR(""));
    for (int k = 0; SCRIPT[i].what == ROWS && k < BATCH_ROWS; k++)
        put_row();
    assert_ok(ledger_ticks(ledger, &e), &e);
}

static bool decides(int batch)
{
    uint64_t before = batch ? reference[batch - 1].n_decisions : 0;
    return reference[batch].n_decisions != before;
}

static bool is_near_a_decision(int batch)
{
    return decides(batch) || (batch && decides(batch - 1)) ||
           (batch + 1 < BATCHES_MAX && decides(batch + 1));
}

static void kill_now(void)
{
    drop_ledger();
    open_ledger();
    n_kills++;
}

static void run_batch(size_t i)
{
    bool is_target = is_killing && is_near_a_decision(at_batch);
    uint64_t before_dealt[REVISIONS], before_seq = seq;
    memcpy(before_dealt, dealt, sizeof dealt);
    fake_clock_advance(&fake, 20000);
    fill_batch(i);
    if (is_target) { /* before the commit: the engine sends the batch again */
        kill_now();
        seq = before_seq;
        memcpy(dealt, before_dealt, sizeof dealt);
        fill_batch(i);
    }
    assert_ok(ledger_commit(ledger, &e), &e);
    if (is_target) /* after it, before anybody was told */
        kill_now();
    assert_true(at_batch < BATCHES_MAX);
    now_at = &reference[at_batch++];
    struct after a = {state_hash(), ledger->n_decisions};
    if (!is_killing)
        *now_at = a;
    else if (a.state != now_at->state || a.n_decisions != now_at->n_decisions)
        fail_msg("batch %d: another state after a kill", at_batch - 1);
}

/* Runs the script on a new database; hash of the last decision, which vouches for all of them. */
static uint64_t run_course(char hash[65])
{
    uint64_t n = 0;
    remove_database();
    fake = (struct fake_clock){.wall_now = {1000000000}};
    seq = 0;
    at_batch = 0;
    memset(dealt, 0, sizeof dealt);
    open_ledger();
    for (size_t i = 0; i < sizeof SCRIPT / sizeof *SCRIPT; i++)
        for (int k = 0; k < (SCRIPT[i].what == ROWS ? SCRIPT[i].n_batches : 1); k++)
            run_batch(i);
    assert_ok(store_last_decision(ledger->store, &n, hash, &e), &e);
    drop_ledger();
    return n;
}

static int64_t number(const char *sql)
{
    struct store *s = NULL;
    int64_t n = 0;
    assert_ok(store_open_readonly(&s, database.path, &e), &e);
    assert_ok(store_number(s, sql, &n, &e), &e);
    store_close(s);
    return n;
}

static void assert_replay(bool agrees, uint64_t decision)
{
    struct replay_report report;
    assert_ok(replay_run(database.path, &report, &e), &e);
    if (report.agrees != agrees)
        fail_msg("decision %llu: replay says %d: %s", (unsigned long long)decision, report.agrees,
                 report.difference);
}

static void test_a_kill_at_every_step_changes_nothing(void **state)
{
    (void)state;
    char plain[65], killed[65];
    is_killing = false;
    uint64_t n = run_course(plain);
    for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM decisions WHERE action='%s'", ACTIONS[i]);
        if (number(sql) < 1)
            fail_msg("the course has no decision \"%s\"", ACTIONS[i]);
    }
    is_killing = true;
    assert_int_equal(run_course(killed), n);
    assert_string_equal(plain, killed);
    assert_true(n_kills >= 2 * 12);
    assert_replay(true, 0);
}

/* Rows up to the decision's own cause; 0 = none. */
static int64_t last_row_of(uint64_t decision)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(max(row),0) FROM scores WHERE row<=(SELECT ord FROM decisions WHERE "
             "number=%llu)",
             (unsigned long long)decision);
    return number(sql);
}

static void turn_reward(int64_t row)
{
    struct db *db;
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE scores SET reward=1-reward WHERE row=%lld", (long long)row);
    assert_ok(db_open(&db, database.path, DB_SYNC_NORMAL, &e), &e);
    assert_ok(db_exec(db, sql, &e), &e);
    db_close(db);
}

/* The last row before the first step, promotion, rollback, expiry and revert, its reward turned
 * round. */
static void test_a_changed_row_behind_a_decision_is_found(void **state)
{
    (void)state;
    char hash[65];
    is_killing = false;
    run_course(hash);
    for (size_t i = 0; i < N_TAMPERED; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT min(number) FROM decisions WHERE action='%s'",
                 ACTIONS[i]);
        uint64_t decision = (uint64_t)number(sql);
        int64_t row = last_row_of(decision);
        assert_true(row > 0);
        turn_reward(row);
        assert_replay(false, decision);
        turn_reward(row);
    }
    assert_replay(true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_kill_at_every_step_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_changed_row_behind_a_decision_is_found, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
