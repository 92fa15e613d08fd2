/* controller/experiments/report.c - the state of an experiment for people, and for the store. Pure.
 *
 * The same text goes into the decision that ends it, so nothing here may depend on anything but the
 * state. */
#include "controller/experiments/allocation.h"
#include "controller/experiments/experiment.h"

#include <math.h>

static const struct state_field REVISION_FIELDS[] = {
    STATE_NUMBER(struct policy_revision, number, STATE_U64),
    STATE_CHARS(struct policy_revision, hash),
    STATE_NUMBERS(struct policy_revision, knob, STATE_F64, PARAM_COUNT),
    STATE_END,
};

static const struct state_field ARM_FIELDS[] = {
    STATE_SUB(struct experiment_arm, revision, REVISION_FIELDS),
    STATE_NUMBER(struct experiment_arm, share, STATE_F64),
    STATE_NUMBER(struct experiment_arm, expected, STATE_F64),
    STATE_NUMBER(struct experiment_arm, n_rows, STATE_U64),
    STATE_NUMBER(struct experiment_arm, n_seen, STATE_U64),
    STATE_NUMBER(struct experiment_arm, recent_bad, STATE_U32),
    STATE_LIMITED(struct experiment_arm, beaten_by, STATE_U32, EXPERIMENT_NONE_WINS),
    STATE_END,
};

static const struct state_field PLAN_FIELDS[] = {
    STATE_LIMITED(struct experiment_plan, law, STATE_U32, LAW_COUNT - 1),
    STATE_LIMITED(struct experiment_plan, on_win, STATE_U32, ON_WIN_COUNT - 1),
    STATE_NUMBER(struct experiment_plan, alpha, STATE_F64),
    STATE_NUMBER(struct experiment_plan, effect, STATE_F64),
    STATE_NUMBER(struct experiment_plan, floor, STATE_F64),
    STATE_NUMBER(struct experiment_plan, min_us, STATE_U64),
    STATE_NUMBER(struct experiment_plan, max_us, STATE_U64),
    STATE_NUMBER(struct experiment_plan, max_units, STATE_U64),
    STATE_NUMBER(struct experiment_plan, every_units, STATE_U64),
    STATE_NUMBER(struct experiment_plan, slice_us, STATE_U64),
    STATE_NUMBER(struct experiment_plan, seed, STATE_U64),
    STATE_END,
};

static const struct state_field PAST_FIELDS[] = {
    STATE_NUMBER(struct experiment_past, allocation, STATE_U64),
    STATE_NUMBERS(struct experiment_past, share, STATE_F64, EXPERIMENT_ARMS),
    STATE_END,
};

static const struct state_field ROUND_FIELDS[] = {
    STATE_NUMBER(struct experiment_round, number, STATE_U64),
    STATE_NUMBER(struct experiment_round, first_allocation, STATE_U64),
    STATE_NUMBER(struct experiment_round, is_open, STATE_U64),
    STATE_LIMITED(struct experiment_round, n, STATE_U32, EXPERIMENT_ARMS),
    {"order", STATE_U32, offsetof(struct experiment_round, order), EXPERIMENT_ARMS - 1,
     EXPERIMENT_ARMS, STATE_NO_COUNTER, NULL},
    STATE_NUMBERS(struct experiment_round, n_scored, STATE_U64, EXPERIMENT_ARMS),
    STATE_NUMBERS(struct experiment_round, n_unscored, STATE_U64, EXPERIMENT_ARMS),
    STATE_NUMBERS(struct experiment_round, sum, STATE_F64, EXPERIMENT_ARMS),
    STATE_END,
};

const struct state_field EXPERIMENT_FIELDS[] = {
    STATE_LIMITED(struct experiment, phase, STATE_U32, EXPERIMENT_ENDED),
    STATE_LIMITED(struct experiment, n_arm, STATE_U32, EXPERIMENT_ARMS),
    STATE_LIMITED(struct experiment, winner, STATE_U32, EXPERIMENT_NONE_WINS),
    STATE_CHARS(struct experiment, id),
    STATE_CHARS(struct experiment, outcome),
    STATE_SUB(struct experiment, plan, PLAN_FIELDS),
    STATE_USED(struct experiment, arm, EXPERIMENT_ARMS, n_arm, ARM_FIELDS),
    STATE_SUB(struct experiment, contest, CONTEST_FIELDS),
    STATE_SUB(struct experiment, queue, ADMISSION_FIELDS),
    STATE_SUB(struct experiment, era, ERA_FIELDS),
    STATE_LIMITED(struct experiment, n_strata, STATE_U32, POLICY_STRATA_MAX),
    STATE_NUMBERS(struct experiment, stratum_tag, STATE_U64, POLICY_STRATA_MAX),
    STATE_NUMBER(struct experiment, now_us, STATE_U64),
    STATE_NUMBER(struct experiment, started_us, STATE_U64),
    STATE_NUMBER(struct experiment, ended_us, STATE_U64),
    STATE_NUMBER(struct experiment, allocation, STATE_U64),
    STATE_SUBS(struct experiment, past, EXPERIMENT_PAST, PAST_FIELDS),
    STATE_NUMBER(struct experiment, share_units, STATE_U64),
    STATE_SUBS(struct experiment, round, 2, ROUND_FIELDS),
    STATE_NUMBER(struct experiment, n_rounds, STATE_U64),
    STATE_NUMBER(struct experiment, slice_end_us, STATE_U64),
    STATE_LIMITED(struct experiment, slice_at, STATE_U32, EXPERIMENT_ARMS - 1),
    STATE_NUMBER(struct experiment, srm_n, STATE_U64),
    STATE_NUMBER(struct experiment, srm_next, STATE_U64),
    STATE_NUMBER(struct experiment, is_split_broken, STATE_U32),
    STATE_NUMBER(struct experiment, first_row, STATE_U64),
    STATE_NUMBER(struct experiment, last_row, STATE_U64),
    STATE_NUMBER(struct experiment, first_admission, STATE_U64),
    STATE_NUMBER(struct experiment, last_admission, STATE_U64),
    STATE_END,
};

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static void put_u64(json_t *o, const char *key, uint64_t v)
{
    put(o, key, json_integer((json_int_t)v));
}

