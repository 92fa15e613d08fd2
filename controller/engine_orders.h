/* controller/engine_orders.h - what an operator told one engine to do, until it says how it went.
 *
 * Orders change no revision and no decision; how each ended is logged and told to `ended`, which
 * keeps it. An engine that is away is not waited for. Writer thread. */
#ifndef CONTROLLER_ENGINE_ORDERS_H
#define CONTROLLER_ENGINE_ORDERS_H

#include "common/bus.h"
#include "controller/commands.h"
#include "schemas/control.h"

enum { ENGINE_ORDERS_MAX = 16, ENGINE_ORDER_MS = 10000, ENGINE_LOAD_MS = 45000 };

struct engine_order {
    uint64_t id;
    struct command *command; /* answered when the order ends */
    struct mono deadline;
    char identity[CODEC_MAX_NAME + 1]; /* of the engine on the bus */
    size_t n_identity;
};

struct engine_orders {
    struct engine_order order[ENGINE_ORDERS_MAX];
    uint32_t n;
    uint64_t last_id;
    void (*ended)(void *ctx, const struct command *c); /* before c is answered; may be NULL */
    void *ended_ctx;
};

/* Sends the command to the engine on the bus and keeps it. On an error nothing is kept. */
MUST_USE int engine_orders_send(struct engine_orders *o, struct bus_socket *socket,
                                struct str identity, struct mono now, struct command *c,
                                struct err *e);
/* The answer of the engine with this identity; an unknown id is ignored. */
void engine_orders_result(struct engine_orders *o, struct str identity,
                          const struct control_result *r);
/* Ends what is overdue; all of them when the loop ends (now.us = UINT64_MAX). */
void engine_orders_expire(struct engine_orders *o, struct mono now);

#endif
