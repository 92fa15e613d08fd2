/* schemas/revision.h - an immutable parameter set of a route, with its origin. */
#ifndef SCHEMAS_REVISION_H
#define SCHEMAS_REVISION_H

#include "common/clock.h"
#include "schemas/params.h"

struct revision {
    uint64_t number; /* grows over the whole controller, never reused */
    uint64_t parent; /* 0 = none */
    struct str route;
    struct param_set params;
    struct str author; /* "operator:NAME", "policy:canary", "config" */
    struct str reason;
    struct wall created;
    char hash[65]; /* param_set_hash */
};

/* {"number":3,"parent":2,"route":"default","params":{...},"author":..,"reason":..,
 *  "created_us":..,"hash":".."}. The hash is checked on decode: ERR_CORRUPT when it differs. */
MUST_USE int revision_decode(const struct json_at *at, struct arena *a, struct revision *out,
                             struct err *e);
json_t *revision_encode(const struct revision *r);

#endif
