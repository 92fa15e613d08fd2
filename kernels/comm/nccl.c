/* Collectives between devices by NCCL (its 2.28 user guide), thin: each call is announced to the
 * host group, which finds two ranks in different calls, then put in the stream. Nothing waits but
 * `finish`, which asks NCCL for its error and the host group whether all ranks live; on the first
 * bad answer the communicator is aborted, which ends kernels that wait for a rank that is gone.
 *
 * The library is loaded at the first use: linked, its 200 MB would slow every start. */
#include "kernels/comm/comm.h"
#include "kernels/cuda/dev.h"

#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIMED = 1024, LOOK_EVERY = 256 }; /* calls under way; rounds between two looks */

#define FUNCTIONS(X)                                                                               \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRank)                                                                            \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclGetErrorString)                                                                          \
    X(ncclAllReduce)                                                                               \
    X(ncclAllGather)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclBroadcast)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)                                                                                    \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)

#define POINTER(f) __typeof__(f) *f;
struct library {
    FUNCTIONS(POINTER)
};

struct timed {
    struct dev_event *from, *to;
};

struct nccl {
    struct comm base;
    struct library call;
    struct comm *host;
    const struct dev_ops *dev;
    struct dev_stream *stream;
    ncclComm_t comm; /* NULL: aborted */
    float *scratch;  /* of a barrier */
    uint64_t turn, busy_us;
    struct timed timed[MAX_TIMED]; /* a ring: calls that no finish has seen done */
    uint32_t n_begun, n_seen;      /* of all that were timed */
    bool is_timed;                 /* the call being made */
};

#define STRING_OF(x)  #x
#define SONAME(major) "libnccl.so." STRING_OF(major)

