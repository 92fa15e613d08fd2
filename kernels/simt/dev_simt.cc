/* The device interface on the emulator. Work waits in its stream until somebody synchronises; then
 * streams take turns, at random under a shuffle, so that a missing event or a host buffer changed
 * too early shows. One lock around all of it: models may be loaded beside one that runs. */
#include "kernels/cuda/dev.h"
#include "kernels/simt/machine.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <stdlib.h>
#include <unistd.h>

using namespace simt;

typedef std::function<bool()> work; /* false: not yet, waits for an event */

struct dev_event {
    uint64_t recorded, done;
};
struct dev_graph {
    std::vector<work> list;
};
struct dev_stream {
    std::deque<work> queue;
    dev_graph *capture;
};

static std::vector<dev_stream *> streams;
static std::recursive_mutex lock;
static uint64_t fail_launch; /* that many launches from now the device breaks; 0: never */
static bool is_broken;
static size_t memory_limit; /* bytes; 0: what the machine has */
typedef std::lock_guard<std::recursive_mutex> locked;

static void push(dev_stream *s, work w)
{
    locked l(lock);
    if (s->capture)
        s->capture->list.push_back(w);
    else
        s->queue.push_back(w);
}

namespace simt
{

void launch(const char *name, dim3 grid, dim3 block_shape, size_t shared_bytes, dev_stream *s,
            launch_kind kind, void (*run)(void *), void *closure, void (*destroy)(void *))
{
    std::shared_ptr<void> own(closure, destroy);
    push(s, [=]() {
        is_broken = is_broken || (fail_launch && --fail_launch == 0);
        if (is_broken)
            return true;
        run_kernel(name, grid, block_shape, shared_bytes, kind, run, own.get());
        return true;
    });
}

} // namespace simt

/* One piece of work of some stream. False: all that is left waits for events. */
static bool step_any()
{
    std::vector<dev_stream *> turn = streams;
    if (m.order == SIMT_REVERSE || m.order == SIMT_GREEDY_REVERSE)
        std::reverse(turn.begin(), turn.end());
    if (m.order >= SIMT_SHUFFLED)
        std::shuffle(turn.begin(), turn.end(), m.random);
    for (dev_stream *s : turn) {
        if (!s->queue.empty() && (is_broken || s->queue.front()())) {
            s->queue.pop_front();
            return true;
        }
    }
    return false;
}

static int outcome(struct err *e)
{
    if (is_broken)
        return err_set(e, ERR_DEVICE, "simt: the device failed, as it was told to");
    if (m.n_reports)
        return err_set(e, ERR_DEVICE, "%.200s", m.first_report);
    return ERR_OK;
}

static int simt_sync(dev_stream *s, struct err *e)
{
    locked l(lock);
    while (!s->queue.empty()) {
        if (step_any())
            continue;
        report("streams wait for each other");
        s->queue.clear();
    }
    return outcome(e);
}

/* What was queued after the event stays there. */
static int simt_await(dev_event *v, struct err *e)
{
    locked l(lock);
    while (v->done < v->recorded) {
        if (step_any())
            continue;
        if (!is_broken)
            report("an event waits for work that waits for it");
        break;
    }
    return outcome(e);
}

