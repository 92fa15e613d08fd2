/* verifier/compose.h - from the results of the checks to one reward. Pure.
 *
 * 1. A failed gate (a value under one half) makes the reward 0, whatever else is known.
 * 2. A gate that could not be judged makes the score unscored: passing it cannot be claimed.
 * 3. Else the mean of the scored checks that are no gates, weighted; what is unscored is left out.
 *    Only gates, all passed: 1. Nothing scored: unscored, with the first reason.
 * Weight 0 = shown, not counted. */
#ifndef VERIFIER_COMPOSE_H
#define VERIFIER_COMPOSE_H

#include "schemas/score.h"

enum { COMPOSE_VERSION = 1 }; /* part of every check set's version */

/* Reads s->check[0..n_check), sets is_scored, reward and reason from the checks of set a, and
 * is_scored_b and reward_b by the same rules from those of set b. */
void compose_score(struct score *s);

#endif
