/* controller/experiments/experiment.c - see the header. Pure.
 *
 * Invariant: state is a function of the events alone; after an event that ends it nothing changes
 * until the next EVENT_EXPERIMENT. */
#include "controller/experiments/experiment.h"

#include "controller/experiments/acts.h"
#include "controller/experiments/allocation.h"
#include "controller/policies/arms.h"
#include "controller/stats/srm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RECENT = 20, SRM_FIRST_LOOK = 500 };
#define RECENT_MASK ((1u << RECENT) - 1u)
#define SHARE_MOVES 0.01 /* top two: a smaller change of every share is not worth a document */

static bool is_running(const struct experiment *x)
{
    return x->phase == EXPERIMENT_RUNNING;
}

/* The order of events. */

static void start(struct experiment *x, const struct experiment_setup *st, uint64_t now_us,
                  struct policy_actions *out)
{
    char why[128];
    memset(x, 0, sizeof *x);
    x->phase = EXPERIMENT_RUNNING;
    x->winner = EXPERIMENT_NONE_WINS;
    x->n_arm = st->n_arm;
    x->plan = st->plan;
    x->now_us = x->started_us = now_us;
    x->srm_next = SRM_FIRST_LOOK;
    memcpy(x->id, st->id.p, st->id.n);
    snprintf(x->outcome, sizeof x->outcome, "running");
    for (uint32_t k = 0; k < st->n_arm; k++) {
        x->arm[k].revision = st->arm[k];
        x->arm[k].beaten_by = EXPERIMENT_NONE_WINS;
    }
    contest_start(&x->contest, x->plan.law, x->n_arm);
    snprintf(why, sizeof why, "experiment %s starts: %u arms, law %s, alpha %.4g", x->id, x->n_arm,
             experiment_law_name(x->plan.law), x->plan.alpha);
    acts_allocate(x, why, out);
}

/* Number of the allocation a row was admitted under; 0 = not of this experiment. */
static uint64_t allocation_of(const struct experiment *x, struct str name)
{
    size_t n = strlen(x->id);
    int64_t number = 0;
    if (name.n < n + 2 || memcmp(name.p, x->id, n) != 0 || name.p[n] != '.')
        return 0;
    if (str_to_i64(str_slice(name, n + 1, name.n), &number, NULL) != ERR_OK || number < 1)
        return 0;
    return (uint64_t)number;
}

static uint32_t arm_of(const struct experiment *x, uint64_t revision)
{
    for (uint32_t k = 0; k < x->n_arm; k++)
        if (x->arm[k].revision.number == revision)
            return k;
    return x->n_arm;
}

/* Beyond the table all strata share the last place. */
static uint32_t stratum_of(struct experiment *x, struct str name)
{
    uint64_t tag = arms_tag(name);
    for (uint32_t i = 0; i < x->n_strata; i++)
        if (x->stratum_tag[i] == tag)
            return i;
    if (x->n_strata == POLICY_STRATA_MAX)
        return POLICY_STRATA_MAX - 1;
    x->stratum_tag[x->n_strata] = tag;
    return x->n_strata++;
}

static struct unit_row unit_of(struct experiment *x, const struct policy_row *row)
{
    bool is_left = row->finish == FINISH_CANCELLED; /* no fault of the arm */
    bool is_whole = !is_left && row->finish != FINISH_ERROR;
    bool is_scored = row->is_scored && is_whole && row->reward >= 0.0 && row->reward <= 1.0;
    struct unit_row u = {.source = row->source,
                         .admission = row->admission,
                         .row = row->row,
                         .committed_us = x->now_us,
                         .flags = UNIT_FOREIGN};
    if (row->is_foreign)
        return u;
    u.experiment = allocation_of(x, row->experiment);
    u.revision = row->revision;
    u.checks = arms_tag(row->checks);
    u.propensity = row->propensity;
    u.reward = row->reward;
    u.stratum = stratum_of(x, row->stratum);
    u.flags = (is_scored ? UNIT_SCORED : 0u) | (row->is_invalid && !is_left ? UNIT_INVALID : 0u) |
              (row->finish == FINISH_ERROR ? UNIT_ERROR : 0u);
    return u;
}

