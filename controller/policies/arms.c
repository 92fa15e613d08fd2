/* controller/policies/arms.c - champion, challenger, quarantine.
 *
 * Invariant: challenger.number is 0 outside PHASE_CANARY. The experiment's tag stays after its end,
 * so that late rows of it are recognised. Pure. */
#include "controller/policies/arms.h"

#include "common/hash.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct state_field REVISION_FIELDS[] = {
    STATE_NUMBER(struct policy_revision, number, STATE_U64),
    STATE_CHARS(struct policy_revision, hash),
    STATE_NUMBERS(struct policy_revision, knob, STATE_F64, PARAM_COUNT),
    STATE_END,
};

static const struct state_field TRIED_FIELDS[] = {
    STATE_CHARS(struct tried_revision, hash),
    STATE_NUMBER(struct tried_revision, is_quarantined, STATE_U32),
    STATE_NUMBERS(struct tried_revision, knob, STATE_F64, PARAM_COUNT),
    STATE_END,
};

const struct state_field ARMS_FIELDS[] = {
    STATE_SUB(struct arms, champion, REVISION_FIELDS),
    STATE_SUB(struct arms, previous, REVISION_FIELDS),
    STATE_SUB(struct arms, challenger, REVISION_FIELDS),
    STATE_LIMITED(struct arms, phase, STATE_U32, PHASE_COUNT - 1),
    STATE_NUMBER(struct arms, is_now, STATE_U32),
    STATE_NUMBER(struct arms, takes_non_inferior, STATE_U32),
    STATE_NUMBER(struct arms, is_own, STATE_U32),
    STATE_NUMBER(struct arms, is_revert, STATE_U32),
    STATE_NUMBER(struct arms, is_held, STATE_U32),
    STATE_NUMBER(struct arms, draining, STATE_U32),
    STATE_NUMBER(struct arms, acted_us, STATE_U64),
    STATE_NUMBER(struct arms, heard_us, STATE_U64),
    STATE_LIMITED(struct arms, ramp_step, STATE_U32, POLICY_RAMP_MAX - 1),
    STATE_LIMITED(struct arms, proposed_knob, STATE_U32, PARAM_COUNT - 1),
    STATE_NUMBER(struct arms, proposed_value, STATE_F64),
    STATE_LIMITED(struct arms, n_tried, STATE_U32, ARMS_TRIED),
    STATE_USED(struct arms, tried, ARMS_TRIED, n_tried, TRIED_FIELDS),
    STATE_CHARS(struct arms, experiment),
    STATE_NUMBER(struct arms, experiment_tag, STATE_U64),
    STATE_NUMBER(struct arms, share, STATE_F64),
    STATE_NUMBER(struct arms, n_experiments, STATE_U64),
    STATE_NUMBER(struct arms, now_us, STATE_U64),
    STATE_NUMBER(struct arms, started_us, STATE_U64),
    STATE_END,
};

struct policy_action *arms_action(const struct arms *a, enum policy_action_kind kind,
                                  struct policy_actions *out)
{
    if (out->n < POLICY_ACTIONS_MAX)
        out->n++;
    struct policy_action *act = &out->a[out->n - 1];
    double none = (double)NAN;
    *act = (struct policy_action){.kind = kind,
                                  .from_revision = a->champion.number,
                                  .to_revision = a->champion.number,
                                  .value = none,
                                  .share = none,
                                  .log_e = none,
                                  .log_threshold = none,
                                  .mean_champion = none,
                                  .mean_challenger = none,
                                  .effect = none,
                                  .effect_lower = none,
                                  .effect_upper = none};
    if (a->phase == PHASE_CANARY)
        memcpy(act->experiment, a->experiment, sizeof act->experiment);
    return act;
}

void arms_reason(struct policy_action *act, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(act->reason, sizeof act->reason, fmt, args);
    va_end(args);
}

uint64_t arms_tag(struct str experiment)
{
    uint64_t tag = experiment.n ? hash64(experiment.p, experiment.n, 0) : 0;
    return experiment.n && tag == 0 ? 1 : tag;
}

