/* controller/policies/drift_test.c - what an alarm holds, whom it suspects, and when nothing may be
 * decided: silence, requests in flight, a broken split, turns of one conversation. */
#include "controller/policies/test_bench.h"

/* Revision 1 calibrates at 0.8, then an operator makes 2 the champion. */
static void change_champion(struct bench *b, const struct policy_settings *s)
{
    open_bench(b, s);
    b->mean[0] = 0.8;
    for (int i = 0; i < 150; i++)
        row(b);
    assert_int_equal(start(b, "push", 2, 1.0, false, false), ERR_OK);
    operator_says(b, EVENT_PROMOTE);
    b->champion = 2;
    b->challenger = 0;
}

static int rows_to_alarm(struct bench *b)
{
    int n = rows_until(b, ACTION_ALERT, 400);
    assert_true(n > 0);
    assert_string_equal(find(b, ACTION_ALERT)->test, "drift");
    return n;
}

/* The reward falls right after a change: the revision before is tried against it at 50%, and what
 * it proves is done at once. */
static void test_a_bad_change_is_reverted(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.min_us = (uint64_t)3600 * 1000000; /* a revert does not wait for a traffic cycle */
    change_champion(&b, &s);
    b.mean[0] = 0.2;
    rows_to_alarm(&b);
    const struct policy_action *ask = find(&b, ACTION_START_CANARY);
    assert_non_null(ask);
    assert_int_equal(ask->from_revision, 2);
    assert_int_equal(ask->to_revision, 1);
    start_revert(&b, "revert-1");
    assert_true(b.share == 0.5);
    b.mean[1] = 0.8;
    assert_true(rows_until(&b, ACTION_ROLLBACK, 400) > 0);
    const struct policy_action *act = find(&b, ACTION_ROLLBACK);
    assert_int_equal(act->from_revision, 2);
    assert_int_equal(act->to_revision, 1);
    assert_string_equal(act->experiment, "revert-1");
    assert_non_null(strstr(act->reason, "the last change made the drift"));
    assert_string_equal(find(&b, ACTION_QUARANTINE)->hash, "hash-2");
    assert_int_equal(view_of(&b).champion, 1);
    policy_close(b.p);
}

/* The world changed just then: both fall alike. The change is acquitted, nobody is quarantined. */
static void test_a_changed_world_is_no_bad_change(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.max_units = 300;
    s.proposes = false;
    change_champion(&b, &s);
    b.mean[0] = 0.2;
    rows_to_alarm(&b);
    start_revert(&b, "revert-1");
    b.mean[1] = 0.2;
    assert_true(rows_until(&b, ACTION_EXPIRE, 2000) > 0);
    assert_non_null(strstr(find(&b, ACTION_EXPIRE)->reason, "another cause"));
    assert_int_equal(view_of(&b).champion, 2);
    assert_int_equal(rows_until(&b, ACTION_ALERT, 500), 0); /* said once */
    assert_int_equal(rows_until(&b, ACTION_START_CANARY, 500), 0);
    policy_close(b.p);
}

/* Long after the change the new champion has a level of its own: alert only. Experiments wait for
 * an operator; a push that must be now does not. */
static void test_unexplained_drift_alerts_only(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.proposes = false;
    change_champion(&b, &s);
    for (int i = 0; i < 300; i++)
        row(&b);
    b.mean[0] = 0.2;
    rows_to_alarm(&b);
    assert_null(find(&b, ACTION_START_CANARY));
    assert_non_null(strstr(find(&b, ACTION_ALERT)->reason, "traffic or the world changed"));
    assert_int_equal(start(&b, "later", 3, 1.0, false, false), ERR_CONFLICT);
    assert_int_equal(start(&b, "now", 3, 1.0, true, false), ERR_OK);
    operator_says(&b, EVENT_STOP);
    b.challenger = 0;
    operator_says(&b, EVENT_RESUME); /* seen; this is normal now */
    assert_int_equal(rows_until(&b, ACTION_ALERT, 1000), 0);
    assert_int_equal(start(&b, "later", 3, 1.0, false, false), ERR_OK);
    policy_close(b.p);
}

/* An alarm during a canary: no step and no promotion until an operator resumes. */
static void test_an_alarm_holds_what_runs(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    b.mean[0] = 0.8;
    for (int i = 0; i < 150; i++)
        row(&b);
    start(&b, "x", 2, 1.0, false, false);
    b.mean[0] = 0.1;
    b.mean[1] = 0.9;
    s.drift_threshold = 1;
    rows_to_alarm(&b);
    assert_int_equal(rows_until(&b, ACTION_PROMOTE, 1500), 0);
    assert_string_equal(view_of(&b).phase, "canary");
    operator_says(&b, EVENT_RESUME);
    assert_true(rows_until(&b, ACTION_PROMOTE, 100) > 0);
    policy_close(b.p);
}