static uint64_t setting(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* SIMT_FAIL_LAUNCH, SIMT_MEMORY_MIB: as simt_fail_launch and simt_set_memory, for whole programs.
 */
static void read_settings()
{
    static bool is_read;
    if (!is_read) {
        fail_launch = fail_launch ? fail_launch : setting("SIMT_FAIL_LAUNCH");
        memory_limit = memory_limit ? memory_limit : setting("SIMT_MEMORY_MIB") << 20;
    }
    is_read = true;
}

static bool simt_is_here(void)
{
    return true;
}

static int simt_open(uint32_t, struct err *e)
{
    locked l(lock);
    read_settings();
    return is_broken ? err_set(e, ERR_DEVICE, "simt: the device failed, as it was told to")
                     : ERR_OK;
}

static void simt_enter(uint32_t) {}

static unsigned simt_capability(void)
{
    return 90;
}

static void simt_memory(size_t *free_bytes, size_t *total_bytes)
{
    locked l(lock);
    read_settings();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *free_bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * page;
    *total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * page;
    if (memory_limit) {
        size_t used = device_bytes();
        *free_bytes = used < memory_limit ? memory_limit - used : 0;
        *total_bytes = memory_limit;
    }
}

static void *simt_alloc(size_t n)
{
    locked l(lock);
    bool is_room = !memory_limit || (n <= memory_limit && device_bytes() <= memory_limit - n);
    return is_room ? device_alloc(n) : NULL;
}

static void simt_release(void *p)
{
    locked l(lock);
    device_free(p);
}

static dev_stream *simt_stream_open(void)
{
    locked l(lock);
    streams.push_back(new dev_stream());
    return streams.back();
}

static void simt_stream_close(dev_stream *s)
{
    locked l(lock);
    streams.erase(std::remove(streams.begin(), streams.end(), s), streams.end());
    delete s;
}

static void move_bytes(void *dst, const void *src, size_t n)
{
    guard(true);
    if (is_device_memory(dst) && !is_allocated(dst, n))
        report("copy to freed or foreign device memory: %zu bytes", n);
    else if (is_device_memory(src) && !is_allocated(src, n))
        report("copy from freed or foreign device memory: %zu bytes", n);
    else
        memcpy(dst, src, n);
    mark_memory(dst, n, true);
    guard(false);
}

static void simt_copy(void *dst, const void *src, size_t n, enum dev_copy, dev_stream *s)
{
    push(s, [=]() {
        move_bytes(dst, src, n);
        return true;
    });
}

static void simt_fill(void *dst, int byte, size_t n, dev_stream *s)
{
    push(s, [=]() {
        guard(true);
        memset(dst, byte, n);
        mark_memory(dst, n, true);
        guard(false);
        return true;
    });
}

static dev_event *simt_event_open(void)
{
    return new dev_event();
}

static void simt_event_close(dev_event *v)
{
    delete v;
}

static void simt_record(dev_event *v, dev_stream *s)
{
    uint64_t id = ++v->recorded;
    push(s, [=]() {
        v->done = id;
        return true;
    });
}

static void simt_wait(dev_stream *s, dev_event *v)
{
    uint64_t id = v->recorded;
    push(s, [=]() { return v->done >= id; });
}

static float simt_elapsed_ms(dev_event *, dev_event *)
{
    return 0; /* the emulator has no time */
}

static void simt_capture_begin(dev_stream *s)
{
    s->capture = new dev_graph();
}

static dev_graph *simt_capture_end(dev_stream *s)
{
    dev_graph *g = s->capture;
    s->capture = NULL;
    return g;
}

static void simt_graph_launch(dev_graph *g, dev_stream *s)
{
    for (const work &w : g->list)
        push(s, w);
}

static void simt_graph_close(dev_graph *g)
{
    delete g;
}

static float element(const void *p, size_t i, enum dev_type type)
{
    if (type == DEV_F32)
        return ((const float *)p)[i];
    return type == DEV_BF16 ? to_float(((const bf16 *)p)[i]) : to_float(((const fp8 *)p)[i]);
}

static void multiply(const dev_gemm &g)
{
    guard(true);
    for (int i = 0; i < g.m; i++) {
        for (int j = 0; j < g.n; j++) {
            float sum = 0;
            for (int k = 0; k < g.k; k++)
                sum += element(g.a, (size_t)i * (size_t)g.k + (size_t)k, g.type) *
                       element(g.b, (size_t)j * (size_t)g.k + (size_t)k, g.type);
            float &c = g.c[(size_t)i * (size_t)g.ldc + (size_t)j];
            c = sum * g.scale + (g.is_added ? c : 0);
        }
        mark_memory(g.c + (size_t)i * (size_t)g.ldc, (size_t)g.n * sizeof *g.c, true);
    }
    guard(false);
}

static int simt_gemm_ready(struct err *)
{
    return ERR_OK;
}

static void simt_gemm(const struct dev_gemm *g, dev_stream *s)
{
    dev_gemm copy = *g;
    push(s, [=]() {
        multiply(copy);
        return true;
    });
}

/* Asking is when the emulator works. */
static bool simt_is_done(dev_stream *s)
{
    locked l(lock);
    return s->queue.empty() || !step_any() || s->queue.empty();
}

static bool simt_is_reached(dev_event *v)
{
    locked l(lock);
    return v->done >= v->recorded || !step_any() || v->done >= v->recorded;
}

extern "C" const struct dev_ops DEV_SIMT = {
    "simt",           simt_is_here,
    simt_open,        simt_enter,
    simt_capability,  simt_memory,
    simt_alloc,       simt_release,
    malloc,           free,
    simt_stream_open, simt_stream_close,
    simt_sync,        simt_copy,
    simt_fill,        simt_event_open,
    simt_event_close, simt_record,
    simt_wait,        simt_await,
    simt_elapsed_ms,  simt_capture_begin,
    simt_capture_end, simt_graph_launch,
    simt_graph_close, simt_gemm_ready,
    simt_gemm,        simt_is_done,
    simt_is_reached,
};

extern "C" {

void simt_set_order(unsigned order)
{
    m.order = order;
    m.random.seed(order);
}

unsigned simt_count_launches(void)
{
    return m.launch;
}

unsigned simt_take_reports(char *first, size_t n)
{
    unsigned count = m.n_reports;
    if (first && n) {
        size_t length = count ? strnlen(m.first_report, n - 1) : 0;
        memcpy(first, m.first_report, length);
        first[length] = '\0';
    }
    m.n_reports = 0;
    return count;
}

void simt_set_quiet(bool is_quiet)
{
    m.is_quiet = is_quiet;
}

void simt_fail_launch(uint64_t n)
{
    locked l(lock);
    fail_launch = n;
    is_broken = false;
}

void simt_set_memory(size_t bytes)
{
    locked l(lock);
    memory_limit = bytes;
}

bool simt_is_checked(void)
{
    return m.is_checked;
}
}
