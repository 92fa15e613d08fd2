/* controller/experiments/plan.c - a plan's JSON: one row of a table per number. Pure. */
#include "controller/experiments/plan.h"

#include <string.h>

#define SECOND_US 1e6
#define YEAR_S    31536000.0

static const char *const LAW_NAMES[LAW_COUNT] = {"elimination", "top_two", "slices"};
static const char *const ON_WIN_NAMES[ON_WIN_COUNT] = {"canary", "promote", "report"};

/* Durations are seconds outside and microseconds inside. */
static const struct plan_number {
    const char *key;
    size_t offset;
    bool is_real, is_seconds;
    double min, max;
} NUMBERS[] = {
    {"alpha", offsetof(struct experiment_plan, alpha), true, false, 1e-6, 0.5},
    {"effect", offsetof(struct experiment_plan, effect), true, false, 0.001, 0.9},
    {"floor", offsetof(struct experiment_plan, floor), true, false, 0.01, 0.05},
    {"min_seconds", offsetof(struct experiment_plan, min_us), false, true, 0, YEAR_S},
    {"max_seconds", offsetof(struct experiment_plan, max_us), false, true, 1, YEAR_S},
    {"max_units", offsetof(struct experiment_plan, max_units), false, false, 0, 1e12},
    {"every_units", offsetof(struct experiment_plan, every_units), false, false, 10, 1e9},
    {"slice_seconds", offsetof(struct experiment_plan, slice_us), false, true, 0.5, 86400},
    {"seed", offsetof(struct experiment_plan, seed), false, false, 0, 9007199254740992.0},
};

enum { N_NUMBERS = sizeof NUMBERS / sizeof *NUMBERS };

struct experiment_plan experiment_plan_default(void)
{
    return (struct experiment_plan){.law = LAW_ELIMINATION,
                                    .on_win = ON_WIN_CANARY,
                                    .alpha = 0.05,
                                    .effect = 0.05,
                                    .floor = 0.02,
                                    .max_us = 7ull * 86400u * 1000000u,
                                    .every_units = 200,
                                    .slice_us = 60ull * 1000000u};
}

const char *experiment_law_name(uint32_t law)
{
    return law < LAW_COUNT ? LAW_NAMES[law] : "unknown";
}

const char *experiment_on_win_name(uint32_t on_win)
{
    return on_win < ON_WIN_COUNT ? ON_WIN_NAMES[on_win] : "unknown";
}

static int read_name(const struct json_at *at, const char *key, const char *const *names,
                     uint32_t n, uint32_t *out, struct err *e)
{
    struct str given = {0};
    int rc = json_opt_str(at, key, &given, e);
    if (rc != ERR_OK || !given.p)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        if (str_eq_c(given, names[i])) {
            *out = i;
            return ERR_OK;
        }
    }
    return err_set(e, ERR_INVALID, "%s: '" STR_FMT "' is none of %s, %s, %s", key,
                   STR_ARG(str_slice(given, 0, 40)), names[0], names[1], names[2]);
}

static int read_number(const struct json_at *at, const struct plan_number *f,
                       struct experiment_plan *out, struct err *e)
{
    char *into = (char *)out + f->offset;
    double v = -1.0;
    uint64_t whole;
    int rc = json_opt_f64(at, f->key, f->min, f->max, &v, e);
    if (rc != ERR_OK || v < 0.0)
        return rc;
    whole = (uint64_t)(f->is_seconds ? v * SECOND_US : v);
    memcpy(into, f->is_real ? (const void *)&v : (const void *)&whole, sizeof whole);
    return ERR_OK;
}

int experiment_plan_decode(const struct json_at *at, struct experiment_plan *out, struct err *e)
{
    *out = experiment_plan_default();
    int rc = read_name(at, "law", LAW_NAMES, LAW_COUNT, &out->law, e);
    if (rc == ERR_OK)
        rc = read_name(at, "on_win", ON_WIN_NAMES, ON_WIN_COUNT, &out->on_win, e);
    for (int i = 0; rc == ERR_OK && i < N_NUMBERS; i++)
        rc = read_number(at, &NUMBERS[i], out, e);
    if (rc == ERR_OK && out->max_us <= out->min_us)
        return err_set(e, ERR_INVALID, "max_seconds: must be more than min_seconds");
    return rc;
}

bool experiment_plan_encode(const struct experiment_plan *p, json_t *into)
{
    int failed = json_object_set_new(into, "law", json_string(experiment_law_name(p->law)));
    failed |= json_object_set_new(into, "on_win", json_string(experiment_on_win_name(p->on_win)));
    for (int i = 0; i < N_NUMBERS; i++) {
        const char *from = (const char *)p + NUMBERS[i].offset;
        double real;
        uint64_t whole;
        memcpy(&real, from, sizeof real);
        memcpy(&whole, from, sizeof whole);
        json_t *v = NUMBERS[i].is_real      ? json_num(real)
                    : NUMBERS[i].is_seconds ? json_num((double)whole / SECOND_US)
                                            : json_integer((json_int_t)whole);
        failed |= json_object_set_new(into, NUMBERS[i].key, v);
    }
    return failed == 0;
}
