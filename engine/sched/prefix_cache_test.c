/* KV blocks and the tree over them: what is found, what eviction may take and in which order, what
 * a full table does, random use against a plain list. */
#include "common/test.h"

#include "common/rng.h"
#include "engine/model/model.h"
#include "engine/sched/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

enum { N_BLOCKS = 16 };

struct fixture {
    struct kv_pool *pool;
    struct prefix_cache *cache;
};

static int set_up(void **state)
{
    static struct fixture f;
    if (kv_pool_open(&f.pool, N_BLOCKS, NULL) != ERR_OK ||
        prefix_cache_open(&f.cache, f.pool, 42, NULL) != ERR_OK)
        return -1;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    prefix_cache_close(f->cache);
    bool is_whole = kv_pool_is_consistent(f->pool) && kv_pool_free_count(f->pool) == N_BLOCKS;
    kv_pool_close(f->pool);
    return is_whole ? 0 : -1;
}

static const int32_t *tokens_of(int32_t word)
{
    static int32_t tokens[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        tokens[i] = word;
    return tokens;
}

/* A computed block enters the cache and its sequence lets go of it. */
static uint32_t add(struct fixture *f, uint32_t parent, int32_t word)
{
    uint32_t block;
    assert_true(kv_pool_take(f->pool, &block));
    uint32_t entry = prefix_cache_add(f->cache, parent, tokens_of(word), block);
    kv_pool_release(f->pool, block);
    return entry;
}

static uint32_t find(struct fixture *f, uint32_t parent, int32_t word)
{
    return prefix_cache_find(f->cache, parent, tokens_of(word));
}

static void test_found_by_all_that_leads_to_it(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1), ab = add(f, a, 2), b = add(f, PREFIX_ROOT, 2);
    assert_int_equal(find(f, PREFIX_ROOT, 1), a);
    assert_int_equal(find(f, a, 2), ab);
    assert_int_equal(find(f, PREFIX_ROOT, 2), b); /* the same tokens at another place */
    assert_true(ab != b && prefix_cache_block(f->cache, ab) != prefix_cache_block(f->cache, b));
    assert_int_equal(find(f, b, 1), PREFIX_NONE);
    assert_int_equal(find(f, ab, 2), PREFIX_NONE);
    int32_t nearly[KV_BLOCK_TOKENS];
    memcpy(nearly, tokens_of(1), sizeof nearly);
    nearly[KV_BLOCK_TOKENS - 1] = 9;
    assert_int_equal(prefix_cache_find(f->cache, PREFIX_ROOT, nearly), PREFIX_NONE);
}

static void test_equal_block_is_not_added_twice(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1), free_before = kv_pool_free_count(f->pool);
    assert_int_equal(add(f, PREFIX_ROOT, 1), a);
    assert_int_equal(kv_pool_free_count(f->pool), free_before);
}

static void test_eviction_takes_leaves_and_the_oldest_first(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1), ab = add(f, a, 2);
    add(f, PREFIX_ROOT, 3);
    prefix_cache_touch(f->cache, ab); /* a and its child are used again */
    assert_int_equal(kv_pool_cached_only(f->pool), 3);
    assert_true(prefix_cache_evict(f->cache));
    assert_int_equal(find(f, PREFIX_ROOT, 3), PREFIX_NONE); /* least recently used */
    assert_true(prefix_cache_evict(f->cache));
    assert_int_equal(find(f, a, 2), PREFIX_NONE); /* the leaf before its parent */
    assert_int_equal(find(f, PREFIX_ROOT, 1), a);
    assert_true(prefix_cache_evict(f->cache));
    assert_false(prefix_cache_evict(f->cache));
    assert_int_equal(kv_pool_free_count(f->pool), N_BLOCKS);
}

static void test_held_blocks_stay(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1), block = prefix_cache_block(f->cache, a);
    kv_pool_share(f->pool, block); /* a sequence uses it */
    assert_int_equal(kv_pool_cached_only(f->pool), 0);
    assert_false(prefix_cache_evict(f->cache));
    prefix_cache_clear(f->cache);
    assert_int_equal(find(f, PREFIX_ROOT, 1), a);
    kv_pool_release(f->pool, block);
    prefix_cache_clear(f->cache);
    assert_int_equal(find(f, PREFIX_ROOT, 1), PREFIX_NONE);
}

