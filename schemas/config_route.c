/* Keys of routes: their first parameters, their checks, the numbers of their policy.
 *
 * Checks across fields stand here too: what passes can be given to policy, checks and revisions.
 * The policy's own invariants are checked again by the law that uses them. */
#include "schemas/config_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const POLICIES[] = {"hold", "threshold", "canary", NULL};
static const char *const LENGTH_RESIDUAL[] = {"auto", "never", "always", NULL};
static const char *const CHECK_SETS[] = {"a", "b", NULL};
static const char *const ON_ERROR[] = {"unscored", "fail", NULL};

#define P struct policy_config
static const struct cfg_option POLICY_OPTIONS[] = {
    ENUM_ROW(P, kind, "canary", POLICIES,
             "hold acts on nothing, threshold steps below a bound, canary tests each change."),
    REAL_ROW(P, alpha, "0.05", 1e-9, 0.5, "", "Bound on the chance of a false rollback."),
    REAL_ROW(P, epsilon, "0.02", 0, 0.5, "reward", "Loss of reward that is tolerated."),
    REAL_ROW(P, promote_alpha, "0.05", 1e-9, 0.5, "", "Bound on the chance of a false promotion."),
    REAL_ROW(P, guardrail_epsilon, "0.05", 0, 0.5, "",
             "Growth of a bad event's share (truncated, unscored) that is tolerated."),
    INT_ROW(P, min_units, "20", 20, 1e9, "units", "Challenger rows before a rollback may act."),
    {.key = "ramp",
     .type = CFG_TEXT_LIST,
     .offset = offsetof(P, ramp),
     .fallback = "0.01,0.05,0.1,0.5",
     .unit = "",
     .help = "Shares a challenger gets, step by step; growing, at most 0.5."},
    INT_ROW(P, ramp_units, "200", 1, 1e9, "units", "Scored challenger rows before a step up."),
    INT_ROW(P, controls_per_block, "9", 1, 16, "rows", "Champion rows paired with a challenger's."),
    INT_ROW(P, pair_deadline_ms, "120000", 100, 86400000, "ms",
            "A pair is given up when a score is missing after this."),
    INT_ROW(P, max_units, "100000", 20, 1e9, "units", "A trial without a verdict expires here."),
    INT_ROW(P, max_minutes, "20160", 1, 5256000, "minutes", "... or after this time."),
    INT_ROW(P, min_minutes, "1440", 0, 525600, "minutes",
            "One traffic cycle: no promotion before. Lower it only for demonstrations."),
    REAL_ROW(P, now_share, "0.95", 0.5, 0.99, "",
             "Share of a revision pushed with --now; the rest is its control."),
    REAL_ROW(P, target, "0", 0, 1, "reward", "The policy proposes changes below it; 0 = never."),
    INT_ROW(P, calibration_units, "500", 20, 1e9, "units",
            "Champion rows that fix the level the drift watch compares with."),
    REAL_ROW(P, drift_threshold, "10000", 0, 1e12, "rows",
             "Mean rows between false drift alarms; 0 = no watch."),
    REAL_ROW(P, temperature_step, "0.1", 0.001, 2, "", "One step down of a proposal."),
    REAL_ROW(P, temperature_min, "0", 0, 2, "", "Proposals go no lower."),
    REAL_ROW(P, max_new_tokens_factor, "0.75", 0.01, 1, "", "One step of the answer's length."),
    INT_ROW(P, max_new_tokens_min, "16", 1, 1 << 20, "tokens", "Proposals go no lower."),
    INT_ROW(P, window, "100", 1, 512, "rows", "threshold: mean of the last this many."),
    REAL_ROW(P, bound, "0", 0, 1, "reward", "threshold: a mean below it makes a step."),
    INT_ROW(P, cooldown_units, "200", 0, 1e9, "units", "Rows to wait after an action."),
    BOOL_ROW(P, propose, "true", "May the policy make challengers of its own."),
    REAL_ROW(P, length_ratio, "3", 1, 1e6, "",
             "Guardrail: the challenger's mean length may be this many times the champion's, or "
             "one part in this many. Larger = laxer."),
    REAL_ROW(P, latency_ratio, "3", 1, 1e6, "",
             "Guardrail: its mean time to the last token may be this many times the champion's."),
    ENUM_ROW(
        P, length_residual, "auto", LENGTH_RESIDUAL,
        "Must a winner also win with the effect of length taken out of the reward? auto: where "
        "a check is a reward_model or a judge."),
    INT_ROW(P, session_ms, "300000", 0, 86400000, "ms",
            "Turns of one user or conversation within it are averaged and count as one; 0: each "
            "request counts."),
    INT_ROW(P, stale_ms, "600000", 0, 86400000, "ms",
            "When nothing was committed for this long, nothing is decided; 0: never."),
};
#undef P
const struct cfg_table POLICY_TABLE = {.name = "policy",
                                       .size = sizeof(struct policy_config),
                                       .option = POLICY_OPTIONS,
                                       .n_option = CFG_COUNT(POLICY_OPTIONS)};

