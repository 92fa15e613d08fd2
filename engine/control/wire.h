/* engine/control/wire.h - the engine's thread on the bus: outputs out, control both ways.
 *
 * Publisher: sends outbox rows in order, at most `window` beyond the commit mark; when the mark has
 * not moved for resend_ms everything above it is sent again, with a wait that doubles. Control
 * client: hello, heartbeat, applied, results; desired documents and commands are handed to
 * callbacks, on this thread. Nothing here ever blocks serving: with nobody at the other end it
 * waits and retries. */
#ifndef ENGINE_CONTROL_WIRE_H
#define ENGINE_CONTROL_WIRE_H

#include "common/bus.h"
#include "common/clock.h"
#include "engine/record/outbox.h"
#include "schemas/control.h"

struct wire;

struct wire_config {
    struct bus *bus; /* ZeroMQ, or the in-memory twin in tests */
    const struct clock *clock;
    struct outbox *outbox;
    const char *outputs_address; /* bound here */
    const char *control_address; /* connected to */
    struct bus_security security;
    struct str engine, model, weights, version; /* for hello; live as long as the wire */
    uint64_t applied; /* desired version in force at the start, as kept: the first hello says it */
    uint32_t resend_ms, heartbeat_ms;
    uint32_t window;         /* outputs sent and not committed; 0 = 1024 */
    struct metrics *metrics; /* may be NULL */
    /* A complete document, newer than what was handed over before. text is the message. */
    void (*on_desired)(void *ctx, const struct desired *d, struct str text);
    /* Answer later with wire_post_result. */
    void (*on_command)(void *ctx, const struct control_command *c);
    /* Before a heartbeat: what is set from now on goes out with this or the next. May be NULL. */
    void (*on_heartbeat)(void *ctx);
    void *ctx;
};

struct wire_stats { /* for the heartbeat */
    uint32_t running, waiting;
    double kv_usage, tokens_per_second;
};

/* Opens the sockets (a busy address: ERR_IO) and starts the thread. */
MUST_USE int wire_start(struct wire **out, const struct wire_config *c, struct err *e);
/* The same without a thread, for simulation: the caller's own is the wire's, a turn at a time. A
 * turn waits for nothing and returns how many outputs it sent. */
MUST_USE int wire_open(struct wire **out, const struct wire_config *c, struct err *e);
uint32_t wire_turn(struct wire *w);
void wire_close(struct wire *w);
/* Sends what it can for at most flush_ms, then ends. */
void wire_stop(struct wire *w, uint32_t flush_ms);
/* Any thread. */
void wire_set_stats(struct wire *w, const struct wire_stats *s);
void wire_set_weights(struct wire *w, struct str weights); /* kept */
void wire_set_applied(struct wire *w, uint64_t desired_version);
void wire_post_result(struct wire *w, uint64_t command_id, bool is_ok, struct str message);
/* The outputs' bound address (port 0 resolved). */
const char *wire_outputs_address(const struct wire *w);

#endif
