/* `milepost replay`: every decision again from the stored rows; exit 0 only if all agree. */
#include "controller/cli/cli.h"
#include "controller/replay.h"

#include <unistd.h>

static json_t *report_json(const struct replay_report *r)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "agrees", r->agrees,
                     "rows", (json_int_t)r->n_rows, "events", (json_int_t)r->n_events, "decisions",
                     (json_int_t)r->n_decisions, "routes", (json_int_t)r->n_routes, "sealed",
                     (json_int_t)r->n_sealed, "recomputed_from", (json_int_t)r->law_from,
                     "texts_expired", (json_int_t)r->n_texts_expired, "texts_from",
                     (json_int_t)r->texts_from, "first_decision", (json_int_t)r->first_decision,
                     "difference", r->difference);
}

static int print_report(struct cli *c, const struct replay_report *r)
{
    char from[64] = "";
    if (r->texts_from)
        snprintf(from, sizeof from, ", those from row %llu on are there",
                 (unsigned long long)r->texts_from);
    if (c->json) {
        json_t *v = report_json(r);
        cli_print_json(v);
        json_decref(v);
    } else if (r->agrees) {
        printf("%llu decisions of %llu routes recomputed from %llu rows and %llu events: all "
               "agree\n",
               (unsigned long long)(r->n_decisions - r->n_sealed), (unsigned long long)r->n_routes,
               (unsigned long long)r->n_rows, (unsigned long long)r->n_events);
    } else {
        printf("replay does NOT agree, first at decision %llu: %s\n",
               (unsigned long long)r->first_decision, r->difference);
    }
    if (r->n_sealed && !c->json)
        printf("%llu of the decisions, before row %llu, were made by another version of the laws: "
               "the chain vouches for them, they are not recomputed\n",
               (unsigned long long)r->n_sealed, (unsigned long long)r->law_from);
    if (r->n_texts_expired && !c->json)
        printf("the texts of %llu outputs have expired%s; their hashes stand for them\n",
               (unsigned long long)r->n_texts_expired, from);
    return r->agrees ? CLI_OK : CLI_FAILED;
}

int cmd_replay(struct cli *c, int argc, char **argv)
{
    static const struct cli_usage usage = {
        .line = "milepost replay [DATABASE] [--json]",
        .about = "Runs every control law again over the committed rows and compares each decision\n"
                 "with the stored one, the hash chain included. Reads only; may run beside a live\n"
                 "controller. Without DATABASE: controller.database of the configuration.",
        .max_args = 1};
    struct replay_report report = {0};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    const char *path =
        n_args == 1 ? argv[0]
                    : milepost_config_path(&c->config, c->config.controller.database, &c->arena);
    if (replay_run(path, &report, &e) != ERR_OK)
        return cli_fail(&e);
    return print_report(c, &report);
}
