/* controller/policies/verdict.c - what a canary's numbers allow now.
 *
 * In this order: hard trips (no statistics), rollback, promotion, expiry, one step of the ramp.
 * Nothing inconclusive promotes: an unscored guardrail that spoke, a split that is not the promised
 * one, a drift alarm, or requests in flight under an older split each forbid it. Pure. */
#include "controller/policies/trial_tests.h"

#include <math.h>
#include <stdio.h>

enum { RECENT = 20, BURST = 5 };
#define UNEASY_LOG_E 1.09861229 /* ln 3: a step up needs every guardrail below this */
#define BURST_MASK   ((1u << BURST) - 1u)

static void set_test(struct verdict *v, enum verdict_kind kind, int i, double log_e,
                     double threshold)
{
    v->kind = kind;
    v->test = TRIAL_TESTS[i].name;
    v->log_e = log_e;
    v->log_threshold = threshold;
}

static bool judge_hard_trips(const struct trial *t, struct verdict *v)
{
    int invalid = __builtin_popcount(t->recent_invalid);
    bool is_burst = (t->recent_error & BURST_MASK) == BURST_MASK;
    if (invalid <= RECENT / 2 && !is_burst)
        return false;
    v->kind = VERDICT_ROLLBACK;
    v->test = "hard_trip";
    if (is_burst)
        snprintf(v->reason, sizeof v->reason,
                 "hard trip: the challenger's last %d outputs are engine errors", BURST);
    else
        snprintf(v->reason, sizeof v->reason,
                 "hard trip: of the challenger's last %d outputs %d are invalid (more than %d are "
                 "not allowed)",
                 RECENT, invalid, RECENT / 2);
    return true;
}

/* Where the challenger's outputs are unscored more often, what is missing may be what is good: then
 * a rollback must also hold with the missing rewards filled in its favour (CONTROL.md 2.8). */
static bool survives_filling(const struct trial *t, const struct policy_settings *s)
{
    return t->test[TEST_GUARD_UNSCORED].log_w_max < UNEASY_LOG_E ||
           t->test[TEST_ROLLBACK_FILLED].log_w >= log_threshold(s->alpha);
}

static bool judge_rollback(const struct trial *t, const struct policy_settings *s,
                           const struct arms *a, struct verdict *v)
{
    for (int i = 0; i < TEST_COUNT; i++) {
        enum test_role role = TRIAL_TESTS[i].role;
        double threshold = test_threshold(i, s, a);
        bool may_act = role == ROLE_GUARD || (role == ROLE_ROLLBACK && survives_filling(t, s));
        if (!may_act || t->test[i].log_w < threshold)
            continue;
        set_test(v, VERDICT_ROLLBACK, i, t->test[i].log_w, threshold);
        snprintf(v->reason, sizeof v->reason,
                 "%s: e-value %.4g reached 1/alpha = %.4g after %llu blocks", v->test,
                 exp(v->log_e), exp(threshold), (unsigned long long)t->test[i].steps);
        return true;
    }
    return false;
}

static bool is_required(int i, const struct policy_settings *s, const struct arms *a)
{
    if (TRIAL_TESTS[i].role != ROLE_PROMOTE || !test_is_used(i, s))
        return false;
    return TRIAL_TESTS[i].form == BET_NON_INFERIOR || !a->takes_non_inferior;
}

/* The required test with the least evidence. */
static int weakest_promote_test(const struct trial *t, const struct policy_settings *s,
                                const struct arms *a)
{
    int weakest = TEST_NON_INFERIOR;
    for (int i = 0; i < TEST_COUNT; i++)
        if (is_required(i, s, a) && t->test[i].log_w < t->test[weakest].log_w)
            weakest = i;
    return weakest;
}

/* Why neither a step nor a promotion may happen now, whatever the tests say; NULL = it may. */
static const char *is_held(const struct trial *t, const struct policy_settings *s,
                           const struct arms *a)
{
    int i = TEST_GUARD_UNSCORED;
    if (t->test[i].log_w_max >= test_threshold(i, s, a))
        return "the challenger's outputs are unscored more often";
    if (t->is_split_broken)
        return "the split is not the promised one";
    return a->is_held ? "a drift alarm holds it" : NULL;
}

