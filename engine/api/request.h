/* engine/api/request.h - the body of a generation request, checked and typed.
 *
 * One table row per field. Unknown fields are ignored, null counts as absent, a wrong type or range
 * is ERR_INVALID and the message begins with the field's path ("$.messages[1].content: ..."). Texts
 * are borrowed from the parsed document or the arena; both must outlive the request. Pure. */
#ifndef ENGINE_API_REQUEST_H
#define ENGINE_API_REQUEST_H

#include "engine/generator.h"
#include "engine/text/chat_template.h"

enum api_kind { API_CHAT = 1, API_COMPLETION = 2 };
enum {
    API_MAX_CHOICES = 16,
    API_MAX_MESSAGES = 4096,
    API_MAX_METADATA = 64 * 1024,
    API_MAX_STRATUM = 64,
    API_MAX_PRIORITY = 100
};

struct api_request {
    enum api_kind kind;
    json_t *doc;
    struct str model, user, conversation; /* empty = not given */
    struct chat_message *messages;        /* chat */
    uint32_t n_messages;
    struct str prompt; /* completions: text, or token ids when n_ids > 0 */
    int32_t *ids;
    uint32_t n_ids;
    struct params client;
    uint64_t seed;
    struct gen_bias *bias;
    uint32_t n_bias;
    bool has_seed, stream, include_usage, want_logprobs, ignore_end;
    int priority;        /* higher first; 0 = normal */
    uint64_t timeout_ms; /* 0 = the server's own */
    uint32_t n_top;      /* alternatives per token */
    uint32_t n;          /* choices, 1 to API_MAX_CHOICES */
    struct str metadata; /* JSON object text, empty = none */
    struct str stratum;  /* metadata.stratum: the traffic class tests are kept apart by */
};

/* Close it also after a failure. */
MUST_USE int api_request_parse(struct str body, enum api_kind kind, struct arena *a,
                               struct api_request *out, struct err *e);
void api_request_close(struct api_request *r);

/* The fields that are more than one value (request_lists.c). `at` is the field, never null. */
MUST_USE int api_read_messages(const struct json_at *at, struct arena *a, struct api_request *r,
                               struct err *e);
MUST_USE int api_read_prompt(const struct json_at *at, struct arena *a, struct api_request *r,
                             struct err *e);
MUST_USE int api_read_stop(const struct json_at *at, struct arena *a, struct api_request *r,
                           struct err *e);
MUST_USE int api_read_logit_bias(const struct json_at *at, struct arena *a, struct api_request *r,
                                 struct err *e);
MUST_USE int api_read_metadata(const struct json_at *at, struct arena *a, struct api_request *r,
                               struct err *e);
/* ERR_INVALID "PATH: what". */
int api_refuse_field(const struct json_at *at, struct err *e, const char *what);

#endif
