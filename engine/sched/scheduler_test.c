/* Random workloads against a pretended KV memory: a slot holds a hash of all tokens up to its
 * position, so that a wrong block table, a stale shared block or a lost prefix shows at once. The
 * pretended model's next token is a function of that hash, so every sequence has one right output.
 */
#include "common/test.h"

#include "common/hash.h"
#include "common/rng.h"
#include "engine/sched/scheduler.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 50, MAX_BLOCKS = 64 };

struct memory {
    uint64_t slot[MAX_BLOCKS][KV_BLOCK_TOKENS];
};

static uint64_t extend(uint64_t h, int32_t token)
{
    return hash64(&token, sizeof token, h + 1);
}

static uint64_t read_slot(const struct memory *m, const uint32_t *table, uint32_t position)
{
    return m->slot[table[position / KV_BLOCK_TOKENS]][position % KV_BLOCK_TOKENS];
}

static void pretend_copies(struct memory *m, const struct model_batch *b)
{
    for (uint32_t i = 0; i < b->n_copy; i++)
        memmove(m->slot[b->copy_to[i]], m->slot[b->copy_from[i]], sizeof *m->slot);
}

/* What model_forward does, with the check that all earlier positions are what they must be. */
static void pretend_forward(struct memory *m, const struct model_batch *b)
{
    for (uint32_t i = 0; i < b->n_tok; i++) {
        const uint32_t *table = b->block_table[b->seq[i]];
        uint32_t p = b->position[i];
        uint64_t before = p ? read_slot(m, table, p - 1) : 0;
        m->slot[table[p / KV_BLOCK_TOKENS]][p % KV_BLOCK_TOKENS] = extend(before, b->token[i]);
    }
}

static void check_history(const struct memory *m, const struct sequence *q)
{
    uint64_t h = 0;
    for (uint32_t p = 0; p < q->n_computed; p++) {
        h = extend(h, q->tokens[p]);
        assert_true(read_slot(m, q->blocks, p) == h);
    }
}

/* After a history of hash h and n tokens: mostly of a text that repeats, for drafts. */
static int32_t token_after(uint64_t h, uint32_t n)
{
    return (int32_t)(h % 5 ? n % 6 : h % VOCAB);
}

static int32_t next_token(const struct sequence *q)
{
    uint64_t h = 0;
    for (uint32_t p = 0; p < q->n_tokens; p++)
        h = extend(h, q->tokens[p]);
    return token_after(h, q->n_tokens);
}

static struct sequence *random_sequence(struct rng *r, uint32_t most_tokens)
{
    int32_t prompt[256];
    uint32_t n = 1 + (uint32_t)rng_below(r, most_tokens / 2);
    uint64_t family = rng_below(r, 4), shared = rng_below(r, n + 1);
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (int32_t)(i < shared ? family : rng_below(r, VOCAB));
    struct gen_request request = {
        .prompt = prompt, .n_prompt = n, .priority = (int)rng_below(r, 3), .user = rng_below(r, 3)};
    request.params.v[PARAM_MAX_NEW_TOKENS] = (double)(1 + rng_below(r, most_tokens - n));
    struct sequence *q;
    assert_int_equal(seq_new(&q, &request, (struct mono){1}, NULL), ERR_OK);
    return q;
}

static void check_output(const struct sequence *q)
{
    uint64_t h = 0;
    for (uint32_t p = 0; p < q->n_tokens; p++) {
        if (p >= q->request.n_prompt)
            assert_int_equal(q->tokens[p], token_after(h, p));
        h = extend(h, q->tokens[p]);
    }
}

/* Every block's references are the sequences that list it and at most one of the cache; none is in
 * a table twice; what is still being written belongs to one sequence alone. */
