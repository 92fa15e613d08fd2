/* controller/policies/canary.h - state of the canary law, shared by its two files.
 *
 * canary.c takes the events; canary_judge.c looks at the numbers after each row and acts. Pure. */
#ifndef CONTROLLER_POLICIES_CANARY_H
#define CONTROLLER_POLICIES_CANARY_H

#include "controller/policies/era.h"
#include "controller/policies/trial.h"
#include "controller/policies/watch.h"

struct canary {
    struct arms arms;
    struct admission_queue queue;
    struct trial trial; /* of the running canary, or of the last one */
    struct watch watch;
    struct era era;
    uint64_t stratum_tag[BLOCKS_STRATA];
    char stratum_name[BLOCKS_STRATA][POLICY_STRATUM_BYTES]; /* for people; may be cut */
    uint32_t n_strata;
    uint32_t said_stale;
};

/* Takes every row that is in order now, and looks at the time. */
void canary_drain(const struct policy_settings *s, struct canary *c, struct policy_actions *out);
/* What is served changed just now: until each source shows requests of the new split, no second
 * change but a rollback. */
void canary_acted(struct canary *c);
/* No row was committed for longer than the route allows: what is known is old. */
bool canary_is_stale(const struct policy_settings *s, const struct canary *c);

#endif
