/* controller/experiments/contest.c - every ordered pair bets; see the header. Pure.
 *
 * Invariant: duels of an arm that is out no longer change, so its numbers stay what they were when
 * it was beaten. */
#include "controller/experiments/contest.h"

#include <math.h>
#include <string.h>

#define INTERVAL_MISS 0.05

static const struct state_field DUEL_FIELDS[] = {
    STATE_SUB(struct duel, scored, BETTING_FIELDS),
    STATE_SUB(struct duel, filled, BETTING_FIELDS),
    STATE_END,
};

static const struct state_field SIDE_FIELDS[] = {
    STATE_NUMBER(struct ipw_side, sum_x, STATE_F64),
    STATE_NUMBER(struct ipw_side, sum_dev, STATE_F64),
    STATE_NUMBER(struct ipw_side, sum_lambda, STATE_F64),
    STATE_NUMBER(struct ipw_side, sum_lx, STATE_F64),
    STATE_NUMBER(struct ipw_side, sum_vpsi, STATE_F64),
    STATE_END,
};

static const struct state_field IPW_FIELDS[] = {
    STATE_NUMBER(struct ipw, n, STATE_U64),
    STATE_SUB(struct ipw, low, SIDE_FIELDS),
    STATE_SUB(struct ipw, high, SIDE_FIELDS),
    STATE_END,
};

static const struct state_field CONTESTANT_FIELDS[] = {
    STATE_LIMITED(struct contestant, is_out, STATE_U32, 1),
    STATE_NUMBER(struct contestant, n, STATE_U64),
    STATE_NUMBER(struct contestant, n_unscored, STATE_U64),
    STATE_NUMBER(struct contestant, sum, STATE_F64),
    STATE_SUB(struct contestant, reward, CONFSEQ_FIELDS),
    STATE_SUB(struct contestant, weighted, IPW_FIELDS),
    STATE_END,
};

const struct state_field CONTEST_FIELDS[] = {
    STATE_LIMITED(struct contest, law, STATE_U32, LAW_COUNT - 1),
    STATE_LIMITED(struct contest, n_arm, STATE_U32, EXPERIMENT_ARMS),
    STATE_LIMITED(struct contest, n_pair, STATE_U32, EXPERIMENT_PAIRS),
    STATE_LIMITED(struct contest, n_duel, STATE_U32, CONTEST_DUELS),
    STATE_USED(struct contest, arm, EXPERIMENT_ARMS, n_arm, CONTESTANT_FIELDS),
    STATE_USED(struct contest, duel, CONTEST_DUELS, n_duel, DUEL_FIELDS),
    STATE_USED(struct contest, effect, EXPERIMENT_PAIRS, n_pair, CONFSEQ_FIELDS),
    STATE_SUB(struct contest, scored, LINEUP_FIELDS),
    STATE_SUB(struct contest, all, LINEUP_FIELDS),
    STATE_NUMBER(struct contest, n_scored, STATE_U64),
    STATE_NUMBER(struct contest, sum, STATE_F64),
    STATE_END,
};

void contest_start(struct contest *c, uint32_t law, uint32_t n_arm)
{
    memset(c, 0, sizeof *c);
    c->law = law;
    c->n_arm = n_arm;
    c->n_pair = n_arm * (n_arm - 1) / 2;
    c->n_duel = 2 * c->n_pair;
    for (uint32_t k = 0; k < n_arm; k++)
        c->arm[k].reward = confseq_eb_start(INTERVAL_MISS);
    for (uint32_t d = 0; d < c->n_duel; d++)
        c->duel[d] = (struct duel){betting_start(), betting_start()};
    for (uint32_t p = 0; p < c->n_pair; p++)
        c->effect[p] = confseq_eb_start(INTERVAL_MISS);
    lineup_start(&c->scored, n_arm);
    lineup_start(&c->all, n_arm);
}

void contest_restart(struct contest *c)
{
    uint32_t is_out[EXPERIMENT_ARMS];
    for (uint32_t k = 0; k < c->n_arm; k++)
        is_out[k] = c->arm[k].is_out;
    contest_start(c, c->law, c->n_arm);
    for (uint32_t k = 0; k < c->n_arm; k++)
        c->arm[k].is_out = is_out[k];
}

static uint32_t duel_at(uint32_t winner, uint32_t loser)
{
    return winner < loser ? 2 * lineup_pair(winner, loser) : 2 * lineup_pair(loser, winner) + 1;
}

const struct duel *contest_duel(const struct contest *c, uint32_t winner, uint32_t loser)
{
    return &c->duel[duel_at(winner, loser)];
}

