/* engine/sched/prefix_cache.h - finished KV blocks by the tokens that lead to them.
 *
 * A tree over whole blocks: an entry is (parent entry, its 16 tokens) -> block. Looked up by a
 * salted hash, then compared token by token, so a crafted prompt can at worst miss. Leaves may be
 * parts, blocks with less than 16 computed tokens: who goes on from the end of one takes it out and
 * writes on in it; who shares less of it, or of a whole block, copies the block.
 * The cache holds one reference to each of its blocks; what only the cache holds can be evicted,
 * leaves first, least recently used first. Worker thread only. Design: radix attention,
 * https://arxiv.org/abs/2312.07104, on pages as in https://arxiv.org/abs/2309.06180. */
#ifndef ENGINE_SCHED_PREFIX_CACHE_H
#define ENGINE_SCHED_PREFIX_CACHE_H

#include "engine/sched/kv_pool.h"

struct prefix_cache;

#define PREFIX_ROOT UINT32_MAX /* parent of a first block */
#define PREFIX_NONE (UINT32_MAX - 1)

MUST_USE int prefix_cache_open(struct prefix_cache **out, struct kv_pool *pool, uint64_t salt,
                               struct err *e);
void prefix_cache_close(struct prefix_cache *c); /* releases its blocks */
/* The entry for these KV_BLOCK_TOKENS tokens after `parent`, or PREFIX_NONE. */
uint32_t prefix_cache_find(const struct prefix_cache *c, uint32_t parent, const int32_t *tokens);
/* Marks the entry and all its parents as used now: call it when a sequence begins to hold them and
 * again when it lets go. O(depth). */
void prefix_cache_touch(struct prefix_cache *c, uint32_t entry);
uint32_t prefix_cache_block(const struct prefix_cache *c, uint32_t entry);
/* Adds a computed block (takes a reference). An equal entry that exists already is returned
 * instead. PREFIX_NONE when there is no room. `parent` must still be in the cache. */
uint32_t prefix_cache_add(struct prefix_cache *c, uint32_t parent, const int32_t *tokens,
                          uint32_t block);
/* Adds a block of which the first n < KV_BLOCK_TOKENS tokens are computed (takes a reference);
 * nobody may write to it any more. Nothing is added where a whole block begins so. Of parts that
 * begin alike the longer one is kept, and of those that share the first token only the youngest
 * few. */
void prefix_cache_add_part(struct prefix_cache *c, uint32_t parent, const int32_t *tokens,
                           uint32_t n, uint32_t block);
/* The entry after `parent`, whole or part, that begins with most of the first `most` tokens, and
 * how many it has of them; 0: none. One that can be taken goes before an equal one. O(1): looks at
 * the youngest only. */
uint32_t prefix_cache_find_tail(const struct prefix_cache *c, uint32_t parent,
                                const int32_t *tokens, uint32_t most, uint32_t *entry);
/* Takes out a part of n tokens: its block is the caller's, with one reference, to be written behind
 * them. False: the entry has more, and its block can be copied only. */
bool prefix_cache_take_part(struct prefix_cache *c, uint32_t entry, uint32_t n, uint32_t *block);
/* Frees one block that nobody but the cache holds. False when there is none. */
bool prefix_cache_evict(struct prefix_cache *c);
uint32_t prefix_cache_count(const struct prefix_cache *c); /* blocks it holds, each once */
void prefix_cache_clear(struct prefix_cache *c);           /* everything that can be evicted */

#endif