void arms_clock(struct arms *a, uint64_t now_us)
{
    if (now_us > a->now_us)
        a->now_us = now_us;
}

/* What merely found no verdict may be tried again from another champion. */
static void forget_inconclusive(struct arms *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->n_tried; i++)
        if (a->tried[i].is_quarantined)
            a->tried[kept++] = a->tried[i];
    a->n_tried = kept;
}

static void remember(struct arms *a, const struct policy_revision *r, uint32_t is_quarantined)
{
    if (a->n_tried == ARMS_TRIED) {
        memmove(&a->tried[0], &a->tried[1], (ARMS_TRIED - 1) * sizeof a->tried[0]);
        a->n_tried--;
    }
    struct tried_revision *t = &a->tried[a->n_tried++];
    *t = (struct tried_revision){.is_quarantined = is_quarantined};
    memcpy(t->hash, r->hash, sizeof t->hash);
    memcpy(t->knob, r->knob, sizeof t->knob);
}

static void end_canary(struct arms *a)
{
    a->is_revert = 0;
    a->is_held = 0;
    a->challenger = (struct policy_revision){0};
    if (a->phase != PHASE_SAFE)
        a->phase = PHASE_STABLE;
    a->share = 0.0;
}

void arms_set_champion(struct arms *a, const struct policy_revision *r)
{
    end_canary(a);
    a->previous = a->champion;
    a->champion = *r;
    forget_inconclusive(a);
}

struct policy_action *arms_begin(struct arms *a, const struct policy_start *start, double share,
                                 struct policy_actions *out)
{
    size_t n = start->experiment.n;
    if (n >= sizeof a->experiment)
        n = sizeof a->experiment - 1;
    memset(a->experiment, 0, sizeof a->experiment);
    if (n)
        memcpy(a->experiment, start->experiment.p, n);
    a->experiment_tag = arms_tag(start->experiment);
    a->challenger = start->challenger;
    a->phase = PHASE_CANARY;
    a->is_now = start->is_now;
    a->takes_non_inferior = start->takes_non_inferior;
    a->is_own = start->is_own;
    a->is_revert = start->is_own && start->is_revert;
    a->is_held = 0;
    a->ramp_step = 0;
    a->share = share;
    a->started_us = a->now_us;
    a->n_experiments++;
    struct policy_action *act = arms_action(a, ACTION_SET_SPLIT, out);
    act->to_revision = a->challenger.number;
    act->share = share;
    memcpy(act->hash, a->challenger.hash, sizeof act->hash);
    arms_reason(act, "canary starts at %.4g%%%s", 100.0 * share,
                a->is_now ? " (--now): the rest is the concurrent control" : "");
    return act;
}

struct policy_action *arms_promote(struct arms *a, struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_PROMOTE, out);
    act->to_revision = a->challenger.number;
    memcpy(act->hash, a->challenger.hash, sizeof act->hash);
    struct policy_revision winner = a->challenger;
    arms_set_champion(a, &winner);
    return act;
}

static void quarantine(struct arms *a, const struct policy_revision *r, struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_QUARANTINE, out);
    act->from_revision = r->number;
    memcpy(act->hash, r->hash, sizeof act->hash);
    arms_reason(act, "revision %llu was rolled back: not to be tried again without an operator",
                (unsigned long long)r->number);
    remember(a, r, 1);
}

struct policy_action *arms_rollback(struct arms *a, struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_ROLLBACK, out);
    act->from_revision = a->challenger.number;
    memcpy(act->hash, a->challenger.hash, sizeof act->hash);
    quarantine(a, &a->challenger, out);
    end_canary(a);
    return act;
}

struct policy_action *arms_expire(struct arms *a, struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_EXPIRE, out);
    act->from_revision = a->challenger.number;
    memcpy(act->hash, a->challenger.hash, sizeof act->hash);
    remember(a, &a->challenger, 0);
    end_canary(a);
    return act;
}

