/* engine/sched/kv_pool.h - which KV blocks are free and how many hold each of the others.
 *
 * A block holds KV_BLOCK_TOKENS positions of every layer; the model owns the memory, the pool only
 * counts. Worker thread only; every call is O(1) and never blocks. */
#ifndef ENGINE_SCHED_KV_POOL_H
#define ENGINE_SCHED_KV_POOL_H

#include "common/err.h"

#include <stdint.h>

struct kv_pool;

MUST_USE int kv_pool_open(struct kv_pool **out, uint32_t n_blocks, struct err *e);
void kv_pool_close(struct kv_pool *p);
/* A free block with one reference. False when none is free: the caller decides whom to preempt. */
bool kv_pool_take(struct kv_pool *p, uint32_t *block);
void kv_pool_share(struct kv_pool *p, uint32_t block);   /* one more reference */
void kv_pool_release(struct kv_pool *p, uint32_t block); /* one less; free at zero */
uint32_t kv_pool_references(const struct kv_pool *p, uint32_t block);
uint32_t kv_pool_free_count(const struct kv_pool *p);
uint32_t kv_pool_total(const struct kv_pool *p);
/* Says whether one of the block's references is the prefix cache's. */
void kv_pool_mark_cached(struct kv_pool *p, uint32_t block, bool is_cached);
/* Blocks that only the prefix cache holds: eviction can free them all. */
uint32_t kv_pool_cached_only(const struct kv_pool *p);
/* Invariant for tests: every block is free exactly once or referenced. */
bool kv_pool_is_consistent(const struct kv_pool *p);

#endif
