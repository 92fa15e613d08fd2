/* controller/policies/canary_test.c - the course of canaries, event by event. */
#include "controller/policies/test_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_bad_push_is_rolled_back(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    assert_int_equal(start(&b, "push", 2, 1.8, true, false), ERR_OK);
    assert_true(b.share == 0.95);
    b.mean[1] = 0.1;
    int n = rows_until(&b, ACTION_ROLLBACK, 1000);
    assert_in_range(n, 100, 700);
    const struct policy_action *act = find(&b, ACTION_ROLLBACK);
    assert_string_equal(act->test, "rollback");
    assert_true(act->log_e >= log(20.0) && fabs(act->log_threshold - log(20.0)) < 1e-9);
    assert_int_equal(act->from_revision, 2);
    assert_int_equal(act->to_revision, 1);
    assert_true(act->effect < -0.3 && act->mean_challenger < 0.2 && act->mean_champion > 0.4);
    assert_int_equal(act->first_row, 1);
    assert_int_equal(act->last_row, (uint64_t)n);
    assert_int_equal(act->n_champion + act->n_challenger, (uint64_t)n);
    assert_string_equal(find(&b, ACTION_QUARANTINE)->hash, "hash-2");
    assert_string_equal(view_of(&b).phase, "stable");
    policy_close(b.p);
}

/* The same with roles and signs the other way round: better is promoted, never rolled back. */
static void test_good_push_is_promoted(void **state)
{
    (void)state;
    static const bool modes[2] = {true, false};
    for (int i = 0; i < 2; i++) {
        struct bench b;
        struct policy_settings s = quick();
        open_bench(&b, &s);
        assert_int_equal(start(&b, "push", 2, 0.5, modes[i], false), ERR_OK);
        b.mean[0] = 0.1;
        b.mean[1] = 0.6;
        assert_true(rows_until(&b, ACTION_PROMOTE, 1500) > 0);
        assert_true(find(&b, ACTION_PROMOTE)->effect > 0.3);
        assert_int_equal(view_of(&b).champion, 2);
        policy_close(b.p);
    }
}

/* Rewards under other checks are another quantity: a drop that the new checks bring to both arms,
 * or a verifier with old checks beside a new one, must decide nothing. */
static void test_versions_of_the_checks_do_not_mix(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    b.checks = "v1";
    assert_int_equal(start(&b, "push", 2, 0.5, false, false), ERR_OK);
    b.mean[0] = b.mean[1] = 0.9;
    for (int i = 0; i < 100; i++)
        row(&b);
    assert_int_equal(view_of(&b).champion_arm.n, 50);
    struct policy_view before = view_of(&b);
    for (int i = 0; i < 60; i++) { /* side by side: only v1 goes on */
        b.checks = i % 2 ? "v1" : "v2";
        row(&b);
        assert_int_equal(b.acts.n, 0);
    }
    assert_int_equal(view_of(&b).numbers.n_champion + view_of(&b).numbers.n_challenger,
                     before.numbers.n_champion + before.numbers.n_challenger + 30);
    b.checks = "v2"; /* now all of them */
    b.mean[0] = b.mean[1] = 0.2;
    int n = rows_until(&b, ACTION_ALERT, 100);
    assert_in_range(n, 19, 20);
    assert_string_equal(find(&b, ACTION_ALERT)->test, "checks");
    struct policy_view v = view_of(&b);
    assert_string_equal(v.phase, "canary");
    assert_int_equal(v.challenger, 2);
    assert_true(v.share == 0.5);
    assert_int_equal(v.numbers.n_champion + v.numbers.n_challenger, 1);
    b.mean[1] = 0.9; /* and the trial is decided by the new checks alone */
    assert_true(rows_until(&b, ACTION_PROMOTE, 1500) > 0);
    assert_true(find(&b, ACTION_PROMOTE)->mean_champion < 0.3);
    policy_close(b.p);
}

