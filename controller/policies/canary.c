/* controller/policies/canary.c - the default law: every change must win against live traffic.
 *
 * STABLE -> (PROPOSED ->) CANARY -> promote, rollback or expire -> STABLE; SAFE pins the champion.
 * Rows go through one queue that restores the order of admission, then to the running trial and to
 * the watch over the champion; after each row the verdict is looked at, in every phase.
 * Invariant: state is a function of the events alone. Pure. */
#include "controller/policies/canary.h"
#include "controller/policies/policies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct state_field FIELDS[] = {
    STATE_SUB(struct canary, arms, ARMS_FIELDS),
    STATE_SUB(struct canary, queue, ADMISSION_FIELDS),
    STATE_SUB(struct canary, trial, TRIAL_FIELDS),
    STATE_SUB(struct canary, watch, WATCH_FIELDS),
    STATE_SUB(struct canary, era, ERA_FIELDS),
    STATE_NUMBERS(struct canary, stratum_tag, STATE_U64, BLOCKS_STRATA),
    STATE_TEXTS(struct canary, stratum_name, BLOCKS_STRATA),
    STATE_LIMITED(struct canary, n_strata, STATE_U32, BLOCKS_STRATA),
    STATE_NUMBER(struct canary, said_stale, STATE_U32),
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

static bool is_reward(bool is_scored, double reward)
{
    return is_scored && reward >= 0.0 && reward <= 1.0;
}

static uint32_t flags_of(const struct policy_row *row)
{
    /* Half a text has half a reward: what the client cut off, or the engine lost, is unscored. A
     * client that left before the first token says nothing against the revision. */
    bool is_left = row->finish == FINISH_CANCELLED;
    bool is_whole = !is_left && row->finish != FINISH_ERROR;
    const struct {
        bool is_set;
        uint32_t flag;
    } flags[] = {{is_whole && is_reward(row->is_scored, row->reward), UNIT_SCORED},
                 {is_whole && is_reward(row->is_scored_b, row->reward_b), UNIT_SCORED_B},
                 {row->finish == FINISH_LENGTH, UNIT_TRUNCATED},
                 {row->finish == FINISH_ERROR, UNIT_ERROR},
                 {row->is_invalid && !is_left, UNIT_INVALID},
                 {row->is_refusal, UNIT_REFUSED},
                 {row->is_repetitive, UNIT_REPEATS},
                 {!is_whole, UNIT_CUT}};
    uint32_t all = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        all |= flags[i].is_set ? flags[i].flag : 0;
    return all;
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
    u.session = arms_tag(row->session);
    u.tokens = row->completion_tokens;
    u.latency_us = row->latency_us;
    u.propensity = row->propensity;
    u.reward = row->reward;
    u.reward_b = row->reward_b;
    u.stratum = stratum_index(c, row->stratum);
    u.flags = flags_of(row);
    return u;
}

static void on_row(const struct policy_settings *s, struct canary *c, const struct policy_event *ev,
                   struct policy_actions *out)
{
    c->arms.heard_us = c->arms.now_us;
    c->said_stale = 0;
    /* Further choices of a request are not independent of the first: the unit is the request. */
    if (ev->row.choice == 0) {
        struct unit_row u = unit_of(c, &ev->row);
        admission_put(&c->queue, &u);
    }
    canary_drain(s, c, out);
}

static void on_tick(const struct policy_settings *s, struct canary *c,
                    const struct policy_event *ev, struct policy_actions *out)
{
    (void)ev;
    canary_drain(s, c, out);
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
    watch_change(&c->watch, NULL);
    canary_acted(c);
}

static void on_start(const struct policy_settings *s, struct canary *c,
                     const struct policy_event *ev, struct policy_actions *out)
{
    double share = ev->start.is_now ? s->now_share : s->ramp[0];
    if (ev->start.is_own && ev->start.is_revert)
        share = 0.5;
    arms_begin(&c->arms, &ev->start, share, out);
    trial_start(&c->trial, s, share, &c->watch.baseline);
    c->arms.heard_us = c->arms.now_us; /* silence is counted from here */
    canary_acted(c);
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
    canary_acted(c);
}

static void on_promote(const struct policy_settings *s, struct canary *c,
                       const struct policy_event *ev, struct policy_actions *out)
{
    (void)s;
    (void)ev;
    struct policy_action *act = arms_promote(&c->arms, out);
    trial_fill(&c->trial, act);
    arms_reason(act, "promoted by an operator, without the tests");
    watch_change(&c->watch, &c->trial.challenger);
    canary_acted(c);
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
    canary_acted(c);
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
        watch_change(&c->watch, NULL);
    canary_acted(c);
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
    if (c->arms.phase == PHASE_SAFE)
        c->arms.phase = PHASE_STABLE;
    c->arms.is_held = 0;
    watch_restart(&c->watch); /* an operator has looked: calibrate on what is normal now */
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
    bool is_alarmed = c->watch.is_alarmed;
    if (ev->kind == EVENT_RESUME && is_alarmed)
        return NULL; /* this is how an operator answers an alarm */
    if (ev->kind == EVENT_START && is_alarmed && !ev->start.is_own && !ev->start.is_now)
        return "a drift alarm holds experiments: resume the route first, or push with --now";
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
    if (c->arms.phase != PHASE_CANARY)
        return wake;
    if (s->stale_us && !c->said_stale)
        wake = earlier(wake, c->arms.heard_us + s->stale_us);
    if (canary_is_stale(s, c))
        return wake;
    wake = earlier(wake, units_wake_us(&c->trial.units, s->session_us));
    if (c->trial.n_units[1] < s->min_units)
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
