/* controller/experiments/allocation.h - who gets how much of the traffic, and in what order.
 *
 * Shares are computed, not drawn: the engine draws by hashing each unit, so that the propensity of
 * every request is known. Orders of slices come from the plan's seed. Pure. */
#ifndef CONTROLLER_EXPERIMENTS_ALLOCATION_H
#define CONTROLLER_EXPERIMENTS_ALLOCATION_H

#include "controller/experiments/contest.h"

/* Probability that each arm that is in has the highest mean, by the posteriors Beta(1 + sum of
 * rewards, 1 + n - sum). 0 for arms that are out. O(K grid). */
void allocation_best(const struct contest *c, double out[EXPERIMENT_ARMS]);

/* Shares for the plan's law; they sum to 1 and are 0 for arms that are out. Equal, or top-two
 * Thompson sampling (Russo, arXiv:1602.08448) mixed with the floor. */
void allocation_shares(const struct contest *c, double floor, double out[EXPERIMENT_ARMS]);

/* Random order of the arms that are in, of one round of slices; returns how many. */
uint32_t allocation_order(const struct contest *c, uint64_t seed, uint64_t round,
                          uint32_t out[EXPERIMENT_ARMS]);

#endif
