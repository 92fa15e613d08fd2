/* One experiment through policy_step, as the server feeds it: start, shares, verdicts, ends, and
 * the state through its text at every moment. */
#include "common/test.h"

#include "controller/experiments/experiment.h"
#include "controller/policies/test_bench.h"

enum { ARMS = 3 };

struct lab {
    struct policy *p;
    struct policy_actions acts;
    uint64_t n, now_us;
    double mean[ARMS];
    uint64_t dealt[ARMS];
    double loses[ARMS];              /* share of an arm's outputs that is unscored */
    bool is_invalid[ARMS], has_left; /* has_left: every client, before the end */
    const char *checks;
    bool skips_arm; /* rows of arm 2 are lost every second time */
    bool is_coded;  /* state through its text before every row */
    bool is_storm;  /* every second row comes after the next one, and that one twice */
    bool has_held;
    char held_name[80];
    struct policy_event held;
};

static void put(struct lab *l, const struct policy_event *ev)
{
    struct err e = {0};
    assert_ok(policy_step(l->p, ev, &l->acts, &e), &e);
}

static const struct policy_action *acted(const struct lab *l, enum policy_action_kind kind)
{
    for (uint32_t i = 0; i < l->acts.n; i++)
        if (l->acts.a[i].kind == kind)
            return &l->acts.a[i];
    return NULL;
}

static struct policy_view seen(const struct lab *l)
{
    struct policy_view v;
    policy_view(l->p, &v);
    return v;
}

static void open_lab(struct lab *l, struct experiment_plan plan)
{
    struct policy_settings s = quick();
    struct err e = {0};
    struct experiment_setup st = {.id = STR("x2"), .plan = plan, .n_arm = ARMS};
    *l = (struct lab){.now_us = 1000, .mean = {0.5, 0.5, 0.5}, .checks = ""};
    assert_ok(policy_open(&l->p, &s, &e), &e);
    struct policy_event ev = {.kind = EVENT_CHAMPION, .now_us = l->now_us};
    ev.champion = revision(1, 1.5);
    put(l, &ev);
    for (uint64_t k = 0; k < ARMS; k++)
        st.arm[k] = revision(k + 1, 1.5 - 0.1 * (double)k);
    ev = (struct policy_event){.kind = EVENT_EXPERIMENT, .now_us = l->now_us, .experiment = &st};
    put(l, &ev);
    assert_non_null(acted(l, ACTION_ALLOCATE));
}

static void through_text(struct lab *l)
{
    struct err e = {0};
    json_t *state = policy_state_encode(l->p), *again;
    assert_ok(policy_state_decode(l->p, state, &e), &e);
    again = policy_state_encode(l->p);
    assert_true(json_equal(state, again));
    json_decref(state);
    json_decref(again);
}

static uint32_t next_arm(struct lab *l, const struct policy_view *v)
{
    uint32_t arm = 0;
    double at = (double)(l->n + 1) * 0.7548776662466927, sum = 0.0;
    at -= floor(at);
    for (uint32_t k = 0; k < v->n_arm; k++) {
        sum += v->arm_share[k];
        arm = k;
        if (at < sum)
            break;
    }
    return arm;
}

static void commit(struct lab *l, struct policy_event *ev, const char *name)
{
    if (l->is_storm && !l->has_held) {
        l->has_held = true;
        l->held = *ev;
        snprintf(l->held_name, sizeof l->held_name, "%s", name);
        l->held.row.experiment = str_from(l->held_name);
        return;
    }
    put(l, ev);
    if (!l->has_held)
        return;
    l->has_held = false;
    l->held.now_us = ev->now_us;
    put(l, &l->held);
    put(l, ev);
}

static void deal(struct lab *l)
{
    struct policy_view v = seen(l);
    char name[80];
    uint32_t arm = next_arm(l, &v);
    l->n++;
    l->now_us += 100000;
    if (l->is_coded)
        through_text(l);
    snprintf(name, sizeof name, "%s.%llu", v.experiment, (unsigned long long)v.allocation);
    uint64_t i = l->dealt[arm]++;
    struct policy_event ev = {.kind = EVENT_ROW, .now_us = l->now_us};
    ev.row = (struct policy_row){.source = 9,
                                 .admission = l->n,
                                 .row = l->n,
                                 .is_foreign = l->skips_arm && arm == 2 && i % 2,
                                 .revision = v.n_arm ? v.arm_revision[arm] : v.champion,
                                 .experiment = str_from(v.n_arm ? name : ""),
                                 .checks = str_from(l->checks),
                                 .propensity = v.n_arm ? v.arm_share[arm] : 1.0,
                                 .is_scored = !deals(i, l->loses[arm]),
                                 .reward = deals(i + 7u * arm, l->mean[arm]),
                                 .finish = l->has_left ? FINISH_CANCELLED : FINISH_STOP,
                                 .is_invalid = l->is_invalid[arm]};
    commit(l, &ev, v.n_arm ? name : "");
}