static void test_equal_arms_expire(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.max_units = 400;
    open_bench(&b, &s);
    start(&b, "same", 2, 1.0, false, false);
    assert_true(rows_until(&b, ACTION_EXPIRE, 900) > 0);
    assert_non_null(strstr(find(&b, ACTION_EXPIRE)->reason, "inconclusive"));
    assert_int_equal(view_of(&b).champion, 1);
    policy_close(b.p);
}

static void test_time_ends_a_canary(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.max_us = 60000000;
    s.stale_us = 0;
    open_bench(&b, &s);
    start(&b, "slow", 2, 1.0, false, false);
    assert_int_equal(policy_wake_us(b.p), 0); /* no traffic is no reason to end */
    for (int i = 0; i < 60; i++)
        row(&b);
    assert_int_equal(policy_wake_us(b.p), 1000 + 60000000);
    b.now_us = policy_wake_us(b.p) - 1;
    operator_says(&b, EVENT_TICK);
    assert_int_equal(b.acts.n, 0);
    b.now_us++;
    operator_says(&b, EVENT_TICK);
    assert_non_null(find(&b, ACTION_EXPIRE));
    policy_close(b.p);
}

static void test_ramp(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = policy_settings_default();
    s.drift_threshold = 0;
    open_bench(&b, &s);
    start(&b, "ramp", 2, 1.0, false, false);
    static const double shares[3] = {0.05, 0.10, 0.50};
    static const int rows[3] = {20000, 4000, 2000}; /* 200 challenger units at each share */
    for (int i = 0; i < 3; i++) {
        int n = rows_until(&b, ACTION_SET_SPLIT, 40000);
        assert_in_range(n, rows[i] - 200, rows[i] + 200);
        assert_true(b.share == shares[i]);
    }
    policy_close(b.p);
}

static void test_no_promotion_before_a_traffic_cycle(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.min_us = 300 * 100000;
    open_bench(&b, &s);
    b.mean[0] = 0.0;
    b.mean[1] = 1.0;
    start(&b, "early", 2, 1.0, false, false);
    assert_int_equal(rows_until(&b, ACTION_PROMOTE, 1000), 300);
    policy_close(b.p);
}

static void test_hard_trips(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "garbage", 2, 1.0, false, false);
    b.is_invalid = true;
    int n = rows_until(&b, ACTION_ROLLBACK, 300);
    assert_in_range(n, 20, 24); /* eleven of the challenger's last twenty */
    assert_string_equal(find(&b, ACTION_ROLLBACK)->test, "hard_trip");
    b.is_invalid = false;
    start(&b, "burst", 4, 1.0, false, false);
    b.is_error = true;
    n = rows_until(&b, ACTION_ROLLBACK, 300);
    assert_in_range(n, 9, 12); /* five of the challenger's in a row */
    assert_string_equal(find(&b, ACTION_ROLLBACK)->test, "hard_trip");
    b.is_error = false;
    start(&b, "crash", 3, 1.0, false, false);
    row(&b);
    operator_says(&b, EVENT_CRASH);
    assert_non_null(find(&b, ACTION_ROLLBACK));
    assert_non_null(find(&b, ACTION_QUARANTINE));
    operator_says(&b, EVENT_CRASH); /* without a canary it is not ours */
    assert_int_equal(b.acts.n, 0);
    policy_close(b.p);
}

/* Clients that leave before the first token, all at once: nothing of theirs was invalid. */
static void test_clients_that_leave_trip_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "left", 2, 1.0, false, false);
    b.is_invalid = b.is_left = true;
    assert_int_equal(rows_until(&b, ACTION_ROLLBACK, 2000), 0);
    b.is_left = false;
    assert_in_range(rows_until(&b, ACTION_ROLLBACK, 100), 20, 24);
    policy_close(b.p);
}

