/* schemas/output.h - milepost.output.v1: one finished generation, engine to verifier.
 *
 * Key of an output: (engine, epoch, seq). Times are this engine's monotonic clock, as durations. */
#ifndef SCHEMAS_OUTPUT_H
#define SCHEMAS_OUTPUT_H

#include "schemas/params.h"

#define OUTPUT_SCHEMA "milepost.output.v1"
enum { OUTPUT_MAX_BYTES = 4 * 1024 * 1024, OUTPUT_MAX_TOKENS = 1 << 20 };

struct output_message {
    struct str role, content;
};

struct output {
    struct str engine; /* engine id */
    uint64_t epoch;    /* new at each creation of an outbox */
    uint64_t seq;      /* 1, 2, ... gapless in the epoch, survives restarts */
    struct str request_id;
    uint32_t choice; /* index among the request's n */
    struct str route;
    uint64_t revision;
    struct str arm;        /* "champion", "challenger", or an experiment's arm name */
    struct str experiment; /* empty = none */
    double propensity;     /* share of the route's admissions this arm had */
    struct str stratum, unit;
    uint64_t admission;       /* number of the admission within (engine, epoch), grows */
    uint64_t desired_version; /* of the desired state in force at admission */

    const struct output_message *messages; /* chat; NULL for completions */
    uint32_t n_messages;
    struct str prompt; /* completions */
    struct str text;
    const int32_t *token_ids; /* [n_tokens] generated */
    const float *logprobs;    /* [n_tokens] under the sampling distribution before filters, T=1 */
    uint32_t n_tokens;
    struct params effective;
    struct str finish_reason; /* "stop", "length", "cancelled", "error" */
    uint32_t prompt_tokens, cached_tokens, completion_tokens;
    uint64_t queue_us, ttft_us, decode_us;
    int64_t created_us; /* wall clock of the admission, for people */
    struct str model, weights;
    struct str metadata; /* client's metadata object as JSON text: reference answer, tags */
};

MUST_USE int output_encode(const struct output *o, struct buf *out, struct err *e);
/* Everything in *out lives in the arena. ERR_UNSUPPORTED: another schema version. */
MUST_USE int output_decode(struct str json, struct arena *a, struct output *out, struct err *e);
/* Only the flat fields; messages, parameters, token lists and metadata are looked at no further
 * than their brackets: for who keeps columns of what another has read. */
MUST_USE int output_decode_columns(struct str json, struct arena *a, struct output *out,
                                   struct err *e);
/* Only the key (engine, epoch, seq, request_id), for frames that do not decode. */
MUST_USE int output_decode_key(struct str json, struct arena *a, struct output *out, struct err *e);

#endif