static int deal_until(struct lab *l, enum policy_action_kind kind, int limit)
{
    for (int i = 1; i <= limit; i++) {
        deal(l);
        if (acted(l, kind))
            return i;
    }
    return 0;
}

static struct experiment_plan plan_of(uint32_t law, uint32_t on_win)
{
    struct experiment_plan p = experiment_plan_default();
    p.law = law;
    p.on_win = on_win;
    p.slice_us = 1000000;
    return p;
}

static void test_the_better_arm_wins_and_serves(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    l.mean[1] = 0.9;
    assert_string_equal(seen(&l).phase, "experiment");
    assert_true(deal_until(&l, ACTION_CONCLUDE, 2000));
    assert_string_equal(acted(&l, ACTION_CONCLUDE)->test, "winner");
    assert_int_equal(acted(&l, ACTION_CONCLUDE)->to_revision, 2);
    assert_int_equal(acted(&l, ACTION_PROMOTE)->to_revision, 2);
    struct policy_view v = seen(&l);
    assert_true(v.champion == 2 && v.n_arm == 0);
    assert_string_equal(v.phase, "stable");
    deal(&l);
    policy_close(l.p);
}

static void test_the_winner_may_have_to_pass_a_canary(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_CANARY));
    l.mean[2] = 0.9;
    assert_true(deal_until(&l, ACTION_CONCLUDE, 2000));
    const struct policy_action *act = acted(&l, ACTION_START_CANARY);
    assert_true(act && act->is_experiment && act->to_revision == 3);
    assert_string_equal(seen(&l).phase, "proposed");
    struct policy_event ev = {.kind = EVENT_START, .now_us = l.now_us};
    ev.start = (struct policy_start){
        .experiment = STR("e3"), .challenger = revision(3, 1.3), .is_own = true};
    put(&l, &ev);
    assert_string_equal(seen(&l).phase, "canary");
    policy_close(l.p);
}

static void test_the_state_survives_its_text_everywhere(void **state)
{
    (void)state;
    for (uint32_t law = 0; law < LAW_COUNT; law++) {
        struct lab plain, coded;
        open_lab(&plain, plan_of(law, ON_WIN_REPORT));
        open_lab(&coded, plan_of(law, ON_WIN_REPORT));
        coded.is_coded = true;
        plain.mean[1] = coded.mean[1] = 0.9;
        for (int i = 0; i < 150; i++) {
            deal(&plain);
            deal(&coded);
            assert_int_equal(plain.acts.n, coded.acts.n);
        }
        json_t *a = policy_state_encode(plain.p), *b = policy_state_encode(coded.p);
        assert_true(json_equal(a, b));
        json_decref(a);
        json_decref(b);
        policy_close(plain.p);
        policy_close(coded.p);
    }
}

/* What is delivered late or twice changes no number. */
static void test_the_order_of_delivery_does_not_matter(void **state)
{
    struct lab plain, storm;
    (void)state;
    open_lab(&plain, plan_of(LAW_ELIMINATION, ON_WIN_REPORT));
    open_lab(&storm, plan_of(LAW_ELIMINATION, ON_WIN_REPORT));
    storm.is_storm = true;
    for (int i = 0; i < 400; i++) {
        deal(&plain);
        deal(&storm);
    }
    json_t *a = policy_experiment(plain.p), *b = policy_experiment(storm.p);
    assert_int_equal(json_integer_value(json_object_get(a, "scored")), 400);
    assert_true(json_equal(json_object_get(a, "arms"), json_object_get(b, "arms")));
    assert_true(json_equal(json_object_get(a, "pairs"), json_object_get(b, "pairs")));
    json_decref(a);
    json_decref(b);
    policy_close(plain.p);
    policy_close(storm.p);
}

static void test_no_winner_before_the_minimum(void **state)
{
    struct lab l;
    struct experiment_plan plan = plan_of(LAW_ELIMINATION, ON_WIN_REPORT);
    (void)state;
    plan.min_us = 200u * 1000000u; /* 2000 rows */
    open_lab(&l, plan);
    l.mean[1] = 1.0;
    l.mean[0] = 0.0;
    int n = deal_until(&l, ACTION_CONCLUDE, 4000);
    assert_in_range(n, 2000, 2001);
    assert_string_equal(acted(&l, ACTION_CONCLUDE)->test, "winner");
    policy_close(l.p);
}

