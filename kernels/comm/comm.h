/* kernels/comm/comm.h - collectives between the ranks of one model, one process a rank.
 *
 * Every rank makes the same calls in the same order; each call also compares what it is (operation,
 * type, count) over the ranks, so that the classic hang, two ranks in different calls, is an error
 * at once. Sums run in the order of the ranks, so all ranks get the same bits. A call blocks until
 * the others made it too: spins for microseconds, then sleeps. After an error (a rank that died or
 * aborted, a mismatch) the group is over: every later call gives it again, ERR_DEVICE.
 *
 * A group has buffers in host memory (COMM_SHM), or in the devices' memory. Such a group is opened
 * over one of host memory, which starts it, watches over it and ends with it; its calls are put in
 * a stream and return, `finish` waits for them, and an error may show as late as there.
 *
 * One thread at a time. Buffers are the caller's; sizes count elements. */
#ifndef KERNELS_COMM_COMM_H
#define KERNELS_COMM_COMM_H

#include "common/err.h"

#include <stdint.h>

enum { COMM_ID_BYTES = 320, COMM_MAX_RANKS = 16 };

enum comm_type { COMM_BYTE, COMM_F32, COMM_BF16, COMM_TYPE_COUNT };
size_t comm_type_bytes(enum comm_type t);

enum comm_op {
    COMM_ALL_REDUCE,
    COMM_ALL_GATHER,
    COMM_REDUCE_SCATTER,
    COMM_ALL_TO_ALL_V,
    COMM_BROADCAST,
    COMM_BARRIER
};

/* What every rank must agree on in its call number `turn`. */
struct comm_call {
    uint32_t op, type, root, reserved;
    uint64_t n; /* elements; 0 where ranks may differ */
    uint64_t turn;
};

struct comm_ops;
struct dev_event;
struct dev_ops;
struct dev_stream;

/* Begins every implementation's own struct. */
struct comm {
    const struct comm_ops *ops;
    uint32_t rank, size;
};

struct comm_ops {
    const char *name, *summary;
    bool is_of_device; /* where buffers are */
    bool is_at_once;   /* of device memory: calls are done when they return, not in the stream */
    /* Rank 0 calls it once before it starts the others, which join with the same text. */
    MUST_USE int (*make_id)(uint32_t size, char id[COMM_ID_BYTES], struct err *e);
    /* Blocks until all have joined, ten seconds at most. Both are NULL for groups over another. */
    MUST_USE int (*join)(struct comm **out, const char *id, uint32_t rank, uint32_t size,
                         struct err *e);
    void (*leave)(struct comm *c); /* NULL: nothing */

    /* recv[i] = sum over the ranks of send[i]; both may be one. F32 or BF16 (summed in float,
     * rounded once; by NCCL in its own order and rounding, the same on all ranks). */
    MUST_USE int (*all_reduce)(struct comm *c, const void *send, void *recv, size_t n,
                               enum comm_type t, struct err *e);
    /* recv: [size][n]. */
    MUST_USE int (*all_gather)(struct comm *c, const void *send, size_t n, void *recv,
                               enum comm_type t, struct err *e);
    /* send: [size][n]; recv: [n], this rank's part of the sum. */
    MUST_USE int (*reduce_scatter)(struct comm *c, const void *send, size_t n, void *recv,
                                   enum comm_type t, struct err *e);
    /* n_send[r] elements to rank r, one part after the other; n_recv[r] of rank r, likewise.
     * ERR_DEVICE when what a rank sends is not what the other expects. */
    MUST_USE int (*all_to_all_v)(struct comm *c, const void *send, const size_t *n_send, void *recv,
                                 const size_t *n_recv, enum comm_type t, struct err *e);
    MUST_USE int (*broadcast)(struct comm *c, void *data, size_t n, enum comm_type t, uint32_t root,
                              struct err *e);
    MUST_USE int (*barrier)(struct comm *c, struct err *e);

    /* Any thread. Ends the group: the others' calls give `why`, with this rank's number. */
    void (*abort)(struct comm *c, const char *why);
    /* The group's error, ERR_OK while it is whole. Any thread, does not block. */
    int (*error)(struct comm *c, struct err *e);

    /* Of device memory: blocks until the stream has reached `end`, an event of the caller's, or
     * with NULL has done all calls; or until the group is over. */
    MUST_USE int (*finish)(struct comm *c, struct dev_event *end, struct err *e);
    /* Of device memory: time of the calls that `finish` has seen, since the group was opened. */
    uint64_t (*busy_us)(const struct comm *c);

    /* Of host memory: whether `rank` has come to the call that this rank has yet to make, or the
     * group is over; looks for as long as wait_ms, or less. */
    bool (*is_called)(struct comm *c, uint32_t rank, uint32_t wait_ms);

    /* Of host memory, for a group over it. announce: the next call of that group; an error as soon
     * as two ranks' differ; does not wait. watch: an error when a rank has ended or the group is
     * over. */
    MUST_USE int (*announce)(struct comm *c, struct comm_call call, struct err *e);
    MUST_USE int (*watch)(struct comm *c, struct err *e);
};

extern const struct comm_ops COMM_SHM;

/* Through host memory, for any device (staged.c). Every rank calls it; does not block. Keeps host,
 * dev and stream, which stay the caller's. */
MUST_USE int comm_open_staged(struct comm **out, struct comm *host, const struct dev_ops *dev,
                              struct dev_stream *stream, struct err *e);
/* NCCL between the devices (nccl.c, in builds with it). Every rank calls it; blocks until all have.
 * ERR_UNSUPPORTED, on all ranks: the library or a device is not there, or NCCL refuses one. */
MUST_USE int comm_open_nccl(struct comm **out, struct comm *host, const struct dev_ops *dev,
                            struct dev_stream *stream, struct err *e);

#endif
