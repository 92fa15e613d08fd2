/* controller/stats/blocks.h - pairs the arms of a canary into blocks.
 *
 * A block is one row of the smaller arm and the mean of k rows of the larger, of one stratum, in
 * the order of admission. Which rows meet depends on arms and order only, never on their values, so
 * under H0 every block's difference is fair given the past. Differences are challenger minus
 * control whichever arm is the smaller. Rows carry several values (reward, guardrail events) at
 * once.
 *
 * Bounded: at most BLOCKS_WAITING rows a side wait in a stratum; beyond it the oldest is dropped
 * and counted, so that partners stay close in time. Pure. O(k). */
#ifndef CONTROLLER_STATS_BLOCKS_H
#define CONTROLLER_STATS_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum { BLOCKS_STRATA = 8, BLOCKS_WAITING = 32, BLOCKS_VALUES = 9, BLOCKS_MAX_K = 16 };

struct block_value {
    double v[BLOCKS_VALUES];
};

struct block_stratum {
    struct block_value small[BLOCKS_WAITING]; /* smaller arm, oldest first */
    struct block_value large[BLOCKS_WAITING];
    uint32_t n_small;
    uint32_t n_large;
};

struct blocks {
    struct block_stratum stratum[BLOCKS_STRATA];
    uint32_t k;                   /* rows of the larger arm in a block, 1..BLOCKS_MAX_K */
    uint32_t is_challenger_small; /* else the control is the smaller arm */
    uint64_t n_blocks;
    uint64_t n_dropped;
};

struct block {
    struct block_value challenger, control; /* means of the block's rows, each in [0,1] */
    struct block_value diff;                /* challenger minus control, each in [-1,1] */
};

/* k that fits a challenger's share: the larger share over the smaller, at most k_max. */
uint32_t blocks_k(double challenger_share, uint32_t k_max);

/* Sets k and the smaller arm for the share; waiting rows are dropped when the arms change sides. */
void blocks_set_share(struct blocks *b, double challenger_share, uint32_t k_max);

/* Adds a row (values in [0,1], NaN = not known: then NaN for the block); true when it completes a
 * block. stratum < BLOCKS_STRATA. */
bool blocks_push(struct blocks *b, uint32_t stratum, bool is_challenger,
                 const struct block_value *value, struct block *out);

#endif
