/* The document: what an engine decodes is what the views say, and only content changes its hash. */
#include "controller/desired.h"

#include "common/test.h"

#include <string.h>

static struct err e;

static int setup(void **state)
{
    static struct arena a;
    arena_init(&a, 4 * MiB);
    *state = &a;
    return 0;
}

static int teardown(void **state)
{
    arena_free(*state);
    return 0;
}

static struct revision revision(uint64_t number, double temperature)
{
    struct revision r = {
        .number = number, .route = STR("default"), .author = STR("config"), .created = {1}};
    assert_ok(params_put(&r.params.defaults, PARAM_TEMPERATURE, temperature, &e), &e);
    param_set_hash(&r.params, r.hash);
    return r;
}

static struct control through_the_wire(struct arena *a, const struct desired *d)
{
    struct control c = {.type = CONTROL_DESIRED, .desired = *d}, out;
    struct buf b;
    buf_init(&b, MiB);
    assert_ok(control_encode(&c, &b, &e), &e);
    assert_ok(control_decode(buf_str(&b), a, &out, &e), &e);
    buf_free(&b);
    return out;
}

static void test_arms_and_shares(void **state)
{
    struct arena *a = *state;
    struct revision champion = revision(1, 0.7), challenger = revision(2, 1.8);
    struct policy_view v = {
        .phase = "canary", .experiment = "e2", .champion = 1, .challenger = 2, .share = 0.95};
    struct desired_source s = {STR("default"), STR("salt"), &v, &champion, &challenger, NULL};
    struct desired d;
    assert_ok(desired_build(&s, 1, 7, a, &d, &e), &e);
    struct control c = through_the_wire(a, &d);
    const struct desired_route *r = &c.desired.route[0];
    assert_int_equal(c.desired.version, 7);
    assert_int_equal(r->n_arm, 2);
    assert_str(r->arm[0].name, "champion");
    assert_true(r->arm[1].share == 0.95);
    assert_true(r->arm[0].share + r->arm[1].share == 1.0);
    assert_int_equal(r->arm[1].revision.number, 2);
    assert_str(r->experiment, "e2");
    assert_false(r->is_paused);
}

static void test_held_and_plain_routes_have_one_arm(void **state)
{
    struct arena *a = *state;
    struct revision champion = revision(1, 0.7);
    struct policy_view v = {.phase = "safe", .experiment = "e2", .champion = 1};
    struct desired_source s = {STR("default"), STR("salt"), &v, &champion, NULL, NULL};
    struct desired d;
    assert_ok(desired_build(&s, 1, 8, a, &d, &e), &e);
    struct control c = through_the_wire(a, &d);
    assert_int_equal(c.desired.route[0].n_arm, 1);
    assert_true(c.desired.route[0].arm[0].share == 1.0);
    assert_int_equal(c.desired.route[0].experiment.n, 0);
    assert_true(c.desired.route[0].is_paused);
}

/* Arms without a share are left out, but for the champion; the name tells the shares in force. */
static void test_an_experiment_has_many_arms(void **state)
{
    struct arena *a = *state;
    struct revision arm[4] = {revision(1, 0.7), revision(2, 0.8), revision(3, 0.9), revision(4, 1)};
    struct policy_view v = {.phase = "experiment",
                            .experiment = "x2",
                            .champion = 1,
                            .n_arm = 4,
                            .allocation = 12,
                            .arm_revision = {1, 2, 3, 4},
                            .arm_share = {0.0, 0.25, 0.0, 0.75}};
    struct desired_source s = {STR("default"), STR("salt"), &v, &arm[0], NULL, arm};
    struct desired d;
    assert_ok(desired_build(&s, 1, 7, a, &d, &e), &e);
    struct control c = through_the_wire(a, &d);
    const struct desired_route *r = &c.desired.route[0];
    assert_int_equal(r->n_arm, 3);
    assert_str(r->experiment, "x2.12");
    assert_str(r->arm[0].name, "champion");
    assert_str(r->arm[1].name, "arm-1");
    assert_str(r->arm[2].name, "arm-3");
    assert_true(r->arm[0].share == 0.0 && r->arm[1].share == 0.25 && r->arm[2].share == 0.75);
    assert_int_equal(r->arm[2].revision.number, 4);
}

static void test_only_content_changes_the_hash(void **state)
{
    struct arena *a = *state;
    struct revision one = revision(1, 0.7), two = revision(2, 0.8);
    struct policy_view v = {.phase = "stable", .champion = 1};
    struct desired_source s = {STR("default"), STR("salt"), &v, &one, NULL, NULL};
    struct desired d;
    char first[65], same[65], other[65];
    assert_ok(desired_build(&s, 1, 1, a, &d, &e), &e);
    assert_ok(desired_hash(&d, first, &e), &e);
    assert_ok(desired_build(&s, 1, 99, a, &d, &e), &e);
    assert_ok(desired_hash(&d, same, &e), &e);
    assert_string_equal(first, same);
    s.champion = &two;
    assert_ok(desired_build(&s, 1, 99, a, &d, &e), &e);
    assert_ok(desired_hash(&d, other, &e), &e);
    assert_string_not_equal(first, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_arms_and_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_held_and_plain_routes_have_one_arm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_experiment_has_many_arms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_content_changes_the_hash, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
