/* schemas/score.h - milepost.score.v1: what the checks say of one output, verifier to controller.
 *
 * Unique key of a score: (request_id, choice, check_set, version). Unscored is a third outcome,
 * never a zero. The scored output travels inside, as the text that was received. */
#ifndef SCHEMAS_SCORE_H
#define SCHEMAS_SCORE_H

#include "schemas/output.h"

#define SCORE_SCHEMA "milepost.score.v1"
enum { SCORE_MAX_CHECKS = 32 };

enum score_outcome { SCORE_PASS, SCORE_FAIL, SCORE_VALUE, SCORE_UNSCORED };
const char *score_outcome_name(enum score_outcome o); /* "pass" "fail" "value" "unscored" */

struct check_result {
    struct str id, kind;
    enum score_outcome outcome; /* SCORE_VALUE: a number strictly inside, or of a reward model */
    double value;               /* [0,1]; meaningless when unscored */
    double weight;
    bool is_gate;
    bool is_b; /* of the disjoint set: never part of the reward */
    uint64_t duration_us;
    struct str reason; /* "", "timeout", "no_reference", "inconclusive", "judge_down", ... */
};

struct score {
    struct str verifier;  /* verifier id */
    struct str check_set; /* name of the set: the route it is configured for */
    struct str version;   /* content hash of the set */
    struct str engine, request_id;
    uint64_t epoch, seq;
    uint32_t choice;
    bool is_scored;
    double reward; /* [0,1] when scored */
    bool is_scored_b;
    double reward_b;   /* of the checks of set b, which judge a sample of the outputs */
    struct str reason; /* why unscored */
    struct check_result check[SCORE_MAX_CHECKS];
    uint32_t n_check;
    uint64_t duration_us;
    struct str output_json; /* the output as received; output_decode says whether it is one */
};

MUST_USE int score_encode(const struct score *s, struct buf *out, struct err *e);
MUST_USE int score_decode(struct str json, struct arena *a, struct score *out, struct err *e);

#endif
