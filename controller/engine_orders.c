/* Orders in flight: few, so a plain array. Ids start at random, so that the answer to an order of
 * an earlier life of this process matches nothing. */
#include "controller/engine_orders.h"

#include "common/log.h"
#include "common/rng.h"

#include <stdio.h>
#include <string.h>

static void end_order(struct engine_orders *o, uint32_t at)
{
    struct command *c = o->order[at].command;
    o->order[at] = o->order[--o->n];
    log_event(LOG_INFO, "engine.order",
              "engine=" STR_FMT " command=" STR_FMT " by=" STR_FMT " ok=%d", STR_ARG(c->engine),
              STR_ARG(c->order), STR_ARG(c->author), c->err.code == ERR_OK);
    if (o->ended)
        o->ended(o->ended_ctx, c);
    c->done(c);
}

static int send_order(struct bus_socket *socket, struct str identity, uint64_t id,
                      const struct command *c, struct err *e)
{
    struct control m = {.type = CONTROL_COMMAND, .command = {id, c->order, c->argument}};
    struct buf frame;
    buf_init(&frame, 64 * KiB);
    int rc = control_encode(&m, &frame, e);
    if (rc == ERR_OK)
        rc = bus_send(socket, identity, buf_str(&frame), e);
    buf_free(&frame);
    return rc;
}

int engine_orders_send(struct engine_orders *o, struct bus_socket *socket, struct str identity,
                       struct mono now, struct command *c, struct err *e)
{
    if (o->n == ENGINE_ORDERS_MAX)
        return err_set(e, ERR_BUSY, "%u orders wait for their engines; try again", o->n);
    struct engine_order *x = &o->order[o->n];
    if (o->last_id == 0)
        o->last_id = rng_entropy() >> 12;
    int rc = send_order(socket, identity, o->last_id + 1, c, e);
    if (rc != ERR_OK)
        return rc;
    int64_t limit = str_eq_c(c->order, "load_weights") ? ENGINE_LOAD_MS : ENGINE_ORDER_MS;
    *x = (struct engine_order){.id = ++o->last_id,
                               .command = c,
                               .deadline = {now.us + (uint64_t)limit * 1000},
                               .n_identity = identity.n};
    memcpy(x->identity, identity.p, identity.n);
    o->n++;
    return ERR_OK;
}

void engine_orders_result(struct engine_orders *o, struct str identity,
                          const struct control_result *r)
{
    for (uint32_t i = 0; i < o->n; i++) {
        struct engine_order *x = &o->order[i];
        if (x->id != r->id || !str_eq((struct str){x->identity, x->n_identity}, identity))
            continue;
        struct command *c = x->command;
        if (r->is_ok)
            snprintf(c->message, sizeof c->message, STR_FMT, STR_ARG(r->message));
        else
            err_set(&c->err, ERR_CONFLICT, "the engine refused: " STR_FMT, STR_ARG(r->message));
        end_order(o, i);
        return;
    }
}

void engine_orders_expire(struct engine_orders *o, struct mono now)
{
    for (uint32_t i = o->n; i-- > 0;) {
        struct engine_order *x = &o->order[i];
        if (x->deadline.us > now.us)
            continue;
        err_set(&x->command->err, ERR_TIMEOUT,
                "the engine has not answered; it may still do it: see its log");
        end_order(o, i);
    }
}
