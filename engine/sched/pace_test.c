/* The step's prompt tokens follow what the machine can do, up and down, and survive one slow step.
 */
#include "common/test.h"

#include "common/rng.h"
#include "engine/sched/pace.h"

enum { MOST = 512, N_DECODE = 8 };

struct machine {
    double decode_us, token_us;
};

static uint64_t step(struct pace *p, const struct machine *m, uint32_t *n_prompt)
{
    *n_prompt = pace_prompt_tokens(p, N_DECODE, MOST);
    uint64_t us = (uint64_t)(m->decode_us + m->token_us * *n_prompt);
    pace_observe(p, N_DECODE, *n_prompt, us);
    return us;
}

static uint64_t settle(struct pace *p, const struct machine *m, int n_steps)
{
    uint32_t n;
    uint64_t us = 0;
    for (int i = 0; i < n_steps; i++) {
        us = step(p, m, &n);
        pace_observe(p, N_DECODE, 0, (uint64_t)m->decode_us);
    }
    return us;
}

static void test_finds_the_machine(void **state)
{
    (void)state;
    static const struct machine machines[] = {
        {8000, 500}, {2000, 20}, {30000, 400}, {8000, 1000}, {500, 100}};
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct pace p = {.target_us = 40000};
        double decode = machines[i].decode_us, all = decode + MOST * machines[i].token_us;
        double want = decode * 1.5 > 40000 ? decode * 1.5 : 40000; /* a third is for prompts */
        double us = (double)settle(&p, &machines[i], 40);
        want = all < want ? all : want;
        assert_true(us > want * 0.9 && us < want * 1.03);
    }
}

static void test_follows_a_change(void **state)
{
    (void)state;
    struct pace p = {.target_us = 40000};
    const struct machine fast = {8000, 200}, slow = {12000, 800};
    settle(&p, &fast, 30);
    uint64_t us = settle(&p, &slow, 30);
    assert_in_range(us, 35000, 42000);
    us = settle(&p, &fast, 30);
    assert_in_range(us, 35000, 42000);
}

static void test_one_slow_step_costs_little(void **state)
{
    (void)state;
    struct pace p = {.target_us = 40000};
    const struct machine m = {8000, 500};
    settle(&p, &m, 30);
    uint32_t before = pace_prompt_tokens(&p, N_DECODE, MOST);
    pace_observe(&p, N_DECODE, before, 900000);
    assert_true(pace_prompt_tokens(&p, N_DECODE, MOST) * 2 > before);
}

/* Steps that take up to a sixth longer or shorter than the mean: most stay below the target, and
 * what is kept free for that is not more than they vary. */
static void test_leaves_room_for_noise(void **state)
{
    (void)state;
    struct pace p = {.target_us = 40000};
    struct rng r;
    uint32_t n, late = 0;
    double sum = 0;
    rng_seed(&r, 5);
    for (int i = 0; i < 400; i++) {
        double slow = 1 + (rng_uniform(&r) - 0.5) / 3;
        uint64_t us = step(&p, &(struct machine){8000 * slow, 500 * slow}, &n);
        pace_observe(&p, N_DECODE, 0, 8000);
        if (i < 50)
            continue;
        late += us > 42000;
        sum += (double)us;
    }
    assert_true(late < 350 / 6);
    assert_true(sum / 350 > 34000);
}

static void test_bounds(void **state)
{
    (void)state;
    struct pace p = {.target_us = 40000};
    assert_int_equal(pace_prompt_tokens(&p, 0, MOST), MOST);              /* nobody waits */
    assert_int_equal(pace_prompt_tokens(&p, 1, MOST), PACE_LEAST_TOKENS); /* nothing is known */
    assert_int_equal(pace_prompt_tokens(&p, 1, 8), 8);
    const struct machine slow = {90000, 5000};
    settle(&p, &slow, 10);
    assert_int_equal(pace_prompt_tokens(&p, 1, MOST), PACE_LEAST_TOKENS); /* 45 ms hold 9 */
    p.target_us = 0;
    assert_int_equal(pace_prompt_tokens(&p, 9, MOST), MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_machine),
        cmocka_unit_test(test_follows_a_change),
        cmocka_unit_test(test_one_slow_step_costs_little),
        cmocka_unit_test(test_leaves_room_for_noise),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
