/* `milepost demo`: the closed loop on a real model, in three phases, then the facts from SQLite.
 *
 * 1. A good revision serves. 2. An operator pushes a bad one with --now; the controller must roll
 * it back. 3. A route that starts too hot must be cooled step by step. One thread here, the load
 * has its own; the three processes are children. Exit 0 only if all phases did what they must and
 * replay agrees. */
#include "controller/cli/demo.h"
#include "controller/cli/print.h"

#include "common/clock.h"
#include "controller/cli/preflight.h"
#include "controller/cli/settle.h"
#include "controller/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_EVERY_MS = 250,
    SETTLE_S = 30,
    START_TIMEOUT_MS = 120000,
    GRACE_MS = 10000,
    AFTER_N = 100
};

struct demo_options {
    const char *model, *prompts, *state_dir;
    int64_t workers, baseline, until_rollback, steps, until_cool, time_limit_s;
};

struct demo {
    struct cli *cli;
    struct demo_options options;
    struct supervisor *supervisor;
    struct prompts prompts;
    struct demo_db db;
    const char *url;
    uint64_t next; /* number of the next request: prompt and seed */
    struct mono started;
    struct progress progress;
};

struct traffic {
    const char *label, *route;
    uint64_t max;
    bool (*is_done)(struct demo *d); /* NULL = only the number ends it */
};

static double seconds_since(struct mono from)
{
    return (double)mono_since_us(from, clock_mono(&CLOCK_REAL)) / 1e6;
}

static bool is_rolled_back(struct demo *d)
{
    return demo_count_decisions(&d->db, "default", "rollback") > 0;
}

static bool is_cool(struct demo *d)
{
    return demo_count_decisions(&d->db, "hot", "promote") >= (uint64_t)d->options.steps;
}

/* ln e of the running trial as the API shows it; NaN = none. Only for the progress line. */
static double running_log_e(struct cli *c, const char *route)
{
    json_t *status = NULL, *r, *t;
    size_t i, j;
    double log_e = (double)NAN;

    if (cli_get(c, "/api/status", &status, NULL) != ERR_OK)
        return log_e;
    json_array_foreach(json_object_get(status, "routes"), i, r)
    {
        if (strcmp(json_text_of(r, "route"), route) != 0)
            continue;
        json_array_foreach(json_object_get(r, "tests"), j, t)
        {
            double v = json_real_of(t, "log_e");
            if (!isnan(v) && (isnan(log_e) || v > log_e))
                log_e = v;
        }
    }
    json_decref(status);
    return log_e;
}

static void show(struct demo *d, const struct traffic *t, const struct load_counts *n,
                 struct mono from)
{
    char note[160], e_value[64] = "";
    double log_e = t->is_done != NULL ? running_log_e(d->cli, t->route) : (double)NAN;
    double seconds = seconds_since(from);

    if (!isnan(log_e))
        snprintf(e_value, sizeof e_value, ", e-value %.3g", exp(log_e));
    snprintf(note, sizeof note, "%llu requests, %.1f/s, %.0f tok/s%s", (unsigned long long)n->done,
             (double)n->done / seconds, (double)n->tokens / seconds, e_value);
    progress_show(&d->progress, n->done, note);
}

/* Waits until all that was answered is committed, so that the next phase starts clean. */
static int settle(struct demo *d, const char *route, uint64_t wanted, struct err *e)
{
    struct mono from = clock_mono(&CLOCK_REAL);

    while (demo_count_scores(&d->db, route) < wanted) {
        int rc = supervisor_run(d->supervisor, LOOK_EVERY_MS, e);
        if (rc != ERR_OK)
            return rc;
        if (seconds_since(from) > SETTLE_S)
            return err_set(e, ERR_TIMEOUT, "%llu of %llu outputs of route %s are committed",
                           (unsigned long long)demo_count_scores(&d->db, route),
                           (unsigned long long)wanted, route);
    }
    return ERR_OK;
}

