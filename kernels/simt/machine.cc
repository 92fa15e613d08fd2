/* Reports, and where threads meet: block barriers and warp operations. A thread that must wait
 * leaves a note of where it is and yields; whoever completes the meeting makes the others ready. */
#include "kernels/simt/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

namespace simt
{

const place *here;
launch_shape shape;
machine m = {};

enum { PRINTED_REPORTS = 4 };

void report(const char *format, ...)
{
    char text[sizeof m.first_report];
    int n = snprintf(text, sizeof text, "simt: kernel %.120s", m.kernel ? m.kernel : "?");
    if (m.self) {
        const place &p = m.self->at;
        n += snprintf(text + n, sizeof text - (size_t)n, " block (%u,%u,%u) thread (%u,%u,%u)",
                      p.block.x, p.block.y, p.block.z, p.thread.x, p.thread.y, p.thread.z);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, ": ");
    va_list list;
    va_start(list, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    if (m.n_reports == 0)
        memcpy(m.first_report, text, sizeof text);
    if (m.n_reports++ < PRINTED_REPORTS && !m.is_quiet)
        fprintf(stderr, "%s\n", text);
}

void yield()
{
    thread *self = m.self;
    fiber_switch(&self->stack, &m.scheduler, self->state == DONE);
}

void resume(thread *t)
{
    m.self = t;
    here = &t->at;
    fiber_switch(&m.scheduler, &t->stack, false);
    m.self = NULL;
}

void thread_main()
{
    fiber_started(&m.scheduler);
    m.run(m.closure);
    finish_thread();
    yield();
    abort();
}

void finish_thread()
{
    thread *self = m.self;
    self->state = DONE;
    m.now->n_done++;
    m.now->warps[self->warp].done |= 1u << self->at.lane;
    if (!self->sums.empty())
        report("the thread ends with wgmma results it never waited for");
    self->copies.clear();
    self->sums.clear();
    self->sum_groups.clear();
    self->products.clear();
    for (unsigned i = 0; i < BARRIERS; i++)
        check_barrier(i);
}

void check_barrier(unsigned i)
{
    block *b = m.now;
    barrier *bar = &b->barriers[i];
    unsigned wanted = bar->wanted ? bar->wanted : b->n_threads - b->n_done;
    if (bar->arrived == 0 || bar->arrived < wanted)
        return;
    *bar = barrier{};
    b->interval++;
    std::vector<thread *> met;
    for (auto &t : b->threads)
        if (t.state == AT_BARRIER && t.barrier == i)
            met.push_back(&t);
    clocks_meet(met);
    for (thread *t : met)
        t->state = READY;
}

static void wait_at(unsigned i, unsigned wanted, const site *at)
{
    thread *self = m.self;
    barrier *bar = &m.now->barriers[i];
    if (bar->arrived++ == 0) {
        bar->where = at;
        bar->wanted = wanted;
    } else if (bar->where != at || bar->wanted != wanted) {
        report("divergent barrier: this thread is at %s:%d, others at line %d", at->file, at->line,
               bar->where->line);
    }
    self->state = AT_BARRIER;
    self->barrier = i;
    self->where = at;
    self->warp_interval++;
    check_barrier(i);
    if (self->state != READY)
        yield();
}

void block_barrier(const site *at)
{
    if (m.now->n_done)
        report("__syncthreads at %s:%d after %u threads of the block returned", at->file, at->line,
               m.now->n_done);
    wait_at(0, 0, at);
}

void named_barrier(unsigned i, unsigned n_threads, const site *at)
{
    if (i == 0 || i >= BARRIERS || n_threads % LANES)
        report("named barrier %u of %u threads: 1 to 15, whole warps", i, n_threads);
    use_clocks();
    wait_at(i % BARRIERS, n_threads, at);
}

/* All lanes of the mask are here: are they at the same place? */
static void check_meeting(const warp &w, uint32_t mask, void **calls)
{
    const thread *self = m.self;
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1))
            continue;
        const thread *t = w.lane[i];
        calls[i] = t->call;
        if (t->mask != mask || t->fn != self->fn || t->where != self->where)
            report("warp operation at %s:%d diverged: lane %d is at line %d with mask %08x",
                   self->where->file, self->where->line, i, t->where->line, t->mask);
    }
}

static void complete(warp *w, uint32_t mask)
{
    thread *self = m.self;
    void *calls[LANES] = {};
    bool is_sync = self->fn == sync_body;
    check_meeting(*w, mask, calls);
    self->fn(calls, mask);
    m.self = self;
    w->arrived &= ~mask;
    std::vector<thread *> met;
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1))
            continue;
        w->lane[i]->state = READY;
        w->lane[i]->warp_interval += is_sync;
        if (is_sync && m.now->has_clocks)
            met.push_back(w->lane[i]);
    }
    clocks_meet(met);
}

void warp_call(uint32_t mask, collective_fn *fn, void *call, const site *at)
{
    thread *self = m.self;
    warp *w = &m.now->warps[self->warp];
    if (!(mask >> self->at.lane & 1))
        report("%s:%d: lane %u calls a warp operation with mask %08x that omits it", at->file,
               at->line, self->at.lane, mask);
    if (mask & w->done) {
        report("%s:%d: mask %08x names lanes that returned (%08x)", at->file, at->line, mask,
               w->done);
        mask &= ~w->done;
    }
    self->mask = mask;
    self->fn = fn;
    self->call = call;
    self->where = at;
    w->arrived |= 1u << self->at.lane;
    if ((w->arrived & mask) == mask) {
        complete(w, mask);
        return;
    }
    self->state = AT_WARP;
    yield();
}

void spin()
{
    m.self->state = SPINNING;
    yield();
}

void shuffle_body(void **calls, uint32_t mask)
{
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1))
            continue;
        lane_call *c = (lane_call *)calls[i];
        int source = c->source & 31;
        if (mask >> source & 1)
            c->out = ((lane_call *)calls[source])->value;
        else
            report("shfl reads lane %d outside mask %08x", source, mask);
    }
}

void ballot_body(void **calls, uint32_t mask)
{
    uint32_t all = 0;
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1 && ((lane_call *)calls[i])->value)
            all |= 1u << i;
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1)
            ((lane_call *)calls[i])->out = all;
}

void match_body(void **calls, uint32_t mask)
{
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1))
            continue;
        lane_call *c = (lane_call *)calls[i];
        c->out = 0;
        for (int j = 0; j < LANES; j++)
            if (mask >> j & 1 && ((lane_call *)calls[j])->value == c->value)
                c->out |= 1u << j;
    }
}

void sync_body(void **, uint32_t) {}

static const char *state_name(thread_state s)
{
    static const char *const NAMES[] = {"ready",     "block barrier", "warp operation",
                                        "warpgroup", "spinning",      "done"};
    return NAMES[s];
}

void deadlock(block *b)
{
    std::map<std::pair<int, const site *>, unsigned> waiting;
    m.now = b;
    for (const auto &t : b->threads)
        if (t.state != DONE)
            waiting[{t.state, t.where}]++;
    for (const auto &w : waiting)
        report("deadlock: %u threads wait at %s:%d (%s)", w.second,
               w.first.second ? w.first.second->file : "?",
               w.first.second ? w.first.second->line : 0, state_name((thread_state)w.first.first));
}

} // namespace simt
