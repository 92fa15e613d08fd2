/* Bounds and steps; see the header. */
#include "controller/guard.h"

#include <math.h>
#include <string.h>

static int check_values(const char *what, const struct params *p, struct err *e)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct param_info *info = param_info((enum param_id)i);
        if (!params_has(p, (enum param_id)i))
            continue;
        if (!(p->v[i] >= info->min && p->v[i] <= info->max)) {
            return err_set(e, ERR_INVALID, "%s%s: %g is outside %g to %g", what, info->name,
                           p->v[i], info->min, info->max);
        }
    }
    return ERR_OK;
}

/* Rounding of a step's ends: 0.9 - 0.7 is not 0.2. */
#define SLACK 1e-9

static int check_bounds(const struct route_config *route, const struct param_set *base,
                        const struct param_set *next, struct err *e)
{
    struct params client = {0}, from, to;
    params_resolve(base, &client, &from);
    params_resolve(next, &client, &to);
    for (int i = 0; i < PARAM_COUNT; i++) {
        struct bound_config b = route_config_bound(route, (enum param_id)i);
        if (from.v[i] == to.v[i])
            continue;
        if (!(to.v[i] >= b.min && to.v[i] <= b.max))
            return err_set(e, ERR_INVALID,
                           STR_FMT ": %g is outside %g to %g, the bounds of this route",
                           STR_ARG(b.knob), to.v[i], b.min, b.max);
        if (fabs(to.v[i] - from.v[i]) > b.step + SLACK)
            return err_set(e, ERR_INVALID,
                           STR_FMT ": %g is more than %g, this route's largest step, from the %g "
                                   "that serves",
                           STR_ARG(b.knob), to.v[i], b.step, from.v[i]);
    }
    return ERR_OK;
}

int guard_check(const struct route_config *route, const struct param_set *base,
                const struct param_set *next, struct err *e)
{
    int rc = check_values("", &next->defaults, e);
    if (rc == ERR_OK)
        rc = check_values("caps.", &next->caps, e);
    if (rc != ERR_OK || !base)
        return rc;
    rc = check_bounds(route, base, next, e);
    if (rc != ERR_OK)
        return rc;
    if (next->defaults.weights.n && !str_eq(next->defaults.weights, base->defaults.weights)) {
        return err_set(e, ERR_UNSUPPORTED,
                       "weights: this version cannot change the model of a running engine");
    }
    char old_hash[65], new_hash[65];
    param_set_hash(base, old_hash);
    param_set_hash(next, new_hash);
    if (strcmp(old_hash, new_hash) == 0)
        return err_set(e, ERR_CONFLICT, "these parameters are the ones that serve already");
    return ERR_OK;
}

static int check_step(const struct policy_settings *s, enum param_id id, double from, double to,
                      struct err *e)
{
    const double slack = 1e-6; /* proposals are rounded to a millionth */
    if (id == PARAM_TEMPERATURE) {
        if (to >= s->temperature_min - slack && fabs(from - to) <= s->temperature_step + slack)
            return ERR_OK;
        return err_set(e, ERR_INVALID,
                       "temperature: a proposal may go from %g at most %g away and not below %g, "
                       "not to %g",
                       from, s->temperature_step, s->temperature_min, to);
    }
    if (id == PARAM_MAX_NEW_TOKENS) {
        if (to >= s->tokens_min && to >= floor(from * s->tokens_factor) - slack && to <= from)
            return ERR_OK;
        return err_set(e, ERR_INVALID,
                       "max_new_tokens: a proposal may go from %g to %g of it and not below %g, "
                       "not to %g",
                       from, s->tokens_factor, s->tokens_min, to);
    }
    return err_set(e, ERR_INVALID, "%s: not a knob that a policy may turn", param_info(id)->name);
}

int guard_check_proposal(const struct route_config *route, const struct policy_settings *s,
                         const struct param_set *base, const struct param_set *next, struct err *e)
{
    struct params client = {0}, from, to;
    int rc = guard_check(route, base, next, e);
    params_resolve(base, &client, &from);
    params_resolve(next, &client, &to);
    for (int i = 0; rc == ERR_OK && i < PARAM_COUNT; i++) {
        if (from.v[i] != to.v[i])
            rc = check_step(s, (enum param_id)i, from.v[i], to.v[i], e);
    }
    return rc;
}
