/* engine/control/publisher.h - which outbox rows go out now. Wire thread only. */
#ifndef ENGINE_CONTROL_PUBLISHER_H
#define ENGINE_CONTROL_PUBLISHER_H

#include "common/bus.h"
#include "common/clock.h"
#include "engine/record/outbox.h"

enum { PUBLISHER_HELD = 256 };

struct publisher {
    struct outbox *outbox;
    struct outbox_reader *reader;
    struct bus_socket *socket;
    uint64_t last_sent;          /* highest seq sent since the last rewind */
    uint64_t seen_committed;     /* the mark when progress was last seen */
    struct mono progress;        /* when */
    uint64_t resend_us, wait_us; /* wait doubles from resend up to 32 times it */
    uint32_t window;
    struct {
        uint64_t first, last;
    } held[PUBLISHER_HELD]; /* [n_held] committed above the mark, ascending: not sent again ... */
    uint32_t n_held;
    bool is_held_fresh; /* ... unless nothing was heard of it between two rewinds */
    struct buf row;
    struct metric *sent, *resends; /* may be NULL */
};

MUST_USE int publisher_init(struct publisher *p, struct outbox *o, struct bus_socket *s,
                            uint32_t resend_ms, uint32_t window, struct mono now, struct err *e);
void publisher_fini(struct publisher *p);
/* What the controller holds above the mark (schemas/control.h): takes the place of what it said
 * before. */
void publisher_hear_held(struct publisher *p, struct str held);
/* Sends until the window is full, the peer is busy or nothing is left. Returns how many. */
uint32_t publisher_pump(struct publisher *p, struct mono now);
/* When to pump again although no row and no commit mark came; UINT64_MAX: never. */
uint64_t publisher_next_us(const struct publisher *p, struct mono now);

#endif