static const double *shares_at(const struct experiment *x, uint64_t allocation)
{
    const struct experiment_past *p = &x->past[allocation % EXPERIMENT_PAST];
    return p->allocation == allocation ? p->share : NULL;
}

static void note_range(struct experiment *x, const struct unit_row *u)
{
    bool is_first = x->first_row == 0;
    if (is_first || u->row < x->first_row)
        x->first_row = u->row;
    if (is_first || u->admission < x->first_admission)
        x->first_admission = u->admission;
    if (u->row > x->last_row)
        x->last_row = u->row;
    if (u->admission > x->last_admission)
        x->last_admission = u->admission;
}

static void count_split(struct experiment *x, uint32_t arm, const double *share)
{
    if (!share || x->plan.law == LAW_SLICES)
        return;
    x->srm_n++;
    x->arm[arm].n_seen++;
    for (uint32_t k = 0; k < x->n_arm; k++)
        x->arm[k].expected += share[k];
}

/* Each arm has one slice in a round, so the round and the arm name the slice. */
static void count_slice(struct experiment *x, uint32_t arm, const struct unit_row *u)
{
    struct experiment_round *now = &x->round[x->n_rounds & 1];
    bool is_now = u->experiment >= now->first_allocation;
    struct experiment_round *r = is_now ? now : &x->round[(x->n_rounds + 1) & 1];
    if (!r->is_open || u->experiment < r->first_allocation)
        return;
    if (!(u->flags & UNIT_SCORED)) {
        r->n_unscored[arm]++;
        return;
    }
    r->n_scored[arm]++;
    r->sum[arm] += u->reward;
}

static void add_unit(struct experiment *x, uint32_t arm, const struct unit_row *u)
{
    const double *share = shares_at(x, u->experiment);
    uint32_t is_bad = (u->flags & (UNIT_INVALID | UNIT_ERROR)) != 0;
    struct contest_row row = {.arm = arm,
                              .stratum = u->stratum,
                              .is_scored = (u->flags & UNIT_SCORED) != 0,
                              .reward = u->reward,
                              .share = share};
    note_range(x, u);
    x->arm[arm].n_rows++;
    x->arm[arm].recent_bad = ((x->arm[arm].recent_bad << 1) | is_bad) & RECENT_MASK;
    count_split(x, arm, share);
    if (x->plan.law == LAW_SLICES)
        count_slice(x, arm, u);
    contest_add(&x->contest, &row);
}

/* Verdicts. */

double experiment_split_p(const struct experiment *x)
{
    double chi2 = 0.0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < x->n_arm; k++) {
        const struct experiment_arm *a = &x->arm[k];
        double gap = (double)a->n_seen - a->expected;
        if (a->expected < 5.0)
            continue;
        chi2 += gap * gap / a->expected;
        n++;
    }
    return n > 1 ? chi2_tail(chi2, n - 1) : 1.0;
}

static void look_at_split(struct experiment *x, struct policy_actions *out)
{
    char why[160];
    if (x->is_split_broken || x->srm_n < x->srm_next)
        return;
    x->srm_next *= 2; /* a fixed-sample test: few looks, far apart */
    double p = experiment_split_p(x);
    if (p >= SRM_ALERT_P)
        return;
    x->is_split_broken = 1;
    snprintf(
        why, sizeof why,
        "sample ratio mismatch over %u arms (p = %.2g after %llu rows): rows of one arm may be "
        "lost, so no arm wins from here on",
        x->n_arm, p, (unsigned long long)x->srm_n);
    acts_alert(x, "srm", why, out);
}

static bool may_drop(const struct experiment *x, uint32_t arm)
{
    return !x->contest.arm[arm].is_out && contest_n_in(&x->contest) > 1;
}

static bool drop_tripped(struct experiment *x, struct policy_actions *out)
{
    char why[96];
    bool is_dropped = false;
    for (uint32_t k = 0; k < x->n_arm; k++) {
        int n_bad = __builtin_popcount(x->arm[k].recent_bad);
        if (!may_drop(x, k) || n_bad <= RECENT / 2)
            continue;
        snprintf(why, sizeof why, "of its last %d outputs %d are invalid or engine errors", RECENT,
                 n_bad);
        acts_trip(x, k, why, out);
        is_dropped = true;
    }
    return is_dropped;
}

