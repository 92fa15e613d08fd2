/* controller/experiments/contest.h - K arms against each other: the evidence of an experiment.
 *
 * Every ordered pair (i,j) bets on "i earns more than j" (CONTROL.md 2.2 with eps = 0), at the
 * threshold K(K-1)/alpha: by Ville and the union bound no arm is wrongly beaten with probability
 * 1 - alpha, whenever one looks. Three ways in, by the plan's law: paired rows (equal shares),
 * weighted rows (shares that follow the data), means of slices of time.
 *
 * What is unscored is a third value: each pair bets twice, on scored rows and on all rows with the
 * worst case filled in against the winner (0 for i, 1 for j); an arm is beaten when both agree.
 * Pure. O(K) per row. */
#ifndef CONTROLLER_EXPERIMENTS_CONTEST_H
#define CONTROLLER_EXPERIMENTS_CONTEST_H

#include "controller/experiments/lineup.h"
#include "controller/stats/betting.h"
#include "controller/stats/confseq.h"
#include "controller/stats/ipw.h"

enum { CONTEST_DUELS = 2 * EXPERIMENT_PAIRS };

struct duel { /* "this arm earns more than that one" */
    struct betting scored, filled;
};

struct contestant {
    uint32_t is_out; /* beaten, or tripped */
    uint64_t n, n_unscored;
    double sum;               /* of rewards */
    struct confseq_eb reward; /* of rows; of slices when time is what is split */
    struct ipw weighted;      /* top two: of all rows */
};

struct contest {
    uint32_t law, n_arm, n_pair, n_duel;
    struct contestant arm[EXPERIMENT_ARMS];
    struct duel duel[CONTEST_DUELS];            /* [2 pair]: i over j, [2 pair + 1]: j over i */
    struct confseq_eb effect[EXPERIMENT_PAIRS]; /* of (i - j + 1) / 2 */
    struct lineup scored, all;                  /* elimination */
    uint64_t n_scored;
    double sum; /* of scored rewards of every arm: the baseline of the weighted bets */
};

struct contest_row {
    uint32_t arm, stratum;
    bool is_scored;
    double reward;
    const double *share; /* [n_arm] at the admission; top two, else NULL */
};

struct contest_slice { /* what one arm earned in its slice of a round */
    uint64_t n, n_unscored;
    double sum;
};

struct contest_verdict {
    uint32_t winner, loser;
    double log_e, log_threshold; /* of the weaker of the two bets */
};

extern const struct state_field CONTEST_FIELDS[];

void contest_start(struct contest *c, uint32_t law, uint32_t n_arm);
/* The evidence begins again; who is out stays out. */
void contest_restart(struct contest *c);
/* Next row in admission order. */
void contest_add(struct contest *c, const struct contest_row *row);
/* Every arm that is in had a slice; [n_arm]. */
void contest_add_round(struct contest *c, const struct contest_slice *slice);

double contest_log_threshold(const struct contest *c, double alpha);
/* An arm that another one beats now, both with at least min_units scored rows. */
bool contest_beaten(const struct contest *c, double alpha, uint64_t min_units,
                    struct contest_verdict *out);

uint32_t contest_n_in(const struct contest *c);
double contest_mean(const struct contest *c, uint32_t arm); /* NaN without rows */
uint32_t contest_leader(const struct contest *c);           /* best mean of those in */
const struct duel *contest_duel(const struct contest *c, uint32_t winner, uint32_t loser);
/* 95% at any time: of an arm's mean reward, of a minus b. */
struct interval contest_reward(const struct contest *c, uint32_t arm);
struct interval contest_effect(const struct contest *c, uint32_t a, uint32_t b);

#endif
