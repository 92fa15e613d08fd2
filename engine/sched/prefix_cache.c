/* Open hashing over a fixed array of entries (one per block of the pool at most). A sequence that
 * holds a block holds all its parents too, so a block only the cache holds has no held child: the
 * evictable entries are whole subtrees, taken from their leaves. A use moves a whole chain to the
 * young end of one list, the leaf first, so that the old end is a leaf unless somebody holds it.
 * Beginnings shorter than a block are looked for among the youngest children of a parent. */
#include "engine/sched/prefix_cache.h"

#include "common/hash.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    uint32_t parent, first_child, block;
    uint32_t next_sibling, previous_sibling; /* of one parent, the youngest first */
    uint32_t next_in_bucket;                 /* also links free entries */
    uint32_t older, younger;
    uint32_t bucket, n_tokens;
    int32_t tokens[KV_BLOCK_TOKENS]; /* the first n_tokens */
};

enum { MAX_PARTS = 8 };   /* after one parent with the same first token */
enum { MAX_LOOKED = 64 }; /* children of a parent */

struct prefix_cache {
    struct kv_pool *pool;
    uint64_t salt;
    uint32_t n_entries, n_used, n_buckets, first_free, oldest, youngest, first_root;
    struct entry *entries;
    uint32_t *buckets;
};

int prefix_cache_open(struct prefix_cache **out, struct kv_pool *pool, uint64_t salt, struct err *e)
{
    uint32_t n = kv_pool_total(pool), n_buckets = 1;
    while (n_buckets < 2 * n)
        n_buckets *= 2;
    struct prefix_cache *c = calloc(1, sizeof *c);
    *out = c;
    if (c) {
        *c = (struct prefix_cache){.pool = pool, .salt = salt, .n_entries = n};
        c->n_buckets = n_buckets;
        c->entries = calloc(n, sizeof *c->entries);
        c->buckets = calloc(n_buckets, sizeof *c->buckets);
    }
    if (!c || !c->entries || !c->buckets) {
        prefix_cache_close(c);
        *out = NULL;
        return err_set(e, ERR_NOMEM, "prefix cache of %u blocks", n);
    }
    memset(c->buckets, 0xFF, n_buckets * sizeof *c->buckets);
    for (uint32_t i = 0; i < n; i++)
        c->entries[i].next_in_bucket = i + 1 < n ? i + 1 : PREFIX_ROOT;
    c->oldest = c->youngest = c->first_root = PREFIX_ROOT;
    return ERR_OK;
}

void prefix_cache_close(struct prefix_cache *c)
{
    if (!c)
        return;
    if (c->entries && c->buckets)
        for (uint32_t i = c->oldest; i != PREFIX_ROOT; i = c->entries[i].younger) {
            kv_pool_mark_cached(c->pool, c->entries[i].block, false);
            kv_pool_release(c->pool, c->entries[i].block);
        }
    free(c->entries);
    free(c->buckets);
    free(c);
}

static uint32_t bucket_of(const struct prefix_cache *c, uint32_t parent, const int32_t *tokens)
{
    uint64_t h = hash64(tokens, KV_BLOCK_TOKENS * sizeof *tokens, c->salt ^ parent);
    return (uint32_t)h & (c->n_buckets - 1);
}

static void list_remove(struct prefix_cache *c, uint32_t i)
{
    struct entry *e = &c->entries[i];
    *(e->older == PREFIX_ROOT ? &c->oldest : &c->entries[e->older].younger) = e->younger;
    *(e->younger == PREFIX_ROOT ? &c->youngest : &c->entries[e->younger].older) = e->older;
}

static void list_append(struct prefix_cache *c, uint32_t i)
{
    struct entry *e = &c->entries[i];
    e->older = c->youngest;
    e->younger = PREFIX_ROOT;
    *(c->youngest == PREFIX_ROOT ? &c->oldest : &c->entries[c->youngest].younger) = i;
    c->youngest = i;
}

static uint32_t lookup(const struct prefix_cache *c, uint32_t bucket, uint32_t parent,
                       const int32_t *tokens)
{
    for (uint32_t i = c->buckets[bucket]; i != PREFIX_ROOT; i = c->entries[i].next_in_bucket) {
        const struct entry *e = &c->entries[i];
        if (e->parent == parent && memcmp(e->tokens, tokens, sizeof e->tokens) == 0)
            return i;
    }
    return PREFIX_NONE;
}

uint32_t prefix_cache_find(const struct prefix_cache *c, uint32_t parent, const int32_t *tokens)
{
    return lookup(c, bucket_of(c, parent, tokens), parent, tokens);
}

void prefix_cache_touch(struct prefix_cache *c, uint32_t entry)
{
    for (uint32_t i = entry; i < PREFIX_NONE; i = c->entries[i].parent) {
        list_remove(c, i);
        list_append(c, i);
    }
}

uint32_t prefix_cache_block(const struct prefix_cache *c, uint32_t entry)
{
    return c->entries[entry].block;
}

/* Where the list of a parent's children begins. */
static uint32_t *first_child(struct prefix_cache *c, uint32_t parent)
{
    return parent == PREFIX_ROOT ? &c->first_root : &c->entries[parent].first_child;
}

static void add_child(struct prefix_cache *c, uint32_t i)
{
    uint32_t *first = first_child(c, c->entries[i].parent);
    c->entries[i].next_sibling = *first;
    c->entries[i].previous_sibling = PREFIX_ROOT;
    if (*first != PREFIX_ROOT)
        c->entries[*first].previous_sibling = i;
    *first = i;
}

