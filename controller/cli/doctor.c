/* `milepost doctor`: looks twice at the metrics of all three processes and says what is wrong. */
#include "common/clock.h"
#include "common/http_client.h"
#include "controller/cli/cli.h"
#include "controller/cli/diagnosis.h"
#include "controller/cli/print.h"

#include <time.h>

enum { TICKS_A_SECOND = 10, TIMEOUT_MS = 5000 };

/* Nobody there, or something else: p stays NULL. */
static struct str fetch(struct cli *c, const char *base)
{
    struct http_result r = {0};
    struct str url = arena_printf(&c->arena, "%s/metrics", base), text = {0};
    const struct http_call call = {.url = url.p, .timeout_ms = TIMEOUT_MS};
    struct err e;
    if (!url.p || (!c->http && http_client_open(&c->http, &e) != ERR_OK))
        return text;
    if (http_client_call(c->http, &call, &r, &e) == ERR_OK && r.status == 200) {
        struct str body = buf_str(&r.body);
        text = arena_printf(&c->arena, STR_FMT, STR_ARG(body));
    }
    http_result_free(&r);
    return text;
}

static void look(struct cli *c, bool is_alone, struct look *out)
{
    const struct milepost_config *m = &c->config;
    *out = (struct look){0};
    out->text[PROCESS_ENGINE] = fetch(c, cli_engine_url(c));
    if (is_alone)
        return;
    out->text[PROCESS_VERIFIER] = fetch(c, cli_url(c, NULL, m->verifier.host, m->verifier.port));
    out->text[PROCESS_CONTROLLER] = fetch(c, cli_controller_url(c));
}

static void wait_between(int64_t seconds)
{
    struct progress p;
    progress_start(&p, "looking", (uint64_t)seconds * TICKS_A_SECOND);
    for (int64_t i = 0; i < seconds * TICKS_A_SECOND; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000000 / TICKS_A_SECOND}, NULL);
        progress_show(&p, (uint64_t)i + 1, "");
    }
    progress_end(&p);
}

static int print_findings(struct cli *c, const struct diagnosis *d, struct err *e)
{
    static const char *const titles[] = {"LAYER", "HEALTH", "FOUND"};
    static const enum tone tones[] = {TONE_GOOD, TONE_WARN, TONE_BAD};
    struct table t;
    if (table_init(&t, &c->arena, titles, 3, e) != ERR_OK)
        return e->code;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->finding[i];
        const char *cells[] = {f->layer, health_name(f->health), f->what};
        table_row(&t, cells);
        table_tone(&t, 1, tones[f->health]);
        const char *advice[] = {"", "", f->advice};
        if (*f->advice)
            table_row(&t, advice);
    }
    table_print(&t, stdout);
    return ERR_OK;
}

static json_t *findings_json(const struct diagnosis *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->finding[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "layer", f->layer, "health",
                                              health_name(f->health), "found", f->what, "advice",
                                              f->advice));
    }
    return json_pack("{s:s,s:o}", "health", health_name(diagnosis_worst(d)), "findings", list);
}

static int report(struct cli *c, const struct diagnosis *d)
{
    struct err e = {0};
    json_t *doc = c->json ? findings_json(d) : NULL;
    int code = c->json                              ? cli_print_json(doc)
               : print_findings(c, d, &e) == ERR_OK ? CLI_OK
                                                    : cli_fail(&e);
    json_decref(doc);
    return code == CLI_OK && diagnosis_worst(d) == HEALTH_BAD ? CLI_FAILED : code;
}

int cmd_doctor(struct cli *c, int argc, char **argv)
{
    int64_t seconds = 5;
    const struct opt options[] = {
        {"seconds", 0, OPT_INT, &seconds, 1, 600, "N", "how long to look"}};
    const struct cli_usage usage = {
        .line = "milepost doctor [--seconds N] [--json]",
        .about =
            "Looks twice at the metrics of engine, verifier and controller and says, layer by\n"
            "layer, where time goes between, what is wrong and what to do. Ask it under load.\n"
            "Exit code 1 when something is bad: a process that does not answer, answers lost\n"
            "to the loop, commits that fail, a device that hangs.",
        .opt = options,
        .n_opt = 1};
    struct looks l = {0};
    struct diagnosis d;
    int n_args, code = cli_begin(c, &usage, argc, argv, &n_args);
    if (code != CLI_CONTINUE)
        return code;
    l.is_alone = !c->config.loop.enabled;
    struct mono start = clock_mono(&CLOCK_REAL);
    look(c, l.is_alone, &l.before);
    wait_between(seconds);
    l.seconds = (double)mono_since_us(start, clock_mono(&CLOCK_REAL)) * 1e-6;
    look(c, l.is_alone, &l.after);
    diagnose(&l, &c->arena, &d);
    return report(c, &d);
}
