/* controller/experiments/acts.c - see the header. Pure.
 *
 * Of an action about two arms, "champion" is the one that is left and "challenger" the one that
 * wins, so that effects read challenger minus champion as in a canary. */
#include "controller/experiments/acts.h"

#include "controller/experiments/allocation.h"
#include "controller/policies/arms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct policy_action *add(const struct experiment *x, enum policy_action_kind kind,
                                 uint32_t from, uint32_t to, struct policy_actions *out)
{
    const struct contest *c = &x->contest;
    struct arms nobody = {0};
    struct policy_action *act = arms_action(&nobody, kind, out);
    memcpy(act->experiment, x->id, sizeof x->id);
    act->from_revision = x->arm[from].revision.number;
    act->to_revision = x->arm[to].revision.number;
    act->n_champion = c->arm[from].n;
    act->n_challenger = c->arm[to].n;
    act->n_unscored_champion = c->arm[from].n_unscored;
    act->n_unscored_challenger = c->arm[to].n_unscored;
    act->mean_champion = contest_mean(c, from);
    act->mean_challenger = contest_mean(c, to);
    act->first_row = x->first_row;
    act->last_row = x->last_row;
    act->first_admission = x->first_admission;
    act->last_admission = x->last_admission;
    act->is_experiment = true;
    if (from == to || !c->arm[from].n || !c->arm[to].n)
        return act;
    struct interval d = contest_effect(c, to, from);
    act->effect = d.centre;
    act->effect_lower = d.lower;
    act->effect_upper = d.upper;
    return act;
}

/* Place of the next slice in this round, past arms that left meanwhile; n = the round is over. */
static uint32_t next_place(const struct experiment *x)
{
    const struct experiment_round *now = &x->round[x->n_rounds & 1];
    uint32_t at = x->slice_at + 1;
    while (at < now->n && x->contest.arm[now->order[at]].is_out)
        at++;
    return x->n_rounds == 0 || at > now->n ? now->n : at;
}

bool acts_round_is_over(const struct experiment *x)
{
    return next_place(x) == x->round[x->n_rounds & 1].n;
}

static void next_slice(struct experiment *x)
{
    struct experiment_round *now = &x->round[x->n_rounds & 1];
    uint32_t at = next_place(x);
    if (at == now->n) {
        x->n_rounds++;
        now = &x->round[x->n_rounds & 1];
        *now = (struct experiment_round){
            .number = x->n_rounds, .first_allocation = x->allocation, .is_open = 1};
        now->n = allocation_order(&x->contest, x->plan.seed, x->n_rounds, now->order);
        x->slice_at = 0;
    } else {
        x->slice_at = at;
    }
    for (uint32_t k = 0; k < x->n_arm; k++)
        x->arm[k].share = k == now->order[x->slice_at] ? 1.0 : 0.0;
    x->slice_end_us = x->now_us + x->plan.slice_us;
}

void acts_allocate(struct experiment *x, const char *why, struct policy_actions *out)
{
    double share[EXPERIMENT_ARMS];
    x->allocation++;
    if (x->plan.law == LAW_SLICES) {
        next_slice(x);
    } else {
        allocation_shares(&x->contest, x->plan.floor, share);
        for (uint32_t k = 0; k < x->n_arm; k++)
            x->arm[k].share = share[k];
    }
    struct experiment_past *past = &x->past[x->allocation % EXPERIMENT_PAST];
    *past = (struct experiment_past){.allocation = x->allocation};
    for (uint32_t k = 0; k < x->n_arm; k++)
        past->share[k] = x->arm[k].share;
    x->share_units = x->contest.n_scored;
    struct policy_action *act = add(x, ACTION_ALLOCATE, 0, 0, out);
    act->value = (double)x->allocation;
    arms_reason(act, "%s", why);
}

void acts_eliminate(struct experiment *x, const struct contest_verdict *v,
                    struct policy_actions *out)
{
    const struct contest *c = &x->contest;
    struct policy_action *act = add(x, ACTION_ELIMINATE, v->loser, v->winner, out);
    snprintf(act->test, sizeof act->test, "duel");
    act->log_e = v->log_e;
    act->log_threshold = v->log_threshold;
    act->n_blocks = contest_duel(c, v->winner, v->loser)->scored.steps;
    arms_reason(act,
                "revision %llu earns more than %llu: e-value %.4g reached K(K-1)/alpha = %.4g "
                "after %llu comparisons",
                (unsigned long long)act->to_revision, (unsigned long long)act->from_revision,
                exp(v->log_e), exp(v->log_threshold), (unsigned long long)act->n_blocks);
    x->contest.arm[v->loser].is_out = 1;
    x->arm[v->loser].beaten_by = v->winner;
}

void acts_trip(struct experiment *x, uint32_t arm, const char *why, struct policy_actions *out)
{
    struct policy_action *act = add(x, ACTION_ELIMINATE, arm, arm, out);
    snprintf(act->test, sizeof act->test, "hard_trip");
    arms_reason(act, "hard trip of revision %llu: %s", (unsigned long long)act->from_revision, why);
    x->contest.arm[arm].is_out = 1;
}

/* The winner goes the way every change goes; or all the way, when the plan says so and the champion
 * itself was beaten. */
static void follow_up(struct experiment *x, struct policy_actions *out)
{
    uint32_t w = x->winner;
    bool is_champion_beaten = x->arm[0].beaten_by < x->n_arm;
    if (w == EXPERIMENT_NONE_WINS || w == 0 || !is_champion_beaten)
        return;
    if (x->plan.on_win == ON_WIN_REPORT)
        return;
    bool is_direct = x->plan.on_win == ON_WIN_PROMOTE;
    struct policy_action *act = add(x, is_direct ? ACTION_PROMOTE : ACTION_START_CANARY, 0, w, out);
    memcpy(act->hash, x->arm[w].revision.hash, sizeof act->hash);
    snprintf(act->test, sizeof act->test, "experiment");
    arms_reason(act, "revision %llu won experiment %s%s", (unsigned long long)act->to_revision,
                x->id, is_direct ? "" : ": a canary against the champion");
}

void acts_conclude(struct experiment *x, const char *outcome, uint32_t winner, const char *why,
                   struct policy_actions *out)
{
    x->phase = EXPERIMENT_ENDED;
    x->winner = winner;
    x->ended_us = x->now_us;
    snprintf(x->outcome, sizeof x->outcome, "%s", outcome);
    bool has_winner = winner < x->n_arm;
    struct policy_action *act = add(x, ACTION_CONCLUDE, 0, has_winner ? winner : 0, out);
    snprintf(act->test, sizeof act->test, "%s", outcome);
    if (has_winner)
        memcpy(act->hash, x->arm[winner].revision.hash, sizeof act->hash);
    arms_reason(act, "%s", why);
    for (uint32_t k = 0; k < x->n_arm; k++)
        x->arm[k].share = 0.0;
    x->queue.n_held = x->queue.n_gone = 0;
    follow_up(x, out);
}

void acts_alert(struct experiment *x, const char *test, const char *why, struct policy_actions *out)
{
    struct policy_action *act = add(x, ACTION_ALERT, 0, 0, out);
    snprintf(act->test, sizeof act->test, "%s", test);
    arms_reason(act, "%s", why);
}