/* An engine died while it served these arms. Of which is not known when there are several, so each
 * goes but the champion, as the challenger of a canary does. */
static bool drop_crashed(struct experiment *x, struct policy_actions *out)
{
    bool is_dropped = false;
    for (uint32_t k = 1; k < x->n_arm; k++) {
        if (!may_drop(x, k) || x->arm[k].share <= 0.0)
            continue;
        acts_trip(x, k, "an engine died while it served it", out);
        is_dropped = true;
    }
    return is_dropped;
}

static bool is_past_min(const struct experiment *x)
{
    return x->now_us - x->started_us >= x->plan.min_us;
}

/* The last two stay until the minimum duration is over: a winner needs its opponent beside it. */
static bool drop_beaten(struct experiment *x, const struct policy_settings *s,
                        struct policy_actions *out)
{
    struct contest_verdict v;
    bool is_dropped = false;
    while (!x->is_split_broken && (contest_n_in(&x->contest) > 2 || is_past_min(x)) &&
           contest_beaten(&x->contest, x->plan.alpha, s->min_units, &v)) {
        acts_eliminate(x, &v, out);
        is_dropped = true;
    }
    return is_dropped;
}

static void conclude_winner(struct experiment *x, struct policy_actions *out)
{
    char why[POLICY_REASON_BYTES];
    uint32_t w = contest_leader(&x->contest);
    snprintf(why, sizeof why,
             "revision %llu is the only arm left after %llu scored outputs and %llu s%s",
             (unsigned long long)x->arm[w].revision.number, (unsigned long long)x->contest.n_scored,
             (unsigned long long)((x->now_us - x->started_us) / 1000000u),
             w == 0 ? ": the champion" : "");
    acts_conclude(x, "winner", w, why, out);
}

/* Who beat the champion, or beat who beat it, and so on, and is still in. */
static uint32_t better_than_champion(const struct experiment *x)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < x->n_arm && k < x->n_arm && x->contest.arm[k].is_out; i++)
        k = x->arm[k].beaten_by;
    return k > 0 && k < x->n_arm && !x->contest.arm[k].is_out ? k : EXPERIMENT_NONE_WINS;
}

/* Several arms may be left that are too alike to tell apart: one that is shown to be better than
 * the champion is a verdict all the same. */
static bool expire(struct experiment *x, struct policy_actions *out)
{
    char why[POLICY_REASON_BYTES];
    bool is_long = x->now_us - x->started_us >= x->plan.max_us;
    bool is_big = x->plan.max_units && x->contest.n_scored >= x->plan.max_units;
    if (!is_long && !is_big)
        return false;
    uint32_t better = x->is_split_broken ? EXPERIMENT_NONE_WINS : better_than_champion(x);
    int n = snprintf(why, sizeof why, "after %llu scored outputs and %llu s %u arms are left: ",
                     (unsigned long long)x->contest.n_scored,
                     (unsigned long long)((x->now_us - x->started_us) / 1000000u),
                     contest_n_in(&x->contest));
    if (better < x->n_arm)
        snprintf(why + n, sizeof why - (size_t)n,
                 "revision %llu is better than the champion, and no other is shown to beat it",
                 (unsigned long long)x->arm[better].revision.number);
    else
        snprintf(why + n, sizeof why - (size_t)n, "inconclusive, the champion stays%s",
                 x->is_split_broken ? " (sample ratio mismatch)" : "");
    acts_conclude(x, better < x->n_arm ? "better" : "no_verdict", better, why, out);
    return true;
}

static bool shares_moved(const struct experiment *x)
{
    double share[EXPERIMENT_ARMS], most = 0.0;
    allocation_shares(&x->contest, x->plan.floor, share);
    for (uint32_t k = 0; k < x->n_arm; k++)
        most = fmax(most, fabs(share[k] - x->arm[k].share));
    return most >= SHARE_MOVES;
}

static bool is_serving_arm_out(const struct experiment *x)
{
    return x->contest.arm[x->round[x->n_rounds & 1].order[x->slice_at]].is_out != 0;
}

