/* The parameters: their table, sets of them, and how a request's effective values come about.
 *
 * One row of INFO is one parameter everywhere: JSON key, API field, CLI name, bounds. Values are
 * checked when they enter a set, so that a set never holds one outside its range. Pure; any thread.
 * The JSON side is in params_json.c. */
#include "schemas/params.h"

#include <math.h>

enum { UNLIMITED_TOP_K = 0 };

static const struct param_info INFO[PARAM_COUNT] = {
    [PARAM_TEMPERATURE] = {.name = "temperature",
                           .min = 0,
                           .max = 5,
                           .fallback = 0.7,
                           .help = "Sharpness of sampling; 0 takes the likeliest token."},
    [PARAM_TOP_P] = {.name = "top_p",
                     .min = 0,
                     .max = 1,
                     .fallback = 1,
                     .help = "Sample from the likeliest tokens that hold this much probability."},
    [PARAM_TOP_K] = {.name = "top_k",
                     .is_integer = true,
                     .min = -1,
                     .max = 1 << 20,
                     .fallback = 0,
                     .help = "Sample from this many likeliest tokens; 0 or -1 = all."},
    [PARAM_MIN_P] = {.name = "min_p",
                     .min = 0,
                     .max = 1,
                     .fallback = 0,
                     .help = "Drop tokens less likely than this share of the likeliest one."},
    [PARAM_REPETITION_PENALTY] = {.name = "repetition_penalty",
                                  .min = 0.1,
                                  .max = 10,
                                  .fallback = 1,
                                  .help = "Divides the logits of tokens seen in prompt or output; "
                                          "1 = off."},
    [PARAM_PRESENCE_PENALTY] = {.name = "presence_penalty",
                                .min = -2,
                                .max = 2,
                                .fallback = 0,
                                .help = "Taken off the logits of tokens already put out."},
    [PARAM_FREQUENCY_PENALTY] = {.name = "frequency_penalty",
                                 .min = -2,
                                 .max = 2,
                                 .fallback = 0,
                                 .help = "Taken off once per time a token was put out."},
    [PARAM_MAX_NEW_TOKENS] = {.name = "max_new_tokens",
                              .is_integer = true,
                              .min = 1,
                              .max = 1 << 20,
                              .fallback = 256,
                              .help = "Longest answer in tokens."},
    [PARAM_MAX_RUNNING] = {.name = "max_running",
                           .is_integer = true,
                           .is_scheduler = true,
                           .min = 1,
                           .max = 4096,
                           .fallback = 16,
                           .help = "Requests the engine generates for at the same time."},
    [PARAM_PREFILL_CHUNK] = {.name = "prefill_chunk",
                             .is_integer = true,
                             .is_scheduler = true,
                             .min = 16,
                             .max = 65536,
                             .fallback = 256,
                             .help = "Prompt tokens the engine computes in one step."},
};

const struct param_info *param_info(enum param_id id)
{
    return &INFO[id];
}

bool param_find(struct str name, enum param_id *out)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (name.n && name.p[0] == INFO[i].name[0] && str_eq_c(name, INFO[i].name)) {
            *out = (enum param_id)i;
            return true;
        }
    }
    return false;
}

bool params_has(const struct params *p, enum param_id id)
{
    return (p->set >> id & 1u) != 0;
}

double params_get(const struct params *p, enum param_id id)
{
    return params_has(p, id) ? p->v[id] : INFO[id].fallback;
}

int params_put(struct params *p, enum param_id id, double value, struct err *e)
{
    const struct param_info *info = &INFO[id];
    bool is_good = value >= info->min && value <= info->max; /* false for NaN */
    if (is_good && info->is_integer)
        is_good = value == floor(value);
    if (!is_good)
        return err_set(e, ERR_INVALID, "%s: must be %s from %g to %g, got %g", info->name,
                       info->is_integer ? "an integer" : "a number", info->min, info->max, value);
    p->v[id] = value + 0.0; /* -0 becomes 0: one text, one hash */
    p->set |= 1u << id;
    return ERR_OK;
}

void params_overlay(struct params *base, const struct params *change)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (params_has(change, (enum param_id)i))
            base->v[i] = change->v[i];
    }
    base->set |= change->set;
    if (change->n_stop > 0) {
        for (uint32_t i = 0; i < change->n_stop; i++)
            base->stop[i] = change->stop[i];
        base->n_stop = change->n_stop;
    }
    if (change->weights.n > 0)
        base->weights = change->weights;
}

static double capped(enum param_id id, double value, double cap)
{
    if (id == PARAM_TOP_K && value <= UNLIMITED_TOP_K)
        return cap; /* "all" is more than any cap */
    if (id == PARAM_TOP_K && cap <= UNLIMITED_TOP_K)
        return value;
    return value < cap ? value : cap;
}

void params_resolve(const struct param_set *revision, const struct params *client,
                    struct params *effective)
{
    struct params p = revision->defaults;
    if (client)
        params_overlay(&p, client);
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param_id id = (enum param_id)i;
        p.v[i] = params_get(&p, id);
        if (params_has(&revision->caps, id))
            p.v[i] = capped(id, p.v[i], revision->caps.v[i]);
    }
    p.set = (1u << PARAM_COUNT) - 1;
    *effective = p;
}
