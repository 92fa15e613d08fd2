/* schemas/params.h - the tunable parameters: one table for API, revisions, command line and config.
 *
 * JSON form of a set: {"temperature":0.7,"max_new_tokens":256,"stop":["\n\n"],"weights":"...",
 * "caps":{"max_new_tokens":1024}}. Absent = not set. Texts are borrowed from the arena given. */
#ifndef SCHEMAS_PARAMS_H
#define SCHEMAS_PARAMS_H

#include "common/json.h"

enum param_id {
    PARAM_TEMPERATURE,
    PARAM_TOP_P,
    PARAM_TOP_K,
    PARAM_MIN_P,
    PARAM_REPETITION_PENALTY,
    PARAM_PRESENCE_PENALTY,
    PARAM_FREQUENCY_PENALTY,
    PARAM_MAX_NEW_TOKENS,
    PARAM_MAX_RUNNING, /* scheduler knobs: per engine, not per request */
    PARAM_PREFILL_CHUNK,
    PARAM_COUNT
};

struct param_info {
    const char *name;
    bool is_integer, is_scheduler;
    double min, max, fallback; /* fallback: when neither client nor revision says anything */
    const char *help;
};

enum { PARAMS_MAX_STOP = 4, PARAMS_MAX_STOP_BYTES = 256 };

struct params {
    double v[PARAM_COUNT];
    uint32_t set; /* bit i: v[i] is set */
    struct str stop[PARAMS_MAX_STOP];
    uint32_t n_stop;
    struct str weights; /* weights id, empty = not set */
};

/* A revision's content: defaults for what the client left out, caps it can never exceed. */
struct param_set {
    struct params defaults, caps; /* caps: values only */
};

const struct param_info *param_info(enum param_id id);
bool param_find(struct str name, enum param_id *out);
bool params_has(const struct params *p, enum param_id id);
double params_get(const struct params *p, enum param_id id); /* value, or the table's fallback */
/* ERR_INVALID names the parameter, the value and the range. */
MUST_USE int params_put(struct params *p, enum param_id id, double value, struct err *e);

/* Unknown keys are ERR_INVALID with the nearest known name. */
MUST_USE int params_decode(const struct json_at *at, struct arena *a, struct params *out,
                           struct err *e);
/* For records of another build: unknown keys are left out, known ones are checked. */
MUST_USE int params_decode_known(const struct json_at *at, struct arena *a, struct params *out,
                                 struct err *e);
/* The same for a text of known keys with plain numbers in range, without a tree; false: anything
 * else, which params_decode_known then takes or words what is wrong with it. */
bool params_take_plain(struct str object, struct params *out);
json_t *params_encode(const struct params *p);
/* The same text as of json_write and params_encode together, without a tree. */
void params_write(const struct params *p, struct buf *out);
MUST_USE int param_set_decode(const struct json_at *at, struct arena *a, struct param_set *out,
                              struct err *e);
json_t *param_set_encode(const struct param_set *s);
/* SHA-256 of the canonical JSON: two sets with the same content have the same hash. */
void param_set_hash(const struct param_set *s, char out[65]);

/* client over revision defaults over fallbacks, then caps. Every value of *effective is set. */
void params_resolve(const struct param_set *revision, const struct params *client,
                    struct params *effective);
/* base with the set values of change put over it (for `params set temperature=0.5`). */
void params_overlay(struct params *base, const struct params *change);

#endif