/* A part: `n_same` times word, then others. */
static void add_part(struct fixture *f, uint32_t parent, int32_t word, uint32_t n_same, uint32_t n)
{
    uint32_t block;
    int32_t tokens[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = i < n_same ? word : 100 + word + (int32_t)i;
    assert_true(kv_pool_take(f->pool, &block));
    prefix_cache_add_part(f->cache, parent, tokens, n, block);
    kv_pool_release(f->pool, block);
}

struct tail {
    uint32_t entry, n;
};

static struct tail find_tail(struct fixture *f, uint32_t parent, int32_t word, uint32_t most)
{
    struct tail t = {PREFIX_NONE, 0};
    t.n = prefix_cache_find_tail(f->cache, parent, tokens_of(word), most, &t.entry);
    return t;
}

/* How many tokens of a part that could be taken; it is gone then. */
static uint32_t take_part(struct fixture *f, uint32_t parent, int32_t word, uint32_t most)
{
    uint32_t block = N_BLOCKS;
    struct tail t = find_tail(f, parent, word, most);
    if (t.n == 0 || !prefix_cache_take_part(f->cache, t.entry, t.n, &block))
        return 0;
    assert_int_equal(kv_pool_references(f->pool, block), 1); /* the caller's alone */
    kv_pool_release(f->pool, block);
    return t.n;
}

static void test_parts_are_taken_once(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1);
    add_part(f, a, 2, 7, 7);
    assert_int_equal(prefix_cache_count(f->cache), 2);
    assert_int_equal(kv_pool_cached_only(f->pool), 2);
    assert_int_equal(find(f, a, 2), PREFIX_NONE); /* no whole block */
    assert_int_equal(take_part(f, PREFIX_ROOT, 2, 15), 0);
    assert_int_equal(take_part(f, a, 3, 15), 0);
    assert_int_equal(take_part(f, a, 2, 0), 0);
    assert_int_equal(take_part(f, a, 2, 15), 7);
    assert_int_equal(take_part(f, a, 2, 15), 0);
    assert_int_equal(prefix_cache_count(f->cache), 1);
}

/* Others go on from where it ends. */
static void test_what_is_not_wanted_whole_stays(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1), block = N_BLOCKS;
    add_part(f, a, 2, 3, 9); /* the first three tokens are as wanted */
    struct tail t = find_tail(f, a, 2, 15);
    assert_int_equal(t.n, 3);
    assert_false(prefix_cache_take_part(f->cache, t.entry, t.n, &block));
    assert_int_equal(find_tail(f, a, 2, 15).n, 3);
    uint32_t whole = add(f, a, 2);
    t = find_tail(f, a, 2, 15); /* of the whole block now */
    assert_int_equal(t.n, 15);
    assert_int_equal(t.entry, whole);
    assert_false(prefix_cache_take_part(f->cache, t.entry, t.n, &block));
    add_part(f, a, 2, 8, 8); /* says nothing new */
    assert_int_equal(prefix_cache_count(f->cache), 3);
    assert_int_equal(find_tail(f, a, 2, 8).entry, whole);
}

static void test_of_parts_that_begin_alike_the_longest_is_taken(void **state)
{
    struct fixture *f = *state;
    add_part(f, PREFIX_ROOT, 2, 3, 10);
    add_part(f, PREFIX_ROOT, 2, 5, 5);
    add_part(f, PREFIX_ROOT, 2, 4, 10);
    assert_int_equal(take_part(f, PREFIX_ROOT, 2, 15), 5);
    add_part(f, PREFIX_ROOT, 9, 4, 4);
    add_part(f, PREFIX_ROOT, 9, 8, 8); /* goes on from the one before: replaces it */
    add_part(f, PREFIX_ROOT, 9, 6, 6); /* says nothing new */
    assert_int_equal(prefix_cache_count(f->cache), 3);
    assert_int_equal(take_part(f, PREFIX_ROOT, 9, 15), 8);
    for (uint32_t i = 1; i < 12; i++)
        add_part(f, PREFIX_ROOT, 2, i, 12); /* of those with one first token a few are kept */
    assert_int_equal(prefix_cache_count(f->cache), 8);
    assert_int_equal(find_tail(f, PREFIX_ROOT, 2, 15).n, 11);
}

