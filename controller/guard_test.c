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
    assert_ok(guard_check(&base, &next, &e), &e);
    assert_int_equal(guard_check(&base, &base, &e), ERR_CONFLICT);
    assert_ok(guard_check(NULL, &base, &e), &e);
    next.defaults.v[PARAM_TEMPERATURE] = 1e9; /* as a damaged row would have it */
    assert_int_equal(guard_check(&base, &next, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "temperature"));
    next = with(0.9, 64);
    next.caps.set = 1u << PARAM_TOP_P;
    next.caps.v[PARAM_TOP_P] = -1;
    assert_int_equal(guard_check(&base, &next, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "caps.top_p"));
    next = with(0.9, 64);
    next.defaults.weights = STR("another-model");
    assert_int_equal(guard_check(&base, &next, &e), ERR_UNSUPPORTED);
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
        int rc = guard_check_proposal(&s, &from, &to, &e);
        if (rc != row[i].code)
            fail_msg("row %zu: code %d, want %d", i, rc, row[i].code);
    }
    struct param_set from = with(0.7, 64), other = with(0.7, 64);
    assert_ok(params_put(&other.defaults, PARAM_TOP_P, 0.5, &e), &e);
    assert_int_equal(guard_check_proposal(&s, &from, &other, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "top_p"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_hold_for_everybody),
        cmocka_unit_test(test_proposals_take_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
