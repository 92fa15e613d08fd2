/* What a step holds: prompts beside running streams within the wanted time, short prompts beside
 * long ones, slots that stay in a static batch. Times follow a model of a machine: 3 ms and 0.6 ms
 * a decode, 0.5 ms a prompt token. */
#include "engine/sched/fixture.h"

static uint64_t machine_us(const struct sched_plan *p)
{
    return 3000 + 600 * (uint64_t)p->n_decode + 500 * (uint64_t)p->n_prompt;
}

/* The duration follows from the plan: plan twice, the same state gives the same plan. */
static uint64_t timed_step(struct fixture *f)
{
    sched_plan(f->sched, f->now, &f->plan);
    uint64_t step_us = machine_us(&f->plan);
    fixture_step(f, step_us);
    return step_us;
}

static struct sched_config paced_config(void)
{
    struct sched_config c = fixture_config();
    c.max_gap_us = 40000;
    c.prefill_chunk = 256;
    return c;
}

static void test_prompts_keep_to_the_gap(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = paced_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 8; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 30}, 0, 0, 400);
    for (int i = 0; i < 20; i++)
        timed_step(&f);
    struct sequence *longer = fixture_add(&f, (struct gen_request){.n_prompt = 2000}, 0, 0, 5);
    uint64_t most = 0, n = 0;
    for (; !longer->first_token.us; n++) {
        uint64_t us = timed_step(&f);
        most = us > most ? us : most;
        assert_int_equal(f.plan.n_decode, 8); /* every stream gets its token in every step */
    }
    assert_in_range(most, 30000, 44000);
    assert_in_range(n, 2000 / 70, 2000 / 50); /* the room is used: (40 - 7.8) / 0.5 = 64 a step */
    fixture_run(&f, 1000);
    fixture_close(&f);
}

static void test_nobody_waits_no_limit(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = paced_config();
    fixture_open(&f, &c);
    fixture_add(&f, (struct gen_request){.n_prompt = 1000}, 0, 0, 5);
    for (int i = 0; i < 3; i++) {
        timed_step(&f);
        assert_int_equal(f.plan.n_prompt, 256);
    }
    fixture_run(&f, 1000);
    fixture_close(&f);
}

/* A prompt of 2,000 tokens is under way; one of 20 has its first token in the next step. */
static void test_short_prompt_passes_a_long_one(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = paced_config();
    fixture_open(&f, &c);
    struct sequence *longer = fixture_add(&f, (struct gen_request){.n_prompt = 2000}, 0, 0, 5);
    timed_step(&f);
    struct sequence *shorter = fixture_add(&f, (struct gen_request){.n_prompt = 20}, 0, 0, 5);
    timed_step(&f);
    assert_true(shorter->first_token.us != 0);
    assert_true(longer->n_computed >= 256 + 230);
    fixture_run(&f, 1000);
    fixture_close(&f);
}

/* Two long prompts are under way; one of higher priority starts at once and passes the second. */
static void test_priority_passes_a_long_prompt(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    struct sequence *low[2];
    for (int i = 0; i < 2; i++)
        low[i] = fixture_add(&f, (struct gen_request){.n_prompt = 1000, .priority = -1}, 0, 0, 5);
    fixture_step(&f, 1000);
    fixture_step(&f, 1000);
    uint32_t before = low[1]->n_computed;
    struct sequence *high = fixture_add(&f, (struct gen_request){.n_prompt = 1500}, 0, 0, 5);
    for (int i = 0; i < 10; i++)
        fixture_step(&f, 1000);
    assert_true(high->n_computed == 320 && low[1]->n_computed == before);
    assert_int_equal(low[0]->n_computed, 32 + 32 + 320); /* the oldest keeps its half */
    fixture_run(&f, 1000);
    fixture_close(&f);
}

/* Short prompts without end: the long one still gets at least half of each step's room. */
static void test_long_prompt_does_not_starve(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    struct sequence *longer = fixture_add(&f, (struct gen_request){.n_prompt = 640}, 0, 0, 5);
    for (int i = 0; i < 20 && !longer->first_token.us; i++) {
        for (int k = 0; k < 3; k++)
            fixture_add(&f, (struct gen_request){.n_prompt = 60}, 0, 0, 1);
        fixture_step(&f, 1000);
    }
    assert_true(longer->first_token.us != 0);
    fixture_run(&f, 1000);
    fixture_close(&f);
}