static void test_equal_arms_end_without_a_verdict(void **state)
{
    struct lab l;
    struct experiment_plan plan = plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE);
    (void)state;
    plan.max_units = 1000;
    open_lab(&l, plan);
    assert_int_equal(deal_until(&l, ACTION_CONCLUDE, 4000), 1000);
    assert_string_equal(acted(&l, ACTION_CONCLUDE)->test, "no_verdict");
    assert_null(acted(&l, ACTION_PROMOTE));
    assert_int_equal(seen(&l).champion, 1);
    policy_close(l.p);
}

/* Two good arms that are the same: one of them has beaten the champion, and that is enough. */
static void test_better_than_the_champion_is_a_verdict(void **state)
{
    struct lab l;
    struct experiment_plan plan = plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE);
    (void)state;
    plan.max_units = 1500;
    open_lab(&l, plan);
    l.mean[1] = l.mean[2] = 0.9;
    assert_true(deal_until(&l, ACTION_ELIMINATE, 1500));
    assert_int_equal(acted(&l, ACTION_ELIMINATE)->from_revision, 1);
    uint64_t who = acted(&l, ACTION_ELIMINATE)->to_revision;
    assert_true(deal_until(&l, ACTION_CONCLUDE, 1500));
    assert_string_equal(acted(&l, ACTION_CONCLUDE)->test, "better");
    assert_int_equal(acted(&l, ACTION_PROMOTE)->to_revision, who);
    assert_int_equal(seen(&l).champion, who);
    policy_close(l.p);
}

static void test_a_broken_arm_trips_and_wins_nothing_for_others(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    l.is_invalid[0] = l.is_invalid[1] = true;
    assert_true(deal_until(&l, ACTION_ELIMINATE, 200));
    assert_string_equal(acted(&l, ACTION_ELIMINATE)->test, "hard_trip");
    assert_true(acted(&l, ACTION_CONCLUDE) || deal_until(&l, ACTION_CONCLUDE, 200));
    assert_null(acted(&l, ACTION_PROMOTE)); /* the champion was not beaten by reward */
    policy_close(l.p);
}

static void test_lost_rows_of_one_arm_stop_every_verdict(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    l.skips_arm = true;
    assert_true(deal_until(&l, ACTION_ALERT, 3000));
    assert_string_equal(acted(&l, ACTION_ALERT)->test, "srm");
    l.mean[1] = 1.0;
    l.mean[0] = 0.0;
    assert_int_equal(deal_until(&l, ACTION_ELIMINATE, 2000), 0);
    policy_close(l.p);
}

static void test_unscored_outputs_do_not_decide(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    l.mean[1] = 0.7;
    l.loses[1] = 0.5; /* half of the better arm's outputs may have been bad ones */
    assert_int_equal(deal_until(&l, ACTION_CONCLUDE, 3000), 0);
    policy_close(l.p);
}

static void test_new_checks_begin_again(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_REPORT));
    l.checks = "v1";
    for (int i = 0; i < 100; i++)
        deal(&l);
    l.checks = "v2";
    assert_true(deal_until(&l, ACTION_ALERT, 40));
    assert_string_equal(acted(&l, ACTION_ALERT)->test, "checks");
    json_t *report = policy_experiment(l.p);
    assert_true(json_integer_value(json_object_get(report, "scored")) == 1);
    json_decref(report);
    policy_close(l.p);
}

static void test_operators_come_first(void **state)
{
    struct lab l;
    struct policy_event ev = {.kind = EVENT_START, .now_us = 2000};
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    ev.start = (struct policy_start){.experiment = STR("e9"), .challenger = revision(9, 1.0)};
    assert_int_equal(policy_step(l.p, &ev, &l.acts, NULL), ERR_CONFLICT);
    ev = (struct policy_event){.kind = EVENT_HOLD, .now_us = 3000};
    put(&l, &ev);
    assert_string_equal(acted(&l, ACTION_CONCLUDE)->test, "stopped");
    assert_string_equal(seen(&l).phase, "safe");
    ev.kind = EVENT_RESUME;
    put(&l, &ev);
    ev.kind = EVENT_EXPERIMENT_STOP;
    assert_int_equal(policy_step(l.p, &ev, &l.acts, NULL), ERR_CONFLICT);
    policy_close(l.p);
}

