/* milepost-kernels (`milepost bench kernel`): every kernel of a model against this machine's
 * limits.
 *
 * Weights are read once a step, so GB/s counts the file's bytes of the matrices a step goes
 * through, against a probe that reads as many bytes; GOP/s counts two operations a multiply-add of
 * the model, against the processor's byte dot product, for attention against fp32. Shares that the
 * gates judge are of limits measured beside the step, round by round (timing.h). What the
 * kernel's dot products execute is more (kernels/README.md) and stands in a column of its own. Exit
 * 0; with --check 1 when the gates are missed. */
#include "common/progress.h"
#include "engine/kernelbench/ceilings.h"
#include "engine/kernelbench/report.h"
#include "engine/kernelbench/shapes.h"
#include "engine/kernelbench/timing.h"
#include "engine/sample/sampler.h"
#include "kernels/threads.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t LARGE_BYTES = (size_t)1 << 30, QUICK_BYTES = (size_t)1 << 26;
static const double GEMV_GATE = 0.85, GEMM_GATE = 0.60;
static const uint32_t TOKENS[] = {1, 4, 8, 16, 32, 64, 512};
enum { N_TOKENS = sizeof TOKENS / sizeof TOKENS[0] };

struct bench {
    struct shapes_options options;
    struct shapes *shapes;
    struct report report;
    struct progress progress;
    struct ceiling *int8;
    int only_limits, as_json, has_gates, is_quick; /* bool, as getopt_long sets them */
};

static int time_step(struct bench *b, int (*step)(void *ctx, struct err *e), void *ctx,
                     struct ceiling *beside, struct report_row *row, double *could, struct err *e)
{
    struct timing t = {0};
    progress_show(&b->progress, b->report.n, row->what);
    int rc = timing_run(step, ctx, beside, b->is_quick, &t, e);
    row->us = t.us;
    row->spread = t.spread;
    *could = t.could;
    return rc;
}

static void keep(struct bench *b, const struct report_row *row)
{
    if (b->report.n < REPORT_MAX_ROWS)
        b->report.row[b->report.n++] = *row;
    progress_end(&b->progress);
    if (!b->as_json)
        report_print_row(row);
}

struct role_step {
    struct shapes *shapes;
    enum role role;
    uint32_t n_tok, n_passes;
};

static int run_role(void *ctx, struct err *e)
{
    struct role_step *s = ctx;
    return shapes_run(s->shapes, s->role, s->n_tok, s->n_passes, e);
}

/* Whether the counts of struct work are those of what runs here, and the peak is that of the same
 * instructions. */
static bool has_counts(const struct bench *b)
{
    const struct shapes_options *o = &b->options;

    return (o->backend == NULL || strcmp(o->backend, "cpu") == 0) &&
           (o->instruction_set == NULL || strncmp(o->instruction_set, "avx512", 6) == 0) &&
           strcmp(b->report.limits.int8_name, "AVX-512 VNNI") == 0;
}

/* One token goes another way than several, and is bound by what it reads. could: what the ceiling
 * beside the step does in its time. */
static void set_shares(const struct bench *b, struct work work, double could,
                       struct report_row *row)
{
    double done = 2 * work.macs;

    row->of_peak = could > 0 ? done / could : 0;
    if (work.slots <= 0 || !has_counts(b))
        return;
    row->dots_of_peak = row->of_peak * work.dots / work.macs;
    row->at_most = work.macs / work.slots;
}

/* The head's row of a prompt is the one of a single token. */
static bool is_timed(enum role role, uint32_t n_tok)
{
    return role != ROLE_HEAD || shapes_head_rows(n_tok) == n_tok;
}

static void name_role(const struct role_facts *f, bool is_all, struct report_row *row)
{
    if (is_all)
        snprintf(row->what, sizeof row->what, "%s (%.1f MB)", f->name, (double)f->bytes / 1e6);
    else
        snprintf(row->what, sizeof row->what, "%s %s, %u x %u, %u times", f->name, f->types,
                 f->rows, f->cols, f->n);
}

/* So many steps on end that waking the threads, which is no kernel's work, is little beside them.
 */
static uint32_t passes_of(struct work work)
{
    static const double many = 1e9; /* multiply-adds: some milliseconds */
    return work.macs < many ? (uint32_t)(many / work.macs) + 1 : 1;
}

