/* Compute threads: pinned, fed by tickets.
 *
 * Each thread has a run of neighbouring shares of its own, which it takes from the front, so that
 * it reads memory in order and the same memory every step; when it has none left it takes from the
 * back of others'. A thread's ticket holds job number, end and next of its shares in one word, so
 * that taking one is a compare-and-swap that fails when the job is over; only a thread that took
 * one reads the job. Through with all it can get, a thread writes down how many it did; the job is
 * over when these make all shares, whether or not every thread took part.
 *
 * A job of microseconds feels each cache line that goes from core to core, and each fence, which
 * waits for the lines of all stores before it. So the leader starts a job with plain stores, and
 * whoever might sleep makes the others' order for them (membarrier(2)). */
#include "kernels/threads.h"

#include "kernels/quota.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 256, SHARES_PER_THREAD = 4 };
/* Where a pause takes 35 ns: 20 us for a job that may never come, 200 us for shares under way. To
 * wake up takes 13 to 43 us, and a share of a long step 30 to 60. */
enum { FIRST_SPINS = 60, JOB_SPINS = 600, SHARE_SPINS = 6000 };
enum { COUNT_BITS = 20, COUNT_MASK = (1 << COUNT_BITS) - 1, JOB_MASK = (1 << 24) - 1 };

