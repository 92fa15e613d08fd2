/* Tables of plans, lists and reports. */
#include "controller/cli/experiment_print.h"

#include "controller/cli/print.h"

#include <math.h>
#include <string.h>

static const char *span_of(struct arena *a, double seconds)
{
    static const struct {
        double least, unit;
        const char *name;
    } UNITS[] = {{172800, 86400, "days"}, {7200, 3600, "hours"}, {120, 60, "min"}, {0, 1, "s"}};

    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (seconds >= UNITS[i].least)
            return arena_printf(a, "%.3g %s", seconds / UNITS[i].unit, UNITS[i].name).p;
    }
    return "unknown";
}

static int print_arms(struct cli *c, const json_t *arms, struct err *e)
{
    static const char *const titles[] = {"ARM", "PARAMETERS"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 2, e) != ERR_OK)
        return e->code;
    json_array_foreach((json_t *)arms, i, v)
    {
        const char *cells[] = {i ? arena_printf(a, "arm-%zu", i).p : "champion", params_line(a, v)};
        table_row(&t, cells);
    }
    table_print(&t, stdout);
    return ERR_OK;
}

static void print_forecast(struct cli *c, const json_t *v)
{
    struct arena *a = &c->arena;
    int64_t runs = json_int_of(v, "runs"), decided = json_int_of(v, "decided");

    if (decided * 2 <= runs)
        printf("no verdict expected in the time allowed: %lld of %lld simulated runs ended; allow "
               "more, or ask for a larger --effect\n",
               (long long)decided, (long long)runs);
    else
        printf("expected: a winner after %s scored outputs (9 in 10: %s), %s at the present rate "
               "(9 in 10: %s)\n",
               json_number_of(a, v, "outputs_median", 0), json_number_of(a, v, "outputs_p90", 0),
               span_of(a, json_real_of(v, "seconds_median")),
               span_of(a, json_real_of(v, "seconds_p90")));
}

int experiment_print_plan(struct cli *c, const json_t *v, struct err *e)
{
    struct arena *a = &c->arena;
    const json_t *plan = json_object_get(v, "plan");
    int rc = print_arms(c, json_object_get(v, "arms"), e);

    if (rc != ERR_OK)
        return rc;
    printf("\nroute %s, law %s, alpha %s, smallest effect %s; the winner: %s\n",
           json_text_of(v, "route"), json_text_of(plan, "law"), json_number_of(a, plan, "alpha", 3),
           json_number_of(a, plan, "effect", 3), json_text_of(plan, "on_win"));
    printf("at least %s, at most %s\n", span_of(a, json_real_of(plan, "min_seconds")),
           span_of(a, json_real_of(plan, "max_seconds")));
    if (strcmp(json_text_of(plan, "law"), "slices") == 0)
        printf("one arm at a time for %s each, in random order\n",
               span_of(a, json_real_of(plan, "slice_seconds")));
    printf("measured on the last %lld rewards: mean %s, deviation %s, %s outputs a second\n",
           (long long)json_int_of(v, "rewards"), json_number_of(a, v, "reward_mean", 3),
           json_number_of(a, v, "reward_sd", 3), json_number_of(a, v, "outputs_per_second", 2));
    print_forecast(c, v);
    return ERR_OK;
}

int experiment_print_list(struct cli *c, const json_t *list, struct err *e)
{
    static const char *const titles[] = {"ID",      "ROUTE", "LAW",     "ARMS",
                                         "STARTED", "ENDED", "OUTCOME", "REASON"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 8, e) != ERR_OK)
        return e->code;
    json_array_foreach((json_t *)list, i, v)
    {
        int64_t ended = json_int_of(v, "ended_us");
        size_t n = json_array_size(json_object_get(v, "revisions"));
        const char *cells[] = {json_text_of(v, "id"),
                               json_text_of(v, "route"),
                               json_text_of(v, "law"),
                               arena_printf(a, "%zu", n).p,
                               time_of(a, json_int_of(v, "started_us")),
                               ended ? time_of(a, ended) : "-",
                               json_text_of(v, "outcome"),
                               one_line(a, json_text_of(v, "reason"), 50)};
        table_row(&t, cells);
    }
    if (t.n_row == 0)
        printf("no experiments yet; 'milepost experiment plan --help' shows how to ask for one\n");
    else
        table_print(&t, stdout);
    return ERR_OK;
}

static const char *interval_of(struct arena *a, const json_t *v)
{
    double lower = json_real_of(v, "lower");

    if (isnan(lower))
        return "-";
    return arena_printf(a, "%.3f to %.3f", lower, json_real_of(v, "upper")).p;
}

static int print_report_arms(struct cli *c, const json_t *report, struct err *e)
{
    static const char *const titles[] = {"ARM",       ">REV",  "STATE",           ">SHARE",
                                         ">SCORED",   ">MEAN", "95% AT ANY TIME", ">P(BEST)",
                                         "PARAMETERS"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 9, e) != ERR_OK)
        return e->code;
    json_array_foreach(json_object_get(report, "arms"), i, v)
    {
        const char *cells[] = {json_text_of(v, "name"),
                               json_number_of(a, v, "revision", 0),
                               json_text_of(v, "state"),
                               json_number_of(a, v, "share", 3),
                               json_number_of(a, v, "n", 0),
                               json_number_of(a, v, "mean", 3),
                               interval_of(a, v),
                               json_number_of(a, v, "probability_best", 3),
                               params_line(a, json_object_get(v, "params"))};
        table_row(&t, cells);
    }
    table_print(&t, stdout);
    return ERR_OK;
}

static int print_report_pairs(struct cli *c, const json_t *report, struct err *e)
{
    static const char *const titles[] = {">A",        ">B",       ">A - B",  "95% AT ANY TIME",
                                         ">COMPARED", ">LN E(A)", ">LN E(B)"};
    struct arena *a = &c->arena;
    struct table t;
    size_t i;
    json_t *v;

    if (table_init(&t, a, titles, 7, e) != ERR_OK)
        return e->code;
    json_array_foreach(json_object_get(report, "pairs"), i, v)
    {
        const char *cells[] = {
            json_number_of(a, v, "a", 0),           json_number_of(a, v, "b", 0),
            json_number_of(a, v, "effect", 3),      interval_of(a, v),
            json_number_of(a, v, "comparisons", 0), json_number_of(a, v, "log_e_a", 2),
            json_number_of(a, v, "log_e_b", 2)};
        table_row(&t, cells);
    }
    table_print(&t, stdout);
    printf("an arm is beaten when ln e of the other reaches %s\n",
           json_number_of(a, report, "log_threshold", 2));
    return ERR_OK;
}

int experiment_print_report(struct cli *c, const json_t *v, struct err *e)
{
    struct arena *a = &c->arena;
    const json_t *plan = json_object_get(v, "plan"), *winner = json_object_get(v, "winner");

    printf("experiment %s of route %s: %s", json_text_of(v, "id"), json_text_of(v, "route"),
           json_text_of(v, "outcome"));
    if (json_is_integer(winner))
        printf(": revision %s", json_number_of(a, v, "winner", 0));
    printf("; law %s, %s scored outputs, %s, split p = %s%s\n\n", json_text_of(plan, "law"),
           json_number_of(a, v, "scored", 0), span_of(a, json_real_of(v, "seconds")),
           json_number_of(a, v, "split_p", 3),
           json_is_true(json_object_get(v, "is_split_broken")) ? " (MISMATCH)" : "");
    int rc = print_report_arms(c, v, e);
    if (rc != ERR_OK)
        return rc;
    printf("\n");
    return print_report_pairs(c, v, e);
}
