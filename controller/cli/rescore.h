/* controller/cli/rescore.h - stored outputs through `milepost-verifier score`, and how the verdicts
 * move. Reads the database only; nothing is written and nothing served changes. */
#ifndef CONTROLLER_CLI_RESCORE_H
#define CONTROLLER_CLI_RESCORE_H

#include "common/arena.h"
#include "common/clock.h"

#include <jansson.h>

enum rescore_class { RESCORE_PASS, RESCORE_VALUE, RESCORE_FAIL, RESCORE_UNSCORED, RESCORE_CLASSES };
enum { RESCORE_MAX_MOVED = 20, RESCORE_MAX_REVISIONS = 256, RESCORE_MAX_VERSIONS = 32 };

struct rescore_side { /* sums over rows scored on both sides */
    uint64_t n;
    double sum_old, sum_new;
};

struct rescore_revision {
    uint64_t number;
    struct rescore_side both;
};

struct rescore_moved { /* texts in the arena */
    const char *request_id, *text, *reason;
    double before, after; /* NaN = unscored */
    double size;
};

struct rescore_report {
    struct arena *arena; /* of texts; set before */
    uint64_t n_rows, n_changed, n_unusable;
    uint64_t moves[RESCORE_CLASSES][RESCORE_CLASSES]; /* [before][after] */
    struct rescore_side both;
    struct rescore_revision revision[RESCORE_MAX_REVISIONS];
    size_t n_revision;
    const char *version_before[RESCORE_MAX_VERSIONS];
    size_t n_version_before;
    const char *version_after;
    struct rescore_moved moved[RESCORE_MAX_MOVED]; /* largest first */
    size_t n_moved;
};

struct rescore_before { /* what is stored; reward NaN = unscored */
    const char *request_id, *version;
    uint64_t engine_seq, revision;
    double reward;
};

enum rescore_class rescore_class_of(double reward);
const char *rescore_class_name(enum rescore_class c);
/* One row: what is stored and the new score message (NULL: the verifier could not use it).
 * ERR_CORRUPT: the score is of another output. */
MUST_USE int rescore_add(struct rescore_report *r, const struct rescore_before *before,
                         const json_t *score, struct err *e);

#endif
