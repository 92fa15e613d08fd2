/* engine/engine.h - the serving process: model, generator, API, outbox and wire put together.
 *
 * Threads: the caller's runs the I/O loop (HTTP, tokens, records' callbacks), the generator has its
 * worker, the outbox its writer, the wire its bus. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "schemas/config.h"

struct engine;

struct comm;

/* Loads the model and binds the port: blocks. c and ranks (with those it computes together; NULL:
 * alone) must outlive the engine. */
MUST_USE int engine_open(struct engine **out, const struct milepost_config *c, struct comm *ranks,
                         const char *version, struct err *e);
/* Serves until stop_fd becomes readable; then requests in flight may end for a while. */
MUST_USE int engine_run(struct engine *g, int stop_fd, struct err *e);
void engine_close(struct engine *g);

#endif
