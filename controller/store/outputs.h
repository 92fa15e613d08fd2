/* controller/store/outputs.h - outputs, their scores, feedback, and frames that cannot be used.
 *
 * Insert-or-ignore: delivering a record again changes nothing and says so. */
#ifndef CONTROLLER_STORE_OUTPUTS_H
#define CONTROLLER_STORE_OUTPUTS_H

#include "common/hash.h"
#include "controller/store/pack.h"
#include "controller/store/store.h"
#include "schemas/feedback.h"
#include "schemas/score.h"

/* What the statistics read of a scored output. Texts are borrowed from where it came from. */
struct scored_row {
    uint64_t row; /* place in the global order */
    int64_t committed_us;
    struct str engine;
    uint64_t epoch, admission;
    struct str route, arm, experiment, stratum, finish_reason;
    struct str verifier, check_set, version; /* who scored, with what */
    /* SHA-256 of the output as it came, and of the checks' results as they are stored */
    unsigned char raw_hash[SHA256_BYTES], checks_hash[SHA256_BYTES];
    uint32_t choice;
    uint64_t revision;
    double propensity;
    bool is_scored;
    double reward;
    bool is_scored_b; /* by the disjoint set of checks */
    double reward_b;
    bool is_invalid;                /* nothing usable came out */
    bool is_refusal, is_repetitive; /* a check of that kind failed */
    struct str request_id, unit;
    uint64_t latency_us; /* first token, waiting included, and decoding */
    uint32_t prompt_tokens, completion_tokens;
};

struct put_result {
    bool is_new_output, is_new_score;
    bool is_counted; /* first score of its output: to be fed to the laws */
    uint64_t row;    /* when is_new_score */
};

/* When the body is packed: at once, where a thread is there to do it beside the writer; or by the
 * store, which knows whether the output came before and needs none. */
enum packing { PACK_NOW, PACK_WHEN_NEW };

/* A score with all that is computed before the store sees it: any thread may do that. */
struct sealed_score {
    const struct score *score;
    const struct output *output; /* the one inside the score */
    struct str checks;           /* results, JSON text */
    struct packed body;          /* the output as it came; p NULL until it is packed */
    struct packer *packer;       /* for that, into the arena */
    struct arena *arena;
    unsigned char raw_hash[SHA256_BYTES], checks_hash[SHA256_BYTES];
};
/* Borrows all but e; texts in the arena. */
MUST_USE int score_seal(const struct score *sc, const struct output *o, struct packer *p,
                        enum packing when, struct arena *a, struct sealed_score *out,
                        struct err *e);

MUST_USE int store_put_score(struct store *s, const struct sealed_score *x, int64_t now_us,
                             struct put_result *out, struct err *e);
/* The row that a walk would read of what was put: same values, without reading it. */
void store_row_of(const struct sealed_score *x, const struct put_result *put, int64_t now_us,
                  struct scored_row *out);

MUST_USE int store_put_feedback(struct store *s, const struct feedback *f, int64_t now_us,
                                bool *is_new, struct err *e);
/* key: engine, epoch, seq of a frame whose rest was refused for this reason. */
MUST_USE int store_put_reject(struct store *s, const struct output *key, struct str raw,
                              const char *reason, int64_t now_us, bool *is_new, struct err *e);

/* Counted rows with row > after, in order. fn returns an err_code; anything but ERR_OK ends the
 * walk and is returned. */
typedef int scored_row_fn(const struct scored_row *row, void *ctx, struct err *e);
MUST_USE int store_walk_rows(struct store *s, uint64_t after, uint64_t up_to, scored_row_fn *fn,
                             void *ctx, struct err *e);
/* The same for one revision of a route. */
MUST_USE int store_walk_revision(struct store *s, struct str route, uint64_t revision,
                                 scored_row_fn *fn, void *ctx, struct err *e);

#endif
