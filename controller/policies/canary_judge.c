/* controller/policies/canary_judge.c - after each row: does the canary end, did the champion drift,
 * is there something to try.
 *
 * Invariant: every change of what is served goes through canary_acted(). Pure. */
#include "controller/policies/canary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void canary_acted(struct canary *c)
{
    c->arms.acted_us = c->arms.now_us;
    c->arms.draining = 0;
    for (int i = 0; i < ADMISSION_SOURCES; i++)
        c->arms.draining |= c->queue.source[i].used ? 1u << i : 0;
    c->watch.settled_units = 0;
}

bool canary_is_stale(const struct policy_settings *s, const struct canary *c)
{
    return s->stale_us && c->arms.now_us >= c->arms.heard_us + s->stale_us;
}

/* A row admitted under the split in force: everything its source admitted before is through, for
 * rows come here in the order of their admission. */
static void note_drained(const struct policy_settings *s, struct canary *c,
                         const struct unit_row *u, bool is_challenger)
{
    double promised = is_challenger ? c->arms.share : 1.0 - c->arms.share;
    bool is_canary = c->arms.phase == PHASE_CANARY;
    bool is_own = u->experiment == c->arms.experiment_tag;
    bool is_new = is_canary ? is_own && fabs(u->propensity - promised) < 1e-9 : !is_own;
    if (c->arms.now_us - c->arms.acted_us >= s->pair_deadline_us)
        c->arms.draining = 0; /* what has not come by now is not waited for */
    for (int i = 0; is_new && c->arms.draining && i < ADMISSION_SOURCES; i++)
        if (c->queue.source[i].used && c->queue.source[i].id == u->source)
            c->arms.draining &= ~(1u << i);
}

static void put_verdict(struct policy_action *act, const struct verdict *v)
{
    snprintf(act->test, sizeof act->test, "%s", v->test);
    act->log_e = v->log_e;
    act->log_threshold = v->log_threshold;
    arms_reason(act, "%s", v->reason);
}

static void step_ramp(const struct policy_settings *s, struct canary *c, const struct verdict *v,
                      struct policy_actions *out)
{
    c->arms.ramp_step++;
    c->arms.share = s->ramp[c->arms.ramp_step];
    struct policy_action *act = arms_action(&c->arms, ACTION_SET_SPLIT, out);
    trial_fill(&c->trial, act);
    put_verdict(act, v);
    act->to_revision = c->arms.challenger.number;
    act->share = c->arms.share;
    trial_set_share(&c->trial, s, c->arms.share);
    canary_acted(c);
}

static void say_revert(struct policy_action *act, bool is_confirmed)
{
    char test[POLICY_REASON_BYTES];
    snprintf(test, sizeof test, "%s", act->reason);
    arms_reason(act, "%s: %.200s",
                is_confirmed ? "the revision before is better on the same traffic: the last change "
                               "made the drift"
                             : "the revision before is no better on the same traffic: the drift "
                               "has another cause",
                test);
}

static void act_on_verdict(const struct policy_settings *s, struct canary *c,
                           const struct verdict *v, struct policy_actions *out)
{
    struct policy_action *act = NULL;
    bool is_revert = c->arms.is_revert;
    if (v->kind == VERDICT_STEP) {
        step_ramp(s, c, v, out);
        return;
    }
    if (v->kind == VERDICT_PROMOTE)
        act = is_revert ? arms_confirm_revert(&c->arms, out) : arms_promote(&c->arms, out);
    else if (v->kind == VERDICT_ROLLBACK && !is_revert)
        act = arms_rollback(&c->arms, out);
    else /* a revert that was not confirmed accuses nobody */
        act = arms_expire(&c->arms, out);
    trial_fill(&c->trial, act);
    put_verdict(act, v);
    if (is_revert)
        say_revert(act, v->kind == VERDICT_PROMOTE);
    if (v->kind == VERDICT_PROMOTE) /* the winner's own record goes on */
        watch_change(&c->watch, &c->trial.challenger);
    canary_acted(c);
}

/* Nothing is decided on old data; said once in each silence. */
static bool is_frozen(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    if (!canary_is_stale(s, c))
        return false;
    if (c->said_stale)
        return true;
    c->said_stale = 1;
    struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
    trial_fill(&c->trial, act);
    snprintf(act->test, sizeof act->test, "stale");
    arms_reason(act, "no output was committed for %llu s: the canary is frozen, nothing is decided",
                (unsigned long long)((c->arms.now_us - c->arms.heard_us) / 1000000u));
    return true;
}

static void judge(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    struct verdict v;
    if (c->arms.phase != PHASE_CANARY || is_frozen(s, c, out))
        return;
    trial_close_units(&c->trial, s, c->arms.now_us);
    if (trial_unscored_fires(&c->trial, s, &c->arms, &v)) {
        struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
        trial_fill(&c->trial, act);
        put_verdict(act, &v);
    }
    if (trial_split_breaks(&c->trial)) {
        struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
        trial_fill(&c->trial, act);
        snprintf(act->test, sizeof act->test, "srm");
        arms_reason(act,
                    "sample ratio mismatch: %.0f challenger rows of %llu where %.1f were promised "
                    "(p = %.2g); rows of one arm may be lost: nothing is promoted",
                    c->trial.srm.observed, (unsigned long long)c->trial.srm.n,
                    c->trial.srm.expected, srm_p(&c->trial.srm));
    }
    trial_verdict(&c->trial, s, &c->arms, &v);
    if (v.kind != VERDICT_NONE)
        act_on_verdict(s, c, &v, out);
}

