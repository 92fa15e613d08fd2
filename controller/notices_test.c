/* What webhooks must be told, on a real database: with its cause or not at all, bounded, and given
 * up when the configuration no longer names the webhook. Delivery: tests/e2e/test_webhooks.py. */
#include "controller/notices.h"
#include "controller/test_ledger.h"

#include "common/test.h"

#include <stdio.h>
#include <string.h>

static struct test_ledger t;
static int n_given_up;

static void on_notice(void *ctx, const struct stored_notice *n)
{
    (void)ctx;
    n_given_up += n->state == NOTICE_GIVEN_UP;
}

static int setup(void **state)
{
    (void)state;
    static const char *const overrides[] = {
        "routes=[{name: default, policy: {kind: hold}}]",
        "controller.webhooks=[{name: a, url: 'http://a/', events: [hold]}, {name: b, url: "
        "'http://b/', events: [all]}, {name: c, url: 'http://c/', events: [alert]}]"};
    n_given_up = 0;
    if (test_ledger_make(&t, overrides, 2) != 0)
        return -1;
    t.hooks.notice = on_notice;
    test_ledger_open(&t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return test_ledger_end(&t);
}

static int64_t number(const char *sql)
{
    return test_ledger_number(&t, sql);
}

static void decide(const char *kind, bool commits)
{
    test_ledger_begin(&t);
    assert_ok(test_ledger_event(&t, kind, "", NULL), &t.e);
    assert_ok(commits ? ledger_commit(t.ledger, &t.e) : ledger_abort(t.ledger, &t.e), &t.e);
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
        db_exec(store_db(t.ledger->store),
                "CREATE TEMP TABLE digits(d); INSERT INTO digits VALUES(0),(1),(2),(3),(4),(5)"
                ",(6),(7),(8),(9)",
                &t.e),
        &t.e);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO notices SELECT NULL,'a','k'||rowid,'hold','{}',0,0,0,0,NULL,'' FROM (SELECT "
        "a.d+10*b.d+100*c.d+1000*f.d AS rowid FROM digits a,digits b,digits c,digits f) WHERE "
        "rowid<%d",
        NOTICES_WAITING_MAX - 1);
    assert_ok(db_exec(store_db(t.ledger->store), sql, &t.e), &t.e);
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
    static const char *const FEWER[] = {
        "routes=[{name: default, policy: {kind: hold}}]",
        "controller.webhooks=[{name: b, url: 'http://b/', events: [all]}]"};
    struct stored_notice n;
    decide("hold", true);
    assert_ok(store_next_notice(t.ledger->store, STR("a"), 1, &t.arena, &n, &t.e), &t.e);
    n.state = NOTICE_WAITS;
    n.attempts = 1;
    n.next_us = INT64_MAX;
    n.answer = STR("status 500");
    test_ledger_begin(&t);
    assert_ok(notices_attempt(t.ledger, &n, &t.e), &t.e);
    test_ledger_commit(&t);
    assert_int_equal(store_next_notice(t.ledger->store, STR("a"), 1, &t.arena, &n, &t.e),
                     ERR_NOT_FOUND);
    test_ledger_drop(&t);
    test_ledger_configure(&t, FEWER, 2);
    test_ledger_open(&t);
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