static void remove_child(struct prefix_cache *c, uint32_t i)
{
    const struct entry *e = &c->entries[i];
    uint32_t before = e->previous_sibling, after = e->next_sibling;
    *(before == PREFIX_ROOT ? first_child(c, e->parent) : &c->entries[before].next_sibling) = after;
    if (after != PREFIX_ROOT)
        c->entries[after].previous_sibling = before;
}

static bool is_part(const struct entry *e)
{
    return e->n_tokens < KV_BLOCK_TOKENS;
}

static uint32_t insert(struct prefix_cache *c, const struct entry *model, const int32_t *tokens)
{
    uint32_t i = c->first_free;
    if (i == PREFIX_ROOT)
        return PREFIX_NONE;
    struct entry *e = &c->entries[i];
    c->first_free = e->next_in_bucket;
    *e = *model;
    e->first_child = PREFIX_ROOT;
    memcpy(e->tokens, tokens, e->n_tokens * sizeof *tokens);
    if (!is_part(e)) {
        e->next_in_bucket = c->buckets[e->bucket];
        c->buckets[e->bucket] = i;
    }
    add_child(c, i);
    list_append(c, i);
    c->n_used++;
    kv_pool_share(c->pool, e->block);
    kv_pool_mark_cached(c->pool, e->block, true);
    return i;
}

uint32_t prefix_cache_add(struct prefix_cache *c, uint32_t parent, const int32_t *tokens,
                          uint32_t block)
{
    uint32_t bucket = bucket_of(c, parent, tokens);
    uint32_t i = lookup(c, bucket, parent, tokens);
    const struct entry model = {
        .parent = parent, .block = block, .bucket = bucket, .n_tokens = KV_BLOCK_TOKENS};
    return i != PREFIX_NONE ? i : insert(c, &model, tokens);
}

static bool is_evictable(const struct prefix_cache *c, uint32_t i)
{
    const struct entry *e = &c->entries[i];
    return e->first_child == PREFIX_ROOT && kv_pool_references(c->pool, e->block) == 1;
}

static void remove_entry(struct prefix_cache *c, uint32_t i)
{
    struct entry *e = &c->entries[i];
    uint32_t *link = &c->buckets[e->bucket];
    while (!is_part(e) && *link != i)
        link = &c->entries[*link].next_in_bucket;
    if (!is_part(e))
        *link = e->next_in_bucket;
    remove_child(c, i);
    list_remove(c, i);
    c->n_used--;
    kv_pool_mark_cached(c->pool, e->block, false);
    kv_pool_release(c->pool, e->block);
    e->next_in_bucket = c->first_free;
    c->first_free = i;
}

static uint32_t common_tokens(const struct entry *e, const int32_t *tokens, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && n < e->n_tokens && e->tokens[n] == tokens[n])
        n++;
    return n;
}

void prefix_cache_add_part(struct prefix_cache *c, uint32_t parent, const int32_t *tokens,
                           uint32_t n, uint32_t block)
{
    const struct entry model = {.parent = parent, .block = block, .n_tokens = n};
    uint32_t n_alike = 0, n_looked = 0, next;
    for (uint32_t i = *first_child(c, parent); i != PREFIX_ROOT && n_looked < MAX_LOOKED;
         i = next) {
        const struct entry *e = &c->entries[i];
        uint32_t alike = common_tokens(e, tokens, n);
        next = e->next_sibling; /* youngest first */
        n_looked++;
        n_alike += is_part(e) && alike > 0;
        if (alike == n)
            return;
        if (is_part(e) && alike > 0 && (alike == e->n_tokens || n_alike == MAX_PARTS))
            remove_entry(c, i);
    }
    insert(c, &model, tokens);
}

uint32_t prefix_cache_find_tail(const struct prefix_cache *c, uint32_t parent,
                                const int32_t *tokens, uint32_t most, uint32_t *entry)
{
    uint32_t best = 0, n_looked = 0;
    uint32_t i = parent == PREFIX_ROOT ? c->first_root : c->entries[parent].first_child;
    for (; i != PREFIX_ROOT && n_looked < MAX_LOOKED; i = c->entries[i].next_sibling) {
        uint32_t n = common_tokens(&c->entries[i], tokens, most);
        n_looked++;
        if (n > best || (n > 0 && n == best && n == c->entries[i].n_tokens)) {
            best = n;
            *entry = i;
        }
    }
    return best;
}

bool prefix_cache_take_part(struct prefix_cache *c, uint32_t entry, uint32_t n, uint32_t *block)
{
    if (c->entries[entry].n_tokens != n)
        return false;
    *block = c->entries[entry].block;
    kv_pool_share(c->pool, *block);
    remove_entry(c, entry);
    return true;
}

bool prefix_cache_evict(struct prefix_cache *c)
{
    for (uint32_t i = c->oldest; i != PREFIX_ROOT; i = c->entries[i].younger) {
        if (is_evictable(c, i)) {
            remove_entry(c, i);
            return true;
        }
    }
    return false;
}

uint32_t prefix_cache_count(const struct prefix_cache *c)
{
    return c->n_used;
}

void prefix_cache_clear(struct prefix_cache *c)
{
    while (prefix_cache_evict(c))
        ;
}