/* One row. What bounds it is measured beside it; the other share is of the best that was seen. */
static int measure_tokens(struct bench *b, enum role role, uint32_t n_tok, struct ceiling *read,
                          double read_gb_s, struct err *e)
{
    struct role_facts f = shapes_role(b->shapes, role);
    struct work work = shapes_work(b->shapes, role, n_tok);
    struct role_step step = {b->shapes, role, n_tok, passes_of(work)};
    struct report_row row = {.n_tok = n_tok};
    double could, n = step.n_passes, bytes = (double)f.bytes, peak = b->report.limits.int8_gop_s;

    name_role(&f, role == ROLE_ALL, &row);
    int rc = time_step(b, run_role, &step, n_tok == 1 ? read : b->int8, &row, &could, e);
    if (rc != ERR_OK)
        return rc;
    row.us /= n;
    could /= n;
    row.gb_s = bytes / row.us / 1e3;
    row.gop_s = 2 * work.macs / row.us / 1e3;
    if (n_tok == 1) {
        row.of_read = bytes / could;
        row.of_peak = peak > 0 ? row.gop_s / peak : 0;
    } else {
        row.of_read = row.gb_s / read_gb_s;
        set_shares(b, work, could, &row);
    }
    keep(b, &row);
    return ERR_OK;
}

static int measure_role(struct bench *b, enum role role, struct err *e)
{
    struct ceiling *read = NULL;
    size_t bytes = shapes_role(b->shapes, role).bytes;
    int rc = ceiling_open_read(&read, b->report.limits.n_threads, bytes, e);
    double read_gb_s = rc == ERR_OK ? ceiling_best(read, CEILING_RUNS) : 0;

    for (uint32_t i = 0; rc == ERR_OK && i < N_TOKENS && is_timed(role, TOKENS[i]); i++)
        rc = measure_tokens(b, role, TOKENS[i], read, read_gb_s, e);
    ceiling_close(read);
    return rc;
}

static int best_read(uint32_t n_threads, size_t bytes, double *gb_s, struct err *e)
{
    struct ceiling *read = NULL;
    int rc = ceiling_open_read(&read, n_threads, bytes, e);

    *gb_s = rc == ERR_OK ? ceiling_best(read, CEILING_RUNS) : 0;
    ceiling_close(read);
    return rc;
}

struct attention_step {
    struct shapes *shapes;
    struct attention_case c;
};

static int run_attention(void *ctx, struct err *e)
{
    struct attention_step *s = ctx;
    return shapes_attend(s->shapes, &s->c, e);
}

static const struct {
    const char *what;
    struct attention_case c;
} CASES[] = {{"attention, 1 sequence, context 400", {1, 400, 1, 0}},
             {"attention, 16 sequences, context 400", {16, 400, 1, 0}},
             {"attention, 16 sequences, 400 shared", {16, 400, 1, 400}},
             {"attention, prompt of 64", {1, 0, 64, 0}},
             {"attention, prompt of 512", {1, 0, 512, 0}}};
enum { N_CASES = sizeof CASES / sizeof CASES[0] };

static int measure_attention(struct bench *b, struct err *e)
{
    const struct limits *l = &b->report.limits;
    int rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < N_CASES; i++) {
        struct attention_step step = {b->shapes, CASES[i].c};
        struct report_row row = {.n_tok = CASES[i].c.n_seq * CASES[i].c.n_new};
        size_t bytes;
        uint64_t macs;
        double read_gb_s, could;
        shapes_attention_cost(b->shapes, &CASES[i].c, &bytes, &macs);
        snprintf(row.what, sizeof row.what, "%s", CASES[i].what);
        rc = time_step(b, run_attention, &step, NULL, &row, &could, e);
        if (rc == ERR_OK)
            rc = best_read(l->n_threads, bytes, &read_gb_s, e);
        if (rc != ERR_OK)
            break;
        row.gb_s = (double)bytes / row.us / 1e3;
        row.of_read = row.gb_s / read_gb_s;
        row.gop_s = 2 * (double)macs / row.us / 1e3;
        row.of_peak = row.gop_s / l->fp32_gflop_s;
        keep(b, &row);
    }
    return rc;
}

struct sample_step {
    struct sampler *sampler;
    float *logits;
    struct params params;
    uint32_t n_top;
    uint64_t position;
};

static int run_sampler(void *ctx, struct err *e)
{
    struct sample_step *s = ctx;
    struct sample_result result;
    const struct sample_spec spec = {
        .params = &s->params, .seed = 1, .position = s->position++, .n_top = s->n_top};
    return sampler_draw(s->sampler, s->logits, &spec, &result, e);
}

