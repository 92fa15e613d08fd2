/* One decision per action; plus one for what an event decides by itself. */
#include "controller/decisions.h"

#include <math.h>

static double finite_or_nan(double v)
{
    return isfinite(v) ? v : (double)NAN;
}

static void put_real(json_t *o, const char *key, double v)
{
    if (isfinite(v))
        json_object_set_new(o, key, json_num(v));
}

static void put_count(json_t *o, const char *key, uint64_t v)
{
    if (v)
        json_object_set_new(o, key, json_integer((json_int_t)v));
}

/* [[revision, share], ...] as the document will say it. */
static void put_shares(const struct course *c, const struct policy_action *act, json_t *o)
{
    struct policy_view v;
    json_t *list = json_array();
    policy_view(c->policy, &v);
    for (uint32_t k = 0; k < v.n_arm; k++)
        json_array_append_new(list,
                              json_pack("[I, f]", (json_int_t)v.arm_revision[k], v.arm_share[k]));
    json_object_set_new(o, "shares", list);
    put_real(o, "allocation", act->value);
}

/* Numbers that have no field of their own. */
static json_t *detail_of(const struct course *c, const struct decision_cause *cause,
                         const struct policy_action *act)
{
    json_t *o = json_object();
    put_count(o, "ord", cause->ord);
    json_object_set_new(o, "rows_hash", json_string(c->rows_hash));
    if (cause->reason.n)
        json_object_set_new(o, "event_reason", json_str(cause->reason));
    if (!act)
        return o;
    put_real(o, "share", act->share);
    put_real(o, "effect_lower", act->effect_lower);
    put_real(o, "effect_upper", act->effect_upper);
    put_count(o, "n_unscored_champion", act->n_unscored_champion);
    put_count(o, "n_unscored_challenger", act->n_unscored_challenger);
    put_count(o, "first_admission", act->first_admission);
    put_count(o, "last_admission", act->last_admission);
    if (act->hash[0])
        json_object_set_new(o, "revision_hash", json_string(act->hash));
    if (act->kind == ACTION_ALLOCATE)
        put_shares(c, act, o);
    if (act->kind == ACTION_CONCLUDE)
        json_object_set_new(o, "report", policy_experiment(c->policy));
    if (act->kind == ACTION_START_CANARY && act->to_revision == act->from_revision) {
        json_object_set_new(o, "knob", json_string(param_info(act->knob)->name));
        put_real(o, "value", act->value);
    }
    return o;
}

static int put_detail(const struct course *c, const struct decision_cause *cause,
                      const struct policy_action *act, struct arena *a, struct decision *d,
                      struct err *e)
{
    struct buf b;
    buf_init(&b, 64 * KiB);
    json_t *v = detail_of(c, cause, act);
    int rc = v ? json_write_canonical(v, &b, e) : err_set(e, ERR_NOMEM, "no memory for a decision");
    if (rc == ERR_OK) {
        d->detail = arena_str(a, buf_str(&b));
        if (!d->detail.p)
            rc = err_set(e, ERR_NOMEM, "no memory for a decision");
    }
    json_decref(v);
    buf_free(&b);
    return rc;
}

static struct decision blank(const struct course *c, const struct decision_cause *cause,
                             struct arena *a)
{
    double none = (double)NAN;
    struct decision d = {.route = str_from(c->route),
                         .actor = cause->actor,
                         .log_e = none,
                         .log_threshold = none,
                         .mean_champion = none,
                         .mean_challenger = none,
                         .effect = none,
                         .at = {cause->at_us}};
    if (d.actor.n == 0)
        d.actor =
            arena_printf(a, "policy:%s", policy_law_name(policy_settings_of(c->policy)->kind));
    return d;
}

static int add(const struct course *c, const struct decision_cause *cause,
               const struct policy_action *act, const struct decision *d, struct arena *a,
               struct course_result *out, struct err *e)
{
    if (out->n == COURSE_MAX_DECISIONS)
        return err_set(e, ERR_BUG, "more than %d decisions at once", COURSE_MAX_DECISIONS);
    out->decision[out->n] = *d;
    out->action[out->n] = act;
    return put_detail(c, cause, act, a, &out->decision[out->n++], e);
}

static int add_action(const struct course *c, const struct decision_cause *cause,
                      const struct policy_action *act, struct arena *a, struct course_result *out,
                      struct err *e)
{
    struct decision d = blank(c, cause, a);
    d.action = str_from(policy_action_name(act->kind));
    if (cause->actor.n == 0 && act->is_experiment)
        d.actor = STR("policy:experiment");
    d.reason = str_from(act->reason);
    d.experiment = str_from(act->experiment);
    d.from_revision = act->from_revision;
    d.to_revision = act->to_revision;
    d.test = str_from(act->test);
    d.log_e = finite_or_nan(act->log_e);
    d.log_threshold = finite_or_nan(act->log_threshold);
    d.n_champion = act->n_champion;
    d.n_challenger = act->n_challenger;
    d.n_blocks = act->n_blocks;
    d.mean_champion = finite_or_nan(act->mean_champion);
    d.mean_challenger = finite_or_nan(act->mean_challenger);
    d.effect = finite_or_nan(act->effect);
    d.first_row = act->first_row;
    d.last_row = act->last_row;
    return add(c, cause, act, &d, a, out, e);
}

/* What the event itself decides, with no action of the law behind it. */
static const char *own_action(const struct decision_cause *cause)
{
    if (str_eq_c(cause->kind, "champion"))
        return str_eq_c(cause->why, "rollback") ? "rollback"
               : cause->ended.n                 ? "expire"
                                                : "champion";
    if (str_eq_c(cause->kind, "resume"))
        return "resume";
    if (str_eq_c(cause->kind, "stop") && str_eq_c(cause->actor, "guard"))
        return "reject";
    return NULL;
}

static int add_own(const struct course *c, const struct decision_cause *cause, const char *action,
                   struct arena *a, struct course_result *out, struct err *e)
{
    struct policy_view v;
    struct decision d = blank(c, cause, a);
    policy_view(c->policy, &v);
    d.action = str_from(action);
    d.reason = cause->reason;
    d.experiment = cause->ended;
    d.from_revision = cause->champion_before;
    d.to_revision = v.champion;
    return add(c, cause, NULL, &d, a, out, e);
}

int decisions_of(const struct course *c, const struct decision_cause *cause, struct arena *a,
                 struct course_result *out, struct err *e)
{
    int rc = ERR_OK;
    out->n = 0;
    for (uint32_t i = 0; rc == ERR_OK && i < out->actions.n; i++)
        rc = add_action(c, cause, &out->actions.a[i], a, out, e);
    const char *own = own_action(cause);
    return rc == ERR_OK && own ? add_own(c, cause, own, a, out, e) : rc;
}
