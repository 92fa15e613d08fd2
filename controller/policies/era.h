/* controller/policies/era.h - rewards of one version of the checks at a time.
 *
 * Changing only the checks moves rewards by more than most parameters do, so scores of two versions
 * are two different quantities. Rows of another version than the current one do not count; when
 * ERA_PATIENCE of them come in a row, the checks were changed and statistics begin again. Two
 * verifiers with different checks that run side by side therefore mix nothing and reset nothing:
 * one version counts, the other does not. Pure. */
#ifndef CONTROLLER_POLICIES_ERA_H
#define CONTROLLER_POLICIES_ERA_H

#include "controller/policies/state_codec.h"

#include <stdint.h>

enum { ERA_PATIENCE = 20 };

struct era {
    uint64_t version; /* tag of the check set's version that counts; 0 = none seen yet */
    uint64_t other;   /* the version of the last `run` rows */
    uint32_t run;
    uint64_t n_excluded;
};

extern const struct state_field ERA_FIELDS[];

enum era_verdict {
    ERA_COUNTS,
    ERA_EXCLUDED,
    ERA_BEGINS /* this row counts, and nothing before it */
};

enum era_verdict era_admit(struct era *x, uint64_t version);

#endif
