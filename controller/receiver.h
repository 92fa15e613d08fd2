/* controller/receiver.h - frames from the verifiers, decoded beside the writer.
 *
 * Until receiver_start the caller's thread receives and decodes (tests, simulation: one frame at a
 * time, in order). After it, a thread of its own does: while the writer waits for the disk, the
 * next batch is decoded, hashed and packed. Items come in the order of the frames. What is held is
 * bounded in number and bytes; past that, frames wait at the verifiers. */
#ifndef CONTROLLER_RECEIVER_H
#define CONTROLLER_RECEIVER_H

#include "common/bus.h"
#include "controller/intake.h"

struct receiver;

/* Takes the socket. */
MUST_USE int receiver_open(struct receiver **out, struct bus_socket *socket, struct err *e);
void receiver_close(struct receiver *r);
MUST_USE int receiver_start(struct receiver *r, struct err *e);
/* The next item within timeout_ms, to be given back; NULL: none came. */
struct intake_item *receiver_take(struct receiver *r, int timeout_ms);
void receiver_give_back(struct receiver *r, struct intake_item *x);
/* Readable while items wait; -1 before receiver_start: wait for the socket then. */
int receiver_fd(const struct receiver *r);
struct bus_socket *receiver_socket(const struct receiver *r);

#endif
