/* engine/text/merge_heap.h - a binary heap of keys, the smallest on top, in memory of the caller.
 *
 * A key of a merge is rank << 32 | position: the lowest rank first, the leftmost of equals. Keys
 * are not taken out when a pair changes; the caller drops those that no longer hold. One owner. */
#ifndef ENGINE_TEXT_MERGE_HEAP_H
#define ENGINE_TEXT_MERGE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct merge_heap {
    uint64_t *key;
    size_t n;
};

static inline void merge_heap_push(struct merge_heap *h, uint64_t key)
{
    size_t at = h->n++;
    for (; at && h->key[(at - 1) / 2] > key; at = (at - 1) / 2)
        h->key[at] = h->key[(at - 1) / 2];
    h->key[at] = key;
}

static inline void merge_heap_sink(struct merge_heap *h, size_t at)
{
    uint64_t key = h->key[at];
    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && h->key[child + 1] < h->key[child])
            child++;
        if (h->key[child] >= key)
            break;
        h->key[at] = h->key[child];
    }
    h->key[at] = key;
}

static inline uint64_t merge_heap_pop(struct merge_heap *h)
{
    uint64_t top = h->key[0];
    h->key[0] = h->key[--h->n];
    if (h->n)
        merge_heap_sink(h, 0);
    return top;
}

/* After keys were put in any order. */
static inline void merge_heap_order(struct merge_heap *h)
{
    for (size_t i = h->n / 2; i-- > 0;)
        merge_heap_sink(h, i);
}

#endif