static const struct {
    const char *what;
    double temperature, top_p, top_k;
    uint32_t n_top;
} SAMPLING[] = {{"sampling, greedy", 0, 1, 0, 0},
                {"sampling, greedy, 5 logprobs", 0, 1, 0, 5},
                {"sampling, temperature 0.8", 0.8, 1, 0, 0},
                {"sampling, temperature 0.8, top_k 40", 0.8, 1, 40, 0},
                {"sampling, temperature 0.8, top_p 0.95", 0.8, 0.95, 0, 0}};
enum { N_SAMPLING = sizeof SAMPLING / sizeof SAMPLING[0] };

static int measure_sampling(struct bench *b, struct err *e)
{
    uint32_t n = shapes_vocab(b->shapes);
    struct sample_step step = {.logits = malloc(n * sizeof(float))};
    int rc = sampler_open(&step.sampler, n, e);

    if (rc == ERR_OK && step.logits == NULL)
        rc = err_set(e, ERR_NOMEM, "logits");
    for (uint32_t i = 0; rc == ERR_OK && i < n; i++) /* a long tail, as of a model */
        step.logits[i] = 12 - 2.2f * logf(1 + (float)((i * UINT64_C(2654435761)) % n));
    for (size_t i = 0; rc == ERR_OK && i < N_SAMPLING; i++) {
        struct report_row row = {.n_tok = 1};
        for (int id = 0; id < PARAM_COUNT; id++) {
            step.params.v[id] = param_info((enum param_id)id)->fallback;
            step.params.set |= 1u << id;
        }
        step.params.v[PARAM_TEMPERATURE] = SAMPLING[i].temperature;
        step.params.v[PARAM_TOP_P] = SAMPLING[i].top_p;
        step.params.v[PARAM_TOP_K] = SAMPLING[i].top_k;
        step.n_top = SAMPLING[i].n_top;
        snprintf(row.what, sizeof row.what, "%s, %u tokens", SAMPLING[i].what, n);
        double could;
        rc = time_step(b, run_sampler, &step, NULL, &row, &could, e);
        row.gb_s = n * sizeof(float) / row.us / 1e3;
        if (rc == ERR_OK)
            keep(b, &row);
    }
    sampler_close(step.sampler);
    free(step.logits);
    return rc;
}

static uint32_t count_rows(void)
{
    uint32_t n = N_CASES + N_SAMPLING;
    for (enum role r = ROLE_QKV; r < ROLE_COUNT; r++)
        for (uint32_t i = 0; i < N_TOKENS; i++)
            n += is_timed(r, TOKENS[i]);
    return n;
}

static int measure_fp32(struct limits *l, struct err *e)
{
    struct ceiling *fp32 = NULL;
    int rc = ceiling_open_fp32(&fp32, l->n_threads, e);

    if (rc == ERR_OK) {
        l->fp32_gflop_s = ceiling_best(fp32, CEILING_RUNS);
        l->fp32_name = ceiling_name(fp32);
    }
    ceiling_close(fp32);
    return rc;
}

static int measure_limits(struct bench *b, size_t model_bytes, struct err *e)
{
    struct limits *l = &b->report.limits;
    int rc;

    TRY(best_read(l->n_threads, b->is_quick ? QUICK_BYTES : LARGE_BYTES, &l->read_gb_s, e));
    l->model_read_gb_s = l->read_gb_s;
    if (model_bytes > 0)
        TRY(best_read(l->n_threads, model_bytes, &l->model_read_gb_s, e));
    TRY(ceiling_open_int8(&b->int8, l->n_threads, e));
    l->int8_gop_s = ceiling_best(b->int8, CEILING_RUNS);
    l->int8_name = ceiling_name(b->int8);
    TRY(measure_fp32(l, e));
out:
    return rc;
}

