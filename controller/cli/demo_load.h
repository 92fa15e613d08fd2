/* controller/cli/demo_load.h - real chat requests from a prompt file, some at a time.
 *
 * A line of the file holds {"messages":[...],"metadata":{"kind":..,"reference":..}}, other keys are
 * for people; seed and route are added. Prompts go round in order, so that every
 * phase sees the same mix. Worker threads each own a connection; the caller's thread only looks at
 * the counters. A request that fails is counted, not repeated. */
#ifndef CONTROLLER_CLI_DEMO_LOAD_H
#define CONTROLLER_CLI_DEMO_LOAD_H

#include "common/json.h"

enum { PROMPTS_MAX = 5000, LOAD_MAX_WORKERS = 64 };

struct prompts {
    json_t *line[PROMPTS_MAX]; /* request bodies */
    size_t n;
};

/* ERR_INVALID names the line. Release with prompts_free. */
MUST_USE int prompts_load(struct prompts *p, const char *path, struct err *e);
void prompts_free(struct prompts *p);

struct load;

struct load_options {
    const struct prompts *prompts;
    const char *url;    /* of /v1/chat/completions */
    const char *route;  /* X-Milepost-Route */
    const char *bearer; /* "Authorization: ..." or NULL */
    uint32_t workers;
    uint64_t first; /* number of the first request: decides prompt and seed */
    uint64_t max;   /* stops by itself after so many */
};

struct load_counts {
    uint64_t started, done, failed, tokens;
    char last_error[240];
};

MUST_USE int load_start(struct load **out, const struct load_options *o, struct err *e);
/* True when all were sent and answered. */
bool load_finished(struct load *l);
void load_read(struct load *l, struct load_counts *out);
/* No new requests from here on; waits for those under way, frees everything. */
void load_stop(struct load *l, struct load_counts *out);

#endif
