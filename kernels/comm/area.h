/* kernels/comm/area.h - the memory that the ranks of a `shm` group share.
 *
 * A call is a row of exchanges. In exchange k every rank puts a piece of what it sends and a header
 * into its window k % 2, says so in `arrived`, waits for the others, and reads their windows. A
 * rank that arrives at k + 1 has read all of k, so a window is free again two exchanges later and
 * one wait an exchange is enough. */
#ifndef KERNELS_COMM_AREA_H
#define KERNELS_COMM_AREA_H

#include "kernels/comm/comm.h"

#include <stdatomic.h>

enum { COMM_WINDOW_BYTES = 1 << 18, COMM_WHY_BYTES = 200, COMM_ANNOUNCED = 64 };

struct comm_header {
    struct comm_call call;
    uint64_t bytes;                /* of this rank's send buffer, whole */
    uint64_t part[COMM_MAX_RANKS]; /* all_to_all_v: bytes for each rank */
};

/* A call of a group over this one. */
struct comm_announced {
    _Atomic uint64_t turn_plus_1; /* 0: being written */
    struct comm_call call;
};

struct comm_seat {
    _Alignas(64) _Atomic uint32_t arrived; /* exchanges this rank has put up */
    _Atomic int32_t pid;                   /* 0: has not joined */
    struct comm_header header[2];
    struct comm_announced announced[COMM_ANNOUNCED];
};

struct comm_area {
    uint32_t size;
    _Alignas(64) _Atomic uint32_t bell; /* changes at every arrival that somebody sleeps for */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t broken; /* 0 whole, 1 being said, 2 why and code are there */
    char why[COMM_WHY_BYTES];
    struct comm_seat seat[COMM_MAX_RANKS];
    _Alignas(64) unsigned char window[][2][COMM_WINDOW_BYTES]; /* [size] */
};

size_t comm_area_bytes(uint32_t size);
/* Name of the memory for the id; the file descriptor stays open in this process and is inherited.
 */
MUST_USE int comm_area_make(uint32_t size, char id[COMM_ID_BYTES], struct err *e);
/* Maps what the id names. */
MUST_USE int comm_area_map(const char *id, uint32_t size, struct comm_area **out, struct err *e);

/* Puts up this rank's call of another group. */
void comm_area_announce(struct comm_area *a, uint32_t rank, const struct comm_call *call);
/* The same call of another rank, if it has come so far and no further than COMM_ANNOUNCED on. */
bool comm_area_announced(struct comm_area *a, uint32_t rank, uint64_t turn, struct comm_call *out);

/* First word wins. */
void comm_area_break(struct comm_area *a, const char *why);
void comm_area_ring(struct comm_area *a);
/* Until seat's `arrived` is at least `want` (true), the group breaks or timeout_ms is over. */
bool comm_area_wait(struct comm_area *a, uint32_t seat, uint32_t want, uint32_t timeout_ms);

#endif