static void test_silence_freezes(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.stale_us = 60000000;
    s.max_us = 120000000;
    open_bench(&b, &s);
    start(&b, "x", 2, 1.0, false, false);
    for (int i = 0; i < 60; i++)
        row(&b);
    uint64_t heard = b.now_us;
    assert_int_equal(policy_wake_us(b.p), heard + s.stale_us);
    b.now_us = heard + s.stale_us;
    operator_says(&b, EVENT_TICK);
    assert_string_equal(find(&b, ACTION_ALERT)->test, "stale");
    assert_int_equal(policy_wake_us(b.p), 0); /* nothing to wait for but rows */
    b.now_us = heard + 10 * s.max_us;
    operator_says(&b, EVENT_TICK);
    assert_int_equal(b.acts.n, 0); /* the time is over, and nothing is decided on old rows */
    row(&b);
    assert_non_null(find(&b, ACTION_EXPIRE)); /* on new ones it is */
    policy_close(b.p);
}

/* After a step, rows of the split before are still in flight: the next change waits for the first
 * row of the new split, a rollback does not. */
static void test_one_change_per_drain(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.ramp[0] = 0.25;
    s.ramp[1] = 0.5;
    s.n_ramp = 2;
    s.ramp_units = 20;
    s.drift_threshold = 0;
    s.pair_deadline_us = (uint64_t)1000 * 1000000;
    open_bench(&b, &s);
    for (int i = 0; i < 5; i++)
        row(&b);
    start(&b, "x", 2, 1.0, false, false);
    assert_true(rows_until(&b, ACTION_SET_SPLIT, 400) > 0);
    b.mean[0] = 0.0;
    b.mean[1] = 1.0;
    b.share = 0.25; /* what the engine still sends */
    assert_int_equal(rows_until(&b, ACTION_PROMOTE, 300), 0);
    b.share = 0.5;
    assert_in_range(rows_until(&b, ACTION_PROMOTE, 50), 1, 50);
    policy_close(b.p);
}

/* 500 rows of one arm are lost: no verdict of this experiment can be trusted any more. */
static void test_a_broken_split_promotes_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.max_units = 2000;
    open_bench(&b, &s);
    start(&b, "x", 2, 1.0, false, false);
    b.mean[0] = b.mean[1] = 0.5;
    int n_alerts = 0;
    for (int i = 0; i < 1200; i++) {
        b.share = 0.3; /* served, where 0.5 is said */
        bool is_challenger = floor((double)(b.n + 1) * b.share) > floor((double)b.n * b.share);
        struct policy_event ev = {.kind = EVENT_ROW, .now_us = b.now_us += 100000};
        b.n++;
        ev.row = (struct policy_row){.source = 9,
                                     .admission = b.n,
                                     .row = b.n,
                                     .revision = is_challenger ? 2 : 1,
                                     .experiment = str_from("x"),
                                     .propensity = 0.5,
                                     .is_scored = true,
                                     .reward = is_challenger ? 0.9 : 0.5};
        if (i < 600) /* evidence comes only after the split was looked at */
            ev.row.reward = 0.5;
        assert_int_equal(feed(&b, &ev), ERR_OK);
        n_alerts += find(&b, ACTION_ALERT) != NULL;
        assert_null(find(&b, ACTION_PROMOTE));
    }
    assert_int_equal(n_alerts, 1);
    policy_close(b.p);
}

/* One chatty user in each arm: hundreds of turns are two observations, and decide nothing. */
static void test_turns_of_a_conversation_count_once(void **state)
{
    (void)state;
    for (int has_session = 0; has_session < 2; has_session++) {
        struct bench b;
        struct policy_settings s = quick();
        s.session_us = 10000000;
        open_bench(&b, &s);
        start(&b, "x", 2, 1.0, false, false);
        b.mean[0] = 0.9;
        b.mean[1] = 0.1;
        int n = 0;
        for (; n < 600 && !find(&b, ACTION_ROLLBACK); n++) {
            bool is_next = floor((double)(b.n + 1) * b.share) > floor((double)b.n * b.share);
            b.session = !has_session ? NULL : is_next ? "ann" : "bob";
            row(&b);
        }
        assert_int_equal(find(&b, ACTION_ROLLBACK) != NULL, !has_session);
        struct policy_view v = view_of(&b);
        if (has_session)
            assert_int_equal(v.numbers.n_champion + v.numbers.n_challenger, 2);
        policy_close(b.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bad_change_is_reverted),
        cmocka_unit_test(test_a_changed_world_is_no_bad_change),
        cmocka_unit_test(test_unexplained_drift_alerts_only),
        cmocka_unit_test(test_an_alarm_holds_what_runs),
        cmocka_unit_test(test_silence_freezes),
        cmocka_unit_test(test_one_change_per_drain),
        cmocka_unit_test(test_a_broken_split_promotes_nothing),
        cmocka_unit_test(test_turns_of_a_conversation_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
