/* bench_sampler MODEL.gguf - microseconds to draw one token from rows of real logits, by settings:
 * median over ROUNDS rounds of the processor time, one thread; and, by the wall clock, to draw
 * for all rows on one thread and on the model's. Not a test. */
#include "common/clock.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "engine/sample/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, ROWS = 32, MAX_SAMPLERS = 64 };

static const struct setting {
    const char *name;
    double temperature, top_k, top_p, min_p, penalty;
    uint32_t n_top;
} SETTINGS[] = {
    {"greedy", 0, 0, 1, 0, 1, 0},
    {"greedy, 5 alternatives", 0, 0, 1, 0, 1, 5},
    {"greedy, 20 alternatives", 0, 0, 1, 0, 1, 20},
    {"temperature 1", 1, 0, 1, 0, 1, 0},
    {"temperature 0.8", 0.8, 0, 1, 0, 1, 0},
    {"temperature 0.8, top_k 40", 0.8, 40, 1, 0, 1, 0},
    {"temperature 1, top_p 0.95", 1, 0, 0.95, 0, 1, 0},
    {"temperature 2, top_p 0.95", 2, 0, 0.95, 0, 1, 0},
    {"temperature 1, min_p 0.05", 1, 0, 1, 0.05, 1, 0},
    {"repetition penalty 1.1", 0.8, 40, 0.95, 0, 1.1, 0},
};

static int fail(const struct err *e)
{
    fprintf(stderr, "bench_sampler: %s\n", e->msg);
    return 1;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(const struct setting *s, const float *logits, uint32_t n_vocab, struct err *e)
{
    struct params p = {.set = (1u << PARAM_COUNT) - 1};
    p.v[PARAM_TEMPERATURE] = s->temperature;
    p.v[PARAM_TOP_K] = s->top_k;
    p.v[PARAM_TOP_P] = s->top_p;
    p.v[PARAM_MIN_P] = s->min_p;
    p.v[PARAM_REPETITION_PENALTY] = s->penalty;
    int32_t history[400];
    for (int i = 0; i < 400; i++)
        history[i] = 3 + i * 7919 % 200;
    struct sampler *sampler;
    struct sample_result r;
    double us[ROUNDS];
    int rc;
    TRY(sampler_open(&sampler, n_vocab, e));
    for (int round = 0; round < ROUNDS; round++) {
        double from = cpu_us();
        for (uint32_t i = 0; i < ROWS; i++) {
            const struct sample_spec spec = {.params = &p,
                                             .seed = i,
                                             .position = (uint64_t)round,
                                             .prompt = history,
                                             .n_prompt = 400,
                                             .n_top = s->n_top};
            TRY(sampler_draw(sampler, logits + (size_t)i * n_vocab, &spec, &r, e));
        }
        us[round] = (cpu_us() - from) / ROWS;
    }
    qsort(us, ROUNDS, sizeof *us, by_size);
    printf("%-28s %8.1f us (%.1f to %.1f)\n", s->name, us[ROUNDS / 2], us[0], us[ROUNDS - 1]);
    sampler_close(sampler);
out:
    return rc;
}

struct together {
    struct sampler *sampler[MAX_SAMPLERS];
    struct params params;
    const float *logits;
    uint32_t n_vocab;
};

static void draw_row(void *arg, uint32_t row, uint32_t thread)
{
    struct together *t = arg;
    const struct sample_spec spec = {.params = &t->params, .seed = row};
    struct sample_result r;
    (void)!sampler_draw(t->sampler[thread], t->logits + (size_t)row * t->n_vocab, &spec, &r, NULL);
}

static int measure_together(struct model *m, const float *logits, struct err *e)
{
    struct together t = {.logits = logits, .n_vocab = model_get_info(m)->n_vocab};
    double one[ROUNDS], all[ROUNDS];
    int rc = ERR_OK;
    t.params.v[PARAM_TEMPERATURE] = 0.8;
    t.params.v[PARAM_TOP_P] = t.params.v[PARAM_REPETITION_PENALTY] = 1;
    for (uint32_t i = 0; i < model_n_threads(m) && i < MAX_SAMPLERS; i++)
        TRY(sampler_open(&t.sampler[i], t.n_vocab, e));
    for (int round = 0; round < ROUNDS; round++) {
        struct mono from = clock_mono(&CLOCK_REAL);
        for (uint32_t i = 0; i < ROWS; i++)
            draw_row(&t, i, 0);
        one[round] = (double)mono_since_us(from, clock_mono(&CLOCK_REAL));
        from = clock_mono(&CLOCK_REAL);
        model_each(m, ROWS, draw_row, &t);
        all[round] = (double)mono_since_us(from, clock_mono(&CLOCK_REAL));
    }
    qsort(one, ROUNDS, sizeof *one, by_size);
    qsort(all, ROUNDS, sizeof *all, by_size);
    printf(
        "%d rows, temperature 0.8: one thread %.0f us (least %.0f), the model's %u %.0f us (least "
        "%.0f)\n",
        ROWS, one[ROUNDS / 2], one[0], model_n_threads(m), all[ROUNDS / 2], all[0]);
    for (uint32_t i = 0; i < MAX_SAMPLERS; i++)
        sampler_close(t.sampler[i]);
out:
    return rc;
}

/* A row for each token of a made-up text. */
static int make_logits(const struct gguf *file, struct model **out_model, float **out,
                       uint32_t *n_vocab, struct err *e)
{
    const struct model_options o = {
        .n_kv_blocks = 4, .max_batch_tokens = ROWS, .max_batch_rows = ROWS};
    struct model *m;
    int32_t token[ROWS];
    uint32_t position[ROWS], seq[ROWS] = {0}, block[4] = {0, 1, 2, 3};
    const uint32_t *table = block;
    int rc;
    TRY(model_open(&m, file, &o, e));
    *n_vocab = model_get_info(m)->n_vocab;
    *out = calloc((size_t)ROWS * *n_vocab, sizeof **out);
    for (uint32_t i = 0; i < ROWS; i++) {
        token[i] = (int32_t)(300 + i * 37);
        position[i] = i;
    }
    const struct model_batch b = {.n_tok = ROWS,
                                  .token = token,
                                  .position = position,
                                  .seq = seq,
                                  .block_table = &table,
                                  .n_row = ROWS,
                                  .row_token = position};
    rc = *out ? model_forward(m, &b, *out, e) : err_set(e, ERR_NOMEM, "logits");
    *out_model = m;
out:
    return rc;
}

int main(int argc, char **argv)
{
    struct err e;
    struct gguf *file;
    struct model *model;
    float *logits = NULL;
    uint32_t n_vocab;
    if (argc != 2) {
        fputs("usage: bench_sampler MODEL.gguf\n", stderr);
        return 2;
    }
    if (gguf_open(&file, argv[1], &e) != ERR_OK)
        return fail(&e);
    if (make_logits(file, &model, &logits, &n_vocab, &e) != ERR_OK)
        return fail(&e);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        if (measure(&SETTINGS[i], logits, n_vocab, &e) != ERR_OK)
            return fail(&e);
    if (measure_together(model, logits, &e) != ERR_OK)
        return fail(&e);
    model_close(model);
    free(logits);
    gguf_close(file);
    return 0;
}