static void test_static_batch_keeps_its_slots(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.is_static = true;
    c.max_running = 4;
    fixture_open(&f, &c);
    struct sequence *q[6];
    for (int i = 0; i < 6; i++)
        q[i] = fixture_add(&f, (struct gen_request){.n_prompt = 4}, 0, 0, i == 2 ? 50 : 5);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(q[4]->state, SEQ_WAITING); /* until all four have ended */
        fixture_step(&f, 1000);
        assert_int_equal(f.plan.batch.n_row, 4); /* also for those that have */
    }
    assert_int_equal(q[2]->state, SEQ_ENDED);
    fixture_step(&f, 1000);
    assert_int_equal(f.plan.batch.n_row, 2);
    fixture_run(&f, 1000);
    fixture_close(&f);
}

static struct sched_config drafting_config(void)
{
    struct sched_config c = fixture_config();
    c.draft_tokens = 7;
    return c;
}

/* The fixture's text is ones: drafts are right once three stand there. */
static void test_drafts_follow_their_sequence(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = drafting_config();
    fixture_open(&f, &c);
    struct sequence *q = fixture_add(&f, (struct gen_request){.n_prompt = 20}, 0, 0, 40);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fixture_step(&f, 1000), i ? 1 : 20);
    const uint32_t n_tok[] = {4, 8, 8, 8,
                              8}; /* three, then, as they were right, all there may be */
    uint32_t at = q->n_computed;
    for (size_t i = 0; i < sizeof n_tok / sizeof *n_tok; at += n_tok[i++]) {
        assert_int_equal(fixture_step(&f, 1000), n_tok[i]);
        assert_int_equal(f.plan.batch.n_row, n_tok[i]);
        assert_int_equal(f.plan.n_decode, n_tok[i]);
        assert_int_equal(f.plan.n_prompt, 0);
        for (uint32_t k = 0; k < n_tok[i]; k++) {
            assert_int_equal(f.plan.batch.position[k], at + k);
            assert_int_equal(f.plan.batch.row_token[k], k);
            assert_ptr_equal(f.plan.row_seq[k], q);
        }
    }
    assert_int_equal(q->state, SEQ_ENDED); /* 4 + 36: never more than was asked for */
    assert_int_equal(q->n_tokens, 60);
    fixture_close(&f);
}

/* What many sequences leave of a step; none beside a prompt. */
static void test_drafts_leave_room_to_others(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = drafting_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 6; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 5}, 0, 0, 200);
    for (int i = 0; i < 9; i++)
        assert_int_equal(fixture_step(&f, 1000), i ? 6 : 30); /* of many only sure drafts: eight */
    assert_int_equal(fixture_step(&f, 1000), 8);
    assert_int_equal(f.plan.batch.n_row, 8);
    struct sequence *prompt = fixture_add(&f, (struct gen_request){.n_prompt = 100}, 0, 0, 5);
    assert_int_equal(fixture_step(&f, 1000), 6 + 64);
    assert_int_equal(fixture_step(&f, 1000), 6 + 36);
    assert_int_equal(fixture_step(&f, 1000), 8); /* with the seventh */
    for (int i = 0; i < 3; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 5}, 0, 0, 200);
    fixture_step(&f, 1000);
    assert_int_equal(fixture_step(&f, 1000), 10); /* nothing is left */
    assert_int_equal(prompt->n_tokens, 104);
    fixture_run(&f, 1000);
    fixture_close(&f);
}

/* Blocks for exactly what the two end with: drafts take free ones and nobody's. */
static void test_drafts_preempt_nobody(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = drafting_config();
    c.n_kv_blocks = 8;
    c.prefix_cache = false;
    fixture_open(&f, &c);
    for (int i = 0; i < 2; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 14}, 0, 0, 51);
    fixture_run(&f, 1000);
    assert_int_equal(sched_get_counters(f.sched)->preemptions, 0);
    assert_true(sched_get_counters(f.sched)->draft_tokens > 50);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_keep_to_the_gap),
        cmocka_unit_test(test_nobody_waits_no_limit),
        cmocka_unit_test(test_short_prompt_passes_a_long_one),
        cmocka_unit_test(test_priority_passes_a_long_prompt),
        cmocka_unit_test(test_long_prompt_does_not_starve),
        cmocka_unit_test(test_static_batch_keeps_its_slots),
        cmocka_unit_test(test_drafts_follow_their_sequence),
        cmocka_unit_test(test_drafts_leave_room_to_others),
        cmocka_unit_test(test_drafts_preempt_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