static int watch(struct demo *d, const struct traffic *t, struct load *load, struct err *e)
{
    struct mono from = clock_mono(&CLOCK_REAL);
    struct load_counts n;

    while (!load_finished(load) && !(t->is_done != NULL && t->is_done(d))) {
        int rc = supervisor_run(d->supervisor, LOOK_EVERY_MS, e);
        if (rc != ERR_OK)
            return rc;
        load_read(load, &n);
        show(d, t, &n, from);
        if (seconds_since(d->started) > (double)d->options.time_limit_s)
            return err_set(e, ERR_TIMEOUT, "%s: not done within %lld s in all", t->label,
                           (long long)d->options.time_limit_s);
    }
    return ERR_OK;
}

static int traffic(struct demo *d, const struct traffic *t, struct err *e)
{
    struct load_options o = {.prompts = &d->prompts,
                             .url = d->url,
                             .route = t->route,
                             .workers = (uint32_t)d->options.workers,
                             .first = d->next,
                             .max = t->max};
    uint64_t before = demo_count_scores(&d->db, t->route);
    struct load *load = NULL;
    struct load_counts n = {0};
    int rc = load_start(&load, &o, e);

    if (rc != ERR_OK)
        return rc;
    progress_start(&d->progress, t->label, t->max);
    rc = watch(d, t, load, e);
    load_stop(load, &n);
    progress_end(&d->progress);
    d->next += n.started;
    if (rc == ERR_OK && n.failed > 0)
        rc = err_set(e, ERR_IO, "%s: %llu of %llu requests failed, the last: %s", t->label,
                     (unsigned long long)n.failed, (unsigned long long)n.done, n.last_error);
    return rc == ERR_OK ? settle(d, t->route, before + n.done, e) : rc;
}

static int phase_baseline(struct demo *d, struct err *e)
{
    struct traffic t = {"1 baseline   ", "default", (uint64_t)d->options.baseline, NULL};

    fprintf(stderr, "Phase 1: the champion serves route default.\n");
    return traffic(d, &t, e);
}

static int phase_bad_push(struct demo *d, struct err *e)
{
    struct traffic during = {"2 bad push   ", "default", (uint64_t)d->options.until_rollback,
                             is_rolled_back};
    struct traffic after = {"2 after      ", "default", AFTER_N, NULL};
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:{s:f, s:i}, s:b, s:s, s:s}", "route", "default", "params",
                             "temperature", 1.8, "max_new_tokens", 8, "now", 1, "reason",
                             "demonstration: a bad push", "author", cli_author(d->cli));
    int rc;

    fprintf(stderr, "Phase 2: an operator pushes temperature 1.8, max_new_tokens 8 with --now.\n");
    TRY(cli_post(d->cli, "/api/params", body, &answer, e));
    TRY(traffic(d, &during, e));
    if (!is_rolled_back(d))
        TRY(err_set(e, ERR_TIMEOUT, "no rollback within %lld requests",
                    (long long)d->options.until_rollback));
    TRY(traffic(d, &after, e));
out:
    json_decref(body);
    json_decref(answer);
    return rc;
}

static int phase_cooling(struct demo *d, struct err *e)
{
    struct traffic during = {"3 cooling    ", "hot", (uint64_t)d->options.until_cool, is_cool};
    struct traffic after = {"3 after      ", "hot", AFTER_N, NULL};
    int rc;

    fprintf(stderr, "Phase 3: route hot starts too hot; the canary policy may lower it.\n");
    TRY(traffic(d, &during, e));
    if (!is_cool(d))
        TRY(err_set(e, ERR_TIMEOUT, "%llu of %lld steps won within %lld requests",
                    (unsigned long long)demo_count_decisions(&d->db, "hot", "promote"),
                    (long long)d->options.steps, (long long)d->options.until_cool));
    TRY(traffic(d, &after, e));
out:
    return rc;
}

