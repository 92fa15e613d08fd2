/* controller/policies/canary.c - the default law: every change must win against live traffic.
 *
 * STABLE -> (PROPOSED ->) CANARY -> promote, rollback or expire -> STABLE; SAFE pins the champion.
 * Rows go through one queue that restores the order of admission, then to the running trial and to
 * the watch over the champion; after each row the verdict is looked at, in every phase.
 * Invariant: state is a function of the events alone. Pure. */
#include "controller/policies/era.h"
#include "controller/policies/policies.h"
#include "controller/policies/trial.h"
#include "controller/policies/watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct canary {
    struct arms arms;
    struct admission_queue queue;
    struct trial trial; /* of the running canary, or of the last one */
    struct watch watch;
    struct era era;
    uint64_t stratum_tag[BLOCKS_STRATA];
    char stratum_name[BLOCKS_STRATA][POLICY_STRATUM_BYTES]; /* for people; may be cut */
    uint32_t n_strata;
};

static const struct state_field FIELDS[] = {
    STATE_SUB(struct canary, arms, ARMS_FIELDS),
    STATE_SUB(struct canary, queue, ADMISSION_FIELDS),
    STATE_SUB(struct canary, trial, TRIAL_FIELDS),
    STATE_SUB(struct canary, watch, WATCH_FIELDS),
    STATE_SUB(struct canary, era, ERA_FIELDS),
    STATE_NUMBERS(struct canary, stratum_tag, STATE_U64, BLOCKS_STRATA),
    STATE_TEXTS(struct canary, stratum_name, BLOCKS_STRATA),
    STATE_LIMITED(struct canary, n_strata, STATE_U32, BLOCKS_STRATA),
    STATE_END,
};

/* Index of a stratum; beyond the table all share the last one. */
static uint32_t stratum_index(struct canary *c, struct str name)
{
    uint64_t tag = arms_tag(name);
    for (uint32_t i = 0; i < c->n_strata; i++)
        if (c->stratum_tag[i] == tag)
            return i;
    if (c->n_strata == BLOCKS_STRATA)
        return BLOCKS_STRATA - 1;
    c->stratum_tag[c->n_strata] = tag;
    char *out = c->stratum_name[c->n_strata];
    for (size_t i = 0; i < name.n && i + 1 < POLICY_STRATUM_BYTES; i++)
        out[i] = name.p[i] >= ' ' && name.p[i] <= '~' ? name.p[i] : '?';
    return c->n_strata++;
}

static uint32_t flags_of(const struct policy_row *row)
{
    uint32_t flags = 0;
    /* Half a text has half a reward: what the client cut off, or the engine lost, is unscored. */
    bool is_whole = row->finish != FINISH_CANCELLED && row->finish != FINISH_ERROR;
    if (row->is_scored && is_whole && row->reward >= 0.0 && row->reward <= 1.0)
        flags |= UNIT_SCORED;
    if (row->is_scored_b && is_whole && row->reward_b >= 0.0 && row->reward_b <= 1.0)
        flags |= UNIT_SCORED_B;
    if (row->finish == FINISH_LENGTH)
        flags |= UNIT_TRUNCATED;
    if (row->finish == FINISH_ERROR)
        flags |= UNIT_ERROR;
    if (row->is_invalid)
        flags |= UNIT_INVALID;
    return flags;
}

static struct unit_row unit_of(struct canary *c, const struct policy_row *row)
{
    struct unit_row u = {.source = row->source,
                         .admission = row->admission,
                         .row = row->row,
                         .committed_us = c->arms.now_us,
                         .flags = UNIT_FOREIGN};
    if (row->is_foreign)
        return u;
    u.revision = row->revision;
    u.experiment = arms_tag(row->experiment);
    u.checks = arms_tag(row->checks);
    u.propensity = row->propensity;
    u.reward = row->reward;
    u.reward_b = row->reward_b;
    u.stratum = stratum_index(c, row->stratum);
    u.flags = flags_of(row);
    return u;
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
}

static void act_on_verdict(const struct policy_settings *s, struct canary *c,
                           const struct verdict *v, struct policy_actions *out)
{
    struct policy_action *act = NULL;
    if (v->kind == VERDICT_STEP) {
        step_ramp(s, c, v, out);
        return;
    }
    if (v->kind == VERDICT_PROMOTE)
        act = arms_promote(&c->arms, out);
    else if (v->kind == VERDICT_ROLLBACK)
        act = arms_rollback(&c->arms, out);
    else
        act = arms_expire(&c->arms, out);
    trial_fill(&c->trial, act);
    put_verdict(act, v);
    /* The winner's own record goes on; a champion that stays waits for the split to drain. */
    if (v->kind == VERDICT_PROMOTE)
        watch_start(&c->watch, &c->trial.challenger);
    else
        c->watch.settled_units = 0;
}

