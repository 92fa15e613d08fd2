/* Compute threads: pinned, fed by a ticket.
 *
 * Each thread has a run of neighbouring shares of its own, which it takes from the front, so that
 * it reads memory in order and the same memory every step; when it has none left it takes from the
 * back of others'. A thread's ticket holds job number, end and next of its shares in one word, so
 * that taking one is a compare-and-swap that fails when the job is over; only a thread that took
 * one reads the job, and the leader starts the next only when every share is done. Words that are
 * waited on: `generation` by the helpers, `done` by the leader, `body_turn` by the leader (for the
 * next body) and the caller (for its end). Whoever changes a word looks at its sleepers, with
 * sequentially consistent order between the two, and wakes them. */
#include "kernels/threads.h"

#include "kernels/quota.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 256, SHARES_PER_THREAD = 4 };
enum { SPIN_PAUSES = 600 }; /* about 20 us where a pause takes 35 ns */
enum { COUNT_BITS = 20, COUNT_MASK = (1 << COUNT_BITS) - 1 };

struct word { /* a cache line of its own */
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

enum { ANY_CORE = -1 };

struct member {
    _Alignas(64) _Atomic uint64_t ticket; /* job number, end, next share: 24, 20, 20 bits */
    struct team *team;
    uint32_t index;
    int core; /* or ANY_CORE */
    pthread_t thread;
};

struct team {
    struct word generation, done, body_turn; /* body_turn: odd while a body runs */
    team_fn fn;
    void *fn_arg;
    uint32_t n_shares;
    void (*body)(void *arg);
    void *body_arg;
    atomic_bool is_closing;
    uint32_t n_threads, n_started;
    struct member member[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, (uint32_t *)word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Until w is no longer `old`; gives the new value. */
static uint32_t wait_change(struct word *w, uint32_t old, uint32_t spins)
{
    uint32_t now;
    for (uint32_t i = 0; i < spins; i++) {
        now = atomic_load_explicit(&w->value, memory_order_acquire);
        if (now != old)
            return now;
        pause_cpu();
    }
    atomic_fetch_add(&w->sleepers, 1);
    while ((now = atomic_load(&w->value)) == old)
        futex(&w->value, FUTEX_WAIT, old);
    atomic_fetch_sub(&w->sleepers, 1);
    return now;
}

static void wake(struct word *w)
{
    if (atomic_load(&w->sleepers) > 0)
        futex(&w->value, FUTEX_WAKE, INT_MAX);
}

static bool take_share(struct member *from, bool is_front, uint32_t *share)
{
    uint64_t ticket = atomic_load(&from->ticket);
    for (;;) {
        uint32_t end = ticket >> COUNT_BITS & COUNT_MASK, next = ticket & COUNT_MASK;
        if (next >= end)
            return false;
        *share = is_front ? next : end - 1;
        uint64_t rest = is_front ? ticket + 1 : ticket - (1 << COUNT_BITS);
        if (atomic_compare_exchange_weak(&from->ticket, &ticket, rest))
            return true;
    }
}

/* Does its own shares, then others', until none is left; gives how many. */
static uint32_t work(struct team *t, uint32_t thread)
{
    uint32_t n_done = 0, share;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        struct member *from = &t->member[(thread + i) % t->n_threads];
        while (take_share(from, i == 0, &share)) {
            t->fn(t->fn_arg, share, t->n_shares, thread);
            n_done++;
            if (thread == 0)
                continue;
            atomic_fetch_add(&t->done.value, 1);
            wake(&t->done);
        }
    }
    return n_done;
}

static void help(struct team *t, uint32_t index)
{
    for (uint32_t seen = 0;;) {
        seen = wait_change(&t->generation, seen, SPIN_PAUSES);
        if (atomic_load(&t->is_closing))
            return;
        (void)work(t, index);
    }
}

static void lead(struct team *t)
{
    for (uint32_t seen = 0;;) {
        /* No spin: between steps this core belongs to whoever prepares the next one. */
        seen = wait_change(&t->body_turn, seen, 0);
        if (atomic_load(&t->is_closing))
            return;
        t->body(t->body_arg);
        seen++;
        atomic_store(&t->body_turn.value, seen);
        wake(&t->body_turn);
    }
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (m->core != ANY_CORE) {
        CPU_SET(m->core, &set);
        /* A core that went away since the mask was read: run unpinned, only slower. */
        (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    if (m->index == 0)
        lead(m->team);
    else
        help(m->team, m->index);
    return NULL;
}

static uint32_t list_cores(int core[MAX_THREADS])
{
    cpu_set_t set;
    uint32_t n = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int c = 0; c < CPU_SETSIZE && n < MAX_THREADS; c++)
            if (CPU_ISSET(c, &set))
                core[n++] = c;
    if (n == 0)
        core[n++] = ANY_CORE;
    return n;
}

static uint32_t within_quota(uint32_t n_cores)
{
    uint32_t quota = quota_cores("");
    return quota && quota < n_cores ? quota : n_cores;
}

uint32_t team_usable_cores(void)
{
    int core[MAX_THREADS];
    return within_quota(list_cores(core));
}

int team_open(struct team **out, uint32_t n_threads, struct err *e)
{
    int core[MAX_THREADS];
    uint32_t n_cores = list_cores(core), most = within_quota(n_cores);
    uint32_t n = n_threads && n_threads < most ? n_threads : most;
    *out = NULL;
    size_t bytes = sizeof(struct team) + n * sizeof(struct member);
    struct team *t = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!t)
        return err_set(e, ERR_NOMEM, "compute threads");
    memset(t, 0, bytes);
    t->n_threads = n;
    for (uint32_t i = 0; i < n; i++) {
        /* A team that leaves cores to others does not know which: two such teams would pin
         * themselves to the same ones. */
        t->member[i] =
            (struct member){.team = t, .index = i, .core = n == n_cores ? core[i] : ANY_CORE};
        int sys = pthread_create(&t->member[i].thread, NULL, member_main, &t->member[i]);
        if (sys != 0) {
            team_close(t);
            return err_set_sys(e, ERR_NOMEM, sys, "compute thread %u of %u", i + 1, n);
        }
        t->n_started++;
    }
    *out = t;
    return ERR_OK;
}

void team_close(struct team *t)
{
    if (!t)
        return;
    atomic_store(&t->is_closing, true);
    atomic_fetch_add(&t->generation.value, 1);
    atomic_fetch_add(&t->body_turn.value, 1);
    wake(&t->generation);
    wake(&t->body_turn);
    for (uint32_t i = 0; i < t->n_started; i++)
        pthread_join(t->member[i].thread, NULL);
    free(t);
}

uint32_t team_size(const struct team *t)
{
    return t->n_threads;
}

void team_run(struct team *t, void (*body)(void *arg), void *arg)
{
    t->body = body;
    t->body_arg = arg;
    /* A job without shares, so that helpers wake up while the leader does. */
    atomic_fetch_add(&t->generation.value, 1);
    uint32_t running = atomic_fetch_add(&t->body_turn.value, 1) + 1;
    wake(&t->body_turn);
    wake(&t->generation);
    (void)wait_change(&t->body_turn, running, 0);
}

void team_each(struct team *t, uint32_t n_shares, team_fn fn, void *arg)
{
    if (t->n_threads == 1 || n_shares <= 1) {
        for (uint32_t i = 0; i < n_shares; i++)
            fn(arg, i, n_shares, 0);
        return;
    }
    t->fn = fn;
    t->fn_arg = arg;
    t->n_shares = n_shares;
    atomic_store(&t->done.value, 0);
    uint32_t job = atomic_load(&t->generation.value) + 1;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        struct team_range own = team_share(n_shares, i, t->n_threads);
        atomic_store(&t->member[i].ticket,
                     (uint64_t)job << 2 * COUNT_BITS | (uint64_t)own.to << COUNT_BITS | own.from);
    }
    atomic_store(&t->generation.value, job);
    wake(&t->generation);
    uint32_t by_others = n_shares - work(t, 0);
    for (uint32_t n; (n = atomic_load(&t->done.value)) != by_others;)
        (void)wait_change(&t->done, n, SPIN_PAUSES);
}

struct item_job {
    uint32_t n;
    void (*fn)(void *arg, uint32_t item, uint32_t thread);
    void *arg;
};

static void item_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct item_job *j = arg;
    struct team_range r = team_share(j->n, share, n_shares);
    for (uint32_t i = r.from; i < r.to; i++)
        j->fn(j->arg, i, thread);
}

void team_each_item(struct team *t, uint32_t n,
                    void (*fn)(void *arg, uint32_t item, uint32_t thread), void *arg)
{
    struct item_job j = {n, fn, arg};
    team_each(t, n < TEAM_MAX_SHARES ? n : TEAM_MAX_SHARES, item_part, &j);
}

uint32_t team_shares(const struct team *t, uint32_t count)
{
    uint32_t most = t->n_threads == 1 ? 1 : t->n_threads * SHARES_PER_THREAD;
    return count < most ? count : most;
}

struct team_range team_share(uint32_t count, uint32_t i, uint32_t n)
{
    return (struct team_range){(uint32_t)((uint64_t)count * i / n),
                               (uint32_t)((uint64_t)count * (i + 1) / n)};
}
