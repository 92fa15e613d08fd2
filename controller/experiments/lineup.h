/* controller/experiments/lineup.h - pairs the rows of K arms, every two arms by themselves.
 *
 * Each pair of arms forms blocks of one row of either, of one stratum, first come first paired.
 * Which rows meet depends on arms and order only, never on values, so a block's difference is fair
 * given the past. In a pair only one arm waits at a time: a ring of each arm's last rows and one
 * signed lead per pair are all there is to remember.
 *
 * Bounded: a lead of more than LINEUP_WAITING drops the oldest row of that pair and counts it, so
 * that partners stay close in time. Pure. O(K) per row. */
#ifndef CONTROLLER_EXPERIMENTS_LINEUP_H
#define CONTROLLER_EXPERIMENTS_LINEUP_H

#include "controller/experiments/plan.h"
#include "controller/policies/state_codec.h"

enum { LINEUP_WAITING = 32, LINEUP_EVEN = LINEUP_WAITING };

struct lineup_value {
    double low, high; /* of what is unscored: taken as 0, as 1; else both the reward */
};

struct lineup_ring {
    uint32_t next; /* where the next row is put */
    double low[LINEUP_WAITING], high[LINEUP_WAITING];
};

struct lineup_stratum {
    uint32_t n_arm, n_pair;
    struct lineup_ring ring[EXPERIMENT_ARMS];
    /* Of pair (i,j), i < j: LINEUP_EVEN + rows of i that wait, or - rows of j that wait. */
    uint32_t lead[EXPERIMENT_PAIRS];
};

struct lineup {
    uint32_t n_arm;
    uint32_t n_strata;
    struct lineup_stratum stratum[POLICY_STRATA_MAX];
    uint64_t n_dropped;
};

struct lineup_block { /* value of the arm that came, value of its partner */
    uint32_t arm, other;
    struct lineup_value mine, theirs;
};

extern const struct state_field LINEUP_FIELDS[];

void lineup_start(struct lineup *l, uint32_t n_arm);

/* Place of the pair i < j in a triangle. */
static inline uint32_t lineup_pair(uint32_t i, uint32_t j)
{
    return j * (j - 1) / 2 + i;
}

/* Adds a row; gives the blocks it completes, at most one per other arm that `is_out` leaves in. */
uint32_t lineup_push(struct lineup *l, uint32_t stratum, uint32_t arm, struct lineup_value value,
                     const bool *is_out, struct lineup_block out[EXPERIMENT_ARMS]);

#endif