static void check_ownership(const struct scheduler *s)
{
    const struct kv_pool *pool = sched_pool(s);
    uint32_t listed[MAX_BLOCKS] = {0}, by_cache = 0;
    for (uint32_t i = 0; i < sched_n_running(s); i++) {
        const struct sequence *q = sched_running_at(s, i);
        uint64_t seen = 0;
        for (uint32_t b = 0; b < q->n_blocks; b++) {
            assert_false(seen >> q->blocks[b] & 1);
            seen |= (uint64_t)1 << q->blocks[b];
            listed[q->blocks[b]]++;
            if (b >= q->n_computed / KV_BLOCK_TOKENS)
                assert_int_equal(kv_pool_references(pool, q->blocks[b]), 1);
        }
    }
    for (const struct sequence *q = sched_first_waiting(s); q; q = q->next)
        assert_int_equal(q->n_blocks, 0);
    for (uint32_t b = 0; b < kv_pool_total(pool); b++) {
        uint32_t references = kv_pool_references(pool, b);
        assert_true(references == listed[b] || references == listed[b] + 1);
        by_cache += references - listed[b];
    }
    assert_int_equal(by_cache, sched_blocks_cached(s));
}

/* False when it ended, or the token was not the drafted one. */
static bool take_token(struct scheduler *s, struct sequence *q, struct rng *r)
{
    uint32_t n_open = q->draft.n_open, n_right = q->draft.n_right;
    seq_append(q, next_token(q));
    if (q->n_tokens < q->n_capacity && rng_below(r, 200) != 0)
        return !n_open || q->draft.n_right > n_right;
    check_output(q);
    sched_remove(s, q);
    seq_free(q);
    return false;
}

static uint32_t step(struct scheduler *s, struct memory *m, struct rng *r)
{
    struct sched_plan plan;
    sched_plan(s, (struct mono){2}, &plan);
    assert_true(kv_pool_is_consistent(sched_pool(s)));
    check_ownership(s);
    if (plan.batch.n_tok == 0)
        return 0;
    pretend_copies(m, &plan.batch);
    for (uint32_t i = 0; i < sched_n_running(s); i++)
        check_history(m, sched_running_at(s, i));
    pretend_forward(m, &plan.batch);
    sched_computed(s);
    check_ownership(s);
    const struct sequence *done = NULL; /* its other rows are nobody's */
    for (uint32_t i = 0; i < plan.batch.n_row; i++)
        if (plan.row_seq[i] != done && !take_token(s, plan.row_seq[i], r))
            done = plan.row_seq[i];
    return plan.batch.n_tok;
}

struct totals {
    uint64_t preemptions, hits, copied, drafted;
};

static void run_workload(uint64_t seed, uint32_t n_blocks, bool cache, struct totals *sum)
{
    struct sched_config c = {.n_kv_blocks = n_blocks,
                             .max_batch_tokens = 40,
                             .max_running = 8,
                             .prefill_chunk = 24,
                             .draft_tokens = seed % 2 ? 11 : 0,
                             .aging_us = 1000000,
                             .prefix_cache = cache,
                             .salt = seed};
    struct scheduler *s;
    struct memory m = {0};
    struct rng r;
    rng_seed(&r, seed);
    assert_int_equal(sched_open(&s, &c, NULL), ERR_OK);
    uint32_t added = 0, idle = 0;
    for (int i = 0; idle < 2 && i < 20000; i++) {
        while (added < 60 && rng_below(&r, 3) == 0) {
            sched_add(s, random_sequence(&r, n_blocks * KV_BLOCK_TOKENS / 2));
            added++;
        }
        uint32_t work = step(s, &m, &r);
        assert_true(work <= c.max_batch_tokens);
        assert_true(work > 0 || sched_n_running(s) + sched_n_waiting(s) == 0);
        idle = work || added < 60 ? 0 : idle + 1;
    }
    assert_int_equal(sched_n_running(s) + sched_n_waiting(s), 0);
    sum->preemptions += sched_get_counters(s)->preemptions;
    sum->hits += sched_get_counters(s)->hit_tokens;
    sum->copied += sched_get_counters(s)->copied_tokens;
    sum->drafted += sched_get_counters(s)->draft_tokens;
    sched_flush_cache(s);
    assert_int_equal(kv_pool_free_count(sched_pool(s)), n_blocks); /* nothing leaked */
    sched_close(s);
}

