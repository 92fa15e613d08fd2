/* Device memory: one reserved range handed out from its start, never twice, so that a freed pointer
 * stays recognisable; new and freed memory holds NaNs. Shared memory: variables are placed at first
 * use with gaps between them. With SIMT_GUARD=1 in the environment the host cannot touch device
 * memory except inside the copies, as on a GPU. */
#include "kernels/simt/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace simt
{

enum { ALIGN = 256, POISON = 0xFF };
static const size_t PLAIN_BYTES = (size_t)64 << 30, CHECKED_BYTES = (size_t)4 << 30,
                    SLICE_BYTES = (size_t)256 << 20;

struct region {
    size_t bytes;
    bool is_live;
};
static struct {
    char *start;
    size_t bytes, used, live;
    cell *shadow;
    std::map<const char *, region> regions;
    bool has_guard;
    int n_open;
    char *slices; /* shared with the processes of other ranks; NULL: none */
} heap;

static void *reserve(size_t bytes, int flags)
{
    void *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static bool open_heap()
{
    if (heap.start && (heap.shadow || !m.is_checked))
        return true;
    if (!heap.start) {
        heap.bytes = m.is_checked ? CHECKED_BYTES : PLAIN_BYTES;
        heap.start = (char *)reserve(heap.bytes, MAP_PRIVATE);
    }
    if (m.is_checked)
        heap.shadow = (cell *)reserve(heap.bytes * sizeof *heap.shadow, MAP_PRIVATE);
    heap.has_guard = getenv("SIMT_GUARD") != NULL;
    return heap.start && (!m.is_checked || heap.shadow);
}

bool is_heap_shared()
{
    return heap.slices != NULL;
}

bool is_device_memory(const void *p)
{
    const char *at = (const char *)p;
    return heap.start && at >= heap.start && at < heap.start + heap.bytes;
}

bool is_allocated(const void *p, size_t n)
{
    const char *at = (const char *)p;
    auto it = heap.regions.upper_bound(at);
    if (it == heap.regions.begin())
        return false;
    --it;
    return it->second.is_live && at + n <= it->first + it->second.bytes;
}

cell *device_cell(const void *p)
{
    return &heap.shadow[(size_t)((const char *)p - heap.start)];
}

void forget_launches()
{
    for (const auto &r : heap.regions)
        for (size_t i = 0; m.is_checked && r.second.is_live && i < r.second.bytes; i++) {
            cell *c = device_cell(r.first + i);
            bool is_live = c->write.is_live;
            *c = cell{};
            c->write.is_live = is_live;
        }
}

void *device_alloc(size_t n)
{
    size_t gap = (n + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
    if (!open_heap() || n > heap.bytes || gap > heap.bytes - heap.used)
        return NULL;
    char *p = heap.start + heap.used;
    heap.used += gap;
    heap.live += n;
    heap.regions[p] = region{n, true};
    guard(true);
    memset(p, POISON, n);
    guard(false);
    ASAN_POISON_MEMORY_REGION(p + n, gap - n);
    return p; /* the shadow of a fresh address says that nothing wrote it */
}

size_t device_bytes()
{
    return heap.live;
}

/* The pages go back, the addresses stay taken: what reads them later reads poison or zeros. */
void device_free(void *p)
{
    if (!p)
        return;
    auto it = heap.regions.find((const char *)p);
    if (it == heap.regions.end() || !it->second.is_live) {
        report("free of %p, which is no live allocation", p);
        return;
    }
    it->second.is_live = false;
    size_t n = it->second.bytes, pages = n / 4096 * 4096;
    heap.live -= n;
    guard(true);
    memset(p, POISON, n < 4096 ? n : 4096);
    if (pages > 4096)
        madvise((char *)(((uintptr_t)p + 8191) / 4096 * 4096), pages - 4096, MADV_DONTNEED);
    guard(false);
    ASAN_POISON_MEMORY_REGION(p, n);
}

void guard(bool is_open)
{
    if (!heap.has_guard || !heap.start)
        return;
    heap.n_open += is_open ? 1 : -1;
    if (heap.n_open == (is_open ? 1 : 0))
        mprotect(heap.start, heap.bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void poison_shared(block *b, size_t dynamic_bytes)
{
    if (!b->shared) {
        b->shared = (unsigned char *)aligned_alloc(1024, SHARED_BYTES);
        if (!b->shared)
            abort();
        if (m.is_checked)
            b->shadow.resize(SHARED_BYTES);
    }
    ASAN_POISON_MEMORY_REGION(b->shared, SHARED_BYTES);
    ASAN_UNPOISON_MEMORY_REGION(b->shared, dynamic_bytes);
    memset(b->shared, POISON, dynamic_bytes);
    b->variables.clear();
    b->shared_used = b->dynamic_bytes = dynamic_bytes;
}

void *shared_variable(const char *key, size_t bytes, const char *name)
{
    block *b = m.now;
    for (const auto &v : b->variables)
        if (v.key == key)
            return b->shared + v.offset;
    size_t offset = (b->shared_used + 2 * SHARED_GAP - 1) / SHARED_GAP * SHARED_GAP;
    if (offset + bytes > SHARED_BYTES) {
        fprintf(stderr, "simt: kernel %s: %s is beyond %d bytes of shared memory\n", m.kernel, name,
                SHARED_BYTES);
        abort();
    }
    b->variables.push_back({key, offset, bytes});
    b->shared_used = offset + bytes;
    ASAN_UNPOISON_MEMORY_REGION(b->shared + offset, bytes);
    memset(b->shared + offset, POISON, bytes);
    return b->shared + offset;
}

} // namespace simt

extern "C" {

bool simt_share_heap(unsigned n_ranks)
{
    if (simt::heap.start)
        return false;
    simt::heap.slices = (char *)simt::reserve(n_ranks * simt::SLICE_BYTES, MAP_SHARED);
    return simt::heap.slices != NULL;
}

void simt_take_slice(unsigned rank)
{
    simt::heap.start = simt::heap.slices + rank * simt::SLICE_BYTES;
    simt::heap.bytes = simt::SLICE_BYTES;
}
}