/* Equal beginnings: the part that can be taken costs no copy. */
static void test_a_part_goes_before_a_copy(void **state)
{
    struct fixture *f = *state;
    add_part(f, PREFIX_ROOT, 2, 4, 4);
    add(f, PREFIX_ROOT, 2);
    assert_int_equal(take_part(f, PREFIX_ROOT, 2, 4), 4);
    assert_int_equal(find_tail(f, PREFIX_ROOT, 2, 4).n, 4);
    assert_int_equal(take_part(f, PREFIX_ROOT, 2, 4), 0);
}

static void test_a_part_goes_before_its_parent(void **state)
{
    struct fixture *f = *state;
    uint32_t a = add(f, PREFIX_ROOT, 1);
    add_part(f, a, 2, 7, 7);
    prefix_cache_touch(f->cache, a);
    assert_true(prefix_cache_evict(f->cache));
    assert_int_equal(find(f, PREFIX_ROOT, 1), a);
    assert_int_equal(take_part(f, a, 2, 15), 0);
    add_part(f, a, 2, 7, 7);
    prefix_cache_clear(f->cache);
    assert_int_equal(prefix_cache_count(f->cache), 0);
}

static void test_pool_counts(void **state)
{
    struct fixture *f = *state;
    uint32_t block[N_BLOCKS + 1];
    bool is_taken[N_BLOCKS] = {false};
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        assert_true(kv_pool_take(f->pool, &block[i]));
        assert_false(is_taken[block[i]]);
        is_taken[block[i]] = true;
    }
    assert_false(kv_pool_take(f->pool, &block[N_BLOCKS]));
    kv_pool_share(f->pool, block[0]);
    assert_int_equal(kv_pool_references(f->pool, block[0]), 2);
    kv_pool_release(f->pool, block[0]);
    assert_int_equal(kv_pool_free_count(f->pool), 0);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        kv_pool_release(f->pool, block[i]);
    assert_true(kv_pool_is_consistent(f->pool));
}

/* Chains of random words, held for a while: what the cache says is there has the right block. */
static void test_random_use(void **state)
{
    struct fixture *f = *state;
    struct rng r;
    uint64_t content[N_BLOCKS] = {0}; /* which chain of words a block belongs to */
    unsigned n_hits = 0, n_evicted = 0;
    rng_seed(&r, 11);
    for (int round = 0; round < 5000; round++) {
        uint32_t parent = PREFIX_ROOT, held[4], n_held = 0;
        uint64_t chain = 1;
        for (uint64_t depth = 1 + rng_below(&r, 4); depth > 0; depth--) {
            int32_t word = (int32_t)rng_below(&r, 4);
            chain = chain * 5 + (uint64_t)word;
            uint32_t entry = find(f, parent, word), block;
            if (entry != PREFIX_NONE) {
                block = prefix_cache_block(f->cache, entry);
                assert_true(content[block] == chain);
                kv_pool_share(f->pool, block);
                n_hits++;
            } else {
                while (!kv_pool_take(f->pool, &block)) {
                    assert_true(prefix_cache_evict(f->cache));
                    n_evicted++;
                }
                content[block] = chain;
                entry = prefix_cache_add(f->cache, parent, tokens_of(word), block);
                assert_int_not_equal(entry, PREFIX_NONE);
            }
            held[n_held++] = block;
            parent = entry;
        }
        prefix_cache_touch(f->cache, parent);
        while (n_held > 0)
            kv_pool_release(f->pool, held[--n_held]);
        assert_true(kv_pool_is_consistent(f->pool));
    }
    assert_true(n_hits > 1000 && n_evicted > 1000);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_found_by_all_that_leads_to_it),
        CASE(test_equal_block_is_not_added_twice),
        CASE(test_eviction_takes_leaves_and_the_oldest_first),
        CASE(test_held_blocks_stay),
        CASE(test_parts_are_taken_once),
        CASE(test_what_is_not_wanted_whole_stays),
        CASE(test_a_part_goes_before_a_copy),
        CASE(test_of_parts_that_begin_alike_the_longest_is_taken),
        CASE(test_a_part_goes_before_its_parent),
        CASE(test_pool_counts),
        CASE(test_random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
