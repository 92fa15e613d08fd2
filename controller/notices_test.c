/* What webhooks must be told, on a real database: with its cause or not at all, bounded, and given
 * up when the configuration no longer names the webhook. Delivery: tests/e2e/test_webhooks.py. */
#include "controller/notices.h"
#include "controller/test_database.h"

#include "common/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_database database;
static struct err e;
static struct arena arena;
static struct milepost_config config;
static struct ledger *ledger;
static int n_given_up;

static void on_notice(void *ctx, const struct stored_notice *n)
{
    (void)ctx;
    n_given_up += n->state == NOTICE_GIVEN_UP;
}

static void open_ledger(const char *webhooks)
{
    const char *overrides[] = {"routes=[{name: default, policy: {kind: hold}}]", webhooks};
    assert_ok(milepost_config_load(NULL, overrides, 2, &arena, &config, &e), &e);
    struct ledger_options o = {.database = database.path,
                               .config = &config,
                               .clock = CLOCK_REAL,
                               .hooks = {.notice = on_notice}};
    assert_ok(ledger_open(&ledger, &o, &e), &e);
}

static int setup(void **state)
{
    (void)state;
    n_given_up = 0;
    if (test_database_make(&database) != 0)
        return -1;
    arena_init(&arena, 16 * MiB);
    open_ledger("controller.webhooks=[{name: a, url: 'http://a/', events: [hold]}, {name: b, url: "
                "'http://b/', events: [all]}, {name: c, url: 'http://c/', events: [alert]}]");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ledger_close(ledger);
    arena_free(&arena);
    return test_database_remove(&database);
}

static int64_t number(const char *sql)
{
    return test_database_number(&database, sql);
}

static void decide(const char *kind, bool commits)
{
    struct ledger_event ev = {
        .route = &ledger->route[0], .kind = kind, .actor = STR("operator:test")};
    assert_ok(ledger_begin(ledger, &e), &e);
    assert_ok(ledger_event(ledger, &ev, NULL, &e), &e);
    assert_ok(commits ? ledger_commit(ledger, &e) : ledger_abort(ledger, &e), &e);
}

static void test_with_its_cause_or_not_at_all(void **state)
{
    (void)state;
    decide("hold", false);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE event='hold'"), 0);
    decide("hold", true);
    decide("resume", true);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='a'"), 1);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='b'"), 3);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='c'"), 0);
    assert_int_equal(
        number("SELECT count(*) FROM notices n JOIN decisions d ON n.key='decision-'||"
               "substr(d.hash,1,32) AND json_extract(n.body,'$.decision.hash')=d.hash"),
        4);
}

static void test_what_waits_is_bounded(void **state)
{
    (void)state;
    char sql[256];
    assert_ok(
        db_exec(store_db(ledger->store),
                "CREATE TEMP TABLE digits(d); INSERT INTO digits VALUES(0),(1),(2),(3),(4),(5)"
                ",(6),(7),(8),(9)",
                &e),
        &e);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO notices SELECT NULL,'a','k'||rowid,'hold','{}',0,0,0,0,NULL,'' FROM (SELECT "
        "a.d+10*b.d+100*c.d+1000*f.d AS rowid FROM digits a,digits b,digits c,digits f) WHERE "
        "rowid<%d",
        NOTICES_WAITING_MAX - 1);
    assert_ok(db_exec(store_db(ledger->store), sql, &e), &e);
    decide("hold", true);
    assert_int_equal(n_given_up, 0);
    decide("resume", true);
    decide("hold", true);
    assert_int_equal(n_given_up, 1);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='a' AND state=0"),
                     NOTICES_WAITING_MAX);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='a' AND state=2"), 1);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='b' AND state=0"), 4);
}

static void test_an_attempt_and_a_webhook_that_is_gone(void **state)
{
    (void)state;
    struct stored_notice n;
    decide("hold", true);
    assert_ok(store_next_notice(ledger->store, STR("a"), 1, &arena, &n, &e), &e);
    n.state = NOTICE_WAITS;
    n.attempts = 1;
    n.next_us = INT64_MAX;
    n.answer = STR("status 500");
    assert_ok(ledger_begin(ledger, &e), &e);
    assert_ok(notices_attempt(ledger, &n, &e), &e);
    assert_ok(ledger_commit(ledger, &e), &e);
    assert_int_equal(store_next_notice(ledger->store, STR("a"), 1, &arena, &n, &e), ERR_NOT_FOUND);
    ledger_close(ledger);
    open_ledger("controller.webhooks=[{name: b, url: 'http://b/', events: [all]}]");
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='a' AND state=2"), 1);
    assert_int_equal(number("SELECT count(*) FROM notices WHERE webhook='b' AND state=0"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_with_its_cause_or_not_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_attempt_and_a_webhook_that_is_gone, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
