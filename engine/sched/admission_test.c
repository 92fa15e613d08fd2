/* Who starts when: a shared prefix is computed once, priorities with aging, users in turn. */
#include "engine/sched/fixture.h"

/* 16 clients, a system prompt of 400 tokens, 38 of their own, all at once and cold. */
static void test_prefix_in_flight_is_computed_once(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 16; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 438}, 400, 7, 8);
    fixture_run(&f, 1000);
    assert_int_equal(f.prompt_tokens, 400 + 16 * 38);
    assert_int_equal(sched_get_counters(f.sched)->prefix_waits, 15);
    assert_int_equal(sched_get_counters(f.sched)->hit_tokens, 15 * 400);
    fixture_close(&f);
}

/* The shared part ends inside a block that is in use: who comes later copies the block. Its first
 * owner is still in it (a short prompt), or has filled it (a long one). */
static void test_shared_tail_of_a_block_is_copied(void **state)
{
    (void)state;
    for (uint32_t n_prompt = 112; n_prompt <= 120; n_prompt += 8) {
        struct fixture f;
        struct sched_config c = fixture_config();
        fixture_open(&f, &c);
        for (int i = 0; i < 4; i++)
            fixture_add(&f, (struct gen_request){.n_prompt = n_prompt}, 110, 7, 2);
        fixture_run(&f, 1000);
        const struct sched_counters *n = sched_get_counters(f.sched);
        assert_int_equal(f.prompt_tokens, n_prompt + 3 * (n_prompt - 110));
        assert_int_equal(n->copied_blocks, 3);
        assert_int_equal(n->copied_tokens, 3 * (110 - 96));
        for (uint32_t i = 1; i < 4; i++)
            assert_int_equal(f.seq[i]->n_cached, 110);
        fixture_close(&f);
    }
}

/* Nobody waits for less than a block: who comes in the same step computes it too. */
static void test_nobody_waits_for_a_tail(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 2; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 20}, 12, 7, 9);
    fixture_step(&f, 1000);
    fixture_add(&f, (struct gen_request){.n_prompt = 20}, 12, 7, 2); /* they have filled theirs */
    fixture_run(&f, 1000);
    assert_int_equal(f.prompt_tokens, 20 + 20 + 8);
    assert_int_equal(sched_get_counters(f.sched)->prefix_waits, 0);
    assert_int_equal(f.seq[2]->n_cached, 12);
    fixture_close(&f);
}

/* The same prompt n times, as in a request for n choices: each after the first computes the last
 * token only, whose logits it needs, as if it decoded. */
static void test_equal_prompts(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 8; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 128}, 128, 7, 2);
    fixture_run(&f, 1000);
    assert_int_equal(f.prompt_tokens, 128);
    assert_int_equal(sched_get_counters(f.sched)->hit_tokens, 7 * 127);
    fixture_close(&f);
}

/* A pool that has no block for a copy: the tail is computed, and all get on. */
static void test_no_room_for_a_copy(void **state)
{
    (void)state;
    for (uint32_t n_blocks = 8; n_blocks < 16; n_blocks++) {
        struct fixture f;
        struct sched_config c = fixture_config();
        c.n_kv_blocks = n_blocks;
        fixture_open(&f, &c);
        for (int i = 0; i < 6; i++)
            fixture_add(&f, (struct gen_request){.n_prompt = 90}, 70, 7, 30);
        fixture_run(&f, 1000);
        for (uint32_t i = 0; i < f.n_seq; i++)
            assert_int_equal(f.seq[i]->n_tokens, 120);
        fixture_close(&f);
    }
}

/* Turns of a conversation: the answer is found again too, down to the token. */
static void test_hit_across_turns(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    struct sequence *first = fixture_add(&f, (struct gen_request){.n_prompt = 40}, 40, 7, 30);
    fixture_run(&f, 1000);
    int32_t prompt[100];
    for (uint32_t i = 0; i < 100; i++)
        prompt[i] = i < first->n_tokens ? first->tokens[i] : 3;
    struct gen_request r = {.prompt = prompt, .n_prompt = 100};
    r.params.v[PARAM_MAX_NEW_TOKENS] = 2;
    struct sequence *second;
    assert_int_equal(seq_new(&second, &r, f.now, NULL), ERR_OK);
    f.seq[f.n_seq++] = second;
    sched_add(f.sched, second);
    fixture_run(&f, 1000);
    assert_int_equal(second->n_cached, 69); /* 40 of the prompt, 29 of the answer */
    assert_int_equal(sched_get_counters(f.sched)->hit_tokens, 69);
    assert_int_equal(f.prompt_tokens, 40 + 100 - 69);
    fixture_close(&f);
}