static int add_override(struct cli *c, const char *key, const char *value, struct err *e)
{
    struct str text = arena_printf(&c->arena, "%s=%s", key, value);

    if (text.p == NULL || c->set.n == OPT_LIST_MAX)
        return err_set(e, ERR_INVALID, "too many --set");
    c->set.item[c->set.n++] = text.p;
    return ERR_OK;
}

/* Its own state folder and free ports: a running Milepost is not disturbed. */
static int configure(struct demo *d, struct err *e)
{
    static const char *const wires[] = {"outputs", "scores", "control"};
    static const char *const ports[] = {"engine.port", "verifier.port", "controller.port"};
    struct cli *c = d->cli;
    char port[16], folder[] = "/tmp/milepost-demo-XXXXXX";
    int rc;

    if (d->options.state_dir == NULL) {
        if (mkdtemp(folder) == NULL)
            return err_set(e, ERR_IO, "cannot create a folder in /tmp");
        d->options.state_dir = arena_str(&c->arena, str_from(folder)).p;
    }
    for (size_t i = 0; i < 3; i++) {
        struct str key = arena_printf(&c->arena, "loop.%s", wires[i]);
        struct str address =
            arena_printf(&c->arena, "ipc://%s/%s.sock", d->options.state_dir, wires[i]);
        TRY(add_override(c, key.p, address.p, e));
        TRY(preflight_free_port(port, e));
        TRY(add_override(c, ports[i], arena_str(&c->arena, str_from(port)).p, e));
    }
    if (d->options.model != NULL)
        TRY(add_override(c, "engine.model", d->options.model, e));
    TRY(add_override(c, "state_dir", d->options.state_dir, e));
    rc = cli_reload(c, e);
out:
    return rc;
}

static int start(struct demo *d, struct err *e)
{
    struct supervisor_options so = {.start_timeout_ms = START_TIMEOUT_MS, .grace_ms = GRACE_MS};
    const struct milepost_config *g = &d->cli->config;
    int rc;

    TRY(configure(d, e));
    TRY(prompts_load(&d->prompts, d->options.prompts, e));
    TRY(supervisor_open(&d->supervisor, d->cli, &so, e));
    TRY(supervisor_wait_ready(d->supervisor, e));
    TRY(settle_wait(d->cli, d->supervisor, SETTLE_S, e));
    d->url = arena_printf(&d->cli->arena, "%s/v1/chat/completions", cli_engine_url(d->cli)).p;
    TRY(demo_db_open(&d->db, milepost_config_path(g, g->controller.database, &d->cli->arena), e));
    fprintf(stderr, "%zu prompts, %lld at a time; dashboard %s/; state %s\n", d->prompts.n,
            (long long)d->options.workers, cli_controller_url(d->cli), d->options.state_dir);
out:
    return rc;
}

static void print_facts(struct demo *d, const struct demo_facts *f, const struct replay_report *r)
{
    double seconds = seconds_since(d->started);

    if (d->cli->json) {
        json_t *v = demo_report_json(f);
        json_object_set_new(v, "replay_agrees", json_boolean(r->agrees));
        json_object_set_new(v, "seconds", json_real(seconds));
        cli_print_json(v);
        json_decref(v);
        return;
    }
    demo_report(f);
    printf("\nReplay: %llu decisions recomputed from %llu stored rows: %s.\n",
           (unsigned long long)r->n_decisions, (unsigned long long)r->n_rows,
           r->agrees ? "all agree" : r->difference);
    printf("Time: %.0f s. State: %s\n", seconds, d->options.state_dir);
}

