/* common/bus.h - message frames between processes; ZeroMQ, and an in-memory twin for simulation.
 *
 * PUSH/PULL for outputs and scores, DEALER/ROUTER for control. One frame = one JSON text. Delivery
 * is at most once here: sequence numbers, the outbox and commit marks make it exactly once in
 * effect (DESIGN.md section 4). A socket belongs to one thread. Sending never blocks unless asked;
 * the high-water mark is small on purpose: the outbox is the buffer. */
#ifndef COMMON_BUS_H
#define COMMON_BUS_H

#include "common/buf.h"
#include "common/clock.h"

#include <stdint.h>

enum bus_kind { BUS_PUSH, BUS_PULL, BUS_DEALER, BUS_ROUTER };

struct bus; /* a context: one per process (or per simulation) */
struct bus_socket;

struct bus_security { /* CURVE, Z85 text keys; all empty = none, then only loopback and ipc work */
    struct str server_public, server_secret, public_key, secret_key;
};

struct bus_options {
    enum bus_kind kind;
    const char
        *address; /* "tcp://127.0.0.1:5551", "ipc:///run/milepost/x"; several, comma separated */
    bool bind;
    const char *identity;     /* DEALER: engine id */
    int high_water;           /* messages per peer; 0 = 1000 */
    size_t max_message_bytes; /* 0 = 16 MiB */
    struct bus_security security;
};

MUST_USE int bus_open(struct bus **out, struct err *e);        /* ZeroMQ */
MUST_USE int bus_open_memory(struct bus **out, struct err *e); /* addresses are names */
struct bus_faults { /* chances per message, of a memory bus */
    uint64_t seed;
    double loss, duplicate, reorder;
    /* Virtual time: a message may be taken once its delay (exponential, each its own) has passed on
     * this clock, and no call waits. NULL: at once. The clock lives as long as the bus. */
    const struct clock *clock;
    double delay_us;
    /* Told of every message that was taken from a sender, before any fault, on its thread; may be
     * NULL. It sends nothing itself. */
    void (*on_send)(void *ctx, struct str address, struct str message);
    void *ctx;
};
/* From now on. A bus of another kind is left alone. */
void bus_memory_set_faults(struct bus *b, const struct bus_faults *f);
/* After all its sockets are closed. */
void bus_close(struct bus *b);

/* ERR_INVALID: address not loopback without CURVE. ERR_IO: busy address, with what to do. */
MUST_USE int bus_socket_open(struct bus_socket **out, struct bus *b, const struct bus_options *o,
                             struct err *e);
void bus_socket_close(struct bus_socket *s); /* unsent messages are dropped at once */

/* ERR_BUSY when the peer is absent or its queue is full (nothing was sent: retry later).
 * ROUTER: `peer` is the identity to send to (ERR_NOT_FOUND when not connected); else empty. */
MUST_USE int bus_send(struct bus_socket *s, struct str peer, struct str message, struct err *e);
struct bus_message {        /* as it came, not copied; any thread may read and free it */
    struct str bytes, peer; /* peer: the sender's identity for ROUTER, else empty */
    void *owner;
    void (*release)(void *owner);
};
/* Waits up to timeout_ms (-1 = for ever, 0 = poll). ERR_TIMEOUT when nothing came. The caller frees
 * the message; after an error there is none. */
MUST_USE int bus_take(struct bus_socket *s, int timeout_ms, struct bus_message *out, struct err *e);
void bus_message_free(struct bus_message *m); /* idempotent */
/* The same into the caller's buffers, which are overwritten; peer may be NULL. */
MUST_USE int bus_receive(struct bus_socket *s, int timeout_ms, struct buf *peer,
                         struct buf *message, struct err *e);
/* Descriptor that becomes readable on new events (edge-triggered: receive until ERR_TIMEOUT). */
int bus_socket_fd(struct bus_socket *s);
/* The address really bound (a port 0 or * resolved). Borrowed. */
const char *bus_socket_address(const struct bus_socket *s);

/* Waits until one of the sockets is readable, an extra fd (or -1) is readable, or timeout.
 * Returns a bit mask: bit i = sockets[i], bit n = fd. */
uint32_t bus_poll(struct bus_socket *const *sockets, uint32_t n, int fd, int timeout_ms);

#endif
