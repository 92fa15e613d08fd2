/* The written half of the controller on a real database: intake with repeats, disorder and holes;
 * restart at any point; replay and its detection of tampering. */
#include "controller/test_ledger.h"

#include "common/rng.h"
#include "common/test.h"
#include "schemas/migrations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_ledger t;

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, params: {temperature: 0.7, max_new_tokens: 64}, "
        "policy: {ramp: [\"0.5\"], ramp_units: 50, min_minutes: 0, pair_deadline_ms: 500}}, "
        "{name: other, policy: {kind: hold}}]"};
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

static uint64_t mark(void)
{
    struct tracker_source *s = tracker_find(t.ledger->tracker, STR("e1"), 9, false);
    return s ? s->mark : 0;
}

static int64_t number(const char *sql)
{
    return test_ledger_number(&t, sql);
}

static struct sample plain(uint64_t seq)
{
    return (struct sample){seq, 1, "default", "champion", "", 1.0, 0.8};
}

static void test_repeats_disorder_and_holes(void **state)
{
    (void)state;
    static const uint64_t ORDER[] = {2, 1, 2, 5, 1, 4, 5};
    static const enum intake_kind WANT[] = {INTAKE_SCORE,    INTAKE_SCORE,     INTAKE_DUPLICATE,
                                            INTAKE_SCORE,    INTAKE_DUPLICATE, INTAKE_SCORE,
                                            INTAKE_DUPLICATE};
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++) {
        struct sample m = plain(ORDER[i]);
        assert_int_equal(test_ledger_take(&t, &m), WANT[i]);
    }
    assert_int_equal(mark(), 2);
    test_ledger_commit(&t);
    assert_int_equal(number("SELECT count(*) FROM scores"), 4);
    assert_int_equal(number("SELECT seq FROM marks"), 2);
    /* The engine says it dropped 3. */
    test_ledger_begin(&t);
    assert_ok(ledger_note_oldest(t.ledger, STR("e1"), 9, 4, 1, &t.e), &t.e);
    test_ledger_commit(&t);
    assert_int_equal(mark(), 5);
    assert_int_equal(number("SELECT count(*) FROM gaps WHERE first_seq=3 AND last_seq=3"), 1);
    test_ledger_drop(&t);
    test_ledger_open(&t);
    assert_int_equal(mark(), 5);
    assert_int_equal(t.ledger->route[0].arm[0].reward.n, 4);
}

/* A second score of an output, under another request's id: no second row for the statistics. */
static void test_an_output_counts_once_whatever_its_scores_say(void **state)
{
    (void)state;
    struct intake_result r;
    struct sample m = plain(1), other = plain(2);
    assert_int_equal(test_ledger_take(&t, &m), INTAKE_SCORE);
    struct buf frame;
    buf_init(&frame, MiB);
    sample_frame(&other, t.fake.wall_now.us, &frame);
    struct str text = buf_str(&frame);
    const struct str key = STR("\"seq\":");
    for (ptrdiff_t at = str_find(text, key, 0); at >= 0;
         at = str_find(text, key, (size_t)at + key.n))
        frame.p[(size_t)at + key.n] = '1';
    for (const char *version = "def"; version; version = *version == 'd' ? "ghi" : NULL) {
        ptrdiff_t at = str_find(text, STR("\"version\":\""), 0);
        assert_true(at > 0);
        memcpy(frame.p + at + 11, version, 3);
        assert_ok(intake_frame(t.intake, text, &r, &t.e), &t.e);
        assert_int_equal(r.kind, INTAKE_SCORE);
    }
    buf_free(&frame);
    test_ledger_commit(&t);
    assert_int_equal(number("SELECT count(*) FROM outputs"), 1);
    assert_int_equal(number("SELECT count(*) FROM scores WHERE request_id='r1'"), 3);
    assert_int_equal(number("SELECT sum(is_counted) FROM scores"), 1);
}

/* Before an engine has a mark, too: what is stored above a hole is none after a restart. */
static void test_a_restart_knows_what_is_above_the_first_hole(void **state)
{
    (void)state;
    for (uint64_t seq = 2; seq <= 3; seq++) {
        struct sample m = plain(seq);
        assert_int_equal(test_ledger_take(&t, &m), INTAKE_SCORE);
    }
    test_ledger_commit(&t);
    test_ledger_drop(&t);
    test_ledger_open(&t);
    test_ledger_begin(&t);
    assert_ok(ledger_note_oldest(t.ledger, STR("e1"), 9, 5, 4, &t.e), &t.e);
    test_ledger_commit(&t);
    assert_int_equal(number("SELECT count(*) FROM gaps"), 2);
    assert_int_equal(number("SELECT count(*) FROM gaps WHERE first_seq=last_seq AND "
                            "first_seq IN (1,4)"),
                     2);
}

