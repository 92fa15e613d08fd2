/* A stack of free block ids and a reference count for each block. */
#include "engine/sched/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

struct kv_pool {
    uint32_t total, n_free;
    uint32_t *free_ids;   /* [total], the first n_free are free */
    uint32_t *references; /* [total] */
};

int kv_pool_open(struct kv_pool **out, uint32_t n_blocks, struct err *e)
{
    struct kv_pool *p = calloc(1, sizeof *p);
    *out = p;
    if (p) {
        p->free_ids = calloc(n_blocks, sizeof *p->free_ids);
        p->references = calloc(n_blocks, sizeof *p->references);
    }
    if (!p || !p->free_ids || !p->references || n_blocks == 0) {
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
    p->references[block]++;
}

void kv_pool_release(struct kv_pool *p, uint32_t block)
{
    assert(block < p->total && p->references[block] > 0);
    if (--p->references[block] == 0)
        p->free_ids[p->n_free++] = block;
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
    uint32_t held = 0;
    for (uint32_t i = 0; i < p->total; i++)
        held += p->references[i] > 0;
    for (uint32_t i = 0; i < p->n_free; i++)
        if (p->free_ids[i] >= p->total || p->references[p->free_ids[i]] != 0)
            return false;
    return held + p->n_free == p->total;
}