#define K struct check_config
static const struct cfg_option CHECK_OPTIONS[] = {
    {.key = "id",
     .type = CFG_TEXT,
     .offset = offsetof(K, id),
     .max = 64,
     .unit = "",
     .help = "Name of the check within its route."},
    {.key = "kind",
     .type = CFG_TEXT,
     .offset = offsetof(K, kind),
     .max = 64,
     .unit = "",
     .help = "One of verifier/README.md: length, json, regex, number, reward_model, code, ..."},
    REAL_ROW(K, weight, "1", 0, 1e6, "", "Share in the reward."),
    BOOL_ROW(K, gate, "false", "A failed gate makes the reward 0 whatever the others say."),
    INT_ROW(K, timeout_ms, "1000", 1, 600000, "ms", "Longest run of the check."),
    ENUM_ROW(K, on_error, "unscored", ON_ERROR, "What a check that could not run counts as."),
    ENUM_ROW(K, set, "a", CHECK_SETS,
             "a: part of the reward. b: judges a sample, and only forbids a promotion."),
    REAL_ROW(K, sample, "0.1", 0.001, 1, "", "Share of the outputs that a check of set b judges."),
};
#undef K
static const struct cfg_table CHECK_TABLE = {.name = "check",
                                             .size = sizeof(struct check_config),
                                             .option = CHECK_OPTIONS,
                                             .n_option = CFG_COUNT(CHECK_OPTIONS),
                                             .max_items = 32,
                                             .extra_offset = offsetof(struct check_config, params)};

#define B struct bound_config
static const struct cfg_option BOUND_OPTIONS[] = {
    {.key = "knob",
     .type = CFG_TEXT,
     .offset = offsetof(B, knob),
     .max = 64,
     .unit = "",
     .help = "temperature, top_p, max_new_tokens, ...: one of params."},
    REAL_ROW(B, min, "-1e9", -1e9, 1e9, "", "No revision sets it lower."),
    REAL_ROW(B, max, "1e9", -1e9, 1e9, "", "No revision sets it higher."),
    REAL_ROW(B, step, "1e9", 0, 1e9, "",
             "Most by which a new revision may differ from the one that serves."),
};
#undef B

static int check_bound(const void *value, const char *path, struct err *e)
{
    const struct bound_config *b = value;
    enum param_id id;
    if (!param_find(b->knob, &id))
        return err_set(e, ERR_INVALID, "%s.knob: \"%.40s\" is no parameter", path, b->knob.p);
    if (b->min > b->max)
        return err_set(e, ERR_INVALID, "%s: min %g is above max %g", path, b->min, b->max);
    return ERR_OK;
}

static const struct cfg_table BOUND_TABLE = {.name = "bound",
                                             .size = sizeof(struct bound_config),
                                             .option = BOUND_OPTIONS,
                                             .n_option = CFG_COUNT(BOUND_OPTIONS),
                                             .max_items = PARAM_COUNT,
                                             .check = check_bound};

struct bound_config route_config_bound(const struct route_config *r, enum param_id knob)
{
    const struct param_info *info = param_info(knob);
    struct bound_config all = {str_from(info->name), info->min, info->max, INFINITY};
    const struct bound_config *b = r ? r->bounds.item : NULL;
    for (uint32_t i = 0; r && i < r->bounds.n; i++) {
        if (!str_eq_c(b[i].knob, info->name))
            continue;
        all.min = fmax(all.min, b[i].min);
        all.max = fmin(all.max, b[i].max);
        all.step = fmin(all.step, b[i].step);
    }
    return all;
}