static bool load(struct library *l)
{
    void *library = dlopen(SONAME(NCCL_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    bool ok = library != NULL;
#define RESOLVE(f) ok = ok && (*(void **)&l->f = dlsym(library, #f)) != NULL;
    FUNCTIONS(RESOLVE)
    return ok; /* never unloaded: it has threads of its own */
}

static ncclDataType_t type_of(enum comm_type t)
{
    static const ncclDataType_t TYPES[COMM_TYPE_COUNT] = {ncclUint8, ncclFloat32, ncclBfloat16};
    return TYPES[t];
}

/* Ends the group for all, and the kernels that wait for others. */
static void end(struct nccl *n, const char *why)
{
    n->host->ops->abort(n->host, why);
    if (n->comm)
        (void)n->call.ncclCommAbort(n->comm);
    n->comm = NULL;
}

static int told(struct nccl *n, ncclResult_t rc, const char *call, struct err *e)
{
    char why[160];
    if (rc == ncclSuccess || rc == ncclInProgress)
        return ERR_OK;
    snprintf(why, sizeof why, "nccl: %s: %s", call, n->call.ncclGetErrorString(rc));
    end(n, why);
    return n->host->ops->error(n->host, e);
}

/* Calls past the room are made untimed. */
static void begin_timed(struct nccl *n)
{
    struct timed *t = &n->timed[n->n_begun % MAX_TIMED];
    n->is_timed = n->n_begun - n->n_seen < MAX_TIMED;
    if (!n->is_timed)
        return;
    if (!t->from) {
        t->from = n->dev->event_open();
        t->to = n->dev->event_open();
    }
    n->dev->record(t->from, n->stream);
}

static void end_timed(struct nccl *n)
{
    if (n->is_timed)
        n->dev->record(n->timed[n->n_begun++ % MAX_TIMED].to, n->stream);
    n->is_timed = false;
}

static void count_done(struct nccl *n)
{
    for (; n->n_seen != n->n_begun; n->n_seen++) {
        const struct timed *t = &n->timed[n->n_seen % MAX_TIMED];
        if (!n->dev->is_reached(t->to))
            return;
        n->busy_us += (uint64_t)(1e3f * n->dev->elapsed_ms(t->from, t->to));
    }
}

/* Before a call: is the group whole, do the others mean the same? */
static int begin(struct nccl *n, enum comm_op op, enum comm_type t, size_t count, uint32_t root,
                 struct err *e)
{
    struct comm_call call;
    memset(&call, 0, sizeof call); /* calls are compared as bytes */
    call.op = op;
    call.type = t;
    call.root = root;
    call.n = op == COMM_ALL_TO_ALL_V ? 0 : count;
    call.turn = n->turn++;
    int rc = n->host->ops->announce(n->host, call, e);
    if (rc != ERR_OK)
        end(n, "announced");
    else
        begin_timed(n);
    return rc;
}

static int after(struct nccl *n, ncclResult_t rc, const char *call, struct err *e)
{
    end_timed(n);
    return told(n, rc, call, e);
}

static cudaStream_t stream_of(const struct nccl *n)
{
    return (cudaStream_t)n->stream;
}

static int nccl_all_reduce(struct comm *c, const void *send, void *recv, size_t count,
                           enum comm_type t, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    if (t == COMM_BYTE)
        return err_set(e, ERR_UNSUPPORTED, "ranks: sums are of f32 or bf16");
    int rc = begin(n, COMM_ALL_REDUCE, t, count, 0, e);
    return rc != ERR_OK ? rc
                        : after(n,
                                n->call.ncclAllReduce(send, recv, count, type_of(t), ncclSum,
                                                      n->comm, stream_of(n)),
                                "all-reduce", e);
}

static int nccl_all_gather(struct comm *c, const void *send, size_t count, void *recv,
                           enum comm_type t, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    int rc = begin(n, COMM_ALL_GATHER, t, count, 0, e);
    return rc != ERR_OK
               ? rc
               : after(n,
                       n->call.ncclAllGather(send, recv, count, type_of(t), n->comm, stream_of(n)),
                       "all-gather", e);
}

static int nccl_reduce_scatter(struct comm *c, const void *send, size_t count, void *recv,
                               enum comm_type t, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    if (t == COMM_BYTE)
        return err_set(e, ERR_UNSUPPORTED, "ranks: sums are of f32 or bf16");
    int rc = begin(n, COMM_REDUCE_SCATTER, t, count, 0, e);
    return rc != ERR_OK ? rc
                        : after(n,
                                n->call.ncclReduceScatter(send, recv, count, type_of(t), ncclSum,
                                                          n->comm, stream_of(n)),
                                "reduce-scatter", e);
}

/* NCCL's own all-to-all has equal counts only: a group of sends and receives. What two ranks mean
 * to send each other is compared over the host first, since a receive that is too long never ends.
 */
static int check_counts(struct nccl *n, const size_t *n_send, const size_t *n_recv, struct err *e)
{
    size_t all[COMM_MAX_RANKS * COMM_MAX_RANKS];
    uint32_t size = n->base.size, rank = n->base.rank;
    int rc = n->host->ops->all_gather(n->host, n_send, size * sizeof *n_send, all, COMM_BYTE, e);
    if (rc != ERR_OK)
        end(n, "compared");
    for (uint32_t r = 0; r < size && rc == ERR_OK; r++) {
        size_t sent = all[r * size + rank];
        char why[120];
        if (sent == n_recv[r])
            continue;
        snprintf(why, sizeof why,
                 "all-to-all-v: rank %u sends %zu elements to rank %u, which expects %zu", r, sent,
                 rank, n_recv[r]);
        end(n, why);
        rc = n->host->ops->error(n->host, e);
    }
    return rc;
}

static int nccl_all_to_all_v(struct comm *c, const void *send, const size_t *n_send, void *recv,
                             const size_t *n_recv, enum comm_type t, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    const char *from = send;
    char *to = recv;
    int rc = begin(n, COMM_ALL_TO_ALL_V, t, 0, 0, e); /* first: one in another call never comes */
    if (rc == ERR_OK)
        rc = check_counts(n, n_send, n_recv, e);
    if (rc != ERR_OK)
        return rc;
    ncclResult_t result = n->call.ncclGroupStart();
    for (uint32_t r = 0; r < c->size && result == ncclSuccess; r++) {
        if (n_send[r])
            result = n->call.ncclSend(from, n_send[r], type_of(t), (int)r, n->comm, stream_of(n));
        if (n_recv[r] && result == ncclSuccess)
            result = n->call.ncclRecv(to, n_recv[r], type_of(t), (int)r, n->comm, stream_of(n));
        from += n_send[r] * comm_type_bytes(t);
        to += n_recv[r] * comm_type_bytes(t);
    }
    ncclResult_t last = n->call.ncclGroupEnd();
    return after(n, result == ncclSuccess ? last : result, "all-to-all-v", e);
}

static int nccl_broadcast(struct comm *c, void *data, size_t count, enum comm_type t, uint32_t root,
                          struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    if (root >= c->size)
        return err_set(e, ERR_INVALID, "ranks: broadcast from rank %u of %u", root, c->size);
    int rc = begin(n, COMM_BROADCAST, t, count, root, e);
    return rc != ERR_OK ? rc
                        : after(n,
                                n->call.ncclBroadcast(data, data, count, type_of(t), (int)root,
                                                      n->comm, stream_of(n)),
                                "broadcast", e);
}

static int nccl_barrier(struct comm *c, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    int rc = begin(n, COMM_BARRIER, COMM_F32, 1, 0, e);
    return rc != ERR_OK ? rc
                        : after(n,
                                n->call.ncclAllReduce(n->scratch, n->scratch, 1, ncclFloat32,
                                                      ncclSum, n->comm, stream_of(n)),
                                "barrier", e);
}

static void nccl_abort(struct comm *c, const char *why)
{
    struct comm *host =
        ((struct nccl *)c)->host; /* any thread: the worker's finish ends the rest */
    host->ops->abort(host, why);
}

static int nccl_error(struct comm *c, struct err *e)
{
    struct comm *host = ((struct nccl *)c)->host;
    return host->ops->error(host, e);
}

static int look(struct nccl *n, struct err *e)
{
    ncclResult_t state = ncclSuccess;
    int rc = n->host->ops->watch(n->host, e);
    if (rc != ERR_OK)
        end(n, "a rank ended");
    else if (n->call.ncclCommGetAsyncError(n->comm, &state) == ncclSuccess)
        rc = told(n, state, "in the stream", e);
    return rc;
}

static bool is_reached(const struct nccl *n, struct dev_event *end)
{
    return end ? n->dev->is_reached(end) : n->dev->is_done(n->stream);
}

static int nccl_finish(struct comm *c, struct dev_event *end_of_step, struct err *e)
{
    struct nccl *n = (struct nccl *)c;
    int rc = nccl_error(c, e);
    for (uint32_t i = 0; rc == ERR_OK && n->comm && !is_reached(n, end_of_step); i++) {
        if (i % LOOK_EVERY == LOOK_EVERY - 1) {
            rc = look(n, e);
            sched_yield();
        }
    }
    if (rc != ERR_OK) {
        end(n, "ended");
        (void)!n->dev->sync(n->stream, NULL);
        return rc;
    }
    rc = end_of_step ? n->dev->await(end_of_step, e) : n->dev->sync(n->stream, e);
    if (rc == ERR_OK)
        count_done(n);
    return rc;
}

static uint64_t nccl_busy_us(const struct comm *c)
{
    return ((const struct nccl *)c)->busy_us;
}

/* Abort, not destroy: destroy would wait for ranks that may be gone. */
static void nccl_leave(struct comm *c)
{
    struct nccl *n = (struct nccl *)c;
    if (!n)
        return;
    if (n->comm)
        (void)n->call.ncclCommAbort(n->comm);
    for (uint32_t i = 0; i < MAX_TIMED && n->timed[i].from; i++) {
        n->dev->event_close(n->timed[i].from);
        n->dev->event_close(n->timed[i].to);
    }
    n->dev->release(n->scratch);
    free(n);
}

static const struct comm_ops NCCL = {
    .name = "nccl",
    .summary = "NVIDIA devices, by NCCL",
    .is_of_device = true,
    .leave = nccl_leave,
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_to_all_v = nccl_all_to_all_v,
    .broadcast = nccl_broadcast,
    .barrier = nccl_barrier,
    .abort = nccl_abort,
    .error = nccl_error,
    .finish = nccl_finish,
    .busy_us = nccl_busy_us,
};

enum { WHY_BYTES = 120 };

/* What went wrong anywhere, "" for nothing: a rank that went on alone would wait in NCCL for ever.
 */
static int agree(struct comm *host, const char *mine, char why[WHY_BYTES], struct err *e)
{
    char all[COMM_MAX_RANKS][WHY_BYTES] = {{0}};
    snprintf(why, WHY_BYTES, "%s", mine ? mine : "");
    int rc = host->ops->all_gather(host, why, WHY_BYTES, all, COMM_BYTE, e);
    for (uint32_t r = 0; r < host->size && rc == ERR_OK && !why[0]; r++)
        memcpy(why, all[r], WHY_BYTES);
    return rc;
}

static const char *prepare(struct nccl *n, ncclUniqueId *id)
{
    if (!load(&n->call))
        return "the library could not be loaded";
    if (!n->dev->is_here())
        return "no device";
    n->scratch = n->dev->alloc(sizeof *n->scratch);
    if (!n->scratch)
        return "no device memory";
    n->dev->fill(n->scratch, 0, sizeof *n->scratch, n->stream);
    if (n->base.rank > 0)
        return NULL;
    ncclResult_t rc = n->call.ncclGetUniqueId(id);
    return rc == ncclSuccess ? NULL : n->call.ncclGetErrorString(rc);
}

static int connect_ranks(struct nccl *n, struct err *e)
{
    struct comm *host = n->host;
    ncclUniqueId id;
    char why[WHY_BYTES];
    int rc;
    memset(&id, 0, sizeof id);
    TRY(agree(host, prepare(n, &id), why, e));
    if (why[0])
        return err_set(e, ERR_UNSUPPORTED, "nccl: %s", why);
    TRY(host->ops->broadcast(host, &id, sizeof id, COMM_BYTE, 0, e));
    ncclResult_t made = n->call.ncclCommInitRank(&n->comm, (int)host->size, id, (int)host->rank);
    if (made != ncclSuccess)
        n->comm = NULL;
    TRY(agree(host, made == ncclSuccess ? NULL : n->call.ncclGetErrorString(made), why, e));
    if (why[0])
        rc = err_set(e, ERR_UNSUPPORTED, "nccl: %s", why);
out:
    return rc;
}

int comm_open_nccl(struct comm **out, struct comm *host, const struct dev_ops *dev,
                   struct dev_stream *stream, struct err *e)
{
    struct nccl *n = calloc(1, sizeof *n);
    *out = NULL;
    if (!n)
        return err_set(e, ERR_NOMEM, "ranks");
    n->base = (struct comm){&NCCL, host->rank, host->size};
    n->host = host;
    n->dev = dev;
    n->stream = stream;
    int rc = connect_ranks(n, e);
    if (rc != ERR_OK) {
        nccl_leave(&n->base);
        return rc;
    }
    *out = &n->base;
    return ERR_OK;
}
