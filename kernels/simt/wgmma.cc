/* Models of a warpgroup's products (wgmma). Accumulators hold NaN until their wait. Operands in
 * shared memory are read at the instruction, and once more at its wait: they must have come by a
 * copy or stand behind a proxy fence, and nobody may change them between. One rounding for the sum
 * of sixteen products and d, as in tensor.cc. */
#include "kernels/simt/machine.h"

namespace simt
{

enum { ROWS = 64, COLUMNS = 64, DEPTH = 16, PIECE_VALUES = 8, ROW_BYTES = 128, EIGHT_ROWS = 1024 };
enum { SUMS = ROWS * COLUMNS / GROUP_THREADS };

/* 1024 halves: [64][16], or where the rows are the inner dimension [16][64]. */
struct operand {
    uint64_t at;
    unsigned rows;
    uint16_t half[ROWS * DEPTH];
};
struct product_op {
    operand a, b;
    bool is_a_shared;
};

uint64_t descriptor(const void *p)
{
    if ((uintptr_t)p & 15)
        report("descriptor address not 16-byte aligned");
    return (uint64_t)((const unsigned char *)p - m.now->shared) >> 4;
}

/* One row of an operand as m.self sees it: the swizzle acts on the address's bits. */
static void fetch(const operand &o, unsigned r, uint16_t *half)
{
    unsigned pieces = ROWS * DEPTH / PIECE_VALUES / o.rows;
    for (unsigned q = 0; q < pieces; q++) {
        unsigned offset = ((unsigned)o.at << 4) + r / 8 * EIGHT_ROWS + r % 8 * ROW_BYTES + q * 16;
        offset ^= (offset >> 7 & 7) << 4;
        const unsigned char *p = m.now->shared + offset;
        if (m.is_checked) {
            access(p, 16, false, m.self->where);
            if (is_unfenced(p, 16))
                report("wgmma reads shared memory written by ordinary stores with no "
                       "fence.proxy.async");
        }
        memcpy(half + q * PIECE_VALUES, p, 16);
    }
}

struct wgmma_call {
    float *d;
    wgmma_operands of;
    thread *self;
};

static const wgmma_call &call_of(const std::vector<void *> &calls, size_t i)
{
    return *(const wgmma_call *)calls[i];
}

/* Rows of shared operands belong to threads in turn, so that an access has one. */
static void fetch_all(const std::vector<void *> &calls, operand *o)
{
    for (unsigned r = 0; r < o->rows; r++) {
        m.self = call_of(calls, r).self;
        fetch(*o, r, o->half + r * (ROWS * DEPTH / o->rows));
    }
}

static void gather_rows(const std::vector<void *> &calls, operand *o)
{
    for (unsigned i = 0; i < GROUP_THREADS; i++) {
        const unsigned *word = call_of(calls, i).of.rows;
        for (unsigned j = 0; j < 8; j++) {
            unsigned r = i / 32 * 16 + i % 32 / 4 + j / 2 % 2 * 8;
            unsigned k = i % 4 * 2 + j / 4 * 8 + j % 2;
            o->half[r * DEPTH + k] = (uint16_t)(word[j / 2] >> (j % 2 * 16));
        }
    }
}

static sum_op *find_sum(thread *t, float *target)
{
    for (auto &s : t->sums)
        if (s.target == target)
            return &s;
    t->sums.push_back({target, std::vector<float>(target, target + SUMS)});
    memset(target, 0xFF, SUMS * sizeof *target);
    return &t->sums.back();
}

static double value(uint16_t half, bool is_f16)
{
    return is_f16 ? (double)to_float(f16{half}) : (double)to_float(bf16{half});
}

static void add_products(const product_op &p, bool is_f16, double (&d)[ROWS][COLUMNS])
{
    static double b[DEPTH][COLUMNS];
    for (int k = 0; k < DEPTH; k++)
        for (int c = 0; c < COLUMNS; c++)
            b[k][c] = value(p.b.half[p.b.rows == DEPTH ? k * COLUMNS + c : c * DEPTH + k], is_f16);
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < DEPTH; k++) {
            double a = value(p.a.half[r * DEPTH + k], is_f16);
            for (int c = 0; c < COLUMNS; c++)
                d[r][c] += a * b[k][c];
        }
    }
}