/* The first revision must be one that could be pushed. */
static int check_within(const struct route_config *r, const struct param_set *set, const char *path,
                        struct err *e)
{
    struct params client = {0}, first;
    params_resolve(set, &client, &first);
    for (int i = 0; i < PARAM_COUNT; i++) {
        struct bound_config b = route_config_bound(r, (enum param_id)i);
        if (!(first.v[i] >= b.min && first.v[i] <= b.max))
            return err_set(e, ERR_INVALID,
                           "%s.bounds: the first revision has " STR_FMT " %g, outside %g to %g",
                           path, STR_ARG(b.knob), first.v[i], b.min, b.max);
    }
    return ERR_OK;
}

bool config_is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
        if (!is_good)
            return false;
    }
    return s.n > 0;
}

static int check_params(const struct route_config *r, const char *path, struct err *e)
{
    struct arena a;
    struct param_set set;
    json_t *v = NULL;
    arena_init(&a, 64 * KiB);
    int rc = json_parse(r->params, 0, &v, e);
    if (rc == ERR_OK) {
        struct json_at at = json_root(v);
        rc = param_set_decode(&at, &a, &set, e);
    }
    if (rc != ERR_OK)
        err_wrap(e, "%s.params", path);
    else
        rc = check_within(r, &set, path, e);
    json_decref(v);
    arena_free(&a);
    return rc;
}

static int check_route(const void *value, const char *path, struct err *e)
{
    const struct route_config *r = value;
    if (!config_is_name(r->name))
        return err_set(e, ERR_INVALID, "%s.name: letters, digits, - _ . only, got \"%.40s\"", path,
                       r->name.p);
    const struct check_config *c = r->checks.item;
    for (uint32_t i = 0; i < r->checks.n; i++) {
        if (!config_is_name(c[i].id))
            return err_set(e, ERR_INVALID,
                           "%s.checks[%u].id: letters, digits, - _ . only, got \"%.40s\"", path, i,
                           c[i].id.p);
        for (uint32_t j = 0; j < i; j++) {
            if (str_eq(c[i].id, c[j].id))
                return err_set(e, ERR_INVALID, "%s.checks[%u].id: \"%.40s\" is used twice", path, i,
                               c[i].id.p);
        }
    }
    return check_params(r, path, e);
}

/* A route's params are free-form keys of a mapping of their own, kept as text in the route. */
static const struct cfg_table ROUTE_PARAMS_TABLE = {.name = "params",
                                                    .size = sizeof(struct route_config),
                                                    .extra_offset =
                                                        offsetof(struct route_config, params)};

static const struct cfg_option ROUTE_OPTIONS[] = {
    {.key = "name",
     .type = CFG_TEXT,
     .offset = offsetof(struct route_config, name),
     .max = 64,
     .unit = "",
     .help = "Clients choose it with model \"NAME:route\" or X-Milepost-Route."},
    {.key = "params",
     .type = CFG_MAP,
     .offset = 0,
     .sub = &ROUTE_PARAMS_TABLE,
     .help = "First revision: temperature, top_p, top_k, min_p, repetition_penalty, "
             "presence_penalty, frequency_penalty, max_new_tokens, stop, and caps."},
    {.key = "bounds",
     .type = CFG_LIST,
     .offset = offsetof(struct route_config, bounds),
     .sub = &BOUND_TABLE,
     .help = "What revisions of this route may set knobs to, whoever makes them; none = what the "
             "knob allows anywhere."},
    {.key = "checks",
     .type = CFG_LIST,
     .offset = offsetof(struct route_config, checks),
     .sub = &CHECK_TABLE,
     .help = "What the verifier scores: gates first, then weighted mean."},
    {.key = "policy",
     .type = CFG_MAP,
     .offset = offsetof(struct route_config, policy),
     .sub = &POLICY_TABLE,
     .help = "How the controller acts on the scores."},
};
const struct cfg_table ROUTE_TABLE = {.name = "route",
                                      .size = sizeof(struct route_config),
                                      .option = ROUTE_OPTIONS,
                                      .n_option = CFG_COUNT(ROUTE_OPTIONS),
                                      .max_items = 64,
                                      .check = check_route};
