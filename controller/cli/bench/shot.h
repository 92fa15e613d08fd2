/* controller/cli/bench/shot.h - one streamed request and its times.
 *
 * Times are microseconds of the monotonic clock. A gap is the time between two events that carry
 * content, be it empty (a token without text), from the first text on; a server may put several
 * tokens into one event, the number of tokens is what it reports in `usage`. */
#ifndef CONTROLLER_CLI_BENCH_SHOT_H
#define CONTROLLER_CLI_BENCH_SHOT_H

#include "common/buf.h"

struct http_client;

struct shot {
    uint32_t conversation, turn;
    uint64_t due_us;   /* when it should have been sent: waiting for a free client counts */
    uint64_t start_us; /* when it was */
    uint64_t first_us, end_us;
    uint32_t prompt_tokens, cached_tokens, completion_tokens;
    uint32_t *gap_us; /* [n_gap], malloc */
    uint32_t n_gap, max_gap;
    bool is_done, is_ok;
    char error[160];
};

struct target {
    const char *url;           /* of chat completions */
    const char *const *header; /* NULL-terminated */
    uint32_t timeout_ms;
};

/* Sends body, fills s (its gaps have room for max_gap); the answer's text goes to `answer`. Blocks.
 * A failure is noted in s. */
void shot_fire(struct shot *s, const struct target *t, struct http_client *http, struct str body,
               struct buf *answer);

#endif
