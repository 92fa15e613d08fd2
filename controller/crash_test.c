/* controller/crash_test.c - killed at every step of the state machine, and a changed row behind
 * every decision.
 *
 * One scripted course goes through every action of the law: steps of the ramp, promotion, rollback,
 * quarantine, a stop, a crashed engine, expiry, drift with a revert that is confirmed, hold and
 * resume. It is run undisturbed, then once more with a kill before and after the commit of every
 * batch that decided something and of its neighbours: the same decisions with the same hashes, and
 * after each batch the same state to the last bit (CONTROL.md 2.10 asks for 1e-12). */
#include "controller/test_ledger.h"

#include "common/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static struct test_ledger t;
static uint64_t seq, dealt[REVISIONS];
static struct after reference[BATCHES_MAX], *now_at;
static bool is_killing;
static int n_kills, at_batch;

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7, max_new_tokens: 64}, policy: {ramp: "
        "[\"0.25\", \"0.5\"], ramp_units: 20, min_minutes: 0, pair_deadline_ms: 500, max_units: "
        "80, calibration_units: 40, propose: false, drift_threshold: 1000}}]"};
    return test_ledger_make(&t, overrides, 1);
}

static int teardown(void **state)
{
    (void)state;
    return test_ledger_end(&t);
}

/* The next output, as an engine with the desired state in force would admit it. */
static void put_row(void)
{
    struct policy_view v = test_ledger_view(&t);
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
    assert_int_equal(test_ledger_take(&t, &m), INTAKE_SCORE);
}

static void put_start(void)
{
    int64_t newest = 0;
    assert_ok(store_number(t.ledger->store, "SELECT max(number) FROM revisions", &newest, &t.e),
              &t.e);
    uint64_t number = test_ledger_revision(&t, 0.1 * (double)(newest + 7));
    assert_ok(test_ledger_start(&t, number, false, NULL), &t.e);
}

static uint64_t state_hash(void)
{
    json_t *v = policy_state_encode(t.ledger->route[0].course.policy);
    struct buf b;
    buf_init(&b, 16 * MiB);
    assert_ok(json_write(v, &b, &t.e), &t.e);
    uint64_t hash = hash64(b.p, b.n, 1);
    buf_free(&b);
    json_decref(v);
    return hash;
}

static void fill_batch(size_t i)
{
    test_ledger_begin(&t);
    if (SCRIPT[i].what == START)
        put_start();
    else if (SCRIPT[i].what == EVENT)
        assert_ok(test_ledger_event(&t, SCRIPT[i].kind, "", NULL), &t.e);
    for (int k = 0; SCRIPT[i].what == ROWS && k < BATCH_ROWS; k++)
        put_row();
    assert_ok(ledger_ticks(t.ledger, &t.e), &t.e);
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
    test_ledger_drop(&t);
    test_ledger_open(&t);
    n_kills++;
}

static void run_batch(size_t i)
{
    bool is_target = is_killing && is_near_a_decision(at_batch);
    uint64_t before_dealt[REVISIONS], before_seq = seq;
    memcpy(before_dealt, dealt, sizeof dealt);
    fake_clock_advance(&t.fake, 20000);
    fill_batch(i);
    if (is_target) { /* before the commit: the engine sends the batch again */
        kill_now();
        seq = before_seq;
        memcpy(dealt, before_dealt, sizeof dealt);
        fill_batch(i);
    }
    test_ledger_commit(&t);
    if (is_target) /* after it, before anybody was told */
        kill_now();
    assert_true(at_batch < BATCHES_MAX);
    now_at = &reference[at_batch++];
    struct after a = {state_hash(), t.ledger->n_decisions};
    if (!is_killing)
        *now_at = a;
    else if (a.state != now_at->state || a.n_decisions != now_at->n_decisions)
        fail_msg("batch %d: another state after a kill", at_batch - 1);
}

/* Runs the script on a new database; hash of the last decision, which vouches for all of them. */
static uint64_t run_course(char hash[65])
{
    uint64_t n = 0;
    test_database_clear(&t.database);
    t.fake = (struct fake_clock){.wall_now = {1000000000}};
    seq = 0;
    at_batch = 0;
    memset(dealt, 0, sizeof dealt);
    test_ledger_open(&t);
    for (size_t i = 0; i < sizeof SCRIPT / sizeof *SCRIPT; i++)
        for (int k = 0; k < (SCRIPT[i].what == ROWS ? SCRIPT[i].n_batches : 1); k++)
            run_batch(i);
    assert_ok(store_last_decision(t.ledger->store, &n, hash, &t.e), &t.e);
    test_ledger_drop(&t);
    return n;
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
        if (test_ledger_number(&t, sql) < 1)
            fail_msg("the course has no decision \"%s\"", ACTIONS[i]);
    }
    is_killing = true;
    assert_int_equal(run_course(killed), n);
    assert_string_equal(plain, killed);
    assert_true(n_kills >= 2 * 12);
    test_ledger_replay(&t, true, "as it was written");
}

/* Rows up to the decision's own cause; 0 = none. */
static int64_t last_row_of(uint64_t decision)
{
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(max(row),0) FROM scores WHERE row<=(SELECT ord FROM decisions WHERE "
             "number=%llu)",
             (unsigned long long)decision);
    return test_ledger_number(&t, sql);
}

static void turn_reward(int64_t row)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE scores SET reward=1-reward WHERE row=%lld", (long long)row);
    test_ledger_tamper(&t, sql);
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
        uint64_t decision = (uint64_t)test_ledger_number(&t, sql);
        int64_t row = last_row_of(decision);
        assert_true(row > 0);
        turn_reward(row);
        test_ledger_replay(&t, false, ACTIONS[i]);
        turn_reward(row);
    }
    test_ledger_replay(&t, true, "as it was written");
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