static bool judge_promote(const struct trial *t, const struct policy_settings *s,
                          const struct arms *a, struct verdict *v)
{
    bool is_early = !a->is_revert && a->now_us - a->started_us < s->min_us;
    if (is_early || is_held(t, s, a) || arms_is_draining(a))
        return false;
    int weakest = weakest_promote_test(t, s, a);
    double threshold = test_threshold(weakest, s, a);
    if (t->test[weakest].log_w < threshold)
        return false;
    set_test(v, VERDICT_PROMOTE, weakest, t->test[weakest].log_w, threshold);
    snprintf(v->reason, sizeof v->reason,
             "every promotion test passed; the weakest, %s, has e-value %.4g against 1/alpha_%llu "
             "= %.4g",
             v->test, exp(v->log_e), (unsigned long long)a->n_experiments, exp(threshold));
    return true;
}

static const char *why_inconclusive(const struct trial *t, const struct policy_settings *s,
                                    const struct arms *a, double threshold)
{
    const char *held = is_held(t, s, a);
    bool is_hidden = t->test[TEST_SUPERIOR].log_w >= threshold &&
                     t->test[TEST_SUPERIOR_FILLED].log_w < threshold;
    if (held)
        return held;
    return is_hidden ? "better only if unscored outputs are left out" : "no test spoke";
}

static bool judge_expire(const struct trial *t, const struct policy_settings *s,
                         const struct arms *a, struct verdict *v)
{
    bool is_long = s->max_us && a->now_us - a->started_us >= s->max_us;
    bool is_big = s->max_units && t->n_units[1] >= s->max_units;
    if (!is_long && !is_big)
        return false;
    int weakest = weakest_promote_test(t, s, a);
    set_test(v, VERDICT_EXPIRE, weakest, t->test[weakest].log_w, test_threshold(weakest, s, a));
    snprintf(v->reason, sizeof v->reason,
             "inconclusive after %llu challenger outputs and %llu s: the champion stays (%s)",
             (unsigned long long)t->n_rows[1],
             (unsigned long long)((a->now_us - a->started_us) / 1000000u),
             why_inconclusive(t, s, a, v->log_threshold));
    return true;
}

static bool judge_step(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                       struct verdict *v)
{
    bool is_last = a->is_now || a->is_revert || a->ramp_step + 1 >= s->n_ramp;
    if (is_last || t->step_units < s->ramp_units || is_held(t, s, a) || arms_is_draining(a))
        return false;
    for (int i = 0; i < TEST_COUNT; i++)
        if ((i == TEST_ROLLBACK || test_is_guard(i)) && t->test[i].log_w >= UNEASY_LOG_E)
            return false;
    v->kind = VERDICT_STEP;
    v->test = "ramp";
    snprintf(v->reason, sizeof v->reason,
             "%llu scored challenger outputs at this step, every guardrail's e-value below 3",
             (unsigned long long)t->step_units);
    return true;
}

void trial_verdict(const struct trial *t, const struct policy_settings *s, const struct arms *a,
                   struct verdict *out)
{
    *out = (struct verdict){.kind = VERDICT_NONE, .test = "", .log_e = NAN, .log_threshold = NAN};
    if (judge_hard_trips(t, out))
        return;
    if (t->n_units[1] < s->min_units)
        return; /* too little for any test to act, and no data is no reason to end */
    if (judge_rollback(t, s, a, out) || judge_promote(t, s, a, out))
        return;
    if (!judge_expire(t, s, a, out))
        judge_step(t, s, a, out);
}

bool trial_unscored_fires(struct trial *t, const struct policy_settings *s, const struct arms *a,
                          struct verdict *out)
{
    int i = TEST_GUARD_UNSCORED;
    double threshold = test_threshold(i, s, a);
    if (t->said_unscored || t->test[i].log_w < threshold || t->n_units[1] < s->min_units)
        return false;
    t->said_unscored = 1;
    *out = (struct verdict){0};
    set_test(out, VERDICT_NONE, i, t->test[i].log_w, threshold);
    snprintf(out->reason, sizeof out->reason,
             "%llu of %llu challenger outputs are unscored against %llu of %llu of the champion's: "
             "inconclusive, no step and no promotion; look at the checks",
             (unsigned long long)t->n_unscored[1], (unsigned long long)t->n_rows[1],
             (unsigned long long)t->n_unscored[0], (unsigned long long)t->n_rows[0]);
    return true;
}
