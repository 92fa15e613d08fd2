/* Models of mbarrier and tensor-map copies. A copy lands when the scheduler finds nothing else to
 * do, in any order under a shuffle; till then its target holds NaN. It belongs to the asynchronous
 * proxy (PTX ISA 9.0, 8.7): what ordinary stores left where it writes, and its mbarrier's init,
 * must stand behind a fence. */
#include "kernels/simt/machine.h"

#include <algorithm>

namespace simt
{

enum { ROW_BYTES = 128, BOX_WIDTH = 64, PIECE = 16, PIECES = 8, TILE_ALIGN = 1024 };

void mbarrier_open(mbarrier *b, int n)
{
    use_clocks();
    if (m.is_checked)
        access(b, sizeof *b, true, __builtin_return_address(0));
    *b = mbarrier{(uint16_t)n, (uint16_t)n, 0, 0};
    m.now->unfenced_barriers[b] = m.self->id;
}

void mbarriers_fence()
{
    auto &all = m.now->unfenced_barriers;
    for (auto i = all.begin(); i != all.end();)
        i = i->second == m.self->id ? all.erase(i) : std::next(i);
}

/* Is its init seen by this thread? */
static void check_use(const mbarrier *b, const void *pc)
{
    if (m.is_checked)
        access(b, sizeof *b, false, pc);
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
    check_use(b, __builtin_return_address(0));
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
    check_use(b, __builtin_return_address(0));
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
    if (t.pitch_bytes % PIECE)
        report("pitch of a tensor map no multiple of 16 bytes");
    if (!m.is_checked)
        return;
    if (is_unfenced(dst, bytes))
        report("tensor copy into shared memory written by ordinary stores with no "
               "fence.proxy.async");
    access(dst, bytes, true, pc);
    mark_fenced(dst, bytes);
    for (size_t r = (size_t)y; r < std::min((size_t)y + t.box_height, t.height); r++)
        if ((size_t)x < t.width)
            copy_access((const char *)t.base + r * t.pitch_bytes + x * 2L,
                        2 * std::min((size_t)BOX_WIDTH, t.width - (size_t)x), pc);
}

static void land_box(const tensor_map &t, char *dst, int x, int y)
{
    for (unsigned r = 0; r < t.box_height; r++) {
        for (unsigned q = 0; q < PIECES; q++) {
            uint16_t v[PIECE / 2] = {};
            for (unsigned i = 0; i < PIECE / 2; i++) {
                size_t column = (unsigned)x + q * PIECE / 2 + i, row = (unsigned)y + r;
                const char *from = (const char *)t.base + row * t.pitch_bytes + column * 2;
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
    check_use(b, __builtin_return_address(0));
    if (m.now->unfenced_barriers.count(b))
        report("tensor copy tells an mbarrier whose init stands behind no fence_mbarrier_init");
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

} // namespace simt
