/* controller/policy_settings.h - numbers of a route's control law, checked once.
 *
 * Built from the configuration (schemas/config.h, policy_config) or from the defaults of the law.
 * Plain values: a copy is stored with every experiment, so that replay uses what was in force. */
#ifndef CONTROLLER_POLICY_SETTINGS_H
#define CONTROLLER_POLICY_SETTINGS_H

#include "schemas/config.h"

#include <jansson.h>

enum { POLICY_RAMP_MAX = 8, POLICY_MIN_UNITS = 20, POLICY_WINDOW_MAX = 512 };

enum policy_kind { POLICY_HOLD, POLICY_THRESHOLD, POLICY_CANARY, POLICY_KIND_COUNT };

struct policy_settings {
    enum policy_kind kind;
    /* tests */
    double alpha;             /* false-rollback rate; guardrails share another alpha */
    double epsilon;           /* loss of reward that is tolerated */
    double guardrail_epsilon; /* growth of a bad event's share that is tolerated */
    double promote_alpha;     /* over all experiments of the route (6 alpha / pi^2 i^2 each) */
    uint64_t min_units;       /* challenger rows before any verdict, at least POLICY_MIN_UNITS */
    uint32_t k_max;           /* rows of the larger arm in a block */
    uint64_t pair_deadline_us;
    bool needs_set_b;           /* promotion also needs the disjoint checks to be not worse */
    bool needs_length_residual; /* ... and what is left of the reward without length to win */
    double length_ratio, latency_ratio; /* of the means, that is tolerated; >= 1 */
    uint64_t session_us; /* turns of a conversation within it are one unit; 0 = each is its own */
    uint64_t stale_us;   /* without a committed row for this long nothing is decided; 0 = never */
    /* course of a canary */
    double ramp[POLICY_RAMP_MAX];
    uint32_t n_ramp;
    uint64_t ramp_units; /* scored challenger rows at a step before the next */
    double now_share;
    uint64_t min_us;    /* one traffic cycle: no promotion before */
    uint64_t max_us;    /* 0 = no limit */
    uint64_t max_units; /* challenger rows, 0 = no limit */
    /* the champion alone */
    double target; /* reward below which the policy proposes; 0 = never */
    uint64_t calibration_units;
    double drift_threshold; /* mean rows between false alarms */
    /* proposals */
    bool proposes;
    double temperature_step, temperature_min;
    double tokens_factor, tokens_min;
    uint64_t cooldown_units; /* champion rows after a change before the next proposal */
    /* threshold law */
    uint32_t window;
    double bound;
};

/* The law's defaults (canary). */
struct policy_settings policy_settings_default(void);

/* From the configuration file; ERR_INVALID names key, value and range. */
MUST_USE int policy_settings_from_config(const struct policy_config *c, struct policy_settings *out,
                                         struct err *e);

/* The same for a route: whether set B and the length residual are needed follows from its checks.
 */
MUST_USE int policy_settings_from_route(const struct route_config *r, struct policy_settings *out,
                                        struct err *e);

/* Exact JSON text, to be stored with every change of them so that replay uses what was in force. */
void policy_settings_write(const struct policy_settings *s, struct buf *out); /* appended */
json_t *policy_settings_encode(const struct policy_settings *s);
MUST_USE int policy_settings_decode(const json_t *v, struct policy_settings *out, struct err *e);
MUST_USE int policy_settings_read(struct str text, struct policy_settings *out, struct err *e);

/* ERR_INVALID when a number is outside what the law allows. */
MUST_USE int policy_settings_check(const struct policy_settings *s, struct err *e);

#endif
