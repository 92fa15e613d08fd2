/* bench_sampler MODEL.gguf - microseconds to draw one token from rows of real logits, by settings:
 * median over ROUNDS rounds of the processor time, one thread. Not a test. */
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "engine/sample/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, ROWS = 32 };

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

/* A row for each token of a made-up text. */
static int make_logits(const struct gguf *file, float **out, uint32_t *n_vocab, struct err *e)
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
    const struct model_batch b = {ROWS, token, position, seq, &table, ROWS, position};
    rc = *out ? model_forward(m, &b, *out, e) : err_set(e, ERR_NOMEM, "logits");
    model_close(m);
out:
    return rc;
}

int main(int argc, char **argv)
{
    struct err e;
    struct gguf *file;
    float *logits = NULL;
    uint32_t n_vocab;
    if (argc != 2) {
        fputs("usage: bench_sampler MODEL.gguf\n", stderr);
        return 2;
    }
    if (gguf_open(&file, argv[1], &e) != ERR_OK)
        return fail(&e);
    if (make_logits(file, &logits, &n_vocab, &e) != ERR_OK)
        return fail(&e);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        if (measure(&SETTINGS[i], logits, n_vocab, &e) != ERR_OK)
            return fail(&e);
    free(logits);
    gguf_close(file);
    return 0;
}
