/* controller/loop.h - the writer thread: frames, engines, commands in; commits; then acts.
 *
 * Everything that writes happens here. Others reach it through loop_submit. */
#ifndef CONTROLLER_LOOP_H
#define CONTROLLER_LOOP_H

#include "common/bus.h"
#include "common/metrics.h"
#include "controller/board.h"
#include "controller/commands.h"

struct loop;

struct loop_options {
    const struct milepost_config *config; /* stays valid */
    const char *database;
    struct bus *bus;
    const char *scores, *control; /* addresses to bind */
    struct bus_security security;
    struct metrics *metrics;
    struct board *board;
    struct clock clock;
    uint64_t seed;              /* see controller/ledger.h */
    const struct db_stop *stop; /* ends loop_open with ERR_CANCELLED; NULL = nothing does */
    const char *version;
};

/* Opens the database (an upgrade of a large one takes minutes) and binds both sockets. */
MUST_USE int loop_open(struct loop **out, const struct loop_options *o, struct err *e);
void loop_close(struct loop *l); /* after loop_run returned */
/* Until loop_stop. An error ends it: the database could not be brought back to a known state. */
MUST_USE int loop_run(struct loop *l, struct err *e);
void loop_stop(struct loop *l); /* any thread */
/* Any thread. False: too many wait, or the loop is stopping; the caller keeps the command. */
bool loop_submit(struct loop *l, struct command *c);
/* One turn: waits at most wait_ms for something to do, commits and announces it. For tests. */
MUST_USE int loop_turn(struct loop *l, int wait_ms, struct err *e);
struct db *loop_database(const struct loop *l); /* the writer's connection, for tests of failure */
const struct ledger *loop_ledger(const struct loop *l); /* between turns, for the simulation */
const char *loop_scores_address(const struct loop *l);
const char *loop_control_address(const struct loop *l);

#endif
