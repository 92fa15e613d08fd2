/* `milepost bench serve`: options, progress, tables. The load has its own threads (volley.h). */
#include "controller/cli/bench/bench.h"
#include "controller/cli/bench/plot.h"
#include "controller/cli/bench/volley.h"
#include "controller/cli/print.h"

#include "common/clock.h"
#include "common/io.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { LOOK_EVERY_MS = 100, OPEN_LOOP_CLIENTS = 256, MAX_WARM_UP = 1000 };

struct serve_options {
    const char *url, *model, *lengths, *rate, *extra, *temperature, *key_file, *plot;
    int64_t requests, clients, turns, seconds, warm_up, timeout_s;
    int64_t prompt, output, max_prompt, max_output, prefix, seed, prefix_seed;
    int64_t slo_ttft_ms, slo_tpot_ms, slo_e2e_ms;
    bool may_stop;
};

struct serve {
    struct cli *cli;
    struct serve_options options;
    struct volley_options volley;
    const char *header[2];
    struct slo slo;
};

static int read_number(const char *name, const char *text, double most, double *out, struct err *e)
{
    if (str_to_f64(str_from(text), out, NULL) == ERR_OK && *out >= 0 && *out <= most)
        return ERR_OK;
    return err_set(e, ERR_INVALID, "--%s: '%s' is not a number in [0, %g]", name, text, most);
}

/* The inside of the object given with --extra, so that it can be put among other fields. */
static int read_extra(struct serve *s, struct err *e)
{
    json_t *doc = NULL;
    struct str text = str_trim(str_from(s->options.extra));

    s->volley.extra = "";
    if (text.n == 0)
        return ERR_OK;
    if (json_parse(text, 0, &doc, e) != ERR_OK)
        return err_wrap(e, "--extra wants a JSON object");
    bool is_empty = json_object_size(doc) == 0;
    json_decref(doc);
    if (!is_empty)
        s->volley.extra = arena_str(&s->cli->arena, str_slice(text, 1, text.n - 1)).p;
    return s->volley.extra != NULL ? ERR_OK : err_set(e, ERR_NOMEM, "--extra");
}

/* The engine's own key goes to the engine's own address only. */
static int read_key(struct serve *s, struct err *e)
{
    struct cli *c = s->cli;
    struct str key = {0};
    struct buf file;
    int rc = ERR_OK;

    buf_init(&file, 4 * KiB);
    if (s->options.key_file[0] != '\0') {
        rc = io_read_file(s->options.key_file, &file, e);
        key = arena_str(&c->arena, str_trim(buf_str(&file)));
    } else if (s->options.url[0] == '\0') {
        rc = milepost_config_key(c->config.engine.api_key_file, "MILEPOST_API_KEY", &c->arena, &key,
                                 e);
    }
    buf_free(&file);
    if (key.n > 0)
        s->header[0] = arena_printf(&c->arena, "Authorization: Bearer " STR_FMT, STR_ARG(key)).p;
    return rc;
}

static const char *find_url(struct serve *s)
{
    struct str base = str_from(s->options.url[0] ? s->options.url : cli_engine_url(s->cli));

    while (base.n > 0 && base.p[base.n - 1] == '/')
        base.n--;
    if (str_ends(base, STR("/chat/completions")))
        return base.p;
    const char *rest = str_ends(base, STR("/v1")) ? "/chat/completions" : "/v1/chat/completions";
    return arena_printf(&s->cli->arena, STR_FMT "%s", STR_ARG(base), rest).p;
}

static void set_workload(struct serve *s)
{
    const struct serve_options *o = &s->options;
    struct workload *w = &s->volley.load;

    w->seed = (uint64_t)o->seed;
    w->prefix_seed = (uint64_t)(o->prefix_seed >= 0 ? o->prefix_seed : o->seed);
    w->prompt_words = (uint32_t)o->prompt;
    w->output_tokens = (uint32_t)o->output;
    w->max_words = (uint32_t)o->max_prompt;
    w->max_output = (uint32_t)o->max_output;
    w->prefix_words = (uint32_t)o->prefix;
}