static int conclude(struct demo *d, const struct demo_facts *f, struct err *e)
{
    const struct milepost_config *g = &d->cli->config;
    const char *why = "";
    struct replay_report replay = {0};
    int rc =
        replay_run(milepost_config_path(g, g->controller.database, &d->cli->arena), &replay, e);

    if (rc != ERR_OK)
        return rc;
    print_facts(d, f, &replay);
    if (!replay.agrees || replay.n_decisions != f->n_decisions)
        return err_set(e, ERR_BUG, "replay does not agree with the stored decisions");
    return demo_succeeded(f, &why) ? ERR_OK : err_set(e, ERR_BUG, "%s", why);
}

static int run(struct demo *d, struct err *e)
{
    struct demo_facts facts = {0};
    int rc;

    TRY(start(d, e));
    d->started = clock_mono(&CLOCK_REAL);
    TRY(phase_baseline(d, e));
    TRY(phase_bad_push(d, e));
    TRY(phase_cooling(d, e));
    supervisor_close(d->supervisor);
    d->supervisor = NULL;
    TRY(demo_facts_read(d->db.db, &facts, e));
    TRY(conclude(d, &facts, e));
out:
    supervisor_close(d->supervisor);
    db_close(d->db.db);
    prompts_free(&d->prompts);
    return rc;
}

/* deploy/demo/NAME, from the working folder or from the source tree this program was built in. */
static const char *demo_file(struct cli *c, const char *name)
{
    struct str path = arena_printf(&c->arena, "deploy/demo/%s", name);
    const char *beside = NULL;

    if (path.p != NULL && access(path.p, R_OK) == 0)
        return path.p;
    if (cli_sibling(c, "milepost", &beside, NULL) != ERR_OK)
        return "";
    path = arena_printf(&c->arena, "%s/../../../../deploy/demo/%s", beside, name);
    return path.p != NULL ? path.p : "";
}

int cmd_demo(struct cli *c, int argc, char **argv)
{
    struct demo d = {.cli = c,
                     .options = {.workers = 12,
                                 .baseline = 120,
                                 .until_rollback = 1500,
                                 .steps = 2,
                                 .until_cool = 3000,
                                 .time_limit_s = 350}};
    const struct opt options[] = {
        {"model", 'm', OPT_TEXT, &d.options.model, 0, 0, "FILE", "GGUF file (engine.model)"},
        {"prompts", 0, OPT_TEXT, &d.options.prompts, 0, 0, "FILE",
         "else deploy/demo/prompts.jsonl"},
        {"state-dir", 0, OPT_TEXT, &d.options.state_dir, 0, 0, "FOLDER", "else a new one in /tmp"},
        {"at-a-time", 0, OPT_INT, &d.options.workers, 1, LOAD_MAX_WORKERS, "N", "requests"},
        {"baseline", 0, OPT_INT, &d.options.baseline, 20, 100000, "N", "requests of phase 1"},
        {"steps", 0, OPT_INT, &d.options.steps, 1, DEMO_MAX_STEPS, "N", "to be won in phase 3"},
        {"time-limit", 0, OPT_INT, &d.options.time_limit_s, 10, 86400, "S", "for all phases"},
    };
    const struct cli_usage usage = {
        .line = "milepost demo [--model FILE] [options]",
        .about = "Starts the whole system on free ports with deploy/demo/demo.yaml and sends it\n"
                 "real chat requests. 1: baseline. 2: a bad push, which the controller must roll\n"
                 "back. 3: a route that is too hot, which the policy must cool step by step.\n"
                 "Prints numbers read from SQLite; exit 0 only if all of it happened.",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0],
        .needs_no_config = true};
    struct err e = {0};
    int n_args;

    int code = cli_begin(c, &usage, argc, argv, &n_args);
    if (code != CLI_CONTINUE)
        return code;
    if (c->config_path == NULL)
        c->config_path = demo_file(c, "demo.yaml");
    if (d.options.prompts == NULL)
        d.options.prompts = demo_file(c, "prompts.jsonl");
    return run(&d, &e) == ERR_OK ? CLI_OK : cli_fail(&e);
}
