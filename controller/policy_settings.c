/* controller/policy_settings.c - defaults of the law, reading and checking of a route's numbers.
 *
 * Invariant: what passes the check cannot make a test invalid or divide by zero. Pure. */
#include "controller/policy_settings.h"

#include "controller/policies/state_read.h"

#include <math.h>

#define US_PER_MS     1000u
#define US_PER_MINUTE 60000000u

struct policy_settings policy_settings_default(void)
{
    return (struct policy_settings){
        .kind = POLICY_CANARY,
        .alpha = 0.05,
        .epsilon = 0.02,
        .guardrail_epsilon = 0.05,
        .promote_alpha = 0.05,
        .min_units = POLICY_MIN_UNITS,
        .k_max = 9,
        .length_ratio = 3.0,
        .latency_ratio = 3.0,
        .session_us = (uint64_t)300 * 1000000,
        .stale_us = (uint64_t)600 * 1000000,
        .pair_deadline_us = (uint64_t)120 * 1000000,
        .ramp = {0.01, 0.05, 0.10, 0.50},
        .n_ramp = 4,
        .ramp_units = 200,
        .now_share = 0.95,
        .min_us = (uint64_t)24 * 60 * US_PER_MINUTE,
        .max_us = (uint64_t)14 * 24 * 60 * US_PER_MINUTE,
        .max_units = 100000,
        .calibration_units = 500,
        .drift_threshold = 1e4,
        .temperature_step = 0.1,
        .tokens_factor = 0.75,
        .tokens_min = 16,
        .proposes = true,
        .cooldown_units = 200,
        .window = 100,
    };
}

_Static_assert(sizeof(enum policy_kind) == sizeof(uint32_t), "stored as uint32_t");
#define F64(m)  STATE_NUMBER(struct policy_settings, m, STATE_F64)
#define U64(m)  STATE_NUMBER(struct policy_settings, m, STATE_U64)
#define U32(m)  STATE_NUMBER(struct policy_settings, m, STATE_U32)
#define FLAG(m) STATE_NUMBER(struct policy_settings, m, STATE_BOOL)

static const struct state_field FIELDS[] = {
    U32(kind),
    F64(alpha),
    F64(epsilon),
    F64(guardrail_epsilon),
    F64(promote_alpha),
    U64(min_units),
    U32(k_max),
    U64(pair_deadline_us),
    FLAG(needs_set_b),
    FLAG(needs_length_residual),
    F64(length_ratio),
    F64(latency_ratio),
    U64(session_us),
    U64(stale_us),
    STATE_NUMBERS(struct policy_settings, ramp, STATE_F64, POLICY_RAMP_MAX),
    U32(n_ramp),
    U64(ramp_units),
    F64(now_share),
    U64(min_us),
    U64(max_us),
    U64(max_units),
    F64(target),
    U64(calibration_units),
    F64(drift_threshold),
    FLAG(proposes),
    F64(temperature_step),
    F64(temperature_min),
    F64(tokens_factor),
    F64(tokens_min),
    U64(cooldown_units),
    U32(window),
    F64(bound),
    STATE_END,
};

void policy_settings_write(const struct policy_settings *s, struct buf *out)
{
    state_write(FIELDS, s, out);
}

json_t *policy_settings_encode(const struct policy_settings *s)
{
    return state_encode(FIELDS, s);
}

static int take_checked(const struct policy_settings *s, struct policy_settings *out, struct err *e)
{
    int rc = policy_settings_check(s, e);
    if (rc == ERR_OK)
        *out = *s;
    return rc;
}

int policy_settings_decode(const json_t *v, struct policy_settings *out, struct err *e)
{
    struct policy_settings s = {0};
    int rc = state_decode(FIELDS, v, &s, e);
    return rc == ERR_OK ? take_checked(&s, out, e) : rc;
}

int policy_settings_read(struct str text, struct policy_settings *out, struct err *e)
{
    struct policy_settings s = {0};
    int rc = state_read(FIELDS, text, &s, sizeof s, e);
    return rc == ERR_OK ? take_checked(&s, out, e) : rc;
}

struct range {
    const char *key;
    double value, min, max;
};

static int check_ranges(const struct range *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (!(r[i].value >= r[i].min && r[i].value <= r[i].max))
            return err_set(e, ERR_INVALID, "policy.%s: found %g, allowed %g to %g", r[i].key,
                           r[i].value, r[i].min, r[i].max);
    return ERR_OK;
}

static int check_ramp(const struct policy_settings *s, struct err *e)
{
    if (s->n_ramp < 1 || s->n_ramp > POLICY_RAMP_MAX)
        return err_set(e, ERR_INVALID, "policy.ramp: found %u steps, allowed 1 to %d", s->n_ramp,
                       POLICY_RAMP_MAX);
    for (uint32_t i = 0; i < s->n_ramp; i++) {
        bool is_up = i == 0 || s->ramp[i] > s->ramp[i - 1];
        if (!(s->ramp[i] > 0.0 && s->ramp[i] <= 0.5) || !is_up)
            return err_set(e, ERR_INVALID,
                           "policy.ramp: step %u is %g; shares must grow and lie in (0, 0.5], so "
                           "that the control stays the larger arm",
                           i + 1, s->ramp[i]);
    }
    return ERR_OK;
}

