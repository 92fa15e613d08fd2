/* A chain of blocks; reset rewinds to the first and reuses them, so a warm arena never mallocs. */
#include "common/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t cap, used;
    _Alignas(ALIGN) char data[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
    *a = (struct arena){.max_bytes = max_bytes};
}

bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static struct arena_block *block_new(size_t bytes)
{
    size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct arena_block *b = malloc(sizeof *b + cap);
    if (b)
        *b = (struct arena_block){.cap = cap};
    return b;
}

/* Moves to the next block with room, linking a new one when there is none. */
static struct arena_block *block_with_room(struct arena *a, size_t bytes)
{
    struct arena_block *b = a->current;
    while (b && b->cap - b->used < bytes && b->next)
        b = b->next;
    if (b && b->cap - b->used >= bytes)
        return a->current = b;
    struct arena_block *fresh = block_new(bytes);
    if (!fresh)
        return NULL;
    if (b)
        b->next = fresh;
    else
        a->first = fresh;
    return a->current = fresh;
}

static void *take(struct arena *a, size_t bytes)
{
    if (bytes > a->max_bytes || a->used_bytes > a->max_bytes - bytes)
        return NULL;
    size_t rounded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_block *b = block_with_room(a, rounded);
    if (!b)
        return NULL;
    void *p = b->data + b->used;
    b->used += rounded;
    a->used_bytes += bytes;
    return p;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    void *p = take(a, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    return size_mul(count, size, &bytes) ? arena_alloc(a, bytes) : NULL;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *p = take(a, s.n + 1);
    if (!p)
        return (struct str){NULL, 0};
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct str){p, s.n};
}

struct str arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (!p)
        return (struct str){NULL, 0};
    va_start(args, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, args);
    va_end(args);
    return (struct str){p, (size_t)n};
}

void arena_reset(struct arena *a)
{
    for (struct arena_block *b = a->first; b; b = b->next)
        b->used = 0;
    a->current = a->first;
    a->used_bytes = 0;
}

void arena_free(struct arena *a)
{
    for (struct arena_block *b = a->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct arena){.max_bytes = a->max_bytes};
}