/* Too hot a temperature is lowered step by step, each step winning its canary. */
static void test_steps_down_to_the_target(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.proposes = true;
    s.target = 0.7;
    s.temperature_step = 0.3;
    s.temperature_min = 0.3;
    open_bench(&b, &s);
    b.mean[0] = 0.1;
    static const double temperatures[3] = {1.2, 0.9, 0.6};
    for (int i = 0; i < 3; i++) {
        assert_true(rows_until(&b, ACTION_START_CANARY, 500) > 0);
        const struct policy_action *ask = find(&b, ACTION_START_CANARY);
        assert_int_equal(ask->knob, PARAM_TEMPERATURE);
        assert_true(ask->value == temperatures[i]);
        assert_int_equal(ask->from_revision, (uint64_t)i + 1);
        assert_string_equal(view_of(&b).phase, "proposed");
        char name[24];
        snprintf(name, sizeof name, "own-%d", i);
        assert_int_equal(start(&b, name, (uint64_t)i + 2, temperatures[i], false, true), ERR_OK);
        b.mean[1] = b.mean[0] + 0.25;
        assert_true(rows_until(&b, ACTION_PROMOTE, 3000) > 0);
    }
    assert_int_equal(rows_until(&b, ACTION_START_CANARY, 1000), 0); /* 0.85 is enough */
    policy_close(b.p);
}

/* What was rolled back or found no verdict is not proposed again; then a person is told, once. */
static void test_skips_what_was_tried(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    s.proposes = true;
    s.target = 0.9;
    s.temperature_step = 0.5;
    s.temperature_min = 1.0;
    s.max_units = 200;
    open_bench(&b, &s);
    b.mean[0] = b.mean[1] = 0.3;
    assert_true(rows_until(&b, ACTION_START_CANARY, 500) > 0);
    assert_int_equal(find(&b, ACTION_START_CANARY)->knob, PARAM_TEMPERATURE);
    start(&b, "a", 2, 1.0, false, true);
    assert_true(rows_until(&b, ACTION_EXPIRE, 1000) > 0);
    assert_true(rows_until(&b, ACTION_START_CANARY, 500) > 0);
    assert_int_equal(find(&b, ACTION_START_CANARY)->knob, PARAM_MAX_NEW_TOKENS);
    assert_true(find(&b, ACTION_START_CANARY)->value == 75.0);
    operator_says(&b, EVENT_STOP); /* the controller could not start it */
    assert_true(rows_until(&b, ACTION_ALERT, 500) > 0);
    assert_int_equal(rows_until(&b, ACTION_ALERT, 500), 0);
    policy_close(b.p);
}

static void test_drift_alarm(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    b.mean[0] = 0.8;
    assert_int_equal(rows_until(&b, ACTION_ALERT, 2000), 0);
    b.mean[0] = 0.3;
    int n = rows_until(&b, ACTION_ALERT, 300);
    assert_in_range(n, 5, 120);
    const struct policy_action *act = find(&b, ACTION_ALERT);
    assert_string_equal(act->test, "drift");
    assert_true(act->log_e >= log(1e4));
    assert_int_equal(rows_until(&b, ACTION_ALERT, 300), 0); /* said once */
    policy_close(b.p);
}

static void test_hold_pins_the_champion(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "x", 2, 1.0, false, false);
    operator_says(&b, EVENT_HOLD);
    assert_non_null(find(&b, ACTION_EXPIRE));
    assert_non_null(find(&b, ACTION_HOLD));
    assert_string_equal(view_of(&b).phase, "safe");
    assert_int_equal(start(&b, "y", 3, 1.0, false, false), ERR_CONFLICT);
    operator_says(&b, EVENT_RESUME);
    assert_int_equal(start(&b, "y", 3, 1.0, false, false), ERR_OK);
    policy_close(b.p);
}

static void test_operator_rollback_of_the_champion(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    struct policy_event ev = {.kind = EVENT_ROLLBACK};
    assert_int_equal(feed(&b, &ev), ERR_CONFLICT); /* nothing before revision 1 */
    start(&b, "x", 2, 1.0, false, false);
    operator_says(&b, EVENT_PROMOTE);
    assert_int_equal(find(&b, ACTION_PROMOTE)->to_revision, 2);
    operator_says(&b, EVENT_ROLLBACK);
    assert_int_equal(find(&b, ACTION_ROLLBACK)->to_revision, 1);
    assert_string_equal(find(&b, ACTION_QUARANTINE)->hash, "hash-2");
    assert_int_equal(view_of(&b).champion, 1);
    policy_close(b.p);
}

