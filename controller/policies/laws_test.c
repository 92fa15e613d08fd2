/* controller/policies/laws_test.c - threshold and hold laws, settings, registry. */
#include "common/test.h"
#include "controller/policy.h"
#include "schemas/config_tables.h"

#include <math.h>
#include <string.h>

static struct policy_actions acts;

static struct policy *open_law(enum policy_kind kind)
{
    struct policy_settings s = policy_settings_default();
    struct policy *p = NULL;
    struct err e = {0};
    s.kind = kind;
    s.window = 20;
    s.bound = 0.5;
    s.cooldown_units = 30;
    s.proposes = true;
    s.temperature_step = 0.25;
    s.temperature_min = 0.5;
    s.tokens_factor = 0.5;
    s.tokens_min = 50;
    assert_ok(policy_open(&p, &s, &e), &e);
    struct policy_event ev = {.kind = EVENT_CHAMPION};
    ev.champion = (struct policy_revision){.number = 1, .hash = "one"};
    ev.champion.knob[PARAM_TEMPERATURE] = 1.0;
    ev.champion.knob[PARAM_MAX_NEW_TOKENS] = 120;
    assert_ok(policy_step(p, &ev, &acts, &e), &e);
    return p;
}

static void feed_rows(struct policy *p, uint64_t revision, double reward, int n)
{
    struct policy_event ev = {.kind = EVENT_ROW};
    ev.row = (struct policy_row){.revision = revision, .is_scored = true, .reward = reward};
    for (int i = 0; i < n; i++) {
        assert_int_equal(policy_step(p, &ev, &acts, NULL), ERR_OK);
        if (acts.n)
            return;
    }
}

static void feed_checked(struct policy *p, const char *checks, double reward, int n)
{
    struct policy_event ev = {.kind = EVENT_ROW};
    ev.row = (struct policy_row){
        .revision = 1, .is_scored = true, .reward = reward, .checks = str_from(checks)};
    for (int i = 0; i < n; i++)
        assert_int_equal(policy_step(p, &ev, &acts, NULL), ERR_OK);
}

/* Stricter checks lower every reward at once: that is no reason to act on old and new together. */
static void test_threshold_averages_one_version_of_the_checks(void **state)
{
    (void)state;
    struct policy *p = open_law(POLICY_THRESHOLD);
    struct policy_view v;
    feed_checked(p, "v1", 0.9, 40);
    feed_checked(p, "v2", 0.0, 19); /* another verifier, perhaps: not counted */
    policy_view(p, &v);
    assert_true(v.champion_arm.mean == 0.9);
    feed_checked(p, "v2", 0.0, 1); /* no: the checks were changed */
    policy_view(p, &v);
    assert_int_equal(v.champion_arm.n, 1);
    assert_int_equal(acts.n, 0);
    policy_close(p);
}

static int begin(struct policy *p, uint64_t number, double temperature, double tokens)
{
    struct policy_event ev = {.kind = EVENT_START};
    ev.start.experiment = str_from("e");
    ev.start.challenger.number = number;
    ev.start.challenger.knob[PARAM_TEMPERATURE] = temperature;
    ev.start.challenger.knob[PARAM_MAX_NEW_TOKENS] = tokens;
    return policy_step(p, &ev, &acts, NULL);
}

static void test_threshold_steps_down(void **state)
{
    (void)state;
    static const struct {
        enum param_id knob;
        double value;
    } path[] = {{PARAM_TEMPERATURE, 0.75},
                {PARAM_TEMPERATURE, 0.5},
                {PARAM_MAX_NEW_TOKENS, 60},
                {PARAM_MAX_NEW_TOKENS, 50}};
    double temperature = 1.0;
    double tokens = 120;
    struct policy *p = open_law(POLICY_THRESHOLD);
    for (uint64_t i = 0; i < sizeof path / sizeof *path; i++) {
        feed_rows(p, i + 1, 0.2, 29);
        assert_int_equal(acts.n, 0); /* cooling down */
        feed_rows(p, i + 1, 0.2, 1);
        assert_int_equal(acts.n, 1);
        assert_int_equal(acts.a[0].kind, ACTION_START_CANARY);
        assert_int_equal(acts.a[0].knob, path[i].knob);
        assert_true(acts.a[0].value == path[i].value);
        *(path[i].knob == PARAM_TEMPERATURE ? &temperature : &tokens) = path[i].value;
        assert_int_equal(begin(p, i + 2, temperature, tokens), ERR_OK);
        assert_int_equal(acts.a[1].kind, ACTION_PROMOTE); /* at once */
    }
    feed_rows(p, 5, 0.2, 100);
    assert_int_equal(acts.a[0].kind, ACTION_ALERT); /* no step is left */
    policy_close(p);
}