static void test_slices_give_one_arm_everything(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_SLICES, ON_WIN_REPORT));
    l.mean[2] = 1.0;
    for (int i = 0; i < 2000 && seen(&l).n_arm; i++) {
        struct policy_view v = seen(&l);
        double sum = v.arm_share[0] + v.arm_share[1] + v.arm_share[2];
        assert_true(sum == 1.0);
        assert_true(fmax(v.arm_share[0], fmax(v.arm_share[1], v.arm_share[2])) == 1.0);
        deal(&l);
    }
    json_t *report = policy_experiment(l.p);
    assert_int_equal(json_integer_value(json_object_get(report, "winner")), 3);
    json_decref(report);
    policy_close(l.p);
}

static uint32_t count_acted(const struct lab *l, enum policy_action_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->acts.n; i++)
        n += l->acts.a[i].kind == kind;
    return n;
}

static void crash(struct lab *l)
{
    struct policy_event ev = {.kind = EVENT_CRASH, .now_us = l->now_us};
    put(l, &ev);
}

/* All arms were served beside each other: which of them the engine died of is not known. */
static void test_a_crash_drops_every_arm_but_the_champion(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_ELIMINATION, ON_WIN_PROMOTE));
    deal_until(&l, ACTION_ELIMINATE, 20);
    crash(&l);
    assert_int_equal(count_acted(&l, ACTION_ELIMINATE), ARMS - 1);
    assert_string_equal(acted(&l, ACTION_ELIMINATE)->test, "hard_trip");
    assert_null(acted(&l, ACTION_PROMOTE));
    assert_true(acted(&l, ACTION_CONCLUDE) || seen(&l).arm_share[0] == 1.0);
    crash(&l); /* nobody is left to blame */
    assert_int_equal(count_acted(&l, ACTION_ELIMINATE), 0);
    policy_close(l.p);
}

/* One arm at a time: that one goes; in the champion's slice, none. */
static void test_a_crash_in_a_slice_drops_the_arm_it_served(void **state)
{
    struct lab l;
    (void)state;
    open_lab(&l, plan_of(LAW_SLICES, ON_WIN_REPORT));
    while (seen(&l).arm_share[0] < 1.0)
        deal(&l);
    crash(&l);
    assert_int_equal(count_acted(&l, ACTION_ELIMINATE), 0);
    while (seen(&l).arm_share[2] < 1.0)
        deal(&l);
    crash(&l);
    assert_int_equal(count_acted(&l, ACTION_ELIMINATE), 1);
    assert_int_equal(acted(&l, ACTION_ELIMINATE)->from_revision, 3);
    assert_non_null(acted(&l, ACTION_ALLOCATE)); /* the slice ends at once */
    assert_true(seen(&l).arm_share[2] == 0.0);
    policy_close(l.p);
}

static void test_a_tripped_arm_gets_no_further_slice(void **state)
{
    struct lab l;
    int n_served = 0;
    (void)state;
    open_lab(&l, plan_of(LAW_SLICES, ON_WIN_REPORT));
    l.is_invalid[1] = l.has_left = true;
    assert_false(deal_until(&l, ACTION_ELIMINATE, 200));
    l.has_left = false;
    assert_true(deal_until(&l, ACTION_ELIMINATE, 200));
    assert_string_equal(acted(&l, ACTION_ELIMINATE)->test, "hard_trip");
    assert_true(acted(&l, ACTION_ALLOCATE)); /* the slice ends at once */
    for (int i = 0; i < 200 && seen(&l).n_arm; i++) {
        assert_true(seen(&l).arm_share[1] == 0.0);
        n_served++;
        deal(&l);
    }
    assert_int_equal(n_served, 200);
    policy_close(l.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_better_arm_wins_and_serves),
        cmocka_unit_test(test_the_winner_may_have_to_pass_a_canary),
        cmocka_unit_test(test_the_state_survives_its_text_everywhere),
        cmocka_unit_test(test_the_order_of_delivery_does_not_matter),
        cmocka_unit_test(test_no_winner_before_the_minimum),
        cmocka_unit_test(test_equal_arms_end_without_a_verdict),
        cmocka_unit_test(test_better_than_the_champion_is_a_verdict),
        cmocka_unit_test(test_a_broken_arm_trips_and_wins_nothing_for_others),
        cmocka_unit_test(test_lost_rows_of_one_arm_stop_every_verdict),
        cmocka_unit_test(test_unscored_outputs_do_not_decide),
        cmocka_unit_test(test_new_checks_begin_again),
        cmocka_unit_test(test_operators_come_first),
        cmocka_unit_test(test_slices_give_one_arm_everything),
        cmocka_unit_test(test_a_crash_drops_every_arm_but_the_champion),
        cmocka_unit_test(test_a_crash_in_a_slice_drops_the_arm_it_served),
        cmocka_unit_test(test_a_tripped_arm_gets_no_further_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