/* Back to any revision, in the middle of a canary too. */
static void test_operator_rollback_to_a_revision(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    struct policy_event ev = {.kind = EVENT_ROLLBACK};
    ev.champion = revision(1, 1.5);
    assert_int_equal(feed(&b, &ev), ERR_CONFLICT); /* serves already */
    for (uint64_t number = 2; number <= 3; number++) {
        start(&b, "x", number, 1.0, false, false);
        operator_says(&b, EVENT_PROMOTE);
    }
    start(&b, "y", 4, 1.0, false, false);
    assert_int_equal(feed(&b, &ev), ERR_OK);
    assert_int_equal(b.acts.n, 4); /* rollback and quarantine of 4, then of 3 */
    assert_string_equal(b.acts.a[1].hash, "hash-4");
    assert_string_equal(b.acts.a[3].hash, "hash-3");
    assert_int_equal(b.acts.a[2].to_revision, 1);
    assert_int_equal(view_of(&b).champion, 1);
    assert_string_equal(view_of(&b).phase, "stable");
    policy_close(b.p);
}

static void test_refusals_leave_the_state(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    assert_int_equal(start(&b, "", 2, 1.0, false, false), ERR_CONFLICT);
    assert_int_equal(start(&b, "own", 2, 1.0, false, true), ERR_CONFLICT);
    assert_int_equal(start(&b, "self", 1, 1.0, false, false), ERR_CONFLICT);
    assert_int_equal(start(&b, "a", 2, 1.0, false, false), ERR_OK);
    assert_int_equal(start(&b, "b", 3, 1.0, false, false), ERR_CONFLICT);
    assert_string_equal(view_of(&b).experiment, "a");
    policy_close(b.p);
}

/* Rows of other experiments, other routes, further choices and repetitions change no test. */
static void test_only_its_own_rows_count(void **state)
{
    (void)state;
    struct bench b;
    struct policy_settings s = quick();
    open_bench(&b, &s);
    start(&b, "x", 2, 1.0, false, false);
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = 5000};
    ev.row = (struct policy_row){.source = 9,
                                 .revision = 2,
                                 .is_scored = true,
                                 .reward = 0.0,
                                 .propensity = 0.5,
                                 .experiment = str_from("older")};
    for (ev.row.admission = 1; ev.row.admission <= 200; ev.row.admission++)
        assert_int_equal(feed(&b, &ev), ERR_OK);
    ev.row.experiment = str_from("x");
    ev.row.choice = 1;
    for (int i = 0; i < 200; i++)
        assert_int_equal(feed(&b, &ev), ERR_OK);
    ev.row.choice = 0;
    ev.row.admission = 5;
    for (int i = 0; i < 30; i++)
        assert_int_equal(feed(&b, &ev), ERR_OK);
    struct policy_view v = view_of(&b);
    assert_int_equal(v.numbers.n_challenger + v.numbers.n_champion, 0);
    assert_int_equal(v.n_late, 30);
    policy_close(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_push_is_rolled_back),
        cmocka_unit_test(test_good_push_is_promoted),
        cmocka_unit_test(test_versions_of_the_checks_do_not_mix),
        cmocka_unit_test(test_equal_arms_expire),
        cmocka_unit_test(test_time_ends_a_canary),
        cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_no_promotion_before_a_traffic_cycle),
        cmocka_unit_test(test_hard_trips),
        cmocka_unit_test(test_clients_that_leave_trip_nothing),
        cmocka_unit_test(test_steps_down_to_the_target),
        cmocka_unit_test(test_skips_what_was_tried),
        cmocka_unit_test(test_drift_alarm),
        cmocka_unit_test(test_hold_pins_the_champion),
        cmocka_unit_test(test_operator_rollback_of_the_champion),
        cmocka_unit_test(test_operator_rollback_to_a_revision),
        cmocka_unit_test(test_refusals_leave_the_state),
        cmocka_unit_test(test_only_its_own_rows_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
