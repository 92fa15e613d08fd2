/* tests/sim/audit_parts.h - what the files of the audit share; for nobody else. */
#ifndef TESTS_SIM_AUDIT_PARTS_H
#define TESTS_SIM_AUDIT_PARTS_H

#include "tests/sim/audit.h"

enum { VERSIONS_MAX = 1 << 15, EXPECTED_MAX = 1024, COUNTS_MAX = 1024, WHOLE_STATE_EVERY = 64 };

struct known_route { /* of a document, from committed rows alone */
    bool is_paused;
    uint64_t experiment;
    uint32_t n_arm;
    uint64_t revision[CONTROL_MAX_ARMS];
    double share[CONTROL_MAX_ARMS], temperature[CONTROL_MAX_ARMS];
};

struct known_document {
    struct known_route route[WORLD_ROUTES];
    uint64_t text; /* hash of the first that an engine got; 0 = none did */
};

struct expected_decision {
    char action[16], test[32];
    uint32_t route;
    uint64_t from, to;
    double log_e;
};

struct trial_count { /* committed rows that may speak in a trial */
    uint32_t route;
    uint64_t experiment, revision, n_scored, n_unscored;
};

struct audit {
    struct world *world;
    struct store *store; /* NULL before the first commit */
    struct arena arena;
    struct course course[WORLD_ROUTES];
    struct policy_view view[WORLD_ROUTES]; /* of the courses, after the last row or event */
    struct course_result *result;
    uint64_t ord, version, n_decision, n_commit;
    char last_hash[65];
    struct known_document *document; /* [VERSIONS_MAX] by version */
    struct expected_decision expected[EXPECTED_MAX];
    uint32_t n_expected, at_expected;
    struct trial_count count[COUNTS_MAX];
    uint32_t n_count;
    uint64_t applied[WORLD_ENGINES], handed[WORLD_ENGINES];
    uint64_t sent[WORLD_ENGINES];          /* the last seq that left an engine's publisher */
    int64_t gap;                           /* the last that was looked at */
    uint64_t decided[WORLD_ROUTES];        /* ord behind the last decision */
    uint64_t trial_unscored[WORLD_ROUTES]; /* of the running trial, at the last look */
    struct buf state[2];                   /* room to compare in */
    struct audit_sums sums;
};

struct sim_engine *audit_engine(struct audit *a, struct str id);
/* audit_delivery.c: after a commit, what was given up since the last one; at rest, one engine. */
void audit_gaps(struct audit *a);
void audit_delivered(struct audit *a, const struct sim_engine *g);

#endif