static int measure(struct bench *b, struct err *e)
{
    size_t bytes = 0;
    int rc;

    b->report.limits.n_threads =
        b->options.n_threads > 0 ? b->options.n_threads : team_usable_cores();
    if (b->options.path != NULL) {
        TRY(shapes_open(&b->shapes, &b->options, e));
        b->report.limits.n_threads = shapes_threads(b->shapes);
        bytes = shapes_role(b->shapes, ROLE_ALL).bytes;
    }
    progress_start(&b->progress, "kernels", count_rows());
    progress_show(&b->progress, 0, "limits of this machine");
    TRY(measure_limits(b, bytes, e));
    progress_end(&b->progress);
    if (!b->as_json)
        report_limits(&b->report.limits);
    if (b->only_limits)
        goto out;
    if (!b->as_json)
        report_print_head();
    for (enum role r = ROLE_QKV; r < ROLE_COUNT; r++)
        TRY(measure_role(b, r, e));
    TRY(measure_attention(b, e));
    TRY(measure_sampling(b, e));
out:
    progress_end(&b->progress);
    ceiling_close(b->int8);
    shapes_close(b->shapes);
    return rc;
}

/* The gates are on the whole model: its matrices for one token, and for a prompt. What the dot
 * product units do is judged where the kernel's instructions are counted. */
static int judge(const struct bench *b)
{
    double gemv = 0, gemm = 0, useful = 0, at_most = 0;

    for (size_t i = 0; i < b->report.n; i++) {
        const struct report_row *row = &b->report.row[i];
        if (strncmp(row->what, "all matrices", 12) != 0)
            continue;
        gemv = row->n_tok == 1 ? row->of_read : gemv;
        double executed = row->at_most > 0 ? row->dots_of_peak : row->of_peak;
        gemm = executed > gemm ? executed : gemm;
        useful = row->of_peak > useful ? row->of_peak : useful;
        at_most = row->at_most > at_most ? row->at_most : at_most;
    }
    fprintf(stderr,
            "GEMV: %.0f%% of read bandwidth (gate %.0f%%); GEMM: the dot products executed are "
            "%.0f%% of the int8 peak (gate %.0f%%), those of the model %.0f%%",
            gemv * 100, GEMV_GATE * 100, gemm * 100, GEMM_GATE * 100, useful * 100);
    /* Counted in the machine code of kernels/cpu/body_tile.h; kernels/README.md has the list. */
    if (at_most > 0)
        fprintf(stderr, " (at most %.0f%%, by the instructions beside them)", at_most * 100);
    fputc('\n', stderr);
    return gemv >= GEMV_GATE && gemm >= GEMM_GATE ? 0 : 1;
}

static void print_help(FILE *to)
{
    fputs("Usage: milepost bench kernel --model FILE.gguf [options]\n\n"
          "Times each kernel of the model and prints its share of what this machine can do.\n\n"
          "  -m, --model FILE     whose matrices are used\n"
          "  -t, --threads N      0: usable cores (default)\n"
          "  -d, --device NAME    cpu (default) or ref\n"
          "  -s, --set NAME       instruction set of the device; default: the best\n"
          "      --limits         only the machine's limits; needs no model\n"
          "      --quick          short and coarse\n"
          "      --json           print JSON\n"
          "      --check          exit 1 when GEMV is below 85% of the read bandwidth or the dot\n"
          "                       products executed by GEMM below 60% of the int8 peak\n",
          to);
}

/* -1 = go on, else the exit code. */
static int read_options(struct bench *b, int argc, char **argv)
{
    const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                     {"threads", required_argument, NULL, 't'},
                                     {"device", required_argument, NULL, 'd'},
                                     {"set", required_argument, NULL, 's'},
                                     {"limits", no_argument, &b->only_limits, 1},
                                     {"json", no_argument, &b->as_json, 1},
                                     {"check", no_argument, &b->has_gates, 1},
                                     {"quick", no_argument, &b->is_quick, 1},
                                     {"help", no_argument, NULL, 'h'},
                                     {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "m:t:d:s:h", options, NULL)) != -1) {
        if (c == 'm')
            b->options.path = optarg;
        else if (c == 't')
            b->options.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'd')
            b->options.backend = optarg;
        else if (c == 's')
            b->options.instruction_set = optarg;
        else if (c != 0) {
            print_help(c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind == argc && (b->options.path != NULL || b->only_limits) &&
        b->options.n_threads <= CEILING_MAX_THREADS)
        return -1;
    print_help(stderr);
    return 2;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct err e = {0};
    int code = read_options(&b, argc, argv);

    if (code >= 0)
        return code;
    if (measure(&b, &e) != ERR_OK) {
        fprintf(stderr, "milepost bench kernel: %s\n", e.msg);
        return e.code == ERR_INVALID ? 2 : 1;
    }
    if (b.as_json) {
        json_t *o = report_json(&b.report);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    }
    return b.has_gates && !b.only_limits ? judge(&b) : 0;
}