/* Who computes the prefix goes away half-way; one of those who waited goes on from there. */
static void test_leader_goes_away(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    for (int i = 0; i < 6; i++)
        fixture_add(&f, (struct gen_request){.n_prompt = 438}, 400, 7, 2);
    for (int i = 0; i < 3; i++)
        fixture_step(&f, 1000);
    assert_int_equal(sched_n_running(f.sched), 1);
    sched_remove(f.sched, sched_running_at(f.sched, 0));
    fixture_run(&f, 1000);
    assert_int_equal(f.prompt_tokens, 400 + 5 * 38);
    fixture_close(&f);
}

/* Others are not held up by those who wait for a prefix. */
static void test_others_pass_by(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    fixture_open(&f, &c);
    struct sequence *leader = fixture_add(&f, (struct gen_request){.n_prompt = 1600}, 1600, 7, 2);
    struct sequence *waits = fixture_add(&f, (struct gen_request){.n_prompt = 1610}, 1600, 7, 2);
    struct sequence *other = fixture_add(&f, (struct gen_request){.n_prompt = 20}, 0, 0, 2);
    fixture_step(&f, 1000);
    assert_int_equal(other->state, SEQ_RUNNING);
    assert_true(other->first_token.us != 0);
    assert_int_equal(waits->state, SEQ_WAITING);
    fixture_run(&f, 1000);
    assert_true(waits->first_token.us > leader->first_token.us - 1000);
    fixture_close(&f);
}

static void test_priority_and_age(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.max_running = 1;
    fixture_open(&f, &c);
    struct sequence *first = fixture_add(&f, (struct gen_request){.n_prompt = 4}, 0, 0, 100);
    fixture_step(&f, 1000);
    struct sequence *low = fixture_add(&f, (struct gen_request){.n_prompt = 4}, 0, 0, 2);
    f.now.us += c.aging_us;
    struct sequence *late = fixture_add(&f, (struct gen_request){.n_prompt = 4}, 0, 0, 2);
    struct sequence *high =
        fixture_add(&f, (struct gen_request){.n_prompt = 4, .priority = 1}, 0, 0, 2);
    fixture_run(&f, 1000);
    assert_int_equal(first->n_preempted, 0);                 /* it is old enough */
    assert_true(low->first_token.us < high->first_token.us); /* aged by one level, came first */
    assert_true(high->first_token.us < late->first_token.us);
    fixture_close(&f);
}

static void test_priority_takes_a_slot(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.max_running = 2;
    fixture_open(&f, &c);
    struct sequence *low[2];
    for (int i = 0; i < 2; i++)
        low[i] = fixture_add(&f, (struct gen_request){.n_prompt = 40}, 0, 0, 50);
    for (int i = 0; i < 10; i++)
        fixture_step(&f, 1000);
    struct sequence *high =
        fixture_add(&f, (struct gen_request){.n_prompt = 40, .priority = 3}, 0, 0, 5);
    fixture_step(&f, 1000);
    assert_true(high->first_token.us != 0);
    assert_int_equal(low[1]->state, SEQ_WAITING); /* the younger one */
    assert_int_equal(sched_get_counters(f.sched)->priority_preemptions, 1);
    fixture_run(&f, 1000);
    assert_int_equal(low[1]->n_tokens, 90);
    fixture_close(&f);
}

