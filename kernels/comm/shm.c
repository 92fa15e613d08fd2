/* COMM_SHM: collectives between processes of one machine, through shared memory (area.h). Each is
 * one loop of exchanges with a function that takes what it needs from a peer's piece. */
#include "kernels/comm/area.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { JOIN_MS = 10000, LOOK_FIRST_MS = 50, LOOK_MOST_MS = 2000 };
static const char *const OP_NAMES[] = {"all-reduce",   "all-gather", "reduce-scatter",
                                       "all-to-all-v", "broadcast",  "barrier"};
static const char *const TYPE_NAMES[] = {"bytes", "f32", "bf16"};

struct shm {
    struct comm base;
    struct comm_area *area;
    uint32_t turn;     /* exchanges done */
    uint32_t start_ms; /* how long the others may take to come; 0: they are here */
    uint64_t n_calls;
    int pidfd[COMM_MAX_RANKS];
};

struct call {
    struct comm_header header;
    const unsigned char *send;
    unsigned char *recv;
    size_t n_recv;      /* bytes of one rank's part of recv */
    const size_t *want; /* all_to_all_v: bytes of each rank */
    /* What this rank needs of the exchange that carries bytes `at` on of the send buffers; false
     * when it broke the group. */
    bool (*take)(struct shm *s, const struct call *c, size_t at);
};

/* A rank's part of the exchange under way: bytes [at, at + n) of its send buffer. */
struct piece {
    const struct comm_header *header;
    const unsigned char *data;
    size_t n;
};

size_t comm_type_bytes(enum comm_type t)
{
    static const size_t BYTES[] = {1, 4, 2};
    return BYTES[t];
}

/* Whoever breaks the group writes why in a moment, a tenth of a second at most where others have
 * its core, unless it is killed just there. */
static const char *why_broken(struct comm_area *a)
{
    for (int i = 0; i < 1000 && atomic_load(&a->broken) != 2; i++)
        usleep(100);
    return atomic_load(&a->broken) == 2 ? a->why : "another rank failed";
}

static int group_error(struct comm *c, struct err *e)
{
    struct comm_area *a = ((struct shm *)c)->area;
    if (atomic_load(&a->broken) == 0)
        return ERR_OK;
    return err_set(e, ERR_DEVICE, "%s", why_broken(a));
}

static void group_abort(struct comm *c, const char *why)
{
    char text[COMM_WHY_BYTES];
    snprintf(text, sizeof text, "rank %u: %s", c->rank, why);
    comm_area_break(((struct shm *)c)->area, text);
}

