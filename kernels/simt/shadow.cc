/* What is wrong with an access: out of bounds, freed, misaligned, never written, or not ordered
 * after a conflicting one (happens-before, CACM 21(7) 558; as ThreadSanitizer tells it, but with a
 * GPU's barriers).
 *
 * Order inside a block: block barriers count intervals, __syncwarp counts a warp's; blocks with
 * mbarriers or named barriers keep vector clocks. Between blocks: a fence before an atomic
 * publishes the intervals before it, an atomic and then a fence acquires them. */
#include "kernels/simt/machine.h"

#include <algorithm>

namespace simt
{

enum { BLOCK_MASK = 0x7FFF, SHORT_MASK = 1023, MAX_UNFENCED = 1 << 16 };
enum { SPREAD_THREAD, SPREAD_WARP, SPREAD_BLOCK, SPREAD_GRID };

uint32_t *clock_of(unsigned thread)
{
    return &m.now->clocks[(size_t)thread * m.now->n_threads];
}

void clock_join(uint32_t *into, const uint32_t *from)
{
    for (unsigned i = 0; i < m.now->n_threads; i++)
        into[i] = std::max(into[i], from[i]);
}

/* What happened before in this block counts as ordered: clocks begin above all its marks. */
void use_clocks()
{
    block *b = m.now;
    if (!m.is_checked || b->has_clocks)
        return;
    uint32_t warp_interval = 0;
    for (const auto &t : b->threads)
        warp_interval = std::max(warp_interval, t.warp_interval);
    uint32_t base = (b->interval & SHORT_MASK) | (warp_interval & SHORT_MASK) << 10;
    b->has_clocks = true;
    b->clocks.assign((size_t)b->n_threads * b->n_threads, base);
    for (unsigned i = 0; i < b->n_threads; i++)
        clock_of(i)[i]++;
}

void clocks_meet(const std::vector<thread *> &threads)
{
    if (!m.now->has_clocks || threads.empty())
        return;
    std::vector<uint32_t> all(m.now->n_threads);
    for (const thread *t : threads)
        clock_join(all.data(), clock_of(t->id));
    for (const thread *t : threads) {
        std::copy(all.begin(), all.end(), clock_of(t->id));
        clock_of(t->id)[t->id]++;
    }
}

void publish_at(const void *barrier, const std::vector<uint32_t> &row)
{
    if (!m.now->has_clocks || row.empty())
        return;
    auto &released = m.now->released[barrier];
    released.resize(m.now->n_threads);
    clock_join(released.data(), row.data());
}

static void hear(std::vector<published> &into, const std::vector<published> &from)
{
    into.resize(std::max(into.size(), from.size()));
    for (size_t i = 0; i < from.size(); i++)
        if (from[i].interval_plus_1 > into[i].interval_plus_1)
            into[i] = from[i];
}

void fence(bool is_device_wide)
{
    if (!is_device_wide)
        return;
    m.now->is_fenced = true;
    hear(m.now->seen, m.now->heard);
}

static void publish_atomic(const void *p)
{
    auto &at = m.atomics[p];
    at.resize(shape.grid.x * shape.grid.y * shape.grid.z);
    if (m.now->is_fenced) {
        hear(at, m.now->seen);
        at[m.now->id] = published{m.now->interval + 1, m.self->id};
    }
    hear(m.now->heard, at);
}

unsigned load_acquire(const unsigned *p)
{
    if (m.is_checked)
        hear(m.now->seen, m.atomics[p]);
    return __atomic_load_n(p, __ATOMIC_ACQUIRE); /* of another process, perhaps */
}

void launch_wait()
{
    m.self->has_grid = true;
}

void store_release(unsigned *p, unsigned v)
{
    if (m.is_checked) {
        auto &at = m.atomics[p];
        at.resize(shape.grid.x * shape.grid.y * shape.grid.z);
        hear(at, m.now->seen);
        at[m.now->id] = published{m.now->interval + 1, m.self->id};
    }
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static bool is_ordered_between_blocks(const mark &a)
{
    const auto &seen = m.now->seen;
    if (seen.size() <= a.block || seen[a.block].interval_plus_1 == 0)
        return false;
    return a.interval < ((seen[a.block].interval_plus_1 - 1) & SHORT_MASK) ||
           a.thread == seen[a.block].thread;
}

/* Does the earlier access `a` happen before one of this thread now? */
static bool is_ordered(const mark &a)
{
    const block *b = m.now;
    const thread *self = m.self;
    if (a.launch != (m.launch & LAUNCH_MASK))
        return true;
    if (a.spread == SPREAD_GRID)
        return false;
    if (a.block != (b->id & BLOCK_MASK))
        return is_ordered_between_blocks(a);
    if (b->has_clocks)
        return a.thread == self->id ||
               (a.interval | (unsigned)a.warp_interval << 10) <= clock_of(self->id)[a.thread];
    if (a.interval != (b->interval & SHORT_MASK))
        return true;
    if (a.spread == SPREAD_THREAD && a.thread == self->id)
        return true;
    return a.spread <= SPREAD_WARP && a.thread / LANES == self->warp &&
           a.warp_interval != (self->warp_interval & SHORT_MASK);
}

static mark mark_now()
{
    const block *b = m.now;
    const thread *self = m.self;
    mark now = {};
    now.launch = m.launch & LAUNCH_MASK;
    now.block = b->id & BLOCK_MASK;
    now.thread = self->id & SHORT_MASK;
    now.interval = b->interval & SHORT_MASK;
    now.warp_interval = self->warp_interval & SHORT_MASK;
    now.is_live = 1;
    if (b->has_clocks) {
        uint32_t tick = clock_of(self->id)[self->id];
        now.interval = tick & SHORT_MASK;
        now.warp_interval = tick >> 10 & SHORT_MASK;
    }
    return now;
}

static mark merge_readers(const mark &old, const mark &now)
{
    mark merged = now;
    if (!old.is_live || old.launch != now.launch)
        return merged;
    bool is_same_block = old.block == now.block, is_old_interval = old.interval != now.interval;
    if (is_same_block && (is_old_interval || (old.thread == now.thread && old.spread == 0)))
        return merged;
    unsigned spread = !is_same_block                       ? SPREAD_GRID
                      : old.thread / LANES != m.self->warp ? SPREAD_BLOCK
                                                           : SPREAD_WARP;
    merged.spread = std::max(spread, (unsigned)old.spread) & 3;
    return merged;
}

struct fault {
    const char *what;
    mark other;
};

/* COPY: by the asynchronous proxy; what it reads may be memory that nothing wrote. */
enum access_kind { PLAIN, ATOMIC, COPY };

/* An early launch may run beside the one before it. */
static bool is_too_early(const cell &c, bool is_write)
{
    bool is_old = c.write.is_live && c.write.launch && c.write.launch != (m.launch & LAUNCH_MASK);
    return !m.self->has_grid && (is_write || is_old);
}

static fault judge(const cell &c, bool is_write, access_kind kind)
{
    bool are_both_atomic = kind == ATOMIC && c.write.is_atomic;
    if (c.write.is_live && !are_both_atomic && !is_ordered(c.write))
        return {is_write ? "write after unsynchronised write" : "read after unsynchronised write",
                c.write};
    if (is_write && c.read.is_live && !is_ordered(c.read))
        return {"write after unsynchronised read", c.read};
    if ((!is_write || kind == ATOMIC) && kind != COPY && !c.write.is_live)
        return {"read of memory nothing wrote", c.write};
    return {NULL, c.write};
}

/* Shared memory begins undefined in each block. */
static void forget_older_blocks(cell *c, const mark &now)
{
    if (c->write.launch != now.launch || c->write.block != now.block)
        c->write = mark{};
    if (c->read.launch != now.launch || c->read.block != now.block)
        c->read = mark{};
}

static void note_unfenced(thread *t, const void *p, size_t n)
{
    if (t->unfenced.size() > MAX_UNFENCED)
        proxy_fence();
    for (size_t i = 0; i < n; i++)
        t->unfenced.push_back((uint32_t)((const unsigned char *)p - m.now->shared + i));
}

/* The cells of an access; NULL: none of ours, or reported. */
static cell *find_cells(const void *p, size_t n, bool is_write, bool *is_shared, const void *pc)
{
    const char *verb = is_write ? "write" : "read";
    cell *c = shared_cell(p);
    *is_shared = c != NULL;
    if (c) {
        size_t offset = (size_t)((const unsigned char *)p - m.now->shared);
        bool is_inside = offset + n <= m.now->dynamic_bytes;
        for (const auto &v : m.now->variables)
            is_inside = is_inside || (offset >= v.offset && offset + n <= v.offset + v.bytes);
        if (is_inside)
            return c;
        report("out-of-bounds shared %s of %zu bytes at offset %zu (pc %p)", verb, n, offset, pc);
        return NULL;
    }
    if (!is_device_memory(p))
        return NULL;
    if (is_allocated(p, n))
        return device_cell(p);
    report("out-of-bounds or freed global %s of %zu bytes at %p (pc %p)", verb, n, p, pc);
    return NULL;
}

static void check_access(const void *p, size_t n, bool is_write, access_kind kind, const void *pc)
{
    bool is_shared;
    cell *c = find_cells(p, n, is_write, &is_shared, pc);
    if (!c)
        return;
    if (n <= 16 && (uintptr_t)p % n)
        report("misaligned %zu-byte access (pc %p)", n, pc);
    if (m.is_logging && kind != ATOMIC)
        log_access(pc, p, n, is_shared, is_write);
    mark now = mark_now();
    now.is_atomic = kind == ATOMIC;
    for (size_t i = 0; i < n; i++, c++) {
        if (is_shared)
            forget_older_blocks(c, now);
        fault f = judge(*c, is_write, kind);
        if (!is_shared && is_too_early(*c, is_write))
            f = {"access with no grid_wait before", c->write};
        if (is_write) {
            c->write = now;
            c->read.is_live = 0;
        } else {
            c->read = merge_readers(c->read, now);
        }
        if (!f.what)
            continue;
        report("%s %s: %zu bytes at %p, other: block %u thread %u (pc %p)",
               is_shared ? "shared" : "global", f.what, n, p, (unsigned)f.other.block,
               (unsigned)f.other.thread, pc);
        break;
    }
    if (is_shared && is_write)
        note_unfenced(m.self, p, n);
}

void access(const void *p, size_t n, bool is_write, const void *pc)
{
    if (m.self)
        check_access(p, n, is_write, PLAIN, pc);
}

void copy_access(const void *p, size_t n, const void *pc)
{
    check_access(p, n, false, COPY, pc);
}

/* Two of them need no order, one and a plain access do. */
void note_atomic(const void *p, size_t n)
{
    if (!m.is_checked)
        return;
    publish_atomic(p);
    check_access(p, n, true, ATOMIC, __builtin_return_address(0));
}

void mark_memory(const void *p, size_t n, bool is_live)
{
    if (!m.is_checked || !is_device_memory(p))
        return;
    cell *c = device_cell(p);
    for (size_t i = 0; i < n; i++) {
        c[i] = cell{};
        c[i].write.is_live = is_live;
    }
}

cell *shared_cell(const void *p)
{
    const unsigned char *at = (const unsigned char *)p;
    block *b = m.now;
    if (at < b->shared || at >= b->shared + SHARED_BYTES)
        return NULL;
    return &b->shadow[(size_t)(at - b->shared)];
}

void proxy_fence()
{
    if (!m.is_checked)
        return;
    for (uint32_t offset : m.self->unfenced) {
        mark &write = m.now->shadow[offset].write;
        if (write.thread == m.self->id)
            write.is_fenced = 1;
    }
    m.self->unfenced.clear();
}

bool is_unfenced(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const cell *c = shared_cell((const char *)p + i);
        if (c && c->write.is_live && c->write.launch == (m.launch & LAUNCH_MASK) &&
            c->write.block == (m.now->id & BLOCK_MASK) && !c->write.is_fenced)
            return true;
    }
    return false;
}

void mark_fenced(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cell *c = shared_cell((const char *)p + i))
            c->write.is_fenced = 1;
}

} // namespace simt
