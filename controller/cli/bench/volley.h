/* controller/cli/bench/volley.h - many requests at once: closed loop (so many clients, each sends
 * its next when the last ended) or open loop (arrivals by the clock, whatever the server does).
 *
 * One thread a client; conversations are taken in order, the turns of one follow each other on one
 * client. In an open loop the times of a request count from its arrival, also when all clients are
 * busy, so that a slow server cannot hide its queue (coordinated omission). */
#ifndef CONTROLLER_CLI_BENCH_VOLLEY_H
#define CONTROLLER_CLI_BENCH_VOLLEY_H

#include "controller/cli/bench/shot.h"
#include "controller/cli/bench/workload.h"

enum { VOLLEY_MAX_CLIENTS = 512, VOLLEY_MAX_SHOTS = 1000000 };

struct volley_options {
    struct workload load;
    struct target target;
    const char *model;    /* "" = leave it out */
    const char *extra;    /* inside of a JSON object, added to each request; "" = nothing */
    const char *sampling; /* temperature as JSON */
    uint32_t n_conversations, n_turns, n_clients;
    uint32_t max_seconds; /* no conversation starts later; 0 = no limit */
    bool may_stop;        /* the model may end before output_tokens */
};

struct volley_counts {
    uint32_t done, failed;
    uint64_t tokens;
};

struct volley;

/* Starts the threads. options are copied, what they point to stays until volley_stop. */
MUST_USE int volley_start(struct volley **out, const struct volley_options *o, struct err *e);
bool volley_finished(struct volley *v);
void volley_read(struct volley *v, struct volley_counts *out);
/* Waits for the running requests. *shots: [*n] in order of conversation and turn, borrowed until
 * volley_free; a shot that never started has start_us 0. *begin_us: when the load began. */
void volley_wait(struct volley *v, struct shot **shots, uint32_t *n, uint64_t *begin_us);
void volley_free(struct volley *v);
/* 64-bit digest of all answers, by conversation: equal when two runs gave the same text. */
uint64_t volley_digest(const struct volley *v);

#endif
