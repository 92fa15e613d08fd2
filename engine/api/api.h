/* engine/api/api.h - the HTTP API: OpenAI's routes, feedback, health, metrics.
 *
 * Turns requests into generations and generations into replies, streams and output records. I/O
 * thread only (the server's loop); nothing here blocks. Tokenising runs on that thread too: texts
 * that cannot fit the context are refused before it, so its time is bounded. */
#ifndef ENGINE_API_API_H
#define ENGINE_API_API_H

#include "common/http_server.h"
#include "engine/generator.h"
#include "engine/record/outbox.h"
#include "engine/route/route.h"
#include "engine/text/chat_template.h"

struct api;

struct api_config {
    const struct clock *clock;
    struct http_server *server;
    const struct generator_ops *ops;
    struct generator *generator;
    const struct tokenizer *tokenizer;
    const struct gguf *file;
    const struct chat_template *chat_template;
    struct outbox *outbox; /* NULL = nothing is recorded */
    struct metrics *metrics;
    struct str model, weights; /* live as long as the api */
    struct str api_key;        /* empty = none is asked */
    uint32_t max_context;      /* prompt and answer together, tokens */
    uint64_t request_timeout_us;
    uint32_t keep_alive_ms; /* silence after which a stream gets a comment; 0 = 10 s */
};

/* Adds its routes to the server. */
MUST_USE int api_open(struct api **out, const struct api_config *c, struct err *e);
/* After the server's loop ended: replies go nowhere from now on, records still do. */
void api_detach(struct api *a);
/* After generator and outbox are closed, so that no callback is left. */
void api_close(struct api *a);

/* Takes the reference. Requests already admitted keep their own. */
void api_set_table(struct api *a, struct route_table *t);
const struct route_table *api_get_table(const struct api *a);
/* For the records of requests admitted from now on; kept. */
void api_set_weights(struct api *a, struct str weights);
/* False: new generations get 503 with Retry-After. */
void api_set_admitting(struct api *a, bool is_admitting);
/* At a stop whose grace is over: every generation ends with what it has, and one that has nothing
 * with an error, so that each client still gets an answer. */
void api_end_jobs(struct api *a);
uint32_t api_open_jobs(const struct api *a);
/* The device failed for good (its errors are sticky): the API has asked the server to stop. */
bool api_is_device_lost(const struct api *a);

/* The error body of the API, for what the server answers itself. */
void api_error_body(int status, const char *message, struct buf *out);

#endif