static void outs(const struct contest *c, bool is_out[EXPERIMENT_ARMS])
{
    for (uint32_t k = 0; k < c->n_arm; k++)
        is_out[k] = c->arm[k].is_out != 0;
}

/* A difference a - b in [-1,1] of scored rewards, for both directions. */
static void play_scored(struct contest *c, uint32_t a, uint32_t b, double d)
{
    struct bet_stake up = bet_paired(BET_SUPERIOR, d, 0.0);
    struct bet_stake down = bet_paired(BET_SUPERIOR, -d, 0.0);
    betting_update(&c->duel[duel_at(a, b)].scored, up.s, up.lo);
    betting_update(&c->duel[duel_at(b, a)].scored, down.s, down.lo);
    double first = a < b ? d : -d;
    uint32_t pair = a < b ? lineup_pair(a, b) : lineup_pair(b, a);
    confseq_eb_update(&c->effect[pair], 0.5 * (first + 1.0));
}

/* The same with the worst case against the winner of each direction. */
static void play_filled(struct contest *c, uint32_t a, uint32_t b, struct lineup_value va,
                        struct lineup_value vb)
{
    struct bet_stake up = bet_paired(BET_SUPERIOR, va.low - vb.high, 0.0);
    struct bet_stake down = bet_paired(BET_SUPERIOR, vb.low - va.high, 0.0);
    betting_update(&c->duel[duel_at(a, b)].filled, up.s, up.lo);
    betting_update(&c->duel[duel_at(b, a)].filled, down.s, down.lo);
}

static struct lineup_value value_of(const struct contest_row *row)
{
    if (row->is_scored)
        return (struct lineup_value){row->reward, row->reward};
    return (struct lineup_value){0.0, 1.0};
}

static void add_paired(struct contest *c, const struct contest_row *row)
{
    struct lineup_block block[EXPERIMENT_ARMS];
    bool is_out[EXPERIMENT_ARMS];
    outs(c, is_out);
    struct lineup_value v = value_of(row);
    uint32_t n = lineup_push(&c->all, row->stratum, row->arm, v, is_out, block);
    for (uint32_t i = 0; i < n; i++)
        play_filled(c, block[i].arm, block[i].other, block[i].mine, block[i].theirs);
    if (!row->is_scored)
        return;
    n = lineup_push(&c->scored, row->stratum, row->arm, v, is_out, block);
    for (uint32_t i = 0; i < n; i++)
        play_scored(c, block[i].arm, block[i].other, block[i].mine.low - block[i].theirs.low);
}

/* One row of a or b, given that it is of one of the two: Z = (r - base)(1[a]/p - 1[b]/(1-p)) has
 * the mean reward(a) - reward(b) for any base chosen before, and little noise for a good one. */
static void bet_row(struct betting *b, double r, bool is_winner, double p, double base)
{
    double s = is_winner ? (r - base) / p : -(r - base) / (1.0 - p);
    betting_update(b, s, fmax(base / p, (1.0 - base) / (1.0 - p)));
}

static void add_weighted(struct contest *c, const struct contest_row *row)
{
    double base = (0.5 + c->sum) / (1.0 + (double)c->n_scored);
    struct lineup_value v = value_of(row);
    uint32_t a = row->arm;
    for (uint32_t b = 0; b < c->n_arm; b++) {
        double p = row->share[a] / (row->share[a] + row->share[b]);
        if (b == a || c->arm[b].is_out || !(p > 0.0 && p < 1.0))
            continue;
        struct duel *win = &c->duel[duel_at(a, b)], *lose = &c->duel[duel_at(b, a)];
        bet_row(&win->filled, v.low, true, p, base);
        bet_row(&lose->filled, v.high, false, 1.0 - p, base);
        if (!row->is_scored)
            continue;
        bet_row(&win->scored, row->reward, true, p, base);
        bet_row(&lose->scored, row->reward, false, 1.0 - p, base);
    }
    for (uint32_t k = 0; row->is_scored && k < c->n_arm; k++)
        ipw_update(&c->arm[k].weighted, row->reward, k == a, row->share[k]);
}

void contest_add(struct contest *c, const struct contest_row *row)
{
    struct contestant *arm = &c->arm[row->arm];
    if (c->law == LAW_ELIMINATION && !arm->is_out)
        add_paired(c, row);
    if (c->law == LAW_TOP_TWO && !arm->is_out && row->share)
        add_weighted(c, row);
    if (!row->is_scored) {
        arm->n_unscored++;
        return;
    }
    arm->n++;
    arm->sum += row->reward;
    if (c->law != LAW_SLICES)
        confseq_eb_update(&arm->reward, row->reward);
    c->n_scored++;
    c->sum += row->reward;
}