int policy_settings_check(const struct policy_settings *s, struct err *e)
{
    if ((int)s->kind < 0 || s->kind >= POLICY_KIND_COUNT)
        return err_set(e, ERR_INVALID, "policy.kind: %d is not a known law", (int)s->kind);
    const struct range ranges[] = {
        {"alpha", s->alpha, 1e-9, 0.5},
        {"epsilon", s->epsilon, 0.0, 0.5},
        {"guardrail_epsilon", s->guardrail_epsilon, 0.0, 0.5},
        {"promote_alpha", s->promote_alpha, 1e-9, 0.5},
        {"min_units", (double)s->min_units, POLICY_MIN_UNITS, 1e9},
        {"length_ratio", s->length_ratio, 1.0, 1e6},
        {"latency_ratio", s->latency_ratio, 1.0, 1e6},
        {"controls_per_block", s->k_max, 1, 16},
        {"now_share", s->now_share, 0.5, 0.99},
        {"target", s->target, 0.0, 1.0},
        {"calibration_units", (double)s->calibration_units, 20, 1e9},
        {"drift_threshold", s->drift_threshold, 0.0, 1e12},
        {"temperature_step", s->temperature_step, 0.001, 2.0},
        {"temperature_min", s->temperature_min, 0.0, 2.0},
        {"max_new_tokens_factor", s->tokens_factor, 0.01, 1.0},
        {"max_new_tokens_min", s->tokens_min, 1.0, 1e9},
        {"window", s->window, 1, POLICY_WINDOW_MAX},
        {"bound", s->bound, 0.0, 1.0},
    };
    int rc = check_ranges(ranges, sizeof ranges / sizeof *ranges, e);
    return rc != ERR_OK ? rc : check_ramp(s, e);
}

static int read_ramp(const struct cfg_text_list *list, struct policy_settings *out, struct err *e)
{
    if (list->n == 0)
        return ERR_OK; /* the law's own */
    if (list->n > POLICY_RAMP_MAX)
        return err_set(e, ERR_INVALID, "policy.ramp: found %u steps, allowed 1 to %d", list->n,
                       POLICY_RAMP_MAX);
    out->n_ramp = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        int rc = str_to_f64(list->item[i], &out->ramp[i], e);
        if (rc != ERR_OK)
            return err_wrap(e, "policy.ramp: step %u", i + 1);
    }
    return ERR_OK;
}

int policy_settings_from_config(const struct policy_config *c, struct policy_settings *out,
                                struct err *e)
{
    struct policy_settings s = policy_settings_default();
    s.kind = (enum policy_kind)c->kind;
    s.alpha = c->alpha;
    s.epsilon = c->epsilon;
    s.promote_alpha = c->promote_alpha;
    s.guardrail_epsilon = c->guardrail_epsilon;
    s.min_us = (uint64_t)c->min_minutes * US_PER_MINUTE;
    s.min_units = (uint64_t)c->min_units;
    s.ramp_units = (uint64_t)c->ramp_units;
    s.k_max = (uint32_t)c->controls_per_block;
    s.pair_deadline_us = (uint64_t)c->pair_deadline_ms * US_PER_MS;
    s.length_ratio = c->length_ratio;
    s.latency_ratio = c->latency_ratio;
    s.needs_length_residual = c->length_residual == LENGTH_RESIDUAL_ALWAYS;
    s.session_us = (uint64_t)c->session_ms * US_PER_MS;
    s.stale_us = (uint64_t)c->stale_ms * US_PER_MS;
    s.max_units = (uint64_t)c->max_units;
    s.max_us = (uint64_t)c->max_minutes * US_PER_MINUTE;
    s.now_share = c->now_share;
    s.target = c->target;
    s.calibration_units = (uint64_t)c->calibration_units;
    s.drift_threshold = c->drift_threshold;
    s.temperature_step = c->temperature_step;
    s.temperature_min = c->temperature_min;
    s.tokens_factor = c->max_new_tokens_factor;
    s.tokens_min = (double)c->max_new_tokens_min;
    s.window = (uint32_t)c->window;
    s.bound = c->bound;
    s.cooldown_units = (uint64_t)c->cooldown_units;
    s.proposes = c->propose;
    int rc = read_ramp(&c->ramp, &s, e);
    if (rc == ERR_OK)
        rc = policy_settings_check(&s, e);
    if (rc == ERR_OK)
        *out = s;
    return rc;
}

/* Rewards of a model grow with length, and not linearly (arXiv:2505.12843): there the residual is
 * asked for unless the operator says never. */
static bool is_length_biased(const struct check_config *c)
{
    return str_eq_c(c->kind, "reward_model") || str_eq_c(c->kind, "judge");
}

int policy_settings_from_route(const struct route_config *r, struct policy_settings *out,
                               struct err *e)
{
    const struct check_config *c = r->checks.item;
    int rc = policy_settings_from_config(&r->policy, out, e);
    if (rc != ERR_OK)
        return rc;
    struct bound_config heat = route_config_bound(r, PARAM_TEMPERATURE);
    out->temperature_min = fmax(out->temperature_min, heat.min);
    out->temperature_step = fmin(out->temperature_step, heat.step);
    out->tokens_min = fmax(out->tokens_min, route_config_bound(r, PARAM_MAX_NEW_TOKENS).min);
    for (uint32_t i = 0; i < r->checks.n; i++) {
        bool is_b = c[i].set == CHECK_SET_B;
        out->needs_set_b |= is_b;
        out->needs_length_residual |=
            !is_b && is_length_biased(&c[i]) && r->policy.length_residual == LENGTH_RESIDUAL_AUTO;
    }
    return ERR_OK;
}