static void test_frames_that_cannot_be_used_are_kept_and_passed(void **state)
{
    (void)state;
    struct intake_result r;
    test_ledger_begin(&t);
    assert_ok(intake_frame(t.intake, STR("not json"), &r, &t.e), &t.e);
    assert_int_equal(r.kind, INTAKE_GARBAGE);
    struct str feedback =
        STR("{\"schema\":\"milepost.feedback.v1\",\"engine\":\"e1\",\"epoch\":9,\"seq\":1,"
            "\"request_id\":\"r\",\"value\":1,\"created_us\":5}");
    assert_ok(intake_frame(t.intake, feedback, &r, &t.e), &t.e);
    assert_int_equal(r.kind, INTAKE_FEEDBACK);
    assert_ok(intake_frame(t.intake, feedback, &r, &t.e), &t.e);
    assert_int_equal(r.kind, INTAKE_DUPLICATE);
    /* A score around an output without a text: the key is there, the rest not. */
    struct buf frame;
    buf_init(&frame, MiB);
    struct sample m = plain(2);
    sample_frame(&m, t.fake.wall_now.us, &frame);
    ptrdiff_t at = str_find(buf_str(&frame), STR("\"text\":"), 0);
    assert_true(at > 0);
    frame.p[at + 1] = 'T';
    assert_ok(intake_frame(t.intake, buf_str(&frame), &r, &t.e), &t.e);
    buf_free(&frame);
    assert_int_equal(r.kind, INTAKE_REJECT);
    test_ledger_commit(&t);
    assert_int_equal(mark(), 2);
    assert_int_equal(number("SELECT count(*) FROM rejects"), 1);
    assert_int_equal(number("SELECT count(*) FROM scores"), 0);
}

static uint64_t push_bad(void)
{
    uint64_t decision;
    test_ledger_begin(&t);
    uint64_t revision = test_ledger_revision(&t, 1.8);
    assert_ok(test_ledger_start(&t, revision, true, &decision), &t.e);
    assert_true(decision > 0);
    /* A second one must wait: nothing is written. */
    assert_int_equal(test_ledger_start(&t, revision, true, &decision), ERR_CONFLICT);
    test_ledger_commit(&t);
    return revision;
}

/* Traffic through a canary, in batches of random size; kills the controller now and then. The
 * engine sends again what was not committed. Returns the number of outputs sent. */
static uint64_t drive(uint64_t seed, uint64_t first, uint64_t n, uint64_t bad, bool kills)
{
    struct rng r;
    rng_seed(&r, seed);
    uint64_t seq = first, committed = first - 1;
    char experiment[24];
    snprintf(experiment, sizeof experiment, "e%llu", (unsigned long long)bad);
    while (committed < first + n - 1) {
        uint64_t batch = 1 + rng_below(&r, 40);
        for (uint64_t i = 0; i < batch && seq < first + n; i++, seq++) {
            struct rng mine; /* of the output: the same when it is sent again */
            rng_seed(&mine, seed * 1000003 + seq);
            bool is_bad = rng_uniform(&mine) < 0.95;
            double mean = is_bad ? 0.2 : 0.85, p = rng_uniform(&mine);
            struct sample m = {seq,
                               is_bad ? bad : 1,
                               "default",
                               is_bad ? "challenger" : "champion",
                               experiment,
                               is_bad ? 0.95 : 0.05,
                               p < 0.02   ? -1.0
                               : p < mean ? 1.0
                                          : 0.0};
            test_ledger_take(&t, &m);
        }
        fake_clock_advance(&t.fake, 20000);
        if (kills && rng_below(&r, 4) == 0) {
            test_ledger_drop(&t);
            test_ledger_open(&t);
            seq = committed + 1;
            continue;
        }
        test_ledger_begin(&t);
        assert_ok(ledger_ticks(t.ledger, &t.e), &t.e);
        test_ledger_commit(&t);
        committed = seq - 1;
    }
    return seq - first;
}