static int prepare(struct serve *s, struct err *e)
{
    const struct serve_options *o = &s->options;
    struct volley_options *v = &s->volley;
    double temperature;
    int rc;

    set_workload(s);
    s->slo = (struct slo){(double)o->slo_ttft_ms, (double)o->slo_tpot_ms, (double)o->slo_e2e_ms};
    TRY(workload_law(o->lengths, &v->load.law, e));
    TRY(read_number("rate", o->rate, 1e6, &v->load.rate_s, e));
    TRY(read_number("temperature", o->temperature, 10, &temperature, e));
    TRY(read_extra(s, e));
    TRY(read_key(s, e));
    v->sampling = o->temperature;
    v->model = o->model;
    v->n_turns = (uint32_t)o->turns;
    v->n_conversations = (uint32_t)o->requests;
    v->n_clients = (uint32_t)(o->clients > 0       ? o->clients
                              : v->load.rate_s > 0 ? OPEN_LOOP_CLIENTS
                                                   : 1);
    v->max_seconds = (uint32_t)o->seconds;
    v->may_stop = o->may_stop;
    v->target = (struct target){find_url(s), s->header, (uint32_t)o->timeout_s * 1000};
    if ((uint64_t)v->n_conversations * v->n_turns > VOLLEY_MAX_SHOTS)
        rc = err_set(e, ERR_INVALID, "--requests times --turns is above %d", VOLLEY_MAX_SHOTS);
out:
    return rc;
}

static void watch(struct volley *v, uint32_t total, const char *label)
{
    struct progress p;
    struct volley_counts n;
    struct mono from = clock_mono(&CLOCK_REAL);
    const struct timespec pause = {0, LOOK_EVERY_MS * 1000000L};

    progress_start(&p, label, total);
    while (!volley_finished(v)) {
        char note[120];
        volley_read(v, &n);
        double seconds = (double)mono_since_us(from, clock_mono(&CLOCK_REAL)) / 1e6;
        snprintf(note, sizeof note, "%u of %u requests, %u failed, %.0f tok/s", n.done, total,
                 n.failed, seconds > 0 ? (double)n.tokens / seconds : 0);
        progress_show(&p, n.done, note);
        nanosleep(&pause, NULL);
    }
    progress_end(&p);
}

/* Other words than the measured load's, same shared prefix: it warms that. */
static int warm_up(struct serve *s, struct err *e)
{
    struct volley_options o = s->volley;
    struct volley *v = NULL;
    struct shot *shots;
    uint32_t n;
    uint64_t begin_us;

    if (s->options.warm_up == 0)
        return ERR_OK;
    o.load.seed ^= UINT64_C(0x5DEECE66D);
    o.load.rate_s = 0;
    o.n_conversations = (uint32_t)s->options.warm_up;
    int rc = volley_start(&v, &o, e);
    if (rc != ERR_OK)
        return rc;
    watch(v, o.n_conversations * o.n_turns, "warm-up");
    volley_wait(v, &shots, &n, &begin_us);
    if (!shots[0].is_ok)
        rc = err_set(e, ERR_IO, "%s: %s", o.target.url, shots[0].error);
    volley_free(v);
    return rc;
}

static const char *describe(struct serve *s)
{
    const struct volley_options *v = &s->volley;
    struct arena *a = &s->cli->arena;
    struct str mode = v->load.rate_s > 0
                          ? arena_printf(a, "Poisson arrivals, %g conversations/s", v->load.rate_s)
                          : arena_printf(a, "%u clients", v->n_clients);
    struct str text = arena_printf(
        a,
        STR_FMT ", %u conversations of %u turns, %s lengths (prompt %u words, output %u tokens), "
                "shared prefix %u words, %s",
        STR_ARG(mode), v->n_conversations, v->n_turns, s->options.lengths, v->load.prompt_words,
        v->load.output_tokens, v->load.prefix_words, v->target.url);

    return text.p != NULL ? text.p : "";
}

static void print_series(struct table *t, const char *name, const struct series *v)
{
    static const double QUANTILES[] = {0.5, 0.9, 0.95, 0.99, 1};
    const char *cell[7] = {name};

    cell[1] = v->n > 0 ? arena_printf(t->arena, "%.2f", series_mean(v)).p : "-";
    for (size_t i = 0; i < 5; i++)
        cell[2 + i] = v->n > 0 ? arena_printf(t->arena, "%.2f", series_at(v, QUANTILES[i])).p : "-";
    table_row(t, cell);
}

static void print_turns(const struct summary *s, struct arena *a)
{
    static const char *const titles[] = {
        ">turn", ">n", ">mean TTFT ms", ">mean e2e ms", ">prompt tokens", ">of them cached"};
    struct table t;

    if (s->n_turns < 2 || table_init(&t, a, titles, 6, NULL) != ERR_OK)
        return;
    for (uint32_t i = 0; i < s->n_turns; i++) {
        double n = s->turn[i].n > 0 ? s->turn[i].n : 1;
        table_row(&t, (const char *const[]){
                          arena_printf(a, "%u", i + 1).p, arena_printf(a, "%u", s->turn[i].n).p,
                          arena_printf(a, "%.2f", s->turn[i].ttft_sum_ms / n).p,
                          arena_printf(a, "%.2f", s->turn[i].e2e_sum_ms / n).p,
                          arena_printf(a, "%llu", (unsigned long long)s->turn[i].prompt_tokens).p,
                          arena_printf(a, "%llu", (unsigned long long)s->turn[i].cached_tokens).p});
    }
    putchar('\n');
    table_print(&t, stdout);
}

