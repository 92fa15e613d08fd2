/* tests/sim/stats_betting.c - the table of the canary test, law 2.2, from the code that serves.
 *
 * Blocks come from controller/stats/blocks.c, wealth from betting.c. alpha 0.05, eps 0.02, control
 * Bernoulli 0.80; up to 20,000 pairs at 1:1 and 4,000 blocks at 1:9; 1,000 repetitions a cell. */
#include "common/rng.h"
#include "controller/stats/betting.h"
#include "controller/stats/blocks.h"
#include "tests/sim/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REPETITIONS = 1000 };
#define EPSILON 0.02
#define ALPHA   0.05

struct reward_model {
    double mean_control, drop, sd; /* sd 0 = Bernoulli, else a clipped normal */
};

static double draw(const struct reward_model *m, struct rng *r, bool is_challenger)
{
    double mean = m->mean_control - (is_challenger ? m->drop : 0.0);
    if (m->sd == 0.0)
        return rng_uniform(r) < mean ? 1.0 : 0.0;
    return fmin(1.0, fmax(0.0, mean + m->sd * rng_normal(r)));
}

/* Requests until rollback of one canary; INFINITY when the limit comes first. */
static double run_canary(const struct reward_model *m, struct rng *r, uint32_t k,
                         uint32_t max_blocks)
{
    struct blocks b;
    memset(&b, 0, sizeof b);
    blocks_set_share(&b, 1.0 / (k + 1.0), k);
    struct betting w = betting_start();
    while (w.steps < max_blocks) {
        struct block block;
        for (uint32_t i = 0; i <= k; i++) {
            struct block_value v = {{draw(m, r, i == 0)}};
            if (!blocks_push(&b, 0, i == 0, &v, &block))
                continue;
            struct bet_stake stake = bet_paired(BET_ROLLBACK, block.diff.v[0], EPSILON);
            if (betting_update(&w, stake.s, stake.lo) >= log_threshold(ALPHA))
                return (double)w.steps * (k + 1.0);
        }
    }
    return INFINITY;
}

struct row {
    struct reward_model model;
    uint32_t k, max_blocks;
    double share, median; /* of the law; median 0 = not given, in requests */
};

static const struct row TABLE[] = {
    {{0.8, 0.00, 0}, 1, 20000, 0.007, 0},      {{0.8, 0.00, 0}, 9, 4000, 0.003, 0},
    {{0.8, 0.02, 0}, 1, 20000, 0.034, 0},      {{0.8, 0.02, 0}, 9, 4000, 0.021, 0},
    {{0.8, 0.05, 0}, 1, 20000, 1.000, 6454},   {{0.8, 0.05, 0}, 9, 4000, 0.917, 15850},
    {{0.8, 0.10, 0}, 1, 20000, 1.000, 836},    {{0.8, 0.10, 0}, 9, 4000, 1.000, 2170},
    {{0.8, 0.20, 0}, 1, 20000, 1.000, 164},    {{0.8, 0.20, 0}, 9, 4000, 1.000, 540},
    {{0.8, 0.40, 0}, 1, 20000, 1.000, 50},     {{0.8, 0.40, 0}, 9, 4000, 1.000, 220},
    {{0.7, 0.02, 0.15}, 1, 20000, 0.022, 0},   {{0.7, 0.05, 0.15}, 1, 20000, 1.000, 662},
    {{0.7, 0.10, 0.15}, 1, 20000, 1.000, 186}, {{0.7, 0.20, 0.15}, 1, 20000, 1.000, 80},
};

int main(void)
{
    struct report report = {0};
    static double requests[REPETITIONS];
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        const struct row *row = &TABLE[i];
        struct rng r;
        rng_seed(&r, 1000 + i);
        int n_rollback = 0;
        for (int j = 0; j < REPETITIONS; j++) {
            requests[j] = run_canary(&row->model, &r, row->k, row->max_blocks);
            n_rollback += isfinite(requests[j]) != 0;
        }
        char what[96];
        snprintf(what, sizeof what, "%s drop %.2f 1:%u rollback share",
                 row->model.sd > 0.0 ? "graded" : "0/1", row->model.drop, row->k);
        report_share(&report, what, (double)n_rollback / REPETITIONS, row->share, REPETITIONS);
        snprintf(what, sizeof what, "%s drop %.2f 1:%u median requests",
                 row->model.sd > 0.0 ? "graded" : "0/1", row->model.drop, row->k);
        if (row->median > 0.0)
            report_median(&report, what, requests, row->median, REPETITIONS);
    }
    return report_end(&report);
}
