/* schemas/control.h - milepost.control.v1: engine and controller, over DEALER/ROUTER.
 *
 * engine -> controller: hello, applied, heartbeat, result. controller -> engine: desired (a full
 * document, never a delta), commit, command. An engine reconciles to the desired document with the
 * highest version of the highest controller epoch; asking again is a heartbeat with its version. */
#ifndef SCHEMAS_CONTROL_H
#define SCHEMAS_CONTROL_H

#include "schemas/revision.h"

#define CONTROL_SCHEMA "milepost.control.v1"
enum { CONTROL_MAX_ROUTES = 64, CONTROL_MAX_ARMS = 16, CONTROL_HELD_BYTES = 4096 };

enum control_type {
    CONTROL_HELLO,
    CONTROL_DESIRED,
    CONTROL_APPLIED,
    CONTROL_COMMIT,
    CONTROL_HEARTBEAT,
    CONTROL_COMMAND,
    CONTROL_RESULT,
    CONTROL_TYPE_COUNT
};

struct desired_arm {
    struct str name; /* arm[0] is "champion" */
    double share;    /* of admissions; sum over arms = 1 */
    struct revision revision;
};

struct desired_route {
    struct str name;
    struct str experiment; /* empty = one arm */
    struct str salt;       /* assignment = hash(salt, experiment, unit) */
    bool is_paused;        /* loop frozen: serve the champion, no experiment */
    uint32_t n_arm;
    struct desired_arm arm[CONTROL_MAX_ARMS];
};

struct desired {
    uint64_t version; /* grows with every change, across controller restarts */
    uint32_t n_route;
    struct desired_route *route; /* [n_route] in the arena */
};

struct control_hello {
    struct str engine;
    uint64_t epoch, next_seq; /* the outbox's */
    uint64_t oldest_seq;      /* oldest still held; below it: committed, or dropped and counted */
    struct str model, weights, version;
    uint64_t desired_version; /* applied now, 0 = none; right after a start: before it */
    uint64_t crashes;         /* times a process of this epoch ended without a clean stop */
};

struct control_heartbeat { /* also what the dashboard shows of an engine */
    struct str engine;
    uint64_t epoch, next_seq, oldest_seq, desired_version;
    uint32_t running, waiting;
    uint64_t outbox_rows, outbox_dropped;
    double kv_usage, tokens_per_second;
};

struct control_applied {
    struct str engine;
    uint64_t desired_version;
};

struct control_commit {
    struct str engine;
    uint64_t epoch, seq; /* everything up to and including seq is committed */
    struct str held;     /* and these above it: "7-9,12-12", ascending; empty = none is known */
};

/* One more range; what is beyond the room of a message is left out: it is only sent again. */
void control_held_put(struct buf *out, uint64_t first, uint64_t last);
/* The next range of such a text. False: no more, or it is none. */
bool control_held_next(struct str *rest, uint64_t *first, uint64_t *last);

struct control_command {
    uint64_t id;
    struct str name; /* "drain" "pause" "resume" "flush_cache" "load_weights" */
    struct str argument;
};

struct control_result {
    uint64_t id;
    bool is_ok;
    struct str message;
};

struct control {
    enum control_type type;
    union {
        struct control_hello hello;
        struct desired desired;
        struct control_applied applied;
        struct control_commit commit;
        struct control_heartbeat heartbeat;
        struct control_command command;
        struct control_result result;
    };
};

MUST_USE int control_encode(const struct control *c, struct buf *out, struct err *e);
MUST_USE int control_decode(struct str json, struct arena *a, struct control *out, struct err *e);

#endif
