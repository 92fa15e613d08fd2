/* controller/control_server.h - the engines: who is there, what they apply, what they may forget.
 *
 * Pushes the full desired document after a change and again while an engine's applied version
 * differs; tells commit marks after the commit. Writer thread. */
#ifndef CONTROLLER_CONTROL_SERVER_H
#define CONTROLLER_CONTROL_SERVER_H

#include "common/bus.h"
#include "controller/engine_orders.h"

enum { CONTROL_MAX_ENGINES = 64 };

struct engine_peer {
    char identity[CODEC_MAX_NAME + 1]; /* on the bus */
    size_t n_identity;
    char engine[CODEC_MAX_NAME + 1];
    char model[CODEC_MAX_NAME + 1], weights[CODEC_MAX_NAME + 1], version[64];
    struct control_heartbeat beat; /* engine is not set: see above */
    struct mono seen, pushed;
    struct mono oldest_since; /* oldest_seq is what it is since then */
    uint64_t pushed_version;
    uint64_t crashes; /* heard of in its hello */
};

struct control_server {
    struct bus_socket *socket;
    struct clock clock;
    struct engine_peer peer[CONTROL_MAX_ENGINES];
    uint32_t n_peer;
    struct buf frame, identity, held;
    struct buf text; /* the desired document, encoded */
    uint64_t text_version;
    struct mono committed; /* when text_version was */
    /* An engine applied what was committed so long ago. May be NULL. Writer thread. */
    void (*on_applied)(void *ctx, const struct engine_peer *p, uint64_t after_us);
    void *on_applied_ctx;
    struct arena arena;
    struct engine_orders orders;
};

/* Takes over the socket (ROUTER). */
void control_server_init(struct control_server *cs, struct bus_socket *socket, struct clock clock);
void control_server_fini(struct control_server *cs);

/* Longest time that the oldest uncommitted output of an engine has not moved; 0 = nothing waits. */
double control_server_oldest_seconds(const struct control_server *cs);

/* Reads everything that waits. May open a batch in the ledger (holes, new engines). */
MUST_USE int control_server_receive(struct control_server *cs, struct ledger *l, struct err *e);
/* After the commit: desired state and commit marks to whom they are news. Failing sends are tried
 * again at the next call. */
void control_server_announce(struct control_server *cs, struct ledger *l);

/* Sends an operator's order; an empty engine name is the only engine there is. c is answered when
 * the engine has answered, was too slow, or at once when there is no such engine. */
void control_server_order(struct control_server *cs, struct command *c, int64_t stale_ms);

#endif
