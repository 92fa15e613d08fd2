/* Runs a kernel: blocks one after another, or all resident for a cooperative launch, threads in the
 * order the test chose. A block is stuck when nothing is ready, no copy is in flight and spinning
 * threads have been woken many times for nothing. */
#include "kernels/simt/machine.h"

#include <algorithm>
#include <unistd.h>

namespace simt
{

enum { IDLE_ROUNDS = 10000, MAX_GRID_YZ = 65535, NAP_US = 500 };

/* Spinning threads were woken `rounds` times for nothing: for ever? Another process takes its time.
 */
static bool is_stuck(int rounds)
{
    if (is_heap_shared())
        usleep(NAP_US); /* so that is five seconds and more */
    return rounds > IDLE_ROUNDS;
}

static void reset_thread(block *b, thread *t, unsigned id, char *stack)
{
    const dim3 &d = shape.block;
    t->id = id;
    t->warp = id / LANES;
    t->at.lane = id % LANES;
    t->at.thread = {id % d.x, id / d.x % d.y, id / d.x / d.y};
    t->at.block = b->index;
    t->state = READY;
    t->warp_interval = 0;
    t->where = NULL;
    t->copies.clear();
    t->sums.clear();
    t->sum_groups.clear();
    t->products.clear();
    t->is_wgmma_open = false;
    t->has_grid = m.kind != LAUNCH_EARLY;
    t->unfenced.clear();
    b->warps[t->warp].lane[t->at.lane] = t;
    b->warps[t->warp].done &= ~(1u << t->at.lane);
    fiber_prepare(&t->stack, stack, thread_main);
}

static char *stack_at(size_t i)
{
    static std::vector<char *> stacks;
    while (stacks.size() <= i)
        stacks.push_back(fiber_new_stack());
    return stacks[i];
}

static void reset_block(block *b, unsigned id, size_t shared_bytes, size_t first_stack)
{
    const dim3 &g = shape.grid;
    b->id = id;
    b->index = {id % g.x, id / g.x % g.y, id / g.x / g.y};
    b->n_threads = shape.block.x * shape.block.y * shape.block.z;
    b->n_done = b->interval = 0;
    b->is_fenced = b->has_clocks = false;
    b->seen.clear();
    b->heard.clear();
    b->released.clear();
    b->unfenced_barriers.clear();
    b->in_flight.clear();
    b->warps.assign((b->n_threads + LANES - 1) / LANES, warp{});
    for (auto &w : b->warps)
        w.done = ~0u;
    b->group_calls.assign((b->n_threads + GROUP_THREADS - 1) / GROUP_THREADS,
                          std::vector<void *>(GROUP_THREADS));
    b->group_arrived.assign(b->group_calls.size(), 0);
    std::fill(b->barriers, b->barriers + BARRIERS, barrier{});
    poison_shared(b, shared_bytes);
    b->threads.resize(b->n_threads);
    for (unsigned i = 0; i < b->n_threads; i++)
        reset_thread(b, &b->threads[i], i, stack_at(first_stack + i));
}

/* True if the thread did more than wait again. */
static bool advance(thread *t)
{
    if (t->state != READY)
        return false;
    resume(t);
    return t->state != SPINNING;
}

static bool run_greedily(block *b)
{
    bool has_advanced = false;
    size_t n = b->warps.size();
    for (bool again = true; again;) {
        again = false;
        for (size_t k = 0; k < n; k++) {
            warp &w = b->warps[m.order == SIMT_GREEDY_FORWARD ? k : n - 1 - k];
            for (bool is_moving = true; is_moving;) {
                is_moving = false;
                for (thread *t : w.lane)
                    is_moving = (t && advance(t)) || is_moving;
                again = again || is_moving;
            }
        }
        has_advanced = has_advanced || again;
    }
    return has_advanced;
}

static bool run_in_turn(block *b)
{
    bool has_advanced = false;
    std::vector<unsigned> turn(b->n_threads);
    for (unsigned i = 0; i < b->n_threads; i++)
        turn[i] = m.order == SIMT_REVERSE ? b->n_threads - 1 - i : i;
    for (bool again = true; again && b->n_done < b->n_threads;) {
        again = false;
        if (m.order >= SIMT_SHUFFLED)
            std::shuffle(turn.begin(), turn.end(), m.random);
        for (unsigned i : turn)
            again = advance(&b->threads[i]) || again;
        has_advanced = has_advanced || again;
    }
    return has_advanced;
}

static bool run_block(block *b)
{
    m.now = b;
    shape.dynamic_shared = b->shared;
    bool is_greedy = m.order == SIMT_GREEDY_FORWARD || m.order == SIMT_GREEDY_REVERSE;
    return is_greedy ? run_greedily(b) : run_in_turn(b);
}

/* One copy lands, spinning threads look again. False: there was nothing to wake. */
static bool wake(block *b)
{
    bool is_any = !b->in_flight.empty();
    m.now = b;
    if (is_any) {
        size_t k = m.order >= SIMT_SHUFFLED ? m.random() % b->in_flight.size() : 0;
        b->in_flight[k]();
        b->in_flight.erase(b->in_flight.begin() + (long)k);
    }
    for (auto &t : b->threads) {
        if (t.state == SPINNING) {
            t.state = READY;
            is_any = true;
        }
    }
    return is_any;
}

static void run_alone(block *b)
{
    for (int idle = 0; b->n_done < b->n_threads;) {
        if (run_block(b))
            idle = 0;
        if (b->n_done < b->n_threads && (!wake(b) || is_stuck(++idle))) {
            deadlock(b);
            return;
        }
    }
}

static void run_together(const std::vector<block *> &blocks)
{
    for (int idle = 0;;) {
        bool has_advanced = false, is_awake = false, is_done = true;
        for (block *b : blocks) {
            has_advanced = run_block(b) || has_advanced;
            is_done = is_done && b->n_done == b->n_threads;
        }
        if (is_done)
            return;
        for (block *b : blocks)
            is_awake = wake(b) || is_awake;
        idle = has_advanced ? 0 : idle + 1;
        if (is_awake && !(idle && is_stuck(idle)))
            continue;
        for (block *b : blocks)
            if (b->n_done < b->n_threads)
                return deadlock(b);
    }
}

static std::vector<unsigned> block_turns(unsigned n)
{
    bool is_reverse = m.order == SIMT_REVERSE || m.order == SIMT_GREEDY_REVERSE;
    std::vector<unsigned> turn(n);
    for (unsigned i = 0; i < n; i++)
        turn[i] = is_reverse ? n - 1 - i : i;
    if (m.order >= SIMT_SHUFFLED)
        std::shuffle(turn.begin(), turn.end(), m.random);
    return turn;
}

static bool is_launchable(const dim3 &g, const dim3 &b, size_t shared_bytes)
{
    unsigned n = b.x * b.y * b.z;
    return g.x && g.y && g.z && g.y <= MAX_GRID_YZ && g.z <= MAX_GRID_YZ && n && n <= MAX_THREADS &&
           shared_bytes <= SHARED_BYTES - 1024;
}

static void begin(const char *name, void (*run)(void *), void *closure)
{
    if ((++m.launch & LAUNCH_MASK) == 0)
        forget_launches();
    m.kernel = name;
    m.run = run;
    m.closure = closure;
    m.random.seed(m.order);
    m.atomics.clear();
}

void run_kernel(const char *name, dim3 grid, dim3 block_shape, size_t shared_bytes,
                launch_kind kind, void (*run)(void *), void *closure)
{
    bool is_cooperative = kind == LAUNCH_TOGETHER;
    static std::vector<block *> pool;
    unsigned n = grid.x * grid.y * grid.z,
             n_threads = block_shape.x * block_shape.y * block_shape.z;
    begin(name, run, closure);
    m.kind = kind;
    if (!is_launchable(grid, block_shape, shared_bytes)) {
        report("grid (%u,%u,%u) of blocks (%u,%u,%u) with %zu bytes cannot be launched", grid.x,
               grid.y, grid.z, block_shape.x, block_shape.y, block_shape.z, shared_bytes);
        return;
    }
    shape = {grid, block_shape, NULL};
    while (pool.size() < (is_cooperative ? n : 1))
        pool.push_back(new block());
    guard(true);
    std::vector<block *> resident;
    for (unsigned i : block_turns(n)) {
        block *b = pool[is_cooperative ? resident.size() : 0];
        reset_block(b, i, shared_bytes, is_cooperative ? resident.size() * n_threads : 0);
        if (is_cooperative)
            resident.push_back(b);
        else
            run_alone(b);
    }
    if (is_cooperative)
        run_together(resident);
    guard(false);
    m.kernel = NULL;
}

} // namespace simt
