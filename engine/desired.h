/* engine/desired.h - what the controller wants, carried from the wire's thread to the I/O loop. */
#ifndef ENGINE_DESIRED_H
#define ENGINE_DESIRED_H

#include "common/http_server.h"
#include "engine/api/api.h"
#include "engine/control/wire.h"

#include <pthread.h>

enum { DESIRED_MAX_COMMANDS = 16 };

struct desired_command {
    uint64_t id;
    const struct desired_action *action; /* NULL = not supported */
};

struct desired_inbox {
    struct http_server *server;
    struct api *api;
    struct wire *wire; /* loop thread; set after wire_start */
    struct outbox *outbox;
    const struct generator_ops *ops;
    struct generator *generator;
    uint32_t max_running, prefill_chunk; /* where a revision says nothing */
    pthread_mutex_t lock;                /* the rest */
    struct route_table *pending;
    struct desired_command command[DESIRED_MAX_COMMANDS];
    uint32_t n_command;
};

void desired_init(struct desired_inbox *d);
void desired_fini(struct desired_inbox *d);
/* For the wire's callbacks; any thread. */
void desired_on_document(void *inbox, const struct desired *d, struct str text);
void desired_on_command(void *inbox, const struct control_command *c);
/* Loop thread, or before it: takes the reference; knobs follow. */
void desired_apply(struct desired_inbox *d, struct route_table *t);
/* The state a restarted engine goes on with: the one stored, else the configuration's. */
MUST_USE int desired_first_table(struct outbox *o, const struct milepost_config *c,
                                 struct route_table **out, struct err *e);

#endif
