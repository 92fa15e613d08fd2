/* Bounds for everybody, steps for the law's own proposals. */
#include "controller/guard.h"

#include "common/test.h"

#include <string.h>

static struct err e;

static struct param_set with(double temperature, double tokens)
{
    struct param_set s = {0};
    assert_ok(params_put(&s.defaults, PARAM_TEMPERATURE, temperature, &e), &e);
    assert_ok(params_put(&s.defaults, PARAM_MAX_NEW_TOKENS, tokens, &e), &e);
    return s;
}

static void test_bounds_hold_for_everybody(void **state)
{
    (void)state;
    struct param_set base = with(0.7, 64), next = with(0.9, 64);
    assert_ok(guard_check(NULL, &base, &next, &e), &e);
    assert_int_equal(guard_check(NULL, &base, &base, &e), ERR_CONFLICT);
    assert_ok(guard_check(NULL, NULL, &base, &e), &e);
    next.defaults.v[PARAM_TEMPERATURE] = 1e9; /* as a damaged row would have it */
    assert_int_equal(guard_check(NULL, &base, &next, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "temperature"));
    next = with(0.9, 64);
    next.caps.set = 1u << PARAM_TOP_P;
    next.caps.v[PARAM_TOP_P] = -1;
    assert_int_equal(guard_check(NULL, &base, &next, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "caps.top_p"));
    next = with(0.9, 64);
    next.defaults.weights = STR("another-model");
    assert_int_equal(guard_check(NULL, &base, &next, &e), ERR_UNSUPPORTED);
}

/* A route's own bounds: for everybody, and only for what a revision changes. */
static void test_bounds_of_a_route(void **state)
{
    (void)state;
    struct bound_config own[] = {{STR("temperature"), 0.2, 1.0, 0.3},
                                 {STR("max_new_tokens"), 16, 1e9, 1e9}};
    struct route_config route = {.bounds = {.item = own, .n = 2}};
    struct policy_settings s = policy_settings_default(), tight;
    const struct {
        double from[2], to[2];
        const char *says; /* NULL = may be */
    } row[] = {
        {{0.7, 64}, {1.0, 64}, NULL},          {{0.7, 64}, {1.1, 64}, "outside 0.2 to 1"},
        {{0.4, 64}, {0.1, 64}, "outside 0.2"}, {{0.7, 64}, {0.3, 64}, "largest step"},
        {{0.7, 64}, {0.4, 64}, NULL},          {{0.7, 64}, {0.7, 15}, "max_new_tokens: 15"},
        {{0.7, 64}, {0.7, 1024}, NULL},        {{1.5, 64}, {1.5, 32}, NULL},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct param_set from = with(row[i].from[0], row[i].from[1]);
        struct param_set to = with(row[i].to[0], row[i].to[1]);
        int rc = guard_check(&route, &from, &to, &e);
        if ((rc == ERR_OK) != !row[i].says || (rc != ERR_OK && !strstr(e.msg, row[i].says)))
            fail_msg("row %zu: code %d, %s", i, rc, e.msg);
    }
    struct param_set from = with(0.7, 64), to = with(0.1, 64);
    s.temperature_step = 1.0;
    assert_ok(guard_check_proposal(NULL, &s, &from, &to, &e), &e);
    assert_int_equal(guard_check_proposal(&route, &s, &from, &to, &e), ERR_INVALID);
    struct milepost_config plain;
    struct arena a;
    arena_init(&a, MiB);
    assert_ok(milepost_config_load(NULL, NULL, 0, &a, &plain, &e), &e);
    struct route_config bounded = *(const struct route_config *)plain.routes.item;
    bounded.bounds = route.bounds;
    bounded.policy.temperature_step = 0.5;
    assert_ok(policy_settings_from_route(&bounded, &tight, &e), &e); /* proposals stay within */
    assert_true(tight.temperature_min == 0.2 && tight.temperature_step == 0.3);
    arena_free(&a);
}

static void test_proposals_take_one_step(void **state)
{
    (void)state;
    struct policy_settings s = policy_settings_default();
    s.temperature_step = 0.1;
    s.temperature_min = 0.3;
    s.tokens_factor = 0.75;
    s.tokens_min = 16;
    const struct {
        double from[2], to[2];
        int code;
    } row[] = {
        {{0.7, 64}, {0.6, 64}, ERR_OK},       {{0.7, 64}, {0.5, 64}, ERR_INVALID},
        {{0.7, 64}, {0.8, 64}, ERR_OK},       {{0.7, 64}, {0.9, 64}, ERR_INVALID},
        {{0.35, 64}, {0.3, 64}, ERR_OK},      {{0.35, 64}, {0.25, 64}, ERR_INVALID},
        {{0.7, 64}, {0.7, 48}, ERR_OK},       {{0.7, 64}, {0.7, 40}, ERR_INVALID},
        {{0.7, 64}, {0.7, 80}, ERR_INVALID},  {{0.7, 17}, {0.7, 12}, ERR_INVALID},
        {{0.7, 64}, {0.7, 64}, ERR_CONFLICT},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct param_set from = with(row[i].from[0], row[i].from[1]);
        struct param_set to = with(row[i].to[0], row[i].to[1]);
        int rc = guard_check_proposal(NULL, &s, &from, &to, &e);
        if (rc != row[i].code)
            fail_msg("row %zu: code %d, want %d", i, rc, row[i].code);
    }
    struct param_set from = with(0.7, 64), other = with(0.7, 64);
    assert_ok(params_put(&other.defaults, PARAM_TOP_P, 0.5, &e), &e);
    assert_int_equal(guard_check_proposal(NULL, &s, &from, &other, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "top_p"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_hold_for_everybody),
        cmocka_unit_test(test_bounds_of_a_route),
        cmocka_unit_test(test_proposals_take_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