static void print_summary(struct serve *s, const struct summary *m)
{
    static const char *const titles[] = {"milliseconds", ">mean", ">p50",  ">p90",
                                         ">p95",         ">p99",  ">worst"};
    struct table t;

    printf("%s\n\n", describe(s));
    if (table_init(&t, &s->cli->arena, titles, 7, NULL) != ERR_OK)
        return;
    print_series(&t, "TTFT", &m->ttft);
    print_series(&t, "gap (ITL)", &m->gap);
    print_series(&t, "per token (TPOT)", &m->tpot);
    print_series(&t, "end to end", &m->e2e);
    table_print(&t, stdout);
    print_turns(m, &s->cli->arena);
    double seconds = m->seconds > 0 ? m->seconds : (double)NAN;
    printf("\n%u of %u requests answered in %.2f s: %.2f requests/s, %.1f output tok/s, %.1f tok/s "
           "with prompts\n",
           m->n_ok, m->n_sent, m->seconds, m->n_ok / seconds,
           (double)m->completion_tokens / seconds,
           (double)(m->completion_tokens + m->prompt_tokens) / seconds);
    printf("tokens: %llu prompt (%llu cached), %llu completion\n",
           (unsigned long long)m->prompt_tokens, (unsigned long long)m->cached_tokens,
           (unsigned long long)m->completion_tokens);
    if (s->slo.ttft_ms + s->slo.tpot_ms + s->slo.e2e_ms > 0)
        printf("goodput: %u requests met the limits, %.2f requests/s\n", m->n_good,
               m->n_good / seconds);
}

static int report(struct serve *s, const struct summary *m, uint64_t digest)
{
    if (!s->cli->json) {
        print_summary(s, m);
        return CLI_OK;
    }
    json_t *o = summary_json(m, &s->slo);
    const struct volley_options *v = &s->volley;
    json_object_set_new(
        o, "load",
        json_pack("{s:s, s:s, s:f, s:i, s:i, s:i, s:s, s:i, s:i, s:i, s:I}", "url", v->target.url,
                  "mode", v->load.rate_s > 0 ? "open" : "closed", "rate_s", v->load.rate_s,
                  "clients", (int)v->n_clients, "conversations", (int)v->n_conversations, "turns",
                  (int)v->n_turns, "lengths", s->options.lengths, "prompt_words",
                  (int)v->load.prompt_words, "output_tokens", (int)v->load.output_tokens,
                  "prefix_words", (int)v->load.prefix_words, "seed", (json_int_t)v->load.seed));
    char hex[20];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    json_object_set_new(o, "answers_digest", json_string(hex));
    int code = cli_print_json(o);
    json_decref(o);
    return code;
}

static int finish(struct serve *s, struct volley *v, struct err *e)
{
    struct shot *shots;
    struct summary m;
    uint32_t n;
    uint64_t begin_us;

    volley_wait(v, &shots, &n, &begin_us);
    int rc = summary_make(&m, shots, n, begin_us, &s->slo, e);
    if (rc != ERR_OK)
        return rc;
    if (report(s, &m, volley_digest(v)) != CLI_OK)
        rc = err_set(e, ERR_IO, "the result cannot be written");
    if (rc == ERR_OK && s->options.plot[0] != '\0')
        rc = plot_write(s->options.plot, describe(s), &m, shots, n, begin_us, e);
    if (rc == ERR_OK && (m.n_failed > 0 || m.n_ok == 0))
        rc = err_set(e, ERR_IO, "%u of %u requests failed; the first: %s", m.n_failed, m.n_sent,
                     m.first_error != NULL ? m.first_error : "none was sent");
    summary_free(&m);
    return rc;
}

static int run(struct serve *s, struct err *e)
{
    struct volley *v = NULL;
    int rc;

    TRY(prepare(s, e));
    TRY(warm_up(s, e));
    TRY(volley_start(&v, &s->volley, e));
    watch(v, s->volley.n_conversations * s->volley.n_turns, "load");
    TRY(finish(s, v, e));
out:
    volley_free(v);
    return rc;
}

