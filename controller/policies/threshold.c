/* controller/policies/threshold.c - what the field writes by hand, kept as the plain option.
 *
 * When the mean of the last `window` rewards is under `bound`, step temperature down (else fewer
 * new tokens) and apply at once, then wait `cooldown_units` rows. There is no control group, so a
 * change of traffic looks like bad parameters: the baseline the canary law is measured against.
 * Rows count in order of arrival. Pure. */
#include "controller/policies/arms.h"
#include "controller/policies/era.h"
#include "controller/policies/policies.h"

#include <stdio.h>

struct threshold {
    struct arms arms;
    struct era era;
    double recent[POLICY_WINDOW_MAX];
    uint32_t n_recent;
    uint32_t at;
    uint64_t since_change; /* scored rows of the champion since it became champion */
    uint64_t first_row, last_row;
    uint32_t said_exhausted;
};

static const struct state_field FIELDS[] = {
    STATE_SUB(struct threshold, arms, ARMS_FIELDS),
    STATE_SUB(struct threshold, era, ERA_FIELDS),
    STATE_NUMBERS(struct threshold, recent, STATE_F64, POLICY_WINDOW_MAX),
    STATE_LIMITED(struct threshold, n_recent, STATE_U32, POLICY_WINDOW_MAX),
    STATE_LIMITED(struct threshold, at, STATE_U32, POLICY_WINDOW_MAX - 1),
    STATE_NUMBER(struct threshold, since_change, STATE_U64),
    STATE_NUMBER(struct threshold, first_row, STATE_U64),
    STATE_NUMBER(struct threshold, last_row, STATE_U64),
    STATE_NUMBER(struct threshold, said_exhausted, STATE_U32),
    STATE_END,
};

static void forget(struct threshold *t)
{
    t->n_recent = 0;
    t->at = 0;
    t->since_change = 0;
    t->first_row = 0;
    t->said_exhausted = 0;
}

static double recent_mean(const struct threshold *t)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < t->n_recent; i++)
        sum += t->recent[i];
    return t->n_recent ? sum / t->n_recent : 0.0;
}

static void fill(const struct threshold *t, struct policy_action *act)
{
    snprintf(act->test, sizeof act->test, "window_mean");
    act->n_champion = t->n_recent;
    act->mean_champion = recent_mean(t);
    act->first_row = t->first_row;
    act->last_row = t->last_row;
}

static void take_step(const struct policy_settings *s, struct threshold *t,
                      struct policy_actions *out)
{
    enum param_id knob;
    double value;
    struct policy_action *act;
    if (!arms_propose(&t->arms, s, &knob, &value)) {
        if (t->said_exhausted)
            return;
        t->said_exhausted = 1;
        act = arms_action(&t->arms, ACTION_ALERT, out);
        fill(t, act);
        arms_reason(act,
                    "mean %.3f of the last %u is under %.3f and no step is left inside the "
                    "bounds",
                    act->mean_champion, t->n_recent, s->bound);
        return;
    }
    act = arms_open_proposal(&t->arms, knob, value, out);
    fill(t, act);
    arms_reason(act, "mean %.3f of the last %u is under %.3f: %s becomes %.6g", act->mean_champion,
                t->n_recent, s->bound, knob == PARAM_TEMPERATURE ? "temperature" : "max_new_tokens",
                value);
}

static void on_row(const struct policy_settings *s, struct threshold *t,
                   const struct policy_row *row, struct policy_actions *out)
{
    if (row->is_foreign || !row->is_scored || row->revision != t->arms.champion.number)
        return;
    enum era_verdict era = era_admit(&t->era, arms_tag(row->checks));
    if (era == ERA_EXCLUDED)
        return;
    if (era == ERA_BEGINS) /* rewards of two versions of the checks have no common mean */
        forget(t);
    t->recent[t->at] = row->reward;
    t->at = (t->at + 1) % s->window;
    if (t->n_recent < s->window)
        t->n_recent++;
    if (t->first_row == 0)
        t->first_row = row->row;
    t->last_row = row->row;
    t->since_change++;
    bool is_due = t->n_recent == s->window && t->since_change >= s->cooldown_units;
    if (is_due && s->proposes && t->arms.phase == PHASE_STABLE && recent_mean(t) < s->bound)
        take_step(s, t, out);
}

/* Every new revision serves at once: this law has no trial. */
static void on_start(struct threshold *t, const struct policy_start *start,
                     struct policy_actions *out)
{
    arms_begin(&t->arms, start, 1.0, out);
    struct policy_action *act = arms_promote(&t->arms, out);
    fill(t, act);
    arms_reason(act, "the threshold law applies a revision at once");
    forget(t);
}

static void step(const struct policy_settings *s, void *state, const struct policy_event *ev,
                 struct policy_actions *out)
{
    struct threshold *t = state;
    arms_clock(&t->arms, ev->now_us);
    if (ev->kind == EVENT_ROW) {
        on_row(s, t, &ev->row, out);
        return;
    }
    uint64_t before = t->arms.champion.number;
    if (ev->kind == EVENT_START)
        on_start(t, &ev->start, out);
    else
        arms_operator(&t->arms, ev, out);
    if (t->arms.champion.number != before)
        forget(t);
}

static const char *refuses(const void *state, const struct policy_event *ev)
{
    const struct threshold *t = state;
    return arms_refuses(&t->arms, ev);
}

static uint64_t wake_us(const struct policy_settings *s, const void *state)
{
    (void)s;
    (void)state;
    return 0;
}

static void view(const struct policy_settings *s, const void *state, struct policy_view *out)
{
    const struct threshold *t = state;
    (void)s;
    arms_view(&t->arms, out);
    if (t->n_recent)
        out->champion_arm = (struct policy_arm_view){
            .n = t->n_recent, .mean = recent_mean(t), .lower = 0.0, .upper = 1.0};
}

const struct policy_ops POLICY_THRESHOLD_OPS = {.name = "threshold",
                                                .state_bytes = sizeof(struct threshold),
                                                .arms_at = offsetof(struct threshold, arms),
                                                .fields = FIELDS,
                                                .step = step,
                                                .refuses = refuses,
                                                .wake_us = wake_us,
                                                .view = view};