/* is_dropped: an arm has just gone. */
static void judge(struct experiment *x, const struct policy_settings *s, bool is_dropped,
                  struct policy_actions *out)
{
    if (!is_running(x))
        return;
    look_at_split(x, out);
    is_dropped |= drop_tripped(x, out);
    is_dropped |= drop_beaten(x, s, out);
    if (contest_n_in(&x->contest) == 1 && is_past_min(x)) {
        conclude_winner(x, out);
        return;
    }
    if (expire(x, out))
        return;
    bool is_due =
        x->plan.law == LAW_TOP_TWO && x->contest.n_scored >= x->share_units + x->plan.every_units;
    if (is_dropped && x->plan.law == LAW_SLICES && is_serving_arm_out(x))
        x->slice_end_us = x->now_us;
    if (is_dropped && x->plan.law != LAW_SLICES)
        acts_allocate(x, "shares among the arms that are left", out);
    else if (is_due && shares_moved(x))
        acts_allocate(x, "shares follow the posteriors", out);
    else if (is_due)
        x->share_units = x->contest.n_scored;
}

/* Slices of time. */

/* A round counts when the next one is over: by then its scores are in. */
static void settle_round(struct experiment *x)
{
    struct experiment_round *r = &x->round[(x->n_rounds + 1) & 1];
    struct contest_slice slice[EXPERIMENT_ARMS];
    if (!r->is_open)
        return;
    for (uint32_t k = 0; k < x->n_arm; k++)
        slice[k] = (struct contest_slice){r->n_scored[k], r->n_unscored[k], r->sum[k]};
    r->is_open = 0;
    contest_add_round(&x->contest, slice);
}

static void advance_slices(struct experiment *x, const struct policy_settings *s,
                           struct policy_actions *out)
{
    if (!is_running(x) || x->plan.law != LAW_SLICES || x->now_us < x->slice_end_us)
        return;
    if (acts_round_is_over(x)) {
        settle_round(x);
        judge(x, s, false, out);
    }
    if (is_running(x))
        acts_allocate(x, "the next slice of time", out);
}

/* Events. */

static void begin_era(struct experiment *x, struct policy_actions *out)
{
    contest_restart(&x->contest);
    x->share_units = 0;
    x->round[0].is_open = x->round[1].is_open = 0;
    acts_alert(x, "checks",
               "the checks changed, and rewards of two versions cannot be compared: the "
               "experiment's statistics begin again",
               out);
}

static void on_unit(struct experiment *x, const struct policy_settings *s, const struct unit_row *u,
                    struct policy_actions *out)
{
    uint32_t arm = arm_of(x, u->revision);
    if ((u->flags & UNIT_FOREIGN) || u->experiment == 0 || u->experiment > x->allocation ||
        arm == x->n_arm)
        return;
    enum era_verdict era = era_admit(&x->era, u->checks);
    if (era == ERA_EXCLUDED)
        return;
    if (era == ERA_BEGINS)
        begin_era(x, out);
    add_unit(x, arm, u);
    judge(x, s, false, out);
}

static void drain(struct experiment *x, const struct policy_settings *s, struct policy_actions *out)
{
    struct unit_row u;
    while (is_running(x) && admission_take(&x->queue, x->now_us, s->pair_deadline_us, &u))
        on_unit(x, s, &u, out);
    advance_slices(x, s, out);
    judge(x, s, false, out); /* time alone may have ended it */
}

static bool ends_it(const struct policy_event *ev)
{
    return ev->kind == EVENT_EXPERIMENT_STOP || ev->kind == EVENT_HOLD ||
           ev->kind == EVENT_ROLLBACK || ev->kind == EVENT_CHAMPION;
}

const char *experiment_refuses(const struct experiment *x, const struct policy_event *ev)
{
    if (ev->kind == EVENT_EXPERIMENT) {
        const struct experiment_setup *st = ev->experiment;
        if (is_running(x))
            return "an experiment runs on this route already; stop it first";
        if (st->n_arm < 2 || st->n_arm > EXPERIMENT_ARMS)
            return "an experiment has 2 to 16 arms, the champion among them";
        if (st->id.n == 0 || st->id.n >= EXPERIMENT_ID_BYTES)
            return "an experiment id has 1 to 40 bytes";
    }
    if (ev->kind == EVENT_EXPERIMENT_STOP && !is_running(x))
        return "no experiment is running on this route";
    if (is_running(x) && (ev->kind == EVENT_START || ev->kind == EVENT_PROMOTE))
        return "an experiment is running; stop it first (milepost experiment stop)";
    return NULL;
}

