/* verifier/score_request.h - body of POST /score: what Miles and slime send as remote_rm.
 *
 *   {"prompt": text or messages, "response": text, "label": any, "metadata": {...},
 *    "finish_reason": "stop"}                                  or an array of such objects
 * label becomes metadata.reference. Only response is needed; unknown keys are ignored. Pure. */
#ifndef VERIFIER_SCORE_REQUEST_H
#define VERIFIER_SCORE_REQUEST_H

#include "schemas/output.h"

enum { SCORE_REQUEST_MAX_ITEMS = 1024 };

struct score_request {
    struct output *output; /* [n], in the arena */
    size_t n;
    bool is_batch;
};

/* ERR_INVALID: path, what was found, what is allowed. Texts are copied into the arena. */
MUST_USE int score_request_parse(struct str body, struct arena *a, struct score_request *out,
                                 struct err *e);

#endif