struct word { /* a cache line of its own */
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

enum { ANY_CORE = -1 };

/* A job under way and the next one. */
enum { N_SLOTS = 2 };
struct slot {
    _Alignas(64) team_fn fn;
    void *arg;
    _Atomic uint32_t n_shares;
    _Atomic uintptr_t first; /* see struct team_job */
    _Atomic size_t first_bytes;
    _Alignas(64) unsigned char copy[TEAM_ARG_BYTES];
};

struct ticket { /* job number, end, next share: 24, 20, 20 bits */
    _Alignas(64) _Atomic uint64_t value;
};

struct member {
    struct ticket ticket[N_SLOTS];
    _Alignas(64) _Atomic uint64_t done; /* job number, shares of it that the thread did */
    struct team *team;
    uint32_t index;
    int core; /* or ANY_CORE */
    pthread_t thread;
};

struct team {
    struct word body_turn;                /* odd while a body runs */
    struct word event;                    /* changes while somebody sleeps in wait_until */
    _Alignas(64) _Atomic uint32_t posted; /* number of the last job */
    struct slot slot[N_SLOTS];
    bool is_pending; /* the leader did not work on the last job yet */
    bool has_membarrier;
    atomic_bool is_closing;
    void (*body)(void *arg);
    void *body_arg;
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

void team_relax(uint32_t i)
{
    if (i < SHARE_SPINS)
        pause_cpu();
    else
        (void)sched_yield();
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, (uint32_t *)word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Until w is no longer `old`; gives the new value. */
static uint32_t wait_change(struct word *w, uint32_t old)
{
    uint32_t now;
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

/* How many sleep that may not have seen the caller's last store. Whoever is about to sleep puts a
 * fence into all threads; where the kernel cannot, both sides change the word, in one order. */
static uint32_t count_sleepers(struct team *t)
{
    if (!t->has_membarrier)
        return atomic_fetch_add(&t->event.sleepers, 0);
    atomic_signal_fence(memory_order_seq_cst);
    return atomic_load_explicit(&t->event.sleepers, memory_order_relaxed);
}

static void become_sleeper(struct team *t)
{
    atomic_fetch_add(&t->event.sleepers, 1);
    if (t->has_membarrier)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void tell(struct team *t)
{
    if (count_sleepers(t) == 0)
        return;
    atomic_fetch_add(&t->event.value, 1);
    futex(&t->event.value, FUTEX_WAKE, INT_MAX);
}

static uint32_t last_posted(const struct team *t)
{
    return atomic_load_explicit(&t->posted, memory_order_acquire);
}

/* A job after number `seen`, or the end. */
static bool has_more(const struct team *t, uint32_t seen)
{
    return last_posted(t) != seen;
}

/* A job is over when its shares are done. Whoever asks late finds somebody through with a later
 * one, or its slot taken by the next but one. */
static bool is_over(const struct team *t, uint32_t job)
{
    uint32_t n = 0;
    if (last_posted(t) - job >= N_SLOTS)
        return true;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        uint64_t done = atomic_load_explicit(&t->member[i].done, memory_order_acquire);
        uint32_t of = (uint32_t)(done >> 32);
        if ((int32_t)(of - job) > 0)
            return true;
        n += of == job ? (uint32_t)done : 0;
    }
    return n == atomic_load_explicit(&t->slot[job % N_SLOTS].n_shares, memory_order_acquire);
}

/* Spins, then sleeps. */
static void wait_until(struct team *t, bool (*is_so)(const struct team *t, uint32_t job),
                       uint32_t job, uint32_t spins)
{
    for (uint32_t i = 0; i < FIRST_SPINS + spins; i++) {
        if (is_so(t, job))
            return;
        if (i >= FIRST_SPINS)
            pause_cpu();
    }
    become_sleeper(t);
    for (;;) {
        uint32_t event = atomic_load(&t->event.value);
        if (is_so(t, job))
            break;
        futex(&t->event.value, FUTEX_WAIT, event);
    }
    atomic_fetch_sub(&t->event.sleepers, 1);
}

static uint64_t make_ticket(uint32_t job, struct team_range shares)
{
    return (uint64_t)job << 2 * COUNT_BITS | (uint64_t)shares.to << COUNT_BITS | shares.from;
}

static bool take_share(struct ticket *from, uint32_t job, bool is_front, uint32_t *share)
{
    uint64_t ticket = atomic_load_explicit(&from->value, memory_order_acquire);
    for (;;) {
        uint32_t end = ticket >> COUNT_BITS & COUNT_MASK, next = ticket & COUNT_MASK;
        if (next >= end || ticket >> 2 * COUNT_BITS != (job & JOB_MASK))
            return false;
        *share = is_front ? next : end - 1;
        uint64_t rest = is_front ? ticket + 1 : ticket - (1 << COUNT_BITS);
        if (atomic_compare_exchange_weak(&from->value, &ticket, rest))
            return true;
    }
}

/* Does its own shares, then others', until none is left. */
static void work(struct team *t, uint32_t thread, uint32_t job)
{
    const struct slot *s = &t->slot[job % N_SLOTS];
    uint32_t n_done = 0, share;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        struct ticket *from = &t->member[(thread + i) % t->n_threads].ticket[job % N_SLOTS];
        for (; take_share(from, job, i == 0, &share); n_done++)
            s->fn(s->arg, share, s->n_shares, thread);
    }
    atomic_store_explicit(&t->member[thread].done, (uint64_t)job << 32 | n_done,
                          memory_order_release);
    tell(t);
}

/* Job number `job`, whose slot holds all but the shares. */
static void post(struct team *t, uint32_t job, uint32_t n_shares)
{
    /* Whoever takes it for that of an older job has seen that one over, too. */
    atomic_store_explicit(&t->slot[job % N_SLOTS].n_shares, n_shares, memory_order_release);
    for (uint32_t i = t->n_threads; i-- > 0;)
        atomic_store_explicit(&t->member[i].ticket[job % N_SLOTS].value,
                              make_ticket(job, team_share(n_shares, i, t->n_threads)),
                              memory_order_relaxed);
    atomic_store_explicit(&t->posted, job, memory_order_release);
    tell(t);
}

/* What a thread reads first of a job comes to its core while it waits for the one before. If the
 * job is long over, these are addresses of another one, which do no harm. */
static void fetch_job(const struct team *t, uint32_t thread, uint32_t job)
{
    const struct slot *s = &t->slot[job % N_SLOTS];
    __builtin_prefetch(&t->member[thread].ticket[job % N_SLOTS], 1);
    for (size_t i = 0; i < sizeof *s; i += 64)
        __builtin_prefetch((const unsigned char *)s + i);
    uintptr_t first = atomic_load_explicit(&s->first, memory_order_relaxed);
    size_t n = atomic_load_explicit(&s->first_bytes, memory_order_relaxed);
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const void *)(first + i)); /* NOLINT(performance-no-int-to-ptr) */
}

/* By the leader. */
static void finish(struct team *t, uint32_t job)
{
    work(t, 0, job);
    if (last_posted(t) != job)
        fetch_job(t, 0, job + 1);
    wait_until(t, is_over, job, SHARE_SPINS);
}

static void help(struct team *t, uint32_t index)
{
    for (uint32_t job = 0;;) {
        wait_until(t, has_more, job, JOB_SPINS);
        if (atomic_load(&t->is_closing))
            return;
        /* The leader posts a job when all but the last one are over. */
        uint32_t last = last_posted(t);
        job = last - job > 1 ? last - 1 : last;
        fetch_job(t, index, job);
        if (job == last)
            wait_until(t, is_over, job - 1, SHARE_SPINS);
        work(t, index, job);
    }
}

static void lead(struct team *t)
{
    for (uint32_t seen = 0;;) {
        /* No spin: between steps this core belongs to whoever prepares the next one. */
        seen = wait_change(&t->body_turn, seen);
        if (atomic_load(&t->is_closing))
            return;
        t->body(t->body_arg);
        team_join(t);
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
    t->has_membarrier =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
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
    post(t, last_posted(t) + 1, 0);
    atomic_fetch_add(&t->body_turn.value, 1);
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
    post(t, last_posted(t) + 1, 0);
    uint32_t running = atomic_fetch_add(&t->body_turn.value, 1) + 1;
    wake(&t->body_turn);
    (void)wait_change(&t->body_turn, running);
}

void team_join(struct team *t)
{
    if (t->is_pending)
        finish(t, last_posted(t));
    t->is_pending = false;
}

static void post_job(struct team *t, const struct team_job *j)
{
    uint32_t job = last_posted(t) + 1;
    struct slot *s = &t->slot[job % N_SLOTS];
    s->fn = j->fn;
    s->arg = (void *)j->arg;
    if (j->n_bytes > 0)
        s->arg = memcpy(s->copy, j->arg, j->n_bytes);
    atomic_store_explicit(&s->first, (uintptr_t)j->first, memory_order_relaxed);
    atomic_store_explicit(&s->first_bytes, j->first_bytes, memory_order_relaxed);
    post(t, job, j->n_shares);
    if (t->is_pending)
        finish(t, job - 1);
    t->is_pending = true;
}

void team_post(struct team *t, const struct team_job *job)
{
    if (t->n_threads == 1 || job->n_shares <= 1)
        team_each(t, job->n_shares, job->fn, (void *)job->arg);
    else
        post_job(t, job);
}

void team_each(struct team *t, uint32_t n_shares, team_fn fn, void *arg)
{
    if (t->n_threads > 1 && n_shares > 1) {
        post_job(t, &(struct team_job){.n_shares = n_shares, .fn = fn, .arg = arg});
        team_join(t);
        return;
    }
    team_join(t);
    for (uint32_t i = 0; i < n_shares; i++)
        fn(arg, i, n_shares, 0);
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