bool arms_is_draining(const struct arms *a)
{
    return a->draining != 0;
}

static struct policy_action *revert(struct arms *a, const struct policy_revision *to,
                                    struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_ROLLBACK, out);
    struct policy_revision left = a->champion;
    struct policy_revision back = *to;
    act->to_revision = back.number;
    memcpy(act->hash, left.hash, sizeof act->hash);
    arms_reason(act, "an operator returned from revision %llu to %llu",
                (unsigned long long)left.number, (unsigned long long)back.number);
    quarantine(a, &left, out);
    arms_set_champion(a, &back);
    a->previous = (struct policy_revision){0}; /* not back to what was just left */
    return act;
}

struct policy_action *arms_confirm_revert(struct arms *a, struct policy_actions *out)
{
    struct policy_revision back = a->challenger;
    return revert(a, &back, out);
}

bool arms_leave(struct arms *a, const struct policy_event *ev, struct policy_actions *out,
                struct policy_action **first)
{
    bool is_canary = a->phase == PHASE_CANARY;
    const struct policy_revision *to = ev->champion.number ? &ev->champion : &a->previous;
    bool is_elsewhere = ev->champion.number && ev->champion.number != a->champion.number;
    struct policy_action *ended = NULL;
    if (is_canary) {
        ended = arms_rollback(a, out);
        arms_reason(ended, "rolled back by an operator");
    }
    bool is_left = !is_canary || is_elsewhere;
    struct policy_action *left = is_left ? revert(a, to, out) : NULL;
    *first = ended ? ended : left;
    return is_left;
}

struct policy_action *arms_open_proposal(struct arms *a, enum param_id knob, double value,
                                         struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_START_CANARY, out);
    act->knob = knob;
    act->value = value;
    a->phase = PHASE_PROPOSED;
    a->proposed_knob = (uint32_t)knob;
    a->proposed_value = value;
    return act;
}

struct policy_action *arms_open_revert(struct arms *a, struct policy_actions *out)
{
    struct policy_action *act = arms_action(a, ACTION_START_CANARY, out);
    act->to_revision = a->previous.number;
    memcpy(act->hash, a->previous.hash, sizeof act->hash);
    a->phase = PHASE_PROPOSED;
    a->is_revert = 1;
    return act;
}

void arms_drop_proposal(struct arms *a)
{
    struct policy_revision refused = a->champion;
    a->phase = PHASE_STABLE;
    if (a->is_revert) {
        a->is_revert = 0;
        return;
    }
    if (a->proposed_knob < PARAM_COUNT)
        refused.knob[a->proposed_knob] = a->proposed_value;
    refused.hash[0] = '\0';
    remember(a, &refused, 0);
}

static bool is_tried(const struct arms *a, enum param_id knob, double value)
{
    double want[PARAM_COUNT];
    memcpy(want, a->champion.knob, sizeof want);
    want[knob] = value;
    for (uint32_t i = 0; i < a->n_tried; i++)
        if (memcmp(want, a->tried[i].knob, sizeof want) == 0)
            return true;
    return false;
}

bool arms_propose(const struct arms *a, const struct policy_settings *s, enum param_id *knob,
                  double *value)
{
    double temperature = a->champion.knob[PARAM_TEMPERATURE];
    double tokens = a->champion.knob[PARAM_MAX_NEW_TOKENS];
    /* Rounded to a millionth so that 1.5 - 0.3 - 0.3 reads 0.9. */
    double cooler =
        fmax(s->temperature_min, round((temperature - s->temperature_step) * 1e6) / 1e6);
    double shorter = fmax(s->tokens_min, floor(tokens * s->tokens_factor));
    *knob = PARAM_TEMPERATURE;
    *value = cooler;
    if (cooler < temperature - 1e-9 && !is_tried(a, *knob, *value))
        return true;
    *knob = PARAM_MAX_NEW_TOKENS;
    *value = shorter;
    return shorter < tokens && !is_tried(a, *knob, *value);
}

