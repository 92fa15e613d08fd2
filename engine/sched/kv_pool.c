/* A stack of free block ids and a reference count for each block. */
#include "engine/sched/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

struct kv_pool {
    uint32_t total, n_free, n_cached_only;
    uint32_t *free_ids;   /* [total], the first n_free are free */
    uint32_t *references; /* [total] */
    bool *is_cached;      /* [total] one of the references is the prefix cache's */
};

int kv_pool_open(struct kv_pool **out, uint32_t n_blocks, struct err *e)
{
    struct kv_pool *p = calloc(1, sizeof *p);
    *out = p;
    if (p) {
        p->free_ids = calloc(n_blocks, sizeof *p->free_ids);
        p->references = calloc(n_blocks, sizeof *p->references);
        p->is_cached = calloc(n_blocks, sizeof *p->is_cached);
    }
    if (!p || !p->free_ids || !p->references || !p->is_cached || n_blocks == 0) {
        kv_pool_close(p);
        *out = NULL;
        return err_set(e, ERR_NOMEM, "KV pool of %u blocks", n_blocks);
    }
    p->total = p->n_free = n_blocks;
    for (uint32_t i = 0; i < n_blocks; i++)
        p->free_ids[i] = n_blocks - 1 - i; /* low ids first: warm memory is used again */
    return ERR_OK;
}

void kv_pool_close(struct kv_pool *p)
{
    if (!p)
        return;
    free(p->free_ids);
    free(p->references);
    free(p->is_cached);
    free(p);
}

bool kv_pool_take(struct kv_pool *p, uint32_t *block)
{
    if (p->n_free == 0)
        return false;
    *block = p->free_ids[--p->n_free];
    p->references[*block] = 1;
    return true;
}

void kv_pool_share(struct kv_pool *p, uint32_t block)
{
    assert(block < p->total && p->references[block] > 0);
    p->n_cached_only -= p->is_cached[block] && p->references[block] == 1;
    p->references[block]++;
}

void kv_pool_release(struct kv_pool *p, uint32_t block)
{
    assert(block < p->total && p->references[block] > 0);
    if (--p->references[block] == 0)
        p->free_ids[p->n_free++] = block;
    else
        p->n_cached_only += p->is_cached[block] && p->references[block] == 1;
}

void kv_pool_mark_cached(struct kv_pool *p, uint32_t block, bool is_cached)
{
    assert(block < p->total && p->references[block] > 0 && p->is_cached[block] != is_cached);
    p->is_cached[block] = is_cached;
    if (p->references[block] == 1)
        p->n_cached_only += is_cached ? 1 : (uint32_t)-1;
}

uint32_t kv_pool_cached_only(const struct kv_pool *p)
{
    return p->n_cached_only;
}

uint32_t kv_pool_references(const struct kv_pool *p, uint32_t block)
{
    return p->references[block];
}

uint32_t kv_pool_free_count(const struct kv_pool *p)
{
    return p->n_free;
}

uint32_t kv_pool_total(const struct kv_pool *p)
{
    return p->total;
}

bool kv_pool_is_consistent(const struct kv_pool *p)
{
    uint32_t held = 0, cached_only = 0;
    for (uint32_t i = 0; i < p->total; i++) {
        held += p->references[i] > 0;
        cached_only += p->references[i] == 1 && p->is_cached[i];
        if (p->references[i] == 0 && p->is_cached[i])
            return false;
    }
    for (uint32_t i = 0; i < p->n_free; i++)
        if (p->free_ids[i] >= p->total || p->references[p->free_ids[i]] != 0)
            return false;
    return held + p->n_free == p->total && cached_only == p->n_cached_only;
}
