/* verifier/score_stream.h - `milepost-verifier score`: outputs on standard input, one JSON line
 * each, scores on standard output in the same order. No sockets, nothing stored: for `milepost
 * rescore` and for anyone with a file of outputs. */
#ifndef VERIFIER_SCORE_STREAM_H
#define VERIFIER_SCORE_STREAM_H

#include "verifier/service.h"

#include <stdio.h>

/* Blocks until the end of in. A line that is no output of ours gives null. ERR_IO: out is closed.
 */
MUST_USE int score_stream_run(const struct milepost_config *c, const struct service_sets *sets,
                              FILE *in, FILE *out, struct err *e);

#endif