static const char *refuses_start(const struct arms *a, const struct policy_start *start)
{
    if (a->champion.number == 0)
        return "the route has no champion yet";
    if (a->phase == PHASE_SAFE)
        return "the route is on hold; resume it first";
    if (a->phase == PHASE_CANARY)
        return "a canary is running; stop it first";
    if (start->is_own && a->phase != PHASE_PROPOSED)
        return "no proposal of the policy is open";
    if (start->challenger.number == 0 || start->challenger.number == a->champion.number)
        return "the challenger must be another revision than the champion";
    if (start->experiment.n == 0 || start->experiment.n >= POLICY_ID_BYTES)
        return "an experiment id has 1 to 63 bytes";
    return NULL;
}

static const char *refuses_rollback(const struct arms *a, const struct policy_revision *to)
{
    if (to->number == 0 && a->previous.number == 0)
        return "there is no earlier revision to return to";
    if (a->champion.number == 0 || to->number == a->champion.number)
        return "this revision serves already";
    return NULL;
}

const char *arms_refuses(const struct arms *a, const struct policy_event *ev)
{
    bool is_canary = a->phase == PHASE_CANARY;
    if (ev->kind == EVENT_START)
        return refuses_start(a, &ev->start);
    if (ev->kind == EVENT_STOP && !is_canary && a->phase != PHASE_PROPOSED)
        return "no canary is running";
    if (ev->kind == EVENT_PROMOTE && !is_canary)
        return "no canary is running: start one with the revision to promote";
    if (ev->kind == EVENT_ROLLBACK && !is_canary)
        return refuses_rollback(a, &ev->champion);
    if (ev->kind == EVENT_HOLD && a->phase == PHASE_SAFE)
        return "the route is on hold already";
    if (ev->kind == EVENT_RESUME && a->phase != PHASE_SAFE)
        return "the route is not on hold";
    return NULL;
}

static void stop(struct arms *a, struct policy_actions *out)
{
    if (a->phase == PHASE_PROPOSED)
        arms_drop_proposal(a);
    else if (a->phase == PHASE_CANARY)
        arms_reason(arms_expire(a, out), "stopped by an operator: the champion stays");
}

void arms_operator(struct arms *a, const struct policy_event *ev, struct policy_actions *out)
{
    switch (ev->kind) {
    case EVENT_CHAMPION:
        stop(a, out);
        arms_set_champion(a, &ev->champion);
        break;
    case EVENT_STOP:
        stop(a, out);
        break;
    case EVENT_PROMOTE:
        arms_reason(arms_promote(a, out), "promoted by an operator");
        break;
    case EVENT_ROLLBACK:
        arms_leave(a, ev, out, &(struct policy_action *){NULL});
        break;
    case EVENT_HOLD:
        stop(a, out);
        a->phase = PHASE_SAFE;
        arms_reason(arms_action(a, ACTION_HOLD, out), "held by an operator");
        break;
    case EVENT_RESUME:
        a->phase = PHASE_STABLE;
        break;
    default:
        break; /* rows, ticks and crashes say nothing to a law without statistics */
    }
}

void arms_view(const struct arms *a, struct policy_view *out)
{
    static const char *const PHASES[PHASE_COUNT] = {"stable", "proposed", "canary", "safe",
                                                    "experiment"};
    struct policy_actions blank; /* of which one action is used */
    struct policy_arm_view none = {.mean = (double)NAN, .lower = 0.0, .upper = 1.0};
    blank.n = 0;
    *out = (struct policy_view){.phase = a->phase < PHASE_COUNT ? PHASES[a->phase] : "unknown",
                                .champion = a->champion.number,
                                .challenger = a->challenger.number,
                                .share = a->share,
                                .champion_arm = none,
                                .control_arm = none,
                                .challenger_arm = none,
                                .numbers = *arms_action(a, ACTION_ALERT, &blank)};
    if (a->phase == PHASE_CANARY)
        memcpy(out->experiment, a->experiment, sizeof out->experiment);
}
