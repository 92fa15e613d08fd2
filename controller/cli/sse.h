/* controller/cli/sse.h - Server-Sent Events from a byte stream (HTML standard, section 9.2).
 *
 * Only `data:` matters to us; comments and other fields are skipped, data lines of one event are
 * joined with a newline. Pieces may be cut anywhere. One owner. */
#ifndef CONTROLLER_CLI_SSE_H
#define CONTROLLER_CLI_SSE_H

#include "common/buf.h"

struct sse {
    struct buf line, data;
    bool has_data;
    /* Called per event; false stops sse_feed, which then returns false. */
    bool (*on_event)(void *ctx, struct str data);
    void *ctx;
};

/* max_bytes bounds a line and an event. */
void sse_init(struct sse *s, size_t max_bytes, bool (*on_event)(void *, struct str), void *ctx);
/* False when a limit was hit or on_event said stop. */
bool sse_feed(struct sse *s, struct str piece);
void sse_fini(struct sse *s);

#endif
