/* kernels/simt/machine.h - the emulator's inside: threads, warps, blocks and what memory remembers.
 *
 * One machine per process, used by one OS thread at a time. Instrumented kernels call in through
 * dialect_host.h and hooks.cc; nothing in this folder is instrumented itself. */
#ifndef KERNELS_SIMT_MACHINE_H
#define KERNELS_SIMT_MACHINE_H

#include "kernels/cuda/dialect.h"
#include "kernels/cuda/hopper.h"
#include "kernels/simt/fiber.h"
#include "kernels/simt/simt.h"

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace simt
{

enum { LANES = 32, GROUP_THREADS = 128, MAX_THREADS = 1024, BARRIERS = 16 };
enum { SHARED_BYTES = 228 << 10, SHARED_GAP = 128 };

enum thread_state : uint8_t { READY, AT_BARRIER, AT_WARP, AT_GROUP, SPINNING, DONE };

/* Who touched a byte last. spread: 0 one thread, 1 lanes of one warp, 2 several warps, 3 several
 * blocks. is_fenced: visible to the asynchronous proxy (PTX ISA, 8.7: proxies). */
struct mark {
    uint64_t launch : 14, block : 15, thread : 10, interval : 10, warp_interval : 10, spread : 2,
        is_live : 1, is_fenced : 1, is_atomic : 1;
};
struct cell {
    mark write, read;
};
enum { LAUNCH_MASK = 0x3FFF };

struct copy_op { /* cp.async in flight */
    void *dst;
    const void *src;
    int bytes, valid;
    unsigned group;
};
struct sum_op { /* wgmma accumulators in flight: NaN in the thread until its wait */
    float *target;
    std::vector<float> value;
};

struct product_op; /* what a wgmma in flight reads */
struct wgmma_group {
    size_t n_sums, n_products; /* up to its end */
};

struct thread {
    place at; /* first: `here` points to it */
    fiber stack;
    unsigned id, warp;
    thread_state state;
    unsigned barrier;
    uint32_t mask, warp_interval;
    collective_fn *fn;
    void *call;
    const site *where;
    std::vector<copy_op> copies;
    unsigned copy_group;
    std::vector<sum_op> sums;
    std::vector<std::shared_ptr<const product_op>> products;
    std::vector<wgmma_group> sum_groups;
    bool has_grid;      /* what earlier launches wrote is there: not yet, if this one is early */
    bool is_wgmma_open; /* its registers are in order for wgmma */
    std::vector<uint32_t> unfenced; /* offsets in shared memory */
};

struct warp {
    thread *lane[LANES];
    uint32_t arrived, done;
};

/* What a block has published: its accesses before `interval` (plus one; 0 = nothing), or any by
 * `thread`. */
struct published {
    uint32_t interval_plus_1, thread;
};

struct barrier {
    unsigned wanted, arrived; /* wanted 0: the whole block */
    const site *where;
};

struct variable {
    const char *key;
    size_t offset, bytes;
};

struct block {
    uint3 index;
    unsigned id, n_threads, n_done, interval;
    std::vector<thread> threads;
    std::vector<warp> warps;
    barrier barriers[BARRIERS];
    bool is_fenced;
    std::vector<published> seen, heard; /* by block: acquired; read but not yet fenced */
    unsigned char *shared;
    size_t shared_used, dynamic_bytes;
    std::vector<variable> variables;
    std::vector<cell> shadow;
    bool has_clocks; /* vector clocks [n_threads][n_threads] instead of intervals */
    std::vector<uint32_t> clocks;
    std::map<const void *, std::vector<uint32_t>> released; /* by mbarrier */
    std::map<const void *, unsigned> unfenced_barriers;     /* mbarriers: who began them */
    std::vector<std::function<void()>> in_flight;           /* bulk copies */
    std::vector<std::vector<void *>> group_calls;
    std::vector<unsigned> group_arrived;
};

struct machine {
    block *now;
    thread *self; /* NULL outside kernels */
    fiber scheduler;
    void (*run)(void *closure);
    void *closure;
    const char *kernel;
    unsigned launch, order;
    launch_kind kind;
    bool is_checked, is_quiet, is_logging;
    unsigned n_reports;
    char first_report[400];
    std::mt19937 random;
    std::map<const void *, std::vector<published>> atomics; /* what each address publishes */
};
extern machine m;

__attribute__((format(printf, 1, 2))) void report(const char *format, ...);
void yield();                   /* to the scheduler, as m.self */
void resume(thread *t);         /* from the scheduler */
void check_barrier(unsigned i); /* opens it when all are there */
void thread_main();
void finish_thread();
void deadlock(block *b);

/* shadow.cc */
void access(const void *p, size_t n, bool is_write, const void *pc);
/* What a copy of the asynchronous proxy reads: it may be memory that nothing wrote. */
void copy_access(const void *p, size_t n, const void *pc);
void mark_memory(const void *p, size_t n, bool is_live);
/* Shared memory that this block's ordinary stores wrote, unseen by the asynchronous proxy. */
bool is_unfenced(const void *p, size_t n);
void mark_fenced(const void *p, size_t n);
void use_clocks();
void clocks_meet(const std::vector<thread *> &threads);
uint32_t *clock_of(unsigned thread);
void clock_join(uint32_t *into, const uint32_t *from);
void publish_at(const void *barrier, const std::vector<uint32_t> &row);
cell *shared_cell(const void *p);

/* memory.cc */
bool is_heap_shared();                /* kernels may wait for other processes */
bool is_device_memory(const void *p); /* of this process */
bool is_allocated(const void *p, size_t n);
cell *device_cell(const void *p);
void forget_launches(); /* before their numbers repeat */
void *device_alloc(size_t n);
void device_free(void *p);
size_t device_bytes(); /* live ones */
void poison_shared(block *b, size_t dynamic_bytes);
void guard(bool is_open);

/* traffic.cc */
void log_access(const void *pc, const void *p, size_t n, bool is_shared, bool is_write);

/* launch.cc */
void run_kernel(const char *name, dim3 grid, dim3 block, size_t shared_bytes, launch_kind kind,
                void (*run)(void *), void *closure);

} // namespace simt

#endif
