/* common/arena.h - bump allocation for one lifetime (process, connection, request, step).
 *
 * Free = reset. One owner; no function here locks. Zeroed memory, aligned to 16 bytes. */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include "common/str.h"

struct arena_block;
struct arena {
    struct arena_block *first, *current;
    size_t used_bytes; /* handed out since the last reset */
    size_t max_bytes;  /* limit on used_bytes */
};

/* No allocation happens until the first use. */
void arena_init(struct arena *a, size_t max_bytes);
/* NULL when memory or the limit is out. */
void *arena_alloc(struct arena *a, size_t bytes) MUST_USE;
/* count * size with overflow check. */
void *arena_array(struct arena *a, size_t count, size_t size) MUST_USE;
/* Copy with a NUL after it. p is NULL when memory is out. */
struct str arena_str(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arena_reset(struct arena *a); /* keeps the blocks */
void arena_free(struct arena *a);

/* True and *out = a*b when the product fits. */
bool size_mul(size_t a, size_t b, size_t *out);

#endif
