/* Shares are met, units stick, routes are found, configuration gives revision 0. */
#include "common/test.h"

#include "engine/route/route.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void make_revision(struct revision *r, uint64_t number, double temperature)
{
    *r = (struct revision){
        .number = number, .route = STR("a"), .author = STR("t"), .reason = STR("")};
    assert_int_equal(params_put(&r->params.defaults, PARAM_TEMPERATURE, temperature, NULL), ERR_OK);
    param_set_hash(&r->params, r->hash);
}

static struct route_table *make_table(double share, bool paused)
{
    struct desired_route route[2] = {{.name = STR("a"),
                                      .experiment = STR("e1"),
                                      .salt = STR("salt"),
                                      .is_paused = paused,
                                      .n_arm = 2},
                                     {.name = STR("b"), .n_arm = 1}};
    route[0].arm[0] = (struct desired_arm){.name = STR("champion"), .share = 1 - share};
    route[0].arm[1] = (struct desired_arm){.name = STR("challenger"), .share = share};
    route[1].arm[0] = (struct desired_arm){.name = STR("champion"), .share = 1};
    make_revision(&route[0].arm[0].revision, 1, 0.5);
    make_revision(&route[0].arm[1].revision, 2, 1.5);
    make_revision(&route[1].arm[0].revision, 3, 1);
    struct desired d = {.version = 9, .n_route = 2, .route = route};
    struct route_table *t;
    struct err e;
    assert_ok(route_table_from_desired(&t, &d, &e), &e);
    return t;
}

static void test_shares_and_stickiness(void **state)
{
    (void)state;
    static const double SHARES[] = {0.01, 0.1, 0.5, 0.95};
    for (int k = 0; k < 4; k++) {
        struct route_table *t = make_table(SHARES[k], false);
        int hits = 0;
        enum { N = 20000 };
        for (int i = 0; i < N; i++) {
            char unit[32];
            struct route_choice a, b;
            snprintf(unit, sizeof unit, "user-%d", i);
            assert_int_equal(route_choose(t, STR("a"), str_from(unit), &a, NULL), ERR_OK);
            assert_int_equal(route_choose(t, STR(""), str_from(unit), &b, NULL), ERR_OK);
            assert_ptr_equal(a.arm, b.arm);
            bool challenger = str_eq_c(a.arm->name, "challenger");
            assert_true(a.propensity == (challenger ? SHARES[k] : 1 - SHARES[k]));
            hits += challenger;
        }
        double sd = sqrt(N * SHARES[k] * (1 - SHARES[k]));
        assert_true(fabs(hits - N * SHARES[k]) < 4 * sd);
        route_table_release(t);
    }
}

/* Every arm of an experiment gets its share, one without a share gets nothing. */
static void test_many_arms(void **state)
{
    (void)state;
    enum { N = 40000, ARMS = 5 };
    static const double SHARES[ARMS] = {0.0, 0.1, 0.2, 0.7, 0.0};
    static const char *const NAMES[ARMS] = {"champion", "arm-1", "arm-2", "arm-3", "arm-4"};
    struct desired_route route = {
        .name = STR("a"), .experiment = STR("x2.1"), .salt = STR("s"), .n_arm = ARMS};
    int hits[ARMS] = {0};
    for (uint64_t k = 0; k < ARMS; k++) {
        route.arm[k] = (struct desired_arm){.name = str_from(NAMES[k]), .share = SHARES[k]};
        make_revision(&route.arm[k].revision, k + 1, 1);
    }
    struct desired d = {.version = 9, .n_route = 1, .route = &route};
    struct route_table *t;
    struct err e;
    assert_ok(route_table_from_desired(&t, &d, &e), &e);
    for (int i = 0; i < N; i++) {
        char unit[32];
        struct route_choice c;
        snprintf(unit, sizeof unit, "user-%d", i);
        assert_int_equal(route_choose(t, STR("a"), str_from(unit), &c, NULL), ERR_OK);
        uint64_t k = c.arm->revision.number - 1;
        assert_true(c.propensity == SHARES[k] && SHARES[k] > 0);
        hits[k]++;
    }
    for (int k = 1; k < 4; k++)
        assert_true(fabs(hits[k] - N * SHARES[k]) < 4 * sqrt(N * SHARES[k] * (1 - SHARES[k])));
    route_table_release(t);
}

static void test_paused_serves_the_champion(void **state)
{
    (void)state;
    struct route_table *t = make_table(0.95, true);
    for (int i = 0; i < 100; i++) {
        char unit[32];
        struct route_choice c;
        snprintf(unit, sizeof unit, "%d", i);
        assert_int_equal(route_choose(t, STR("a"), str_from(unit), &c, NULL), ERR_OK);
        assert_true(c.arm->revision.number == 1 && c.propensity == 1);
    }
    route_table_release(t);
}

static void test_names(void **state)
{
    (void)state;
    struct route_table *t = make_table(0.5, false);
    struct route_choice c;
    struct err e;
    struct str base, route;
    assert_int_equal(route_choose(t, STR("nope"), STR("u"), &c, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "known: a, b"));
    assert_int_equal(route_choose(t, STR("b"), STR("u"), &c, &e), ERR_OK);
    assert_int_equal(c.arm->revision.number, 3);
    route_split_model(STR("m:b"), &base, &route);
    assert_str(base, "m");
    assert_str(route, "b");
    route_split_model(STR("m"), &base, &route);
    assert_str(route, "");
    assert_int_equal(route_table_version(t), 9);
    struct route_table *held = route_table_hold(t);
    route_table_release(t);
    assert_str(route_table_name_at(held, 1), "b");
    route_table_release(held);
}

static void test_bad_documents(void **state)
{
    (void)state;
    struct route_table *t;
    struct err e;
    struct desired none = {.version = 1};
    assert_int_equal(route_table_from_desired(&t, &none, &e), ERR_INVALID);
    struct desired_route route = {.name = STR("a"), .n_arm = 1};
    route.arm[0] = (struct desired_arm){.name = STR("champion"), .share = 0.7};
    struct desired wrong = {.version = 1, .n_route = 1, .route = &route};
    assert_int_equal(route_table_from_desired(&t, &wrong, &e), ERR_INVALID);
    assert_null(t);
}

static void test_config_gives_revision_zero(void **state)
{
    (void)state;
    struct route_config route = {.name = STR("r"), .params = STR("{\"temperature\":0.25}")};
    struct milepost_config c = {.routes = {.item = &route, .n = 1}};
    struct route_table *t;
    struct route_choice choice;
    struct err e;
    assert_ok(route_table_from_config(&t, &c, &e), &e);
    assert_int_equal(route_choose(t, STR("r"), STR("u"), &choice, &e), ERR_OK);
    assert_int_equal(choice.arm->revision.number, 0);
    assert_true(params_get(&choice.arm->revision.params.defaults, PARAM_TEMPERATURE) == 0.25);
    route_table_release(t);
    route.params = STR("{\"temperature\":99}");
    assert_int_equal(route_table_from_config(&t, &c, &e), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_and_stickiness),
        cmocka_unit_test(test_many_arms),
        cmocka_unit_test(test_paused_serves_the_champion),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_documents),
        cmocka_unit_test(test_config_gives_revision_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