static void test_bad_push_is_rolled_back_and_replays(void **state)
{
    (void)state;
    uint64_t bad = push_bad();
    drive(1, 1, 900, bad, false);
    assert_int_equal(number("SELECT count(*) FROM decisions WHERE action='rollback'"), 1);
    assert_int_equal(number("SELECT count(*) FROM quarantine"), 1);
    assert_int_equal(number("SELECT count(*) FROM experiments WHERE outcome='rollback'"), 1);
    struct policy_view v = test_ledger_view(&t);
    assert_int_equal(v.champion, 1);
    assert_int_equal(v.challenger, 0);
    test_ledger_replay(&t, true, "as it was written");
    assert_true(number("SELECT count(*) FROM decisions WHERE action='rollback' AND log_e>="
                       "log_threshold AND log_threshold>2.9") == 1);
}

static double rollback_log_e(void)
{
    struct policy_view v = test_ledger_view(&t);
    for (uint32_t i = 0; i < v.n_test; i++) {
        if (strcmp(v.test[i].name, "rollback") == 0)
            return v.test[i].log_e;
    }
    return (double)NAN;
}

/* CONTROL.md 2.10, restart test: identical log W after reopening. */
static void test_restart_keeps_the_statistic(void **state)
{
    (void)state;
    uint64_t bad = push_bad();
    drive(3, 1, 120, bad, false);
    double before = rollback_log_e();
    assert_false(isnan(before));
    test_ledger_drop(&t);
    test_ledger_open(&t);
    assert_true(fabs(rollback_log_e() - before) <= 1e-12);
    /* The same from the rows alone, without the stored state. */
    test_ledger_drop(&t);
    test_ledger_tamper(&t, "UPDATE policy_state SET state='{}'");
    test_ledger_open(&t);
    assert_true(rollback_log_e() == before);
}

static void test_kills_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 13; seed++) {
        uint64_t bad = push_bad();
        uint64_t first = 1 + (seed - 10) * 500;
        drive(seed, first, 500, bad, true);
        assert_int_equal(number("SELECT count(*) FROM outputs"), (int64_t)(first + 499));
        assert_int_equal(number("SELECT count(*) FROM scores"), (int64_t)(first + 499));
        assert_int_equal(mark(), first + 499);
        test_ledger_replay(&t, true, "as it was written");
    }
    assert_int_equal(number("SELECT count(*) FROM decisions WHERE action='rollback'"), 3);
}

static void test_tampering_is_seen(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "UPDATE scores SET reward=1.0 WHERE row=(SELECT min(row) FROM scores WHERE reward=0.0)",
        "DELETE FROM scores WHERE row=(SELECT max(row) FROM scores)",
        "UPDATE outputs SET revision=1 WHERE id=(SELECT max(id) FROM outputs WHERE revision>1)",
        "DROP TRIGGER decisions_stay; DELETE FROM decisions WHERE number=2",
        "DROP TRIGGER decisions_keep; UPDATE decisions SET json=replace(json,'rollback','promote')",
        "DROP TRIGGER events_stay; DELETE FROM events WHERE kind='start'",
        "UPDATE outputs SET arm='champion' WHERE id=(SELECT min(id) FROM outputs WHERE revision>1)",
        "UPDATE bodies SET packed=(SELECT packed FROM bodies WHERE output=6) WHERE output=5",
        "UPDATE outputs SET raw_hash=zeroblob(32) WHERE id=5",
        "DELETE FROM bodies WHERE output=(SELECT max(id) FROM outputs)",
        "UPDATE scores SET checks='[]' WHERE row=(SELECT max(row) FROM scores)",
        "UPDATE scores SET committed_us=committed_us+1 WHERE row=(SELECT max(row) FROM scores)",
        "UPDATE scores SET version='x' WHERE row=(SELECT max(row) FROM scores)",
        "DROP TRIGGER decisions_keep; UPDATE decisions SET log_e=9 WHERE action='rollback'",
        "DROP TRIGGER decisions_keep; UPDATE decisions SET actor='operator:x' WHERE number=2",
        "DROP TRIGGER revisions_keep; UPDATE revisions SET author='operator:x' WHERE number=1",
        "UPDATE policy_state SET phase='canary' WHERE route='default'",
        "DELETE FROM quarantine",
        "UPDATE outputs SET propensity=0.25 WHERE id=(SELECT min(id) FROM outputs)",
        "UPDATE outputs SET is_invalid=1 WHERE id=(SELECT max(id) FROM outputs)",
        "UPDATE scores SET verifier='x' WHERE row=(SELECT max(row) FROM scores)",
        "UPDATE scores SET request_id='x' WHERE row=(SELECT max(row) FROM scores)",
        "UPDATE experiments SET outcome='promote'",
    };
    uint64_t bad = push_bad();
    drive(5, 1, 300, bad, false);
    test_ledger_replay(&t, true, "as it was written");
    assert_ok(ledger_save(t.ledger, &t.e), &t.e);
    test_ledger_drop(&t);
    char copy[128], command[512];
    snprintf(copy, sizeof copy, "%s/keep.db", t.database.folder);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct db *d;
        assert_ok(db_open(&d, t.database.path, DB_SYNC_NORMAL, &t.e), &t.e);
        if (i == 0) {
            snprintf(command, sizeof command, "VACUUM INTO '%s'", copy);
            assert_ok(db_exec(d, command, &t.e), &t.e);
        }
        assert_ok(db_exec(d, BAD[i], &t.e), &t.e);
        db_close(d);
        test_ledger_replay(&t, false, BAD[i]);
        assert_ok(db_open(&d, copy, DB_SYNC_NORMAL, &t.e), &t.e);
        unlink(t.database.path);
        snprintf(command, sizeof command, "VACUUM INTO '%s'", t.database.path);
        assert_ok(db_exec(d, command, &t.e), &t.e);
        db_close(d);
        test_ledger_replay(&t, true, "as it was written");
    }
    unlink(copy);
    test_ledger_open(&t);
}