static void watch_rank(struct shm *s, uint32_t rank)
{
    pid_t pid = atomic_load(&s->area->seat[rank].pid);
    if (pid && s->pidfd[rank] < 0 && rank != s->base.rank)
        s->pidfd[rank] = (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool has_ended(struct shm *s, uint32_t rank)
{
    watch_rank(s, rank);
    struct pollfd p = {.fd = s->pidfd[rank], .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) == 1;
}

/* Ranks may end after the call that is waited for here: so `awaited` is looked at once more. */
static void look_for_death(struct shm *s, uint32_t awaited, uint32_t want)
{
    char why[COMM_WHY_BYTES];
    for (uint32_t r = 0; r < s->base.size; r++) {
        if (!has_ended(s, r) || comm_area_wait(s->area, awaited, want, 0))
            continue;
        snprintf(why, sizeof why, "rank %u of %u (process %d) has ended: its log says why", r,
                 s->base.size, (int)atomic_load(&s->area->seat[r].pid));
        comm_area_break(s->area, why);
    }
}

static void look_for_absence(struct shm *s, uint32_t rank, uint32_t waited_ms)
{
    char why[COMM_WHY_BYTES];
    if (s->start_ms == 0 || waited_ms < s->start_ms)
        return;
    snprintf(why, sizeof why, "rank %u of %u did not start within %u s: its log says why", rank,
             s->base.size, s->start_ms / 1000);
    comm_area_break(s->area, why);
}

/* False when the group ended before `rank` came. */
static bool wait_for(struct shm *s, uint32_t rank, uint32_t want)
{
    uint32_t look_ms = LOOK_FIRST_MS, waited_ms = 0;
    while (!comm_area_wait(s->area, rank, want, look_ms)) {
        if (atomic_load(&s->area->broken))
            return false;
        look_for_death(s, rank, want);
        waited_ms += look_ms;
        look_for_absence(s, rank, waited_ms);
        look_ms = look_ms < LOOK_MOST_MS ? look_ms * 2 : look_ms;
    }
    return true;
}

static bool is_same_call(struct shm *s, const struct comm_call *mine, uint32_t peer,
                         const struct comm_call *its)
{
    char why[COMM_WHY_BYTES];
    if (memcmp(mine, its, sizeof *mine) == 0)
        return true;
    snprintf(why, sizeof why,
             "call %llu differs: rank %u in %s of %llu %s, rank %u in %s of %llu %s",
             (unsigned long long)mine->turn, s->base.rank, OP_NAMES[mine->op],
             (unsigned long long)mine->n, TYPE_NAMES[mine->type], peer,
             OP_NAMES[its->op % (sizeof OP_NAMES / sizeof *OP_NAMES)], (unsigned long long)its->n,
             TYPE_NAMES[its->type % COMM_TYPE_COUNT]);
    comm_area_break(s->area, why);
    return false;
}

static size_t piece_bytes(uint64_t all, size_t at)
{
    size_t left = at < all ? all - at : 0;
    return left < COMM_WINDOW_BYTES ? left : COMM_WINDOW_BYTES;
}

static void put_up(struct shm *s, const struct call *c, size_t at)
{
    struct comm_seat *seat = &s->area->seat[s->base.rank];
    uint32_t half = s->turn % 2;
    size_t n = piece_bytes(c->header.bytes, at);
    seat->header[half] = c->header;
    if (n)
        memcpy(s->area->window[s->base.rank][half], c->send + at, n);
    atomic_store(&seat->arrived, s->turn + 1);
    comm_area_ring(s->area);
}

static struct piece piece_of(const struct shm *s, uint32_t rank, size_t at)
{
    uint32_t half = s->turn % 2;
    const struct comm_header *h = &s->area->seat[rank].header[half];
    return (struct piece){h, s->area->window[rank][half], piece_bytes(h->bytes, at)};
}

/* Waits for what everybody put up and takes of it. False: the group is over. */
static bool take_all(struct shm *s, const struct call *c, size_t at, uint64_t *longest)
{
    for (uint32_t r = 0; r < s->base.size; r++) {
        if (!wait_for(s, r, s->turn + 1))
            return false;
        const struct comm_header *h = piece_of(s, r, at).header;
        if (!is_same_call(s, &c->header.call, r, &h->call))
            return false;
        *longest = h->bytes > *longest ? h->bytes : *longest;
    }
    return !c->take || c->take(s, c, at);
}

/* A call that all ranks came to is done, even if the group ends meanwhile. */
static int run_call(struct shm *s, struct call *c, struct err *e)
{
    uint64_t longest = 0;
    c->header.call.turn = s->n_calls++;
    for (size_t at = 0; at == 0 || at < longest; at += COMM_WINDOW_BYTES) {
        if (atomic_load(&s->area->broken))
            return group_error(&s->base, e);
        put_up(s, c, at);
        if (!take_all(s, c, at, &longest))
            return group_error(&s->base, e);
        s->turn++;
    }
    return ERR_OK;
}

static struct call call_of(uint32_t op, enum comm_type t, size_t n, uint32_t root)
{
    struct call c;
    memset(&c, 0, sizeof c); /* calls are compared as bytes */
    c.header.call.op = op;
    c.header.call.type = t;
    c.header.call.root = root;
    c.header.call.n = n;
    return c;
}

static float bf16_get(const unsigned char *p)
{
    uint16_t half;
    float f;
    memcpy(&half, p, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To nearest, ties to even; a NaN stays one. */
static void bf16_put(unsigned char *p, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    uint16_t half = (uint16_t)(is_nan ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(p, &half, sizeof half);
}

/* Elements [from, from + n) of the windows, summed in the order of ranks. */
static void sum_f32(const struct shm *s, size_t at, size_t from, size_t n, unsigned char *out)
{
    float *sum = (float *)(void *)out;
    for (uint32_t r = 0; r < s->base.size; r++) {
        const float *x = (const float *)(const void *)piece_of(s, r, at).data + from;
        for (size_t i = 0; i < n; i++)
            sum[i] = r == 0 ? x[i] : sum[i] + x[i];
    }
}

static void sum_bf16(const struct shm *s, size_t at, size_t from, size_t n, unsigned char *out)
{
    const unsigned char *x[COMM_MAX_RANKS];
    for (uint32_t r = 0; r < s->base.size; r++)
        x[r] = piece_of(s, r, at).data + 2 * from;
    for (size_t i = 0; i < n; i++) {
        float sum = bf16_get(x[0] + 2 * i);
        for (uint32_t r = 1; r < s->base.size; r++)
            sum += bf16_get(x[r] + 2 * i);
        bf16_put(out + 2 * i, sum);
    }
}

/* Bytes [lo, hi) of the send buffers that are in this exchange, to the same place of recv. */
static void sum_range(struct shm *s, const struct call *c, size_t at, size_t lo, size_t hi)
{
    size_t from = lo > at ? lo : at, to = at + piece_of(s, 0, at).n, unit;
    to = hi < to ? hi : to;
    if (from >= to)
        return;
    unit = comm_type_bytes((enum comm_type)c->header.call.type);
    unsigned char *out = c->recv + (from - lo);
    if (unit == 4)
        sum_f32(s, at, (from - at) / unit, (to - from) / unit, out);
    else
        sum_bf16(s, at, (from - at) / unit, (to - from) / unit, out);
}

static bool take_sum(struct shm *s, const struct call *c, size_t at)
{
    sum_range(s, c, at, 0, c->n_recv);
    return true;
}

static bool take_own_sum(struct shm *s, const struct call *c, size_t at)
{
    sum_range(s, c, at, s->base.rank * c->n_recv, (s->base.rank + 1) * c->n_recv);
    return true;
}

static bool take_each(struct shm *s, const struct call *c, size_t at)
{
    for (uint32_t r = 0; r < s->base.size; r++) {
        struct piece p = piece_of(s, r, at);
        memcpy(c->recv + r * c->n_recv + at, p.data, p.n);
    }
    return true;
}

static bool take_root(struct shm *s, const struct call *c, size_t at)
{
    struct piece p = piece_of(s, c->header.call.root, at);
    if (s->base.rank != c->header.call.root)
        memcpy(c->recv + at, p.data, p.n);
    return true;
}

static void break_on_part(struct shm *s, uint32_t from, uint64_t got, size_t want)
{
    char why[COMM_WHY_BYTES];
    snprintf(why, sizeof why,
             "all-to-all-v: rank %u sends %llu bytes to rank %u, which expects %zu", from,
             (unsigned long long)got, s->base.rank, want);
    comm_area_break(s->area, why);
}

static bool take_parts(struct shm *s, const struct call *c, size_t at)
{
    unsigned char *out = c->recv;
    for (uint32_t r = 0; r < s->base.size; out += c->want[r++]) {
        struct piece p = piece_of(s, r, at);
        uint64_t lo = 0;
        for (uint32_t i = 0; i < s->base.rank; i++)
            lo += p.header->part[i];
        uint64_t hi = lo + c->want[r], from = lo > at ? lo : at, to = at + p.n;
        if (p.header->part[s->base.rank] != c->want[r]) {
            break_on_part(s, r, p.header->part[s->base.rank], c->want[r]);
            return false;
        }
        to = hi < to ? hi : to;
        if (from < to)
            memcpy(out + (from - lo), p.data + (from - at), to - from);
    }
    return true;
}

static int check_sum_type(enum comm_type t, struct err *e)
{
    return t == COMM_F32 || t == COMM_BF16
               ? ERR_OK
               : err_set(e, ERR_UNSUPPORTED, "ranks: sums are of f32 or bf16");
}

static int shm_all_reduce(struct comm *c, const void *send, void *recv, size_t n, enum comm_type t,
                          struct err *e)
{
    struct call call = call_of(COMM_ALL_REDUCE, t, n, 0);
    int rc = check_sum_type(t, e);
    if (rc != ERR_OK)
        return rc;
    call.send = send;
    call.recv = recv;
    call.header.bytes = call.n_recv = n * comm_type_bytes(t);
    call.take = take_sum;
    return run_call((struct shm *)c, &call, e);
}

static int shm_reduce_scatter(struct comm *c, const void *send, size_t n, void *recv,
                              enum comm_type t, struct err *e)
{
    struct call call = call_of(COMM_REDUCE_SCATTER, t, n, 0);
    int rc = check_sum_type(t, e);
    if (rc != ERR_OK)
        return rc;
    call.send = send;
    call.recv = recv;
    call.n_recv = n * comm_type_bytes(t);
    call.header.bytes = call.n_recv * c->size;
    call.take = take_own_sum;
    return run_call((struct shm *)c, &call, e);
}

static int shm_all_gather(struct comm *c, const void *send, size_t n, void *recv, enum comm_type t,
                          struct err *e)
{
    struct call call = call_of(COMM_ALL_GATHER, t, n, 0);
    call.send = send;
    call.recv = recv;
    call.header.bytes = call.n_recv = n * comm_type_bytes(t);
    call.take = take_each;
    return run_call((struct shm *)c, &call, e);
}

static int shm_all_to_all_v(struct comm *c, const void *send, const size_t *n_send, void *recv,
                            const size_t *n_recv, enum comm_type t, struct err *e)
{
    struct call call = call_of(COMM_ALL_TO_ALL_V, t, 0, 0);
    size_t want[COMM_MAX_RANKS];
    for (uint32_t r = 0; r < c->size; r++) {
        want[r] = n_recv[r] * comm_type_bytes(t);
        call.header.part[r] = n_send[r] * comm_type_bytes(t);
        call.header.bytes += call.header.part[r];
    }
    call.send = send;
    call.recv = recv;
    call.want = want;
    call.take = take_parts;
    return run_call((struct shm *)c, &call, e);
}

static int shm_broadcast(struct comm *c, void *data, size_t n, enum comm_type t, uint32_t root,
                         struct err *e)
{
    struct call call = call_of(COMM_BROADCAST, t, n, root);
    if (root >= c->size)
        return err_set(e, ERR_INVALID, "ranks: broadcast from rank %u of %u", root, c->size);
    call.send = call.recv = data;
    call.header.bytes = c->rank == root ? n * comm_type_bytes(t) : 0;
    call.take = take_root;
    return run_call((struct shm *)c, &call, e);
}

static int shm_barrier(struct comm *c, struct err *e)
{
    struct call call = call_of(COMM_BARRIER, COMM_BYTE, 0, 0);
    return run_call((struct shm *)c, &call, e);
}

static int shm_announce(struct comm *c, struct comm_call call, struct err *e)
{
    struct shm *s = (struct shm *)c;
    struct comm_call its;
    comm_area_announce(s->area, c->rank, &call);
    for (uint32_t r = 0; r < c->size; r++)
        if (r != c->rank && comm_area_announced(s->area, r, call.turn, &its) &&
            !is_same_call(s, &call, r, &its))
            break;
    return group_error(c, e);
}

static int shm_watch(struct comm *c, struct err *e)
{
    struct shm *s = (struct shm *)c;
    look_for_death(s, c->rank, s->turn + 1); /* nobody arrives there: a death is one */
    return group_error(c, e);
}

static bool shm_is_called(struct comm *c, uint32_t rank, uint32_t wait_ms)
{
    struct shm *s = (struct shm *)c;
    return comm_area_wait(s->area, rank, s->turn + 1, wait_ms) || atomic_load(&s->area->broken);
}

static void shm_leave(struct comm *c)
{
    struct shm *s = (struct shm *)c;
    if (!s)
        return;
    for (uint32_t r = 0; r < COMM_MAX_RANKS; r++)
        if (s->pidfd[r] >= 0)
            close(s->pidfd[r]);
    if (s->area)
        munmap(s->area, comm_area_bytes(s->base.size));
    free(s);
}

static int shm_make_id(uint32_t size, char id[COMM_ID_BYTES], struct err *e)
{
    if (size == 0 || size > COMM_MAX_RANKS)
        return err_set(e, ERR_INVALID, "ranks: %u: 1 to %d", size, COMM_MAX_RANKS);
    return comm_area_make(size, id, e);
}

static int shm_join(struct comm **out, const char *id, uint32_t rank, uint32_t size, struct err *e)
{
    int rc;
    *out = NULL;
    if (rank >= size || size > COMM_MAX_RANKS)
        return err_set(e, ERR_INVALID, "ranks: rank %u of %u", rank, size);
    struct shm *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "ranks");
    s->base = (struct comm){&COMM_SHM, rank, size};
    for (uint32_t r = 0; r < COMM_MAX_RANKS; r++)
        s->pidfd[r] = -1;
    TRY(comm_area_map(id, size, &s->area, e));
    atomic_store(&s->area->seat[rank].pid, getpid());
    s->start_ms = JOIN_MS;
    TRY(shm_barrier(&s->base, e));
    s->start_ms = 0;
    for (uint32_t r = 0; r < size; r++)
        watch_rank(s, r);
    *out = &s->base;
    return ERR_OK;
out:
    shm_leave(&s->base);
    return rc;
}

const struct comm_ops COMM_SHM = {
    .name = "shm",
    .summary = "processes of one machine, through shared memory",
    .make_id = shm_make_id,
    .join = shm_join,
    .leave = shm_leave,
    .all_reduce = shm_all_reduce,
    .all_gather = shm_all_gather,
    .reduce_scatter = shm_reduce_scatter,
    .all_to_all_v = shm_all_to_all_v,
    .broadcast = shm_broadcast,
    .barrier = shm_barrier,
    .abort = group_abort,
    .error = group_error,
    .is_called = shm_is_called,
    .announce = shm_announce,
    .watch = shm_watch,
};