static json_t *arm_json(const struct experiment *x, uint32_t k, double best)
{
    const struct experiment_arm *a = &x->arm[k];
    const struct contestant *c = &x->contest.arm[k];
    struct interval v = contest_reward(&x->contest, k);
    json_t *o = json_object();
    put(o, "name", k ? json_sprintf("arm-%u", k) : json_string("champion"));
    put_u64(o, "revision", a->revision.number);
    put(o, "share", json_num(a->share));
    put(o, "state",
        json_string(!c->is_out                ? "in"
                    : a->beaten_by < x->n_arm ? "beaten"
                                              : "tripped"));
    put_u64(o, "rows", a->n_rows);
    put_u64(o, "n", c->n);
    put_u64(o, "unscored", c->n_unscored);
    put(o, "mean", json_num(v.centre));
    put(o, "lower", c->n ? json_num(v.lower) : json_null());
    put(o, "upper", c->n ? json_num(v.upper) : json_null());
    put(o, "probability_best", json_num(best));
    return o;
}

static json_t *pair_json(const struct experiment *x, uint32_t a, uint32_t b)
{
    const struct contest *c = &x->contest;
    const struct duel *up = contest_duel(c, a, b), *down = contest_duel(c, b, a);
    struct interval v = contest_effect(c, a, b);
    bool is_empty = up->scored.steps == 0;
    json_t *o = json_object();
    put_u64(o, "a", x->arm[a].revision.number);
    put_u64(o, "b", x->arm[b].revision.number);
    put_u64(o, "comparisons", up->scored.steps);
    put(o, "effect", is_empty ? json_null() : json_num(v.centre));
    put(o, "lower", is_empty ? json_null() : json_num(v.lower));
    put(o, "upper", is_empty ? json_null() : json_num(v.upper));
    put(o, "log_e_a", json_num(fmin(up->scored.log_w, up->filled.log_w)));
    put(o, "log_e_b", json_num(fmin(down->scored.log_w, down->filled.log_w)));
    return o;
}

static void put_lists(const struct experiment *x, json_t *o)
{
    json_t *arms = json_array(), *pairs = json_array();
    double best[EXPERIMENT_ARMS];
    allocation_best(&x->contest, best);
    for (uint32_t k = 0; k < x->n_arm; k++)
        json_array_append_new(arms, arm_json(x, k, best[k]));
    for (uint32_t b = 1; b < x->n_arm; b++)
        for (uint32_t a = 0; a < b; a++)
            json_array_append_new(pairs, pair_json(x, a, b));
    put(o, "arms", arms);
    put(o, "pairs", pairs);
}

json_t *experiment_report(const struct experiment *x)
{
    json_t *o = x->phase == EXPERIMENT_IDLE ? NULL : json_object(), *plan = json_object();
    if (!o) {
        json_decref(plan);
        return NULL;
    }
    uint64_t end_us = x->ended_us ? x->ended_us : x->now_us;
    uint32_t leader = contest_leader(&x->contest);
    put(o, "id", json_string(x->id));
    put(o, "outcome", json_string(x->outcome));
    put(o, "winner",
        x->winner < x->n_arm ? json_integer((json_int_t)x->arm[x->winner].revision.number)
                             : json_null());
    put_u64(o, "leader", x->arm[leader].revision.number);
    put_u64(o, "started_us", x->started_us);
    put_u64(o, "ended_us", x->ended_us);
    put(o, "seconds", json_num((double)(end_us - x->started_us) / 1e6));
    put_u64(o, "scored", x->contest.n_scored);
    put_u64(o, "allocation", x->allocation);
    put_u64(o, "rounds", x->n_rounds);
    put(o, "log_threshold", json_num(contest_log_threshold(&x->contest, x->plan.alpha)));
    put(o, "split_p", x->plan.law == LAW_SLICES ? json_null() : json_num(experiment_split_p(x)));
    put(o, "is_split_broken", json_boolean(x->is_split_broken));
    put_u64(o, "late", x->queue.n_late);
    put_u64(o, "missing", x->queue.n_missing);
    experiment_plan_encode(&x->plan, plan);
    put(o, "plan", plan);
    put_lists(x, o);
    return o;
}
