/* schemas/decision.h - milepost.decision.v1: one append-only, hash-chained act of the controller.
 *
 * hash = SHA-256(canonical JSON of the decision without `hash`, which includes `previous_hash`).
 * Every number a person needs to judge it stands in it. */
#ifndef SCHEMAS_DECISION_H
#define SCHEMAS_DECISION_H

#include "common/clock.h"
#include "common/json.h"

#define DECISION_SCHEMA "milepost.decision.v1"

struct decision {
    uint64_t number; /* 1, 2, ... gapless */
    struct str route;
    struct str action; /* "canary" "step" "promote" "rollback" "expire" "quarantine" "hold" ... */
    struct str actor;  /* "policy:canary", "operator:NAME" */
    struct str reason;
    struct str experiment;
    uint64_t from_revision, to_revision;
    struct str test;             /* "rollback" "promote" "guardrail_truncation" ... */
    double log_e, log_threshold; /* ln of the e-value and of 1/alpha; NaN = no test behind it */
    uint64_t n_champion, n_challenger, n_blocks;
    double mean_champion, mean_challenger, effect;
    uint64_t first_row, last_row; /* committed rows it rests on (controller's row ids) */
    struct str detail;            /* further numbers, JSON object text */
    struct wall at;
    char previous_hash[65], hash[65];
};

json_t *decision_encode(const struct decision *d); /* with hash */
MUST_USE int decision_decode(const struct json_at *at, struct arena *a, struct decision *out,
                             struct err *e);
/* Fills hash from the other fields. */
MUST_USE int decision_seal(struct decision *d, struct err *e);

#endif