void experiment_step(struct experiment *x, const struct policy_settings *s,
                     const struct policy_event *ev, struct policy_actions *out)
{
    if (ev->kind == EVENT_EXPERIMENT) {
        start(x, ev->experiment, ev->now_us, out);
        return;
    }
    if (!is_running(x))
        return;
    if (ev->now_us > x->now_us)
        x->now_us = ev->now_us;
    if (ends_it(ev)) {
        acts_conclude(x, "stopped", EXPERIMENT_NONE_WINS, "stopped by an operator", out);
        return;
    }
    if (ev->kind == EVENT_ROW && ev->row.choice == 0) {
        struct unit_row u = unit_of(x, &ev->row);
        admission_put(&x->queue, &u);
    }
    if (ev->kind == EVENT_CRASH)
        judge(x, s, drop_crashed(x, out), out);
    drain(x, s, out);
}

/* The earlier of two times, 0 = never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a | b;
    return a < b ? a : b;
}

uint64_t experiment_wake_us(const struct experiment *x, const struct policy_settings *s)
{
    if (!is_running(x))
        return 0;
    uint64_t wake = admission_wake_us(&x->queue, s->pair_deadline_us);
    uint64_t from_us = x->started_us + x->plan.min_us;
    wake = earlier(wake, x->started_us + x->plan.max_us);
    if (x->plan.law == LAW_SLICES)
        wake = earlier(wake, x->slice_end_us);
    return from_us > x->now_us ? earlier(wake, from_us) : wake;
}

/* The strongest bet on another arm against this one, of the weaker of its two readings. */
static double evidence_against(const struct contest *c, uint32_t arm)
{
    double most = -INFINITY;
    for (uint32_t i = 0; i < c->n_arm && !c->arm[arm].is_out; i++) {
        if (i == arm || c->arm[i].is_out)
            continue;
        const struct duel *d = contest_duel(c, i, arm);
        most = fmax(most, fmin(d->scored.log_w, d->filled.log_w));
    }
    return isfinite(most) ? most : 0.0;
}

static struct policy_effect_view effect_of(const struct contest *c, uint32_t arm)
{
    struct interval v = contest_effect(c, arm, 0);
    if (contest_duel(c, arm, 0)->scored.steps == 0)
        return (struct policy_effect_view){NAN, NAN, NAN};
    return (struct policy_effect_view){v.centre, v.lower, v.upper};
}

static void view_evidence(const struct experiment *x, struct policy_view *out)
{
    static const char *const DUELS[EXPERIMENT_ARMS] = {
        "duel_champion", "duel_arm-1",  "duel_arm-2",  "duel_arm-3", "duel_arm-4",  "duel_arm-5",
        "duel_arm-6",    "duel_arm-7",  "duel_arm-8",  "duel_arm-9", "duel_arm-10", "duel_arm-11",
        "duel_arm-12",   "duel_arm-13", "duel_arm-14", "duel_arm-15"};
    double threshold = contest_log_threshold(&x->contest, x->plan.alpha);
    out->n_test = x->n_arm;
    for (uint32_t k = 0; k < x->n_arm; k++)
        out->test[k] =
            (struct policy_test_view){DUELS[k], evidence_against(&x->contest, k), threshold};
    for (uint32_t k = 1; k < x->n_arm; k++)
        out->arm_effect[k] = effect_of(&x->contest, k);
}

void experiment_view(const struct experiment *x, struct policy_view *out)
{
    if (!is_running(x))
        return;
    view_evidence(x, out);
    memcpy(out->experiment, x->id, sizeof x->id);
    out->allocation = x->allocation;
    out->n_arm = x->n_arm;
    for (uint32_t k = 0; k < x->n_arm; k++) {
        out->arm_revision[k] = x->arm[k].revision.number;
        out->arm_share[k] = x->arm[k].share;
    }
}
