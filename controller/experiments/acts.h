/* controller/experiments/acts.h - what an experiment does, as actions with their numbers. Pure. */
#ifndef CONTROLLER_EXPERIMENTS_ACTS_H
#define CONTROLLER_EXPERIMENTS_ACTS_H

#include "controller/experiments/experiment.h"

/* New shares by the plan's law (or the next slice); the document follows. */
void acts_allocate(struct experiment *x, const char *why, struct policy_actions *out);
/* Slices: the next one begins a new round. */
bool acts_round_is_over(const struct experiment *x);
void acts_eliminate(struct experiment *x, const struct contest_verdict *v,
                    struct policy_actions *out);
/* Dropped at once, without statistics. */
void acts_trip(struct experiment *x, uint32_t arm, const char *why, struct policy_actions *out);
/* Ends it: outcome "winner" or "better" (of arm winner), "no_verdict" or "stopped". */
void acts_conclude(struct experiment *x, const char *outcome, uint32_t winner, const char *why,
                   struct policy_actions *out);
void acts_alert(struct experiment *x, const char *test, const char *why,
                struct policy_actions *out);

#endif
