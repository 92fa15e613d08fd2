/* schemas/feedback.h - milepost.feedback.v1: what a user said of an answer, joined by request id.
 *
 * POST /v1/feedback {"request_id":"...","value":1 | "thumb":"up"|"down" | "corrected":"text",
 * "comment":"..."}. It travels on the output queue with its own sequence number, so that it is as
 * durable as an output; the verifier passes it on untouched. */
#ifndef SCHEMAS_FEEDBACK_H
#define SCHEMAS_FEEDBACK_H

#include "common/json.h"

#define FEEDBACK_SCHEMA "milepost.feedback.v1"

struct feedback {
    struct str engine;
    uint64_t epoch, seq; /* share the outputs' sequence */
    struct str request_id;
    bool has_value;
    double value; /* [0,1]; thumb up = 1, down = 0 */
    struct str corrected, comment;
    int64_t created_us;
};

/* From the request body (no engine, epoch, seq) or from the wire (all). */
MUST_USE int feedback_decode_request(struct str body, struct arena *a, struct feedback *out,
                                     struct err *e);
MUST_USE int feedback_decode(struct str json, struct arena *a, struct feedback *out, struct err *e);
MUST_USE int feedback_encode(const struct feedback *f, struct buf *out, struct err *e);

#endif
