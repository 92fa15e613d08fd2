/* Models of mbarrier, tensor-map copies and wgmma. A copy lands when the scheduler finds nothing
 * else to do, in any order under a shuffle; till then its target holds NaN. Accumulators hold NaN
 * until their wait. Shared operands must come from a copy or stand behind a proxy fence. */
#include "kernels/simt/machine.h"

#include <algorithm>

namespace simt
{

enum { ROW_BYTES = 128, PIECE = 16, PIECES = 8, TILE_ALIGN = 1024, WGMMA_ROWS = 64, WGMMA_K = 16 };

void mbarrier_open(mbarrier *b, int n)
{
    if (m.is_checked)
        access(b, sizeof *b, true, __builtin_return_address(0));
    *b = mbarrier{(uint16_t)n, (uint16_t)n, 0, 0};
    use_clocks();
}

static void flip_when_complete(mbarrier *b)
{
    if (b->pending || b->bytes_16)
        return;
    b->pending = b->expected;
    b->phase ^= 1;
}

void mbarrier_come(mbarrier *b, int bytes)
{
    if (!b->pending) {
        report("mbarrier: more arrivals than its count");
        return;
    }
    b->pending--;
    b->bytes_16 = (int16_t)(b->bytes_16 + bytes / PIECE);
    if (m.now->has_clocks) {
        uint32_t *own = clock_of(m.self->id);
        publish_at(b, std::vector<uint32_t>(own, own + m.now->n_threads));
        own[m.self->id]++;
    }
    flip_when_complete(b);
}

void mbarrier_stay(mbarrier *b, unsigned parity)
{
    while (b->phase == (parity & 1))
        spin();
    if (!m.now->has_clocks)
        return;
    auto &released = m.now->released[b];
    released.resize(m.now->n_threads);
    clock_join(clock_of(m.self->id), released.data());
}

static void check_box(const tensor_map &t, void *dst, int x, int y, const void *pc)
{
    size_t bytes = (size_t)t.box_height * ROW_BYTES;
    if ((uintptr_t)dst & (TILE_ALIGN - 1))
        report("target of a tensor copy not 1024-byte aligned");
    if (t.box_width * 2 != ROW_BYTES)
        report("rows of a box must have 128 bytes");
    if (!m.is_checked)
        return;
    access(dst, bytes, true, pc);
    for (size_t i = 0; i < bytes; i++)
        if (cell *c = shared_cell((char *)dst + i))
            c->write.is_fenced = 1;
    for (int r = y; r < std::min(y + t.box_height, t.height); r++)
        if (x < t.width)
            access((const char *)t.base + r * t.pitch_bytes + x * 2L,
                   2 * (size_t)std::min(t.box_width, t.width - x), false, pc);
}

static void land_box(const tensor_map &t, char *dst, int x, int y)
{
    for (int r = 0; r < t.box_height; r++) {
        for (int q = 0; q < PIECES; q++) {
            uint16_t v[PIECE / 2] = {};
            for (int i = 0; i < PIECE / 2; i++) {
                int column = x + q * PIECE / 2 + i, row = y + r;
                const char *from = (const char *)t.base + row * t.pitch_bytes + column * 2L;
                if (column < t.width && row < t.height)
                    memcpy(&v[i], from, sizeof v[i]);
            }
            memcpy(dst + r * ROW_BYTES + (q ^ (r & 7)) * PIECE, v, sizeof v);
        }
    }
}

void tensor_copy(void *dst, const tensor_map *map, int x, int y, mbarrier *b)
{
    tensor_map t = *map;
    size_t bytes = (size_t)t.box_height * ROW_BYTES;
    std::vector<uint32_t> row;
    check_box(t, dst, x, y, __builtin_return_address(0));
    memset(dst, 0xFF, bytes);
    if (m.now->has_clocks) {
        uint32_t *own = clock_of(m.self->id);
        row.assign(own, own + m.now->n_threads);
        own[m.self->id]++;
    }
    m.now->in_flight.push_back([=]() {
        land_box(t, (char *)dst, x, y);
        publish_at(b, row);
        b->bytes_16 = (int16_t)(b->bytes_16 - (int)(bytes / PIECE));
        flip_when_complete(b);
    });
}

uint64_t descriptor(const void *p)
{
    if ((uintptr_t)p & (PIECE - 1))
        report("descriptor address not 16-byte aligned");
    return (uint64_t)((const unsigned char *)p - m.now->shared) >> 4;
}

/* Row r, column k of the tile at a descriptor: the swizzle acts on the address's bits. */
static float fetch(uint64_t tile, int r, int k)
{
    unsigned offset = ((unsigned)tile << 4) + (unsigned)(r / 8 * 1024 + r % 8 * ROW_BYTES + k * 2);
    offset ^= (offset >> 7 & 7) << 4;
    const unsigned char *p = m.now->shared + offset;
    if (m.is_checked && k % 8 == 0) {
        access(p, PIECE, false, m.self->where);
        const mark &w = shared_cell(p)->write;
        if (w.is_live && !w.is_fenced)
            report("wgmma reads shared memory written by ordinary stores with no "
                   "fence.proxy.async");
    }
    bf16 v;
    memcpy(&v, p, sizeof v);
    return to_float(v);
}

struct wgmma_call {
    float *d;
    uint64_t a, b;
    thread *self;
};

static sum_op *find_sum(thread *t, float *target, size_t n)
{
    for (auto &s : t->sums)
        if (s.target == target)
            return &s;
    t->sums.push_back({target, std::vector<float>(target, target + n)});
    memset(target, 0xFF, n * sizeof *target);
    return &t->sums.back();
}

static void multiply(const std::vector<void *> &calls, int n)
{
    static float a[WGMMA_ROWS][WGMMA_K], b[256][WGMMA_K];
    const wgmma_call *first = (const wgmma_call *)calls[0];
    for (int r = 0; r < WGMMA_ROWS; r++) {
        m.self = ((wgmma_call *)calls[(size_t)r * 2])->self;
        for (int k = 0; k < WGMMA_K; k++)
            a[r][k] = fetch(first->a, r, k);
    }
    for (int r = 0; r < n; r++) {
        m.self = ((wgmma_call *)calls[(size_t)r % GROUP_THREADS])->self;
        for (int k = 0; k < WGMMA_K; k++)
            b[r][k] = fetch(first->b, r, k);
    }
    for (int i = 0; i < GROUP_THREADS; i++) {
        wgmma_call *c = (wgmma_call *)calls[(size_t)i];
        sum_op *sum = find_sum(c->self, c->d, (size_t)n / 2);
        for (int e = 0; e < n / 2; e++) {
            int row = i / 32 * 16 + i % 32 / 4 + e % 4 / 2 * 8,
                column = e / 4 * 8 + i % 4 * 2 + e % 2;
            for (int k = 0; k < WGMMA_K; k++)
                sum->value[(size_t)e] += a[row][k] * b[column][k];
        }
        c->self->state = READY;
    }
}

void wgmma(float *d, uint64_t a, uint64_t b, int n, const site *at)
{
    thread *self = m.self;
    unsigned group = self->id / GROUP_THREADS;
    wgmma_call call = {d, a, b, self};
    auto &calls = m.now->group_calls[group];
    calls[self->id % GROUP_THREADS] = &call;
    self->where = at;
    if (++m.now->group_arrived[group] < GROUP_THREADS) {
        self->state = AT_GROUP;
        yield();
        return;
    }
    m.now->group_arrived[group] = 0;
    for (const void *other : calls) {
        const wgmma_call *c = (const wgmma_call *)other;
        if (c->a != a || c->b != b || c->self->where != at) {
            report("wgmma: descriptors or places differ across the warpgroup");
            break;
        }
    }
    multiply(calls, n);
    m.self = self;
}

void wgmma_close_group()
{
    m.self->sum_groups.push_back(m.self->sums.size());
}

/* Sums of all but the last `keep` groups go to the thread's variables. */
void wgmma_land(int keep)
{
    thread *self = m.self;
    if (keep == 0 && self->sum_groups.empty() && !self->sums.empty()) {
        report("wgmma_wait with products that were not committed");
        return;
    }
    if ((int)self->sum_groups.size() <= keep)
        return;
    size_t n = self->sum_groups[self->sum_groups.size() - 1 - (size_t)keep];
    for (size_t i = 0; i < n; i++)
        memcpy(self->sums[i].target, self->sums[i].value.data(),
               self->sums[i].value.size() * sizeof(float));
    self->sums.erase(self->sums.begin(), self->sums.begin() + (long)n);
    self->sum_groups.clear();
}

} // namespace simt
