/* verifier/pipeline.h - the verifier's threads: one pulls outputs, some score, two push scores.
 *
 *   PULL -> crew (queue, workers, joiner) -> queue -> PUSH
 *                                         -> queue -> PUSH of large ones, whose threads give way
 * The queues are bounded and so are the bytes held. When the controller is away or slow the push
 * waits, the queues fill, and pulling stops: the engine's outbox keeps and resends. Nothing is kept
 * beyond that, so killing a verifier loses nothing. */
#ifndef VERIFIER_PIPELINE_H
#define VERIFIER_PIPELINE_H

#include "common/bus.h"
#include "common/metrics.h"
#include "verifier/crew.h"

enum { PIPELINE_MAX_WORKERS = CREW_MAX_WORKERS };

struct pipeline_config {
    const char *outputs; /* addresses of the engines, comma separated */
    const char *scores;  /* address of the controller */
    struct bus_security security;
    struct judge judge;    /* sets stay open until after pipeline_stop */
    struct remote *remote; /* with the sets attached; NULL = nothing remote is asked */
    uint32_t workers, max_queue;
    struct bus *bus;
    struct bus *large_bus; /* for large scores, nothing opened on it before; NULL = bus */
    struct metrics *metrics;
};

struct pipeline;

/* ERR_IO, ERR_INVALID: an address. Texts are borrowed until stop. */
MUST_USE int pipeline_start(struct pipeline **out, const struct pipeline_config *c, struct err *e);
/* Stops pulling, scores what is held and sends it, for at most grace_ms when the controller does
 * not take it, or a remote check has not come back: that is sent again by the engine. Frees.
 * Accepts NULL. */
void pipeline_stop(struct pipeline *p, uint32_t grace_ms);

#endif