static void judge(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    if (c->arms.phase != PHASE_CANARY)
        return;
    if (trial_split_is_broken(&c->trial)) {
        struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
        trial_fill(&c->trial, act);
        snprintf(act->test, sizeof act->test, "srm");
        arms_reason(act,
                    "sample ratio mismatch: %.0f challenger rows of %llu where %.1f were promised "
                    "(p = %.2g); rows of one arm may be lost",
                    c->trial.srm.observed, (unsigned long long)c->trial.srm.n,
                    c->trial.srm.expected, srm_p(&c->trial.srm));
    }
    struct verdict v;
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

static void alert_drift(struct canary *c, const struct drift_alarm *d, struct policy_actions *out)
{
    struct policy_action *act = arms_action(&c->arms, ACTION_ALERT, out);
    watch_fill(&c->watch, act);
    snprintf(act->test, sizeof act->test, "drift");
    act->log_e = d->log_e;
    act->log_threshold = d->log_threshold;
    arms_reason(act,
                "the champion's reward fell below m0 = %.4f about %llu outputs ago, with no change "
                "of parameters: traffic or the world changed",
                d->m0, (unsigned long long)d->units_since_start);
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
        trial_start(&c->trial, s, c->arms.share);
    watch_start(&c->watch, NULL);
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
    bool is_trial = c->arms.phase == PHASE_CANARY && u->experiment == c->arms.experiment_tag;
    struct drift_alarm alarm;
    if (is_champion && (u->flags & UNIT_SCORED) && watch_add(&c->watch, s, u, c->n_strata, &alarm))
        alert_drift(c, &alarm, out);
    if (is_trial && (is_champion || is_challenger)) {
        trial_add(&c->trial, s, u, is_challenger);
        judge(s, c, out);
    }
    propose(s, c, out);
}

static void drain(const struct policy_settings *s, struct canary *c, struct policy_actions *out)
{
    struct unit_row u;
    while (admission_take(&c->queue, c->arms.now_us, s->pair_deadline_us, &u))
        on_unit(s, c, &u, out);
    judge(s, c, out); /* time alone may have ended the traffic cycle or the canary */
}

static void on_row(const struct policy_settings *s, struct canary *c, const struct policy_event *ev,
                   struct policy_actions *out)
{
    /* Further choices of a request are not independent of the first: the unit is the request. */
    if (ev->row.choice == 0) {
        struct unit_row u = unit_of(c, &ev->row);
        admission_put(&c->queue, &u);
    }
    drain(s, c, out);
}

static void on_tick(const struct policy_settings *s, struct canary *c,
                    const struct policy_event *ev, struct policy_actions *out)
{
    (void)ev;
    drain(s, c, out);
}

static void on_champion(const struct policy_settings *s, struct canary *c,
                        const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    if (c->arms.phase == PHASE_CANARY) {
        struct policy_action *act = arms_expire(&c->arms, out);
        trial_fill(&c->trial, act);
        arms_reason(act, "the champion was replaced by revision %llu",
                    (unsigned long long)ev->champion.number);
    }
    arms_set_champion(&c->arms, &ev->champion);
    watch_start(&c->watch, NULL);
}

static void on_start(const struct policy_settings *s, struct canary *c,
                     const struct policy_event *ev, struct policy_actions *out)
{
    double share = ev->start.is_now ? s->now_share : s->ramp[0];
    arms_begin(&c->arms, &ev->start, share, out);
    trial_start(&c->trial, s, share);
}

static void on_stop(const struct policy_settings *s, struct canary *c,
                    const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    (void)ev;
    if (c->arms.phase == PHASE_PROPOSED) {
        arms_drop_proposal(&c->arms);
        return;
    }
    struct policy_action *act = arms_expire(&c->arms, out);
    trial_fill(&c->trial, act);
    arms_reason(act, "stopped by an operator: the champion stays");
    c->watch.settled_units = 0;
}

static void on_promote(const struct policy_settings *s, struct canary *c,
                       const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    (void)ev;
    struct policy_action *act = arms_promote(&c->arms, out);
    trial_fill(&c->trial, act);
    arms_reason(act, "promoted by an operator, without the tests");
    watch_start(&c->watch, &c->trial.challenger);
}

static void on_crash(const struct policy_settings *s, struct canary *c,
                     const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    (void)ev;
    if (c->arms.phase != PHASE_CANARY)
        return;
    struct policy_action *act = arms_rollback(&c->arms, out);
    trial_fill(&c->trial, act);
    snprintf(act->test, sizeof act->test, "hard_trip");
    arms_reason(act, "hard trip: an engine died while it served the challenger");
    c->watch.settled_units = 0;
}

static void on_rollback(const struct policy_settings *s, struct canary *c,
                        const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    bool is_canary = c->arms.phase == PHASE_CANARY;
    struct policy_action *first;
    bool is_left = arms_leave(&c->arms, ev, out, &first);
    if (is_canary)
        trial_fill(&c->trial, first);
    else
        watch_fill(&c->watch, first);
    if (is_left)
        watch_start(&c->watch, NULL);
    c->watch.settled_units = 0;
}

static void on_hold(const struct policy_settings *s, struct canary *c,
                    const struct policy_event *ev, struct policy_actions *out)
{
    if (c->arms.phase == PHASE_CANARY)
        on_stop(s, c, ev, out);
    c->arms.phase = PHASE_SAFE;
    arms_reason(arms_action(&c->arms, ACTION_HOLD, out),
                "held by an operator: the champion is pinned, no experiments");
}

static void on_resume(const struct policy_settings *s, struct canary *c,
                      const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    (void)ev;
    (void)out;
    c->arms.phase = PHASE_STABLE;
    watch_start(&c->watch, NULL); /* an operator has looked: calibrate on what is normal now */
}

typedef void on_event_fn(const struct policy_settings *s, struct canary *c,
                         const struct policy_event *ev, struct policy_actions *out);

static void step(const struct policy_settings *s, void *state, const struct policy_event *ev,
                 struct policy_actions *out)
{
    static on_event_fn *const ON[EVENT_KIND_COUNT] = {
        [EVENT_ROW] = on_row,           [EVENT_TICK] = on_tick,   [EVENT_CHAMPION] = on_champion,
        [EVENT_START] = on_start,       [EVENT_STOP] = on_stop,   [EVENT_PROMOTE] = on_promote,
        [EVENT_ROLLBACK] = on_rollback, [EVENT_CRASH] = on_crash, [EVENT_HOLD] = on_hold,
        [EVENT_RESUME] = on_resume,
    };
    struct canary *c = state;
    arms_clock(&c->arms, ev->now_us);
    ON[ev->kind](s, c, ev, out);
}

static const char *refuses(const void *state, const struct policy_event *ev)
{
    const struct canary *c = state;
    return arms_refuses(&c->arms, ev);
}

/* The earlier of two times, 0 = never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a | b;
    return a < b ? a : b;
}

static uint64_t wake_us(const struct policy_settings *s, const void *state)
{
    const struct canary *c = state;
    uint64_t wake = admission_wake_us(&c->queue, s->pair_deadline_us);
    if (c->arms.phase != PHASE_CANARY || c->trial.n_rows[1] < s->min_units)
        return wake;
    uint64_t cycle_us = c->arms.started_us + s->min_us;
    if (cycle_us > c->arms.now_us)
        wake = earlier(wake, cycle_us);
    return s->max_us ? earlier(wake, c->arms.started_us + s->max_us) : wake;
}

static void view_drift(const struct policy_settings *s, const struct canary *c,
                       struct policy_view *out)
{
    out->n_drift = c->n_strata;
    for (uint32_t i = 0; i < c->n_strata; i++) {
        const struct watch_stratum *ws = &c->watch.stratum[i];
        struct policy_drift_view *d = &out->drift[i];
        memcpy(d->stratum, c->stratum_name[i], sizeof d->stratum);
        d->is_frozen = ws->is_frozen;
        d->is_alarmed = ws->is_alarmed;
        d->m0 = ws->detector.m0;
        d->log_m = log(edetector_value(&ws->detector));
        d->log_threshold = log(watch_threshold(s, c->n_strata));
    }
}

static void view(const struct policy_settings *s, const void *state, struct policy_view *out)
{
    const struct canary *c = state;
    arms_view(&c->arms, out);
    out->champion_arm = standing_view(&c->watch.champion.reward, 0);
    out->n_held = c->queue.n_held;
    out->n_late = c->queue.n_late;
    out->n_duplicate = c->queue.n_duplicate;
    out->n_missing = c->queue.n_missing;
    view_drift(s, c, out);
    if (c->arms.phase != PHASE_CANARY)
        return;
    trial_fill(&c->trial, &out->numbers);
    out->control_arm = standing_view(&c->trial.reward_control, c->trial.n_unscored[0]);
    out->challenger_arm = standing_view(&c->trial.challenger.reward, c->trial.n_unscored[1]);
    out->n_test = trial_view(&c->trial, s, &c->arms, out->test);
}

const struct policy_ops POLICY_CANARY_OPS = {.name = "canary",
                                             .state_bytes = sizeof(struct canary),
                                             .arms_at = offsetof(struct canary, arms),
                                             .fields = FIELDS,
                                             .step = step,
                                             .refuses = refuses,
                                             .wake_us = wake_us,
                                             .view = view};
