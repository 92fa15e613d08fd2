/* engine/desired.h - what the controller wants, carried from the wire's thread to the I/O loop. */
#ifndef ENGINE_DESIRED_H
#define ENGINE_DESIRED_H

#include "common/http_server.h"
#include "engine/api/api.h"
#include "engine/control/desired_table.h"
#include "engine/control/wire.h"
#include "engine/reload.h"

#include <pthread.h>

enum { DESIRED_MAX_COMMANDS = 16, DESIRED_MAX_ARGUMENT = 4096 };

struct desired_command {
    uint64_t id;
    const struct desired_action *action; /* NULL = not supported */
    char argument[DESIRED_MAX_ARGUMENT];
};

struct desired_inbox {
    struct http_server *server;
    struct api *api;
    struct wire *wire; /* loop thread; set after wire_start */
    struct outbox *outbox;
    const struct generator_ops *ops;
    struct generator *generator;
    struct load *load; /* its model follows load_weights */
    struct reload *reload;
    struct arena *arena;                 /* of the process: names of the weights that served */
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
/* For reload's end; loop thread. Takes m. */
void desired_on_weights(void *inbox, uint64_t command_id, struct model *m, const struct err *e);
/* Loop thread, or before it: takes the reference; knobs follow. */
void desired_apply(struct desired_inbox *d, struct route_table *t);

#endif