static void multiply(const std::vector<void *> &calls)
{
    static double d[ROWS][COLUMNS];
    const wgmma_call &first = call_of(calls, 0);
    bool is_f16 = first.of.is_f16, is_a_shared = !first.of.rows;
    auto p = std::make_shared<product_op>(product_op{
        {first.of.a, ROWS, {}}, {first.of.b, is_a_shared ? ROWS : DEPTH, {}}, is_a_shared});
    if (is_a_shared)
        fetch_all(calls, &p->a);
    else
        gather_rows(calls, &p->a);
    fetch_all(calls, &p->b);
    for (bool is_end : {false, true}) {
        for (unsigned i = 0; i < GROUP_THREADS; i++) {
            const wgmma_call &c = call_of(calls, i);
            float *sum = find_sum(c.self, c.d)->value.data();
            for (unsigned e = 0; e < SUMS; e++) {
                double &at =
                    d[i / 32 * 16 + i % 32 / 4 + e % 4 / 2 * 8][e / 4 * 8 + i % 4 * 2 + e % 2];
                if (is_end)
                    sum[e] = (float)at;
                else
                    at = (double)sum[e];
            }
        }
        if (!is_end)
            add_products(*p, is_f16, d);
    }
    for (unsigned i = 0; i < GROUP_THREADS; i++) {
        call_of(calls, i).self->products.push_back(p);
        call_of(calls, i).self->state = READY;
    }
}

void wgmma(float *d, const wgmma_operands &of, const site *at)
{
    thread *self = m.self;
    unsigned group = self->id / GROUP_THREADS;
    wgmma_call call = {d, of, self};
    auto &calls = m.now->group_calls[group];
    calls[self->id % GROUP_THREADS] = &call;
    self->where = at;
    if (!self->is_wgmma_open)
        report("wgmma with no wgmma_fence since the thread began or waited");
    if (++m.now->group_arrived[group] < GROUP_THREADS) {
        self->state = AT_GROUP;
        yield();
        return;
    }
    m.now->group_arrived[group] = 0;
    for (unsigned i = 0; i < GROUP_THREADS; i++) {
        const wgmma_call &c = call_of(calls, i);
        if (c.of.a != of.a || c.of.b != of.b || c.self->where != at) {
            report("wgmma: descriptors or places differ across the warpgroup");
            break;
        }
    }
    multiply(calls);
    m.self = self;
}

void wgmma_open()
{
    m.self->is_wgmma_open = true;
}

void wgmma_close_group()
{
    m.self->sum_groups.push_back({m.self->sums.size(), m.self->products.size()});
}

/* This thread's row of an operand, read again. */
static bool is_same(const operand &o)
{
    uint16_t again[ROWS * DEPTH];
    unsigned r = m.self->id % GROUP_THREADS;
    size_t n = ROWS * DEPTH / o.rows;
    if (r >= o.rows)
        return true;
    fetch(o, r, again);
    return memcmp(again, o.half + r * n, n * sizeof *again) == 0;
}

/* Sums of all but the last `keep` groups go to the thread's variables. */
void wgmma_land(int keep)
{
    thread *self = m.self;
    auto &groups = self->sum_groups;
    self->is_wgmma_open = false;
    if (keep == 0 && groups.empty() && !self->sums.empty()) {
        report("wgmma_wait with products that were not committed");
        return;
    }
    if ((int)groups.size() <= keep)
        return;
    long n_groups = (long)groups.size() - keep;
    wgmma_group done = groups[(size_t)n_groups - 1];
    for (size_t i = 0; i < done.n_products; i++) {
        const product_op &p = *self->products[i];
        if (!is_same(p.b) || (p.is_a_shared && !is_same(p.a)))
            report("operands of a wgmma changed before its wait");
    }
    for (size_t i = 0; i < done.n_sums; i++)
        memcpy(self->sums[i].target, self->sums[i].value.data(), SUMS * sizeof(float));
    self->sums.erase(self->sums.begin(), self->sums.begin() + (long)done.n_sums);
    self->products.erase(self->products.begin(), self->products.begin() + (long)done.n_products);
    groups.erase(groups.begin(), groups.begin() + n_groups);
    for (auto &g : groups)
        g = {g.n_sums - done.n_sums, g.n_products - done.n_products};
}

} // namespace simt
