/* controller/commands.h - what an operator can ask for, as events of the journal.
 *
 * A command is made by the API's thread, run by the writer inside a batch, and answered after the
 * commit. Its texts live in its own arena. */
#ifndef CONTROLLER_COMMANDS_H
#define CONTROLLER_COMMANDS_H

#include "controller/ledger.h"

enum command_kind {
    COMMAND_PARAMS,
    COMMAND_ROLLBACK,
    COMMAND_PAUSE,
    COMMAND_RESUME,
    COMMAND_PROMOTE,
    COMMAND_STOP,
    COMMAND_EXPERIMENT, /* params: the request, experiment_request.h */
    COMMAND_EXPERIMENT_STOP,
    COMMAND_FINETUNE, /* finetune.h */
    COMMAND_WRITE,    /* of a thread beside the writer: `write` does it */
    COMMAND_ENGINE,   /* goes to an engine, not to a route's law: engine_orders.h */
    COMMAND_KIND_COUNT
};

struct command {
    enum command_kind kind;
    struct arena arena;
    struct str route, reason, author; /* author "operator:NAME" */
    struct str params;                /* JSON object text, laid over the champion's */
    bool is_now;
    bool is_all;                        /* PAUSE, RESUME: every route, kill_switch.h */
    uint64_t to;                        /* ROLLBACK: revision, 0 = the previous champion */
    struct str engine, order, argument; /* ENGINE */
    int64_t since_us, until_us;         /* FINETUNE; until 0 = now */
    bool only_scored;                   /* FINETUNE */
    int (*write)(struct ledger *l, struct command *c, struct err *e); /* WRITE */
    /* The answer. */
    struct err err; /* code ERR_OK when it was done */
    uint64_t revision, decision;
    char experiment[POLICY_ID_BYTES];
    char message[240];               /* ENGINE: what the engine said; FINETUNE: the dataset's id */
    void (*done)(struct command *c); /* on the writer thread, after the commit or the failure */
    void *ctx;
};

struct command *command_new(enum command_kind kind); /* NULL = no memory */
void command_free(struct command *c);

/* Inside a batch; the answer goes into *c. Returns an error only when the batch must be aborted. */
MUST_USE int command_run(struct ledger *l, struct command *c, struct err *e);

/* The policy's own trial makes room for an operator; another operator's is ERR_CONFLICT. */
MUST_USE int command_make_room(struct ledger *l, struct ledger_route *r, struct command *c,
                               const struct policy_view *v, struct err *e);

#endif
