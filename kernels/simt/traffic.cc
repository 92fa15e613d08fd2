/* Statistics of memory accesses: one entry a lane's access, put together afterwards into requests
 * (one instruction of one warp: same place, same warp, same occurrence in each lane). */
#include "kernels/simt/machine.h"

#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <tuple>

namespace simt
{

constexpr int SECTOR = 32, BANK_BYTES = 4, BANKS = 32;

struct entry {
    const void *pc;
    uintptr_t address;
    unsigned block, occurrence;
    uint16_t thread;
    uint8_t size;
    bool is_shared, is_write;
};
static std::vector<entry> entries;

void log_access(const void *pc, const void *p, size_t n, bool is_shared, bool is_write)
{
    entries.push_back({pc, (uintptr_t)p, m.now->id + m.launch * 65536u, 0, (uint16_t)m.self->id,
                       (uint8_t)std::min<size_t>(n, 255), is_shared, is_write});
}

static auto thread_key(const entry &e)
{
    return std::make_tuple(e.pc, e.block, e.thread);
}

static auto request_key(const entry &e)
{
    return std::make_tuple(e.pc, e.block, e.thread / LANES, e.occurrence);
}

static void make_requests()
{
    std::stable_sort(entries.begin(), entries.end(),
                     [](const entry &a, const entry &b) { return thread_key(a) < thread_key(b); });
    for (size_t i = 1; i < entries.size(); i++)
        if (thread_key(entries[i]) == thread_key(entries[i - 1]))
            entries[i].occurrence = entries[i - 1].occurrence + 1;
    std::stable_sort(entries.begin(), entries.end(), [](const entry &a, const entry &b) {
        return request_key(a) < request_key(b);
    });
}

static size_t count_distinct(std::vector<uintptr_t> &v)
{
    std::sort(v.begin(), v.end());
    return (size_t)(std::unique(v.begin(), v.end()) - v.begin());
}

struct cost {
    double asked, sectors, ideal_sectors, passes, ideal_passes;
};

static cost cost_of(size_t from, size_t to)
{
    std::vector<uintptr_t> sectors, banks[BANKS];
    cost c = {};
    for (size_t i = from; i < to; i++) {
        const entry &e = entries[i];
        c.asked += e.size;
        for (uintptr_t a = e.address / SECTOR; a <= (e.address + e.size - 1) / SECTOR; a++)
            sectors.push_back(a);
        for (uintptr_t a = e.address / BANK_BYTES; a <= (e.address + e.size - 1) / BANK_BYTES; a++)
            banks[a % BANKS].push_back(a);
    }
    c.sectors = (double)count_distinct(sectors);
    c.ideal_sectors = fmax(1, ceil(c.asked / SECTOR));
    double words = 0;
    for (auto &bank : banks) {
        double n = (double)count_distinct(bank);
        c.passes = fmax(c.passes, n);
        words += n;
    }
    c.ideal_passes = fmax(1, ceil(words / BANKS));
    return c;
}

static size_t end_of_request(size_t i)
{
    size_t j = i;
    while (j < entries.size() && request_key(entries[j]) == request_key(entries[i]))
        j++;
    return j;
}

struct line {
    entry first;
    double requests;
    cost sum;
};

static std::vector<line> lines()
{
    std::vector<line> out;
    for (size_t i = 0; i < entries.size();) {
        size_t end = end_of_request(i);
        cost c = cost_of(i, end);
        if (out.empty() || out.back().first.pc != entries[i].pc)
            out.push_back({entries[i], 0, {}});
        line &l = out.back();
        l.requests++;
        l.sum.asked += c.asked;
        l.sum.sectors += c.sectors;
        l.sum.ideal_sectors += c.ideal_sectors;
        l.sum.passes += c.passes;
        l.sum.ideal_passes += c.ideal_passes;
        i = end;
    }
    return out;
}

} // namespace simt

using namespace simt;

extern "C" {

void simt_log_begin(void)
{
    entries.clear();
    m.is_logging = true;
}

void simt_log_end(void)
{
    m.is_logging = false;
    make_requests();
}

struct simt_traffic simt_log_traffic(const void *p, size_t bytes, bool is_write)
{
    struct simt_traffic t = {};
    uintptr_t from = (uintptr_t)p;
    for (size_t i = 0; i < entries.size();) {
        const entry &e = entries[i];
        size_t end = end_of_request(i);
        if (!e.is_shared && e.is_write == is_write && e.address >= from &&
            e.address < from + bytes) {
            cost c = cost_of(i, end);
            t.requests++;
            t.asked_bytes += (uint64_t)c.asked;
            t.sector_bytes += (uint64_t)c.sectors * SECTOR;
        }
        i = end;
    }
    return t;
}

void simt_log_print(const char *title)
{
    printf("%s: bytes a lane, requests; sectors or bank passes a request (ideal)\n", title);
    for (const line &l : lines()) {
        const cost &s = l.sum;
        double got = l.first.is_shared ? s.passes : s.sectors;
        double ideal = l.first.is_shared ? s.ideal_passes : s.ideal_sectors;
        printf("  %s %s %p: %2d B, %8.0f; %.2f (%.2f)\n", l.first.is_shared ? "shared" : "global",
               l.first.is_write ? "store" : "load ", l.first.pc, l.first.size, l.requests,
               got / l.requests, ideal / l.requests);
    }
}

struct simt_waste simt_log_waste(void)
{
    struct simt_waste w = {1, 1};
    for (const line &l : lines()) {
        if (l.first.is_shared)
            w.bank_ratio = fmax(w.bank_ratio, l.sum.passes / l.sum.ideal_passes);
        else
            w.sector_ratio = fmin(w.sector_ratio, l.sum.ideal_sectors / l.sum.sectors);
    }
    return w;
}
}