static void test_threshold_is_content(void **state)
{
    (void)state;
    struct policy *p = open_law(POLICY_THRESHOLD);
    feed_rows(p, 1, 0.6, 200);
    assert_int_equal(acts.n, 0);
    feed_rows(p, 7, 0.0, 200); /* rows of another revision */
    assert_int_equal(acts.n, 0);
    policy_close(p);
}

static void test_hold_never_acts(void **state)
{
    (void)state;
    struct policy *p = open_law(POLICY_HOLD);
    assert_int_equal(begin(p, 2, 0.1, 10), ERR_OK);
    feed_rows(p, 2, 0.0, 500);
    assert_int_equal(acts.n, 0);
    struct policy_event ev = {.kind = EVENT_PROMOTE};
    assert_int_equal(policy_step(p, &ev, &acts, NULL), ERR_OK);
    struct policy_view v;
    policy_view(p, &v);
    assert_int_equal(v.champion, 2);
    ev.kind = EVENT_ROLLBACK;
    assert_int_equal(policy_step(p, &ev, &acts, NULL), ERR_OK);
    policy_view(p, &v);
    assert_int_equal(v.champion, 1);
    policy_close(p);
}

static void test_states_do_not_mix(void **state)
{
    (void)state;
    struct policy *hold = open_law(POLICY_HOLD);
    struct policy *threshold = open_law(POLICY_THRESHOLD);
    json_t *v = policy_state_encode(hold);
    struct err e = {0};
    assert_int_equal(policy_state_decode(threshold, v, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "hold"));
    assert_ok(policy_state_decode(hold, v, &e), &e);
    json_decref(v);
    policy_close(hold);
    policy_close(threshold);
}

static void test_registry(void **state)
{
    (void)state;
    assert_non_null(policy_find("canary"));
    assert_non_null(policy_find("threshold"));
    assert_non_null(policy_find("hold"));
    assert_null(policy_find("magic"));
    for (int k = 0; k < ACTION_KIND_COUNT; k++)
        assert_string_not_equal(policy_action_name((enum policy_action_kind)k), "unknown");
}

static void test_settings_are_checked(void **state)
{
    (void)state;
    struct err e = {0};
    struct policy_settings s = policy_settings_default();
    assert_ok(policy_settings_check(&s, &e), &e);
    s.min_units = 19; /* the law's floor */
    assert_int_equal(policy_settings_check(&s, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "min_units"));
    s = policy_settings_default();
    s.ramp[1] = 0.01;
    assert_int_equal(policy_settings_check(&s, &e), ERR_INVALID);
    s.ramp[1] = 0.7;
    assert_int_equal(policy_settings_check(&s, &e), ERR_INVALID);
    s = policy_settings_default();
    s.alpha = (double)NAN;
    assert_int_equal(policy_settings_check(&s, &e), ERR_INVALID);
}

/* The configuration's defaults are the law's. */
static void test_settings_of_the_default_config(void **state)
{
    (void)state;
    struct err e = {0};
    struct arena a;
    struct policy_config c;
    struct policy_settings s;
    struct policy_settings law = policy_settings_default();
    arena_init(&a, 1 << 20);
    assert_ok(cfg_load(&POLICY_TABLE, NULL, NULL, 0, &a, &c, &e), &e);
    assert_ok(policy_settings_from_config(&c, &s, &e), &e);
    json_t *ours = policy_settings_encode(&s);
    json_t *theirs = policy_settings_encode(&law);
    assert_true(json_equal(ours, theirs));
    json_decref(ours);
    json_decref(theirs);
    arena_free(&a);
}

static void test_settings_text_is_exact(void **state)
{
    (void)state;
    struct err e = {0};
    struct policy_settings s = policy_settings_default();
    struct policy_settings back = {0};
    s.alpha = 0.1 / 3.0;
    s.proposes = true;
    json_t *v = policy_settings_encode(&s);
    assert_ok(policy_settings_decode(v, &back, &e), &e);
    assert_true(back.alpha == s.alpha && back.proposes && back.n_ramp == s.n_ramp);
    json_t *again = policy_settings_encode(&back);
    assert_true(json_equal(v, again));
    json_object_set_new(v, "proposes", json_string("2"));
    assert_int_equal(policy_settings_decode(v, &back, &e), ERR_CORRUPT);
    json_decref(v);
    json_decref(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threshold_steps_down),
        cmocka_unit_test(test_threshold_averages_one_version_of_the_checks),
        cmocka_unit_test(test_threshold_is_content),
        cmocka_unit_test(test_hold_never_acts),
        cmocka_unit_test(test_states_do_not_mix),
        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_settings_of_the_default_config),
        cmocka_unit_test(test_settings_text_is_exact),
        cmocka_unit_test(test_settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
