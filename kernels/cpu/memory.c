/* Mappings of at least CHUNK bytes, handed out from their start. Transparent huge pages roughly
 * double the read bandwidth of a walk over all weights. */
#include "kernels/cpu/memory.h"

#include "common/arena.h"

#include <stdint.h>
#include <sys/mman.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, CHUNK = 16 << 20 };

struct memory_chunk { /* at the start of its own mapping */
    struct memory_chunk *next;
    size_t bytes, used;
};

/* From a multiple of HUGE_PAGE on: Linux before 6.7 begins at any page, and what does not fill a
 * huge one stays small. */
static void *map_aligned(size_t bytes)
{
    uint8_t *all = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(all, before);
    munmap(all + before + bytes, HUGE_PAGE - before);
    return all + before;
}

static struct memory_chunk *map_chunk(struct memory *m, size_t bytes)
{
    size_t want = bytes + ALIGN > CHUNK ? bytes + ALIGN : CHUNK;
    want = (want + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    struct memory_chunk *c = map_aligned(want);
    if (!c)
        return NULL;
    (void)madvise(c, want, m->has_small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    *c = (struct memory_chunk){m->chunks, want, ALIGN};
    m->chunks = c;
    return c;
}

void *memory_take(struct memory *m, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct memory_chunk *c = m->chunks;
    if (!c || c->bytes - c->used < bytes)
        c = map_chunk(m, bytes);
    if (!c)
        return NULL;
    void *p = (char *)c + c->used;
    c->used += bytes;
    return p;
}

void memory_free(struct memory *m)
{
    while (m->chunks) {
        struct memory_chunk *next = m->chunks->next;
        munmap(m->chunks, m->chunks->bytes);
        m->chunks = next;
    }
}