static const struct serve_options DEFAULTS = {.url = "",
                                              .model = "",
                                              .lengths = "fixed",
                                              .rate = "0",
                                              .extra = "",
                                              .temperature = "0",
                                              .key_file = "",
                                              .plot = "",
                                              .requests = 64,
                                              .turns = 1,
                                              .timeout_s = 600,
                                              .prompt = 128,
                                              .output = 128,
                                              .max_prompt = 1024,
                                              .max_output = 1024,
                                              .seed = 1,
                                              .prefix_seed = -1};

int bench_serve(struct cli *c, int argc, char **argv)
{
    struct serve s = {.cli = c, .options = DEFAULTS};
    struct serve_options *o = &s.options;
    const struct opt options[] = {
        {"url", 'u', OPT_TEXT, &o->url, 0, 0, "URL", "server; else the configured engine"},
        {"model", 'm', OPT_TEXT, &o->model, 0, 0, "NAME", "model the requests name"},
        {"requests", 'n', OPT_INT, &o->requests, 1, VOLLEY_MAX_SHOTS, "N", "conversations"},
        {"clients", 0, OPT_INT, &o->clients, 1, VOLLEY_MAX_CLIENTS, "N",
         "at once: closed loop; with --rate the most at once (256)"},
        {"rate", 'r', OPT_TEXT, &o->rate, 0, 0, "PER_S",
         "open loop: Poisson arrivals of conversations a second"},
        {"seconds", 0, OPT_INT, &o->seconds, 0, 86400, "S", "start nothing later than this; 0: no"},
        {"turns", 0, OPT_INT, &o->turns, 1, SUMMARY_MAX_TURNS, "N", "turns of a conversation"},
        {"lengths", 0, OPT_TEXT, &o->lengths, 0, 0, "LAW",
         "fixed; sharegpt: log-normal, medians given; exponential: means given"},
        {"prompt", 0, OPT_INT, &o->prompt, 1, BENCH_MAX_WORDS, "WORDS", "of a user message"},
        {"output", 0, OPT_INT, &o->output, 1, BENCH_MAX_OUTPUT, "TOKENS", "asked of the server"},
        {"max-prompt", 0, OPT_INT, &o->max_prompt, 1, BENCH_MAX_WORDS, "WORDS", "cut above"},
        {"max-output", 0, OPT_INT, &o->max_output, 1, BENCH_MAX_OUTPUT, "TOKENS", "cut above"},
        {"shared-prefix", 0, OPT_INT, &o->prefix, 0, BENCH_MAX_WORDS, "WORDS",
         "system message common to all"},
        {"seed", 0, OPT_INT, &o->seed, 0, INT32_MAX, "N", "of lengths, words, arrivals"},
        {"prefix-seed", 0, OPT_INT, &o->prefix_seed, -1, INT32_MAX, "N", "of the shared prefix"},
        {"warm-up", 0, OPT_INT, &o->warm_up, 0, MAX_WARM_UP, "N",
         "conversations before, not counted"},
        {"slo-ttft-ms", 0, OPT_INT, &o->slo_ttft_ms, 0, INT32_MAX, "MS", "goodput; 0: no limit"},
        {"slo-tpot-ms", 0, OPT_INT, &o->slo_tpot_ms, 0, INT32_MAX, "MS", "mean per token"},
        {"slo-e2e-ms", 0, OPT_INT, &o->slo_e2e_ms, 0, INT32_MAX, "MS", "end to end"},
        {"temperature", 't', OPT_TEXT, &o->temperature, 0, 0, "T", "of the requests"},
        {"extra", 0, OPT_TEXT, &o->extra, 0, 0, "JSON", "object of further request fields"},
        {"may-stop", 0, OPT_FLAG, &o->may_stop, 0, 0, NULL,
         "the model may end early (else ignore_eos is sent)"},
        {"timeout", 0, OPT_INT, &o->timeout_s, 1, 86400, "S", "of one request"},
        {"key-file", 0, OPT_TEXT, &o->key_file, 0, 0, "FILE", "API key for --url"},
        {"plot", 0, OPT_TEXT, &o->plot, 0, 0, "FILE", "write an HTML page with plots"},
    };
    const struct cli_usage usage = {
        .line = "milepost bench serve [--url URL] [--clients N | --rate PER_S] [options]",
        .about =
            "Sends load to any server with OpenAI's chat completions and measures it from\n"
            "outside: time to first token, gaps, end-to-end time, throughput, goodput. Exit 1\n"
            "when a request failed.",
        .opt = options,
        .n_opt = sizeof options / sizeof options[0],
        .words = "serve kernel"}; /* in front of the options: for completion */
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    return run(&s, &e) == ERR_OK ? CLI_OK : cli_fail(&e);
}