static void test_random_workloads(void **state)
{
    (void)state;
    struct totals tight = {0}, off = {0}, ample = {0};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        run_workload(seed, 8 + (uint32_t)seed % 5, true, &tight);
        run_workload(seed, 10, false, &off);
        run_workload(seed, MAX_BLOCKS, true, &ample);
    }
    assert_true(tight.preemptions > 100 && tight.hits > 500 && ample.hits > 500);
    assert_true(tight.copied > 100 && ample.copied > 100);
    assert_true(off.hits == 0 && off.copied == 0);
    assert_true(tight.drafted > 100 && off.drafted > 100 && ample.drafted > 100);
}

static void test_chunks_and_decodes_share_a_step(void **state)
{
    (void)state;
    struct sched_config c = {.n_kv_blocks = MAX_BLOCKS,
                             .max_batch_tokens = 32,
                             .max_running = 4,
                             .prefill_chunk = 16,
                             .aging_us = 1000000};
    struct scheduler *s;
    struct memory m = {0};
    struct sched_plan plan;
    int32_t prompt[100] = {0};
    struct gen_request shorter = {.prompt = prompt, .n_prompt = 1}, longer = shorter;
    shorter.params.v[PARAM_MAX_NEW_TOKENS] = longer.params.v[PARAM_MAX_NEW_TOKENS] = 50;
    longer.n_prompt = 100;
    struct sequence *a, *b;
    assert_int_equal(sched_open(&s, &c, NULL), ERR_OK);
    assert_int_equal(seq_new(&a, &shorter, (struct mono){1}, NULL), ERR_OK);
    assert_int_equal(seq_new(&b, &longer, (struct mono){1}, NULL), ERR_OK);
    sched_add(s, a);
    sched_add(s, b);
    for (int i = 0; i < 6; i++) { /* the long prompt never delays the running one */
        sched_plan(s, (struct mono){2}, &plan);
        assert_true(plan.batch.n_row >= 1 && plan.row_seq[0] == a);
        assert_int_equal(plan.batch.n_tok, i == 0 ? 17 : 1 + (i < 6 ? 16 : 4));
        pretend_forward(&m, &plan.batch);
        sched_computed(s);
        seq_append(a, 1);
    }
    sched_remove(s, a);
    sched_remove(s, b);
    assert_int_equal(kv_pool_free_count(sched_pool(s)), MAX_BLOCKS);
    seq_free(a);
    seq_free(b);
    sched_close(s);
}

static void test_priority_is_admitted_first(void **state)
{
    (void)state;
    struct sched_config c = {.n_kv_blocks = 8,
                             .max_batch_tokens = 16,
                             .max_running = 1,
                             .prefill_chunk = 16,
                             .aging_us = 1000000};
    struct scheduler *s;
    struct sched_plan plan;
    int32_t prompt[1] = {0};
    struct sequence *q[3];
    assert_int_equal(sched_open(&s, &c, NULL), ERR_OK);
    for (int i = 0; i < 3; i++) {
        struct gen_request r = {.prompt = prompt, .n_prompt = 1, .priority = i == 1 ? 5 : 0};
        r.params.v[PARAM_MAX_NEW_TOKENS] = 4;
        assert_int_equal(seq_new(&q[i], &r, (struct mono){1}, NULL), ERR_OK);
        sched_add(s, q[i]);
    }
    const int order[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        sched_plan(s, (struct mono){2}, &plan);
        assert_ptr_equal(plan.row_seq[0], q[order[i]]);
        sched_remove(s, q[order[i]]);
    }
    for (int i = 0; i < 3; i++)
        seq_free(q[i]);
    sched_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_workloads),
        cmocka_unit_test(test_chunks_and_decodes_share_a_step),
        cmocka_unit_test(test_priority_is_admitted_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
