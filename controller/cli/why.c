/* `milepost why`: what a decision rests on, in words, numbers and a line of bars. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"

#include <math.h>
#include <string.h>

static void print_number(const json_t *d, const char *key, const char *label)
{
    double v = json_real_of(d, key);
    if (isfinite(v))
        printf("  %-22s %.6g\n", label, v);
}

/* Eight heights of a bar for [0, 1]; a blank where nothing was scored. */
static void print_bars(const json_t *plot, const char *side, const char *label)
{
    static const char *const BAR[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t i;
    json_t *slice;
    printf("  %-22s ", label);
    json_array_foreach((json_t *)plot, i, slice)
    {
        double mean = json_real_of(json_object_get(slice, side), "mean");
        fputs(isfinite(mean) ? BAR[(int)fmin(7.0, fmax(0.0, mean * 8.0))] : " ", stdout);
    }
    putchar('\n');
}

/* Which engines serve what was decided, and how long after. */
static void print_desired(struct cli *c, const json_t *desired)
{
    size_t i;
    json_t *v;
    if (!json_is_object(desired))
        return;
    printf("  %-22s version %s of the desired state", "engines",
           json_number_of(&c->arena, desired, "version", 0));
    json_array_foreach(json_object_get(desired, "engines"), i, v)
        printf("%s %s after %.1f ms", i ? "," : "; applied by", json_text_of(v, "engine"),
               (double)(json_int_of(v, "at_us") - json_int_of(desired, "at_us")) / 1000.0);
    puts(i ? "" : "; no engine has said that it applies it");
}

static void print_why(struct cli *c, const json_t *v)
{
    const json_t *d = json_object_get(v, "decision"), *plot = json_object_get(v, "plot");
    const json_t *rows = json_object_get(v, "rows"), *chain = json_object_get(v, "chain");
    const json_t *cause = json_object_get(v, "cause");
    printf("decision %s: %s, route %s, revision %s to %s, by %s, %s\n  %s\n",
           json_number_of(&c->arena, d, "number", 0), json_text_of(d, "action"),
           json_text_of(d, "route"), json_number_of(&c->arena, d, "from_revision", 0),
           json_number_of(&c->arena, d, "to_revision", 0), json_text_of(d, "actor"),
           time_of(&c->arena, json_int_of(d, "at_us")), json_text_of(d, "reason"));
    if (json_text_of(d, "test")[0])
        printf("  %-22s %s\n", "test", json_text_of(d, "test"));
    print_number(d, "log_e", "ln e-value");
    print_number(d, "log_threshold", "threshold, ln(1/alpha)");
    print_number(d, "mean_champion", "mean of the champion");
    print_number(d, "mean_challenger", "mean of the challenger");
    print_number(d, "effect", "difference");
    print_number(d, "n_champion", "champion's outputs");
    print_number(d, "n_challenger", "challenger's outputs");
    print_number(d, "n_blocks", "pairs");
    printf("  %-22s %s %s", "cause", json_text_of(cause, "kind"),
           json_number_of(&c->arena, cause, "ord", 0));
    if (json_int_of(rows, "last"))
        printf("; rows %s to %s", json_number_of(&c->arena, rows, "first", 0),
               json_number_of(&c->arena, rows, "last", 0));
    putchar('\n');
    if (json_array_size(plot)) {
        print_bars(plot, "from", "reward, from");
        print_bars(plot, "to", "reward, to");
    }
    printf("  %-22s %.16s after %.16s, %s; rows %.16s\n", "chain", json_text_of(chain, "hash"),
           json_text_of(chain, "previous_hash"),
           json_is_true(json_object_get(chain, "is_linked")) ? "linked" : "NOT linked",
           json_text_of(chain, "rows_hash"));
    print_desired(c, json_object_get(v, "desired"));
}

int cmd_why(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost why DECISION [--json]",
        .about =
            "Shows what a decision rests on: its numbers, the rows, their course, the chain. With\n"
            "--json all of it, the plot's points too. 'milepost replay' proves the whole chain.",
        .min_args = 1,
        .max_args = 1};
    struct err e = {0};
    json_t *v = NULL;
    int64_t number = 0;
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    if (str_to_i64(str_from(argv[0]), &number, &e) != ERR_OK)
        return cli_fail(&e);
    struct str path = arena_printf(&c->arena, "/v1/decisions/%lld", (long long)number);
    if (path.p == NULL || cli_get(c, path.p, &v, &e) != ERR_OK)
        return cli_fail(&e);
    code = CLI_OK;
    if (c->json)
        code = cli_print_json(v);
    else
        print_why(c, v);
    json_decref(v);
    return code;
}