static void say_exhausted(struct canary *c, struct policy_actions *out)
{
    if (c->watch.said_exhausted)
        return;
    c->watch.said_exhausted = 1;
    struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
    watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "proposal");
    arms_reason(act, "the reward is low and no untried step inside the bounds is left: an operator "
                     "must look");
}

/* A low reward makes the law look for a better revision, one step at a time. */
static void propose(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    bool is_below = watch_is_below_target(&c->watch, s);
    if (!s->proposes || c->arms.phase != PHASE_STABLE || (!is_below && !c->watch.is_alarmed))
        return;
    if (c->watch.settled_units == 0 || c->watch.settled_units < s->cooldown_units)
        return;
    enum param_id knob;
    double value;
    if (!arms_propose(&c->arms, s, &knob, &value)) {
        say_exhausted(c, out);
        return;
    }
    double now = c->arms.champion.knob[knob];
    struct policy_action *act = arms_open_proposal(&c->arms, knob, value, out);
    watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "%s", is_below ? "below_target" : "drift");
    if (is_below) {
        act->log_e = c->watch.champion.below.log_w;
        act->log_threshold = log_threshold(0.05);
    }
    arms_reason(act, "mean reward %.3f over %llu outputs %s: try %s %.6g -> %.6g",
                act->mean_champion, (unsigned long long)act->n_champion,
                is_below ? "is below the target" : "has drifted",
                knob == PARAM_TEMPERATURE ? "temperature" : "max_new_tokens", now, value);
}

/* The previous champion against the present one, now: only a concurrent comparison can tell a bad
 * change from a changed world (CONTROL.md 1.5). */
static void open_revert(struct canary *c, struct policy_actions *out)
{
    if (c->arms.phase == PHASE_CANARY) {
        struct policy_action *ended = arms_expire(&c->arms, out);
        trial_fill(&c->trial, ended);
        arms_reason(ended, "makes room: the change before it is suspected of a drift");
        canary_acted(c);
    }
    struct policy_action *act = arms_open_revert(&c->arms, out);
    watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "drift");
    act->share = 0.5;
    arms_reason(act,
                "the reward fell right after revision %llu took over: revision %llu is tried "
                "against it at 50%%",
                (unsigned long long)act->from_revision, (unsigned long long)act->to_revision);
}

/* Holds what runs and says so. Only a change that is younger than the level it fell below is
 * suspected; else traffic or the world changed, and people must look. */
static void on_drift(struct canary *c, const struct drift_alarm *d, struct policy_actions *out)
{
    bool is_suspect = d->is_after_change && c->arms.previous.number && !c->arms.is_revert &&
                      (c->arms.phase == PHASE_STABLE || c->arms.phase == PHASE_CANARY);
    if (c->arms.phase == PHASE_CANARY && !c->arms.is_revert)
        c->arms.is_held = 1;
    struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
    watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "drift");
    act->log_e = d->log_e;
    act->log_threshold = d->log_threshold;
    arms_reason(act, "the champion's reward fell below m0 = %.4f about %llu outputs ago, %s", d->m0,
                (unsigned long long)d->units_since_start,
                d->is_after_change ? "after the last change of parameters"
                                   : "with no change of parameters: traffic or the world changed");
    if (is_suspect)
        open_revert(c, out);
}

/* Other checks, other rewards: a running trial keeps its split and forgets its evidence. */
static void begin_era(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    bool is_canary = c->arms.phase == PHASE_CANARY;
    struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
    if (is_canary)
        trial_fill(&c->trial, act);
    else
        watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "checks");
    arms_reason(act, "the checks changed, and rewards of two versions cannot be compared: %s",
                is_canary ? "the canary's statistics begin again" : "the champion's begin again");
    if (is_canary)
        trial_start(&c->trial, s, c->arms.share, &(struct baseline){0});
    watch_restart(&c->watch);
}

static void on_unit(const struct policy_settings *s, struct canary *c, const struct unit_row *u,
                    struct policy_actions *out)
{
    if (u->flags & UNIT_FOREIGN)
        return;
    enum era_verdict era = era_admit(&c->era, u->checks);
    if (era == ERA_EXCLUDED)
        return;
    if (era == ERA_BEGINS)
        begin_era(s, c, out);
    bool is_champion = u->revision == c->arms.champion.number;
    bool is_challenger = u->revision == c->arms.challenger.number && !is_champion;
    struct drift_alarm alarm;
    note_drained(s, c, u, is_challenger);
    if (is_champion && (u->flags & UNIT_SCORED) && watch_add(&c->watch, s, u, c->n_strata, &alarm))
        on_drift(c, &alarm, out);
    bool is_trial = c->arms.phase == PHASE_CANARY && u->experiment == c->arms.experiment_tag;
    if (is_trial && (is_champion || is_challenger)) {
        trial_add(&c->trial, s, u, is_challenger);
        judge(s, c, out);
    }
    propose(s, c, out);
}

void canary_drain(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    struct unit_row u;
    while (admission_take(&c->queue, c->arms.now_us, s->pair_deadline_us, &u))
        on_unit(s, c, &u, out);
    judge(s, c, out); /* time alone may have ended the traffic cycle or the canary */
}