/* Old texts go, what the laws were fed stays: replay proves all of it before and after. */
static void test_expired_texts_leave_the_proof(void **state)
{
    (void)state;
    bool again;
    drive(7, 1, 700, push_bad(), false);
    int64_t n = number("SELECT count(*) FROM bodies");
    t.config.controller.keep_texts_days = 1;
    t.fake.wall_now.us += INT64_C(2) * 86400000000;
    assert_int_equal(n, 700);
    assert_ok(ledger_expire(t.ledger, &again, &t.e), &t.e);
    assert_true(again);
    assert_int_equal(number("SELECT count(*) FROM bodies"), 200);
    test_ledger_replay(&t, true, "as it was written");
    struct sample fresh = plain(701);
    test_ledger_take(&t, &fresh);
    test_ledger_commit(&t);
    assert_ok(ledger_expire(t.ledger, &again, &t.e), &t.e);
    assert_false(again);
    assert_int_equal(number("SELECT count(*) FROM bodies"), 1);
    assert_int_equal(number("SELECT sum(n) FROM rollups"), 701);
    assert_int_equal(number("SELECT count(*) FROM route_rows"), 701);
    struct replay_report report;
    assert_ok(replay_run(t.database.path, &report, &t.e), &t.e);
    assert_int_equal(report.n_texts_expired, 700);
    assert_int_equal(report.texts_from, number("SELECT max(row) FROM scores"));
    assert_int_equal(number("SELECT n FROM totals WHERE what='outputs'"), 701);
    test_ledger_drop(&t);
    test_ledger_open(&t);
    test_ledger_replay(&t, true, "as it was written");
}

/* Rows of schema 2: their texts move, sums are made of them, and the proof holds, also when the
 * texts have expired since. */
static void test_a_store_of_an_earlier_version(void **state)
{
    (void)state;
    struct db *d;
    bool again;
    struct db_migration m[2];
    for (uint32_t i = 0; i < 2; i++)
        m[i] = (struct db_migration){i + 1, SCHEMA_MIGRATIONS[i].name, SCHEMA_MIGRATIONS[i].p};
    test_ledger_drop(&t);
    unlink(t.database.path);
    assert_ok(db_open(&d, t.database.path, DB_SYNC_NORMAL, &t.e), &t.e);
    assert_ok(db_migrate(d, m, 2, &t.e), &t.e);
    assert_ok(
        db_exec(d,
                "INSERT INTO outputs VALUES(1,'e1',9,1,'r1',0,'default',1,'champion','',1.0,"
                "'','',1,0,'stop',0,5,0,2,0,0,0,7,'{\"engine\":\"e1\",\"epoch\":9,\"seq\":1,"
                "\"request_id\":\"r1\",\"route\":\"default\",\"revision\":1,\"arm\":"
                "\"champion\",\"propensity\":1.0,\"admission\":1,\"finish_reason\":\"stop\","
                "\"prompt_tokens\":5,\"completion_tokens\":2,\"created_us\":7}');"
                "INSERT INTO scores VALUES(1,1,'r1',0,'default','abc','v1','default',1,0.5,'',"
                "0,1000,'[]')",
                &t.e),
        &t.e);
    db_close(d);
    test_ledger_open(&t);
    assert_int_equal(t.ledger->n_outputs, 1);
    assert_int_equal(number("SELECT n FROM rollups"), 1);
    assert_int_equal(number("SELECT count(*) FROM route_rows WHERE reward=0.5"), 1);
    test_ledger_replay(&t, true, "as it was written");
    t.config.controller.keep_texts_days = 1;
    t.fake.wall_now.us += INT64_C(2) * 86400000000;
    assert_ok(ledger_expire(t.ledger, &again, &t.e), &t.e);
    assert_int_equal(number("SELECT count(*) FROM bodies"), 0);
    assert_int_equal(number("SELECT length(raw_hash) FROM outputs"), 32);
    test_ledger_replay(&t, true, "as it was written");
}