void contest_add_round(struct contest *c, const struct contest_slice *slice)
{
    for (uint32_t b = 0; b < c->n_arm; b++) {
        const struct contest_slice *y = &slice[b];
        if (c->arm[b].is_out || y->n == 0)
            continue;
        double all_b = (double)(y->n + y->n_unscored);
        struct lineup_value vb = {y->sum / all_b, (y->sum + (double)y->n_unscored) / all_b};
        confseq_eb_update(&c->arm[b].reward, y->sum / (double)y->n);
        for (uint32_t a = 0; a < b; a++) {
            const struct contest_slice *x = &slice[a];
            if (c->arm[a].is_out || x->n == 0)
                continue;
            double all_a = (double)(x->n + x->n_unscored);
            struct lineup_value va = {x->sum / all_a, (x->sum + (double)x->n_unscored) / all_a};
            play_scored(c, a, b, x->sum / (double)x->n - y->sum / (double)y->n);
            play_filled(c, a, b, va, vb);
        }
    }
}

double contest_log_threshold(const struct contest *c, double alpha)
{
    return log_threshold(alpha / (double)c->n_duel);
}

bool contest_beaten(const struct contest *c, double alpha, uint64_t min_units,
                    struct contest_verdict *out)
{
    double threshold = contest_log_threshold(c, alpha);
    for (uint32_t j = 0; j < c->n_arm; j++) {
        for (uint32_t i = 0; i < c->n_arm; i++) {
            bool is_played = i != j && !c->arm[i].is_out && !c->arm[j].is_out;
            if (!is_played || c->arm[i].n < min_units || c->arm[j].n < min_units)
                continue;
            const struct duel *d = contest_duel(c, i, j);
            double log_e = fmin(d->scored.log_w, d->filled.log_w);
            if (log_e < threshold)
                continue;
            *out = (struct contest_verdict){i, j, log_e, threshold};
            return true;
        }
    }
    return false;
}

uint32_t contest_n_in(const struct contest *c)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n_arm; k++)
        n += !c->arm[k].is_out;
    return n;
}

double contest_mean(const struct contest *c, uint32_t arm)
{
    const struct contestant *a = &c->arm[arm];
    if (a->n == 0)
        return (double)NAN;
    return c->law == LAW_TOP_TWO ? ipw_mean(&a->weighted) : a->sum / (double)a->n;
}

uint32_t contest_leader(const struct contest *c)
{
    uint32_t best = c->n_arm;
    for (uint32_t k = 0; k < c->n_arm; k++) {
        if (c->arm[k].is_out)
            continue;
        if (best == c->n_arm || contest_mean(c, k) > contest_mean(c, best))
            best = k;
    }
    return best < c->n_arm ? best : 0;
}

static struct interval cut(struct interval v, double lowest)
{
    v.lower = fmax(lowest, v.lower);
    v.upper = fmin(1.0, v.upper);
    return v;
}

struct interval contest_reward(const struct contest *c, uint32_t arm)
{
    const struct contestant *a = &c->arm[arm];
    struct interval v = c->law == LAW_TOP_TWO ? ipw_interval(&a->weighted, INTERVAL_MISS)
                                              : cut(confseq_eb_interval(&a->reward), 0.0);
    v.centre = contest_mean(c, arm);
    return v;
}

struct interval contest_effect(const struct contest *c, uint32_t a, uint32_t b)
{
    if (c->law == LAW_TOP_TWO) { /* both intervals hold together with 95% */
        struct interval x = ipw_interval(&c->arm[a].weighted, INTERVAL_MISS / 2.0);
        struct interval y = ipw_interval(&c->arm[b].weighted, INTERVAL_MISS / 2.0);
        return (struct interval){x.centre - y.centre, x.lower - y.upper, x.upper - y.lower};
    }
    const struct confseq_eb *e = &c->effect[a < b ? lineup_pair(a, b) : lineup_pair(b, a)];
    struct interval v = confseq_eb_interval(e);
    double sign = a < b ? 1.0 : -1.0;
    double low = 2.0 * v.lower - 1.0, high = 2.0 * v.upper - 1.0;
    v = (struct interval){sign * (2.0 * confseq_eb_mean(e) - 1.0), a < b ? low : -high,
                          a < b ? high : -low};
    return cut(v, -1.0);
}