/* Whoever would be put out for nothing stays: the higher one does not fit beside its equals. */
static void test_nobody_is_put_out_for_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.n_kv_blocks = 20;
    fixture_open(&f, &c);
    fixture_add(&f, (struct gen_request){.n_prompt = 150}, 0, 0, 10);
    struct sequence *low =
        fixture_add(&f, (struct gen_request){.n_prompt = 60, .priority = -1}, 0, 0, 30);
    for (int i = 0; i < 5; i++)
        fixture_step(&f, 1000);
    assert_true(low->n_tokens > 60);
    struct sequence *high = fixture_add(&f, (struct gen_request){.n_prompt = 240}, 0, 0, 10);
    fixture_step(&f, 1000);
    assert_int_equal(sched_get_counters(f.sched)->preemptions, 0);
    fixture_run(&f, 1000);
    /* when the equal one has left, putting out the low one is enough */
    assert_int_equal(sched_get_counters(f.sched)->priority_preemptions, 1);
    assert_true(high->first_token.us < f.now.us && low->n_preempted == 1);
    fixture_close(&f);
}

/* What was found in the cache costs a user nothing: his next request goes before that of one who
 * had as much computed. */
static void test_found_tokens_are_free(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.max_running = 1;
    fixture_open(&f, &c);
    struct gen_request computes = {.n_prompt = 300, .user = 1},
                       finds = {.n_prompt = 300, .user = 2};
    fixture_add(&f, (struct gen_request){.n_prompt = 300, .user = 3}, 290, 7, 1);
    fixture_run(&f, 1000);
    fixture_add(&f, computes, 0, 0, 1);
    fixture_add(&f, finds, 290, 7, 1);
    struct sequence *second[] = {fixture_add(&f, computes, 0, 0, 1),
                                 fixture_add(&f, finds, 0, 0, 1)};
    fixture_run(&f, 1000);
    assert_true(second[1]->start.us < second[0]->start.us);
    fixture_close(&f);
}

/* One user has sent 40 requests, another sends 4 later: they take turns by what they were given. */
static void test_users_take_turns(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.max_running = 2;
    fixture_open(&f, &c);
    struct sequence *other[4], *flood[40];
    for (int i = 0; i < 40; i++)
        flood[i] = fixture_add(&f, (struct gen_request){.n_prompt = 20, .user = 1}, 0, 0, 20);
    for (int i = 0; i < 30; i++)
        fixture_step(&f, 1000);
    for (int i = 0; i < 4; i++)
        other[i] = fixture_add(&f, (struct gen_request){.n_prompt = 20, .user = 2}, 0, 0, 20);
    fixture_run(&f, 1000);
    uint32_t before = 0; /* of the flood, those served before the other user's last */
    for (int i = 0; i < 40; i++)
        before += flood[i]->first_token.us < other[3]->first_token.us;
    assert_in_range(before, 4, 10);
    fixture_close(&f);
}

/* A request that does not fit keeps its turn: smaller ones that come later do not pass it. */
static void test_large_one_gets_its_turn(void **state)
{
    (void)state;
    struct fixture f;
    struct sched_config c = fixture_config();
    c.n_kv_blocks = 20;
    fixture_open(&f, &c);
    fixture_add(&f, (struct gen_request){.n_prompt = 100}, 0, 0, 60);
    fixture_step(&f, 1000);
    fixture_step(&f, 1000);
    struct sequence *large = fixture_add(&f, (struct gen_request){.n_prompt = 250}, 0, 0, 10);
    struct sequence *small = fixture_add(&f, (struct gen_request){.n_prompt = 10}, 0, 0, 2);
    fixture_run(&f, 1000);
    assert_true(small->start.us >= large->start.us);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_in_flight_is_computed_once),
        cmocka_unit_test(test_shared_tail_of_a_block_is_copied),
        cmocka_unit_test(test_nobody_waits_for_a_tail),
        cmocka_unit_test(test_no_room_for_a_copy),
        cmocka_unit_test(test_equal_prompts),
        cmocka_unit_test(test_hit_across_turns),
        cmocka_unit_test(test_leader_goes_away),
        cmocka_unit_test(test_others_pass_by),
        cmocka_unit_test(test_priority_and_age),
        cmocka_unit_test(test_priority_takes_a_slot),
        cmocka_unit_test(test_nobody_is_put_out_for_nothing),
        cmocka_unit_test(test_found_tokens_are_free),
        cmocka_unit_test(test_users_take_turns),
        cmocka_unit_test(test_large_one_gets_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