static void test_history_cannot_be_changed(void **state)
{
    (void)state;
    static const char *const REFUSED[] = {"UPDATE decisions SET reason='x'",
                                          "DELETE FROM decisions",
                                          "UPDATE revisions SET author='x'",
                                          "DELETE FROM revisions",
                                          "DELETE FROM events",
                                          "UPDATE events SET actor='x'"};
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        assert_int_equal(db_exec(store_db(t.ledger->store), REFUSED[i], &t.e), ERR_CONFLICT);
}

static void reconfigure(const char *routes)
{
    test_ledger_drop(&t);
    test_ledger_configure(&t, &routes, 1);
    test_ledger_open(&t);
}

/* A changed file: new parameters never replace what the loop has found; changed settings keep the
 * trial; another law ends it and starts from the champion; a new route gets its own revision. */
static void test_changed_configuration(void **state)
{
    (void)state;
    uint64_t bad = push_bad();
    drive(3, 1, 60, bad, false);
    reconfigure("routes=[{name: default, params: {temperature: 0.9, max_new_tokens: 64}, "
                "policy: {alpha: 0.01, ramp: [\"0.5\"], min_minutes: 0, pair_deadline_ms: 500}}, "
                "{name: other, policy: {kind: hold}}]");
    struct policy_view v = test_ledger_view(&t);
    assert_int_equal(v.champion, 1);
    assert_int_equal(v.challenger, bad);
    assert_int_equal(number("SELECT count(*) FROM events WHERE kind='settings'"), 3);
    test_ledger_replay(&t, true, "as it was written");
    drive(3, 61, 60, bad, false);
    test_ledger_replay(&t, true, "as it was written");
    reconfigure("routes=[{name: default, policy: {kind: hold}}, {name: third}]");
    v = test_ledger_view(&t);
    assert_int_equal(v.champion, 1);
    assert_int_equal(v.challenger, 0);
    assert_int_equal(number("SELECT count(*) FROM experiments WHERE outcome='expire'"), 1);
    assert_int_equal(number("SELECT champion FROM policy_state WHERE route='third'"), bad + 1);
    uint64_t version = t.ledger->desired_version;
    drive(4, 121, 40, bad, true);
    assert_int_equal(t.ledger->desired_version, version);
    test_ledger_replay(&t, true, "as it was written");
}

/* Else a row held for a missing one would wait until the clock has caught up: for a day. */
static void test_a_clock_set_back_stops_no_deadline(void **state)
{
    (void)state;
    struct sample m = plain(1);
    test_ledger_take(&t, &m);
    test_ledger_commit(&t);
    int64_t before = t.ledger->now_us;
    test_ledger_drop(&t);
    t.fake.wall_now.us = before - INT64_C(86400000000);
    test_ledger_open(&t);
    assert_true(ledger_now_us(t.ledger) >= before);
    t.fake.now.us += 5000000;
    assert_int_equal(ledger_now_us(t.ledger), t.ledger->now_us + 5000000);
    t.fake.wall_now.us = before + INT64_C(60000000);
    assert_int_equal(ledger_now_us(t.ledger), t.fake.wall_now.us);
}

static void test_one_writer(void **state)
{
    (void)state;
    struct store *second;
    assert_int_equal(store_open(&second, t.database.path, NULL, &t.e), ERR_CONFLICT);
    assert_non_null(strstr(t.e.msg, "another controller"));
    test_ledger_drop(&t);
    assert_ok(store_open(&second, t.database.path, NULL, &t.e), &t.e);
    store_close(second);
    test_ledger_open(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_repeats_disorder_and_holes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_output_counts_once_whatever_its_scores_say, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_restart_knows_what_is_above_the_first_hole, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_frames_that_cannot_be_used_are_kept_and_passed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bad_push_is_rolled_back_and_replays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_keeps_the_statistic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kills_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tampering_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expired_texts_leave_the_proof, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_store_of_an_earlier_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_history_cannot_be_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_configuration, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_clock_set_back_stops_no_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_writer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
