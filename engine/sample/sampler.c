/* Draws one token. Weights are exp((logit - max) / T), so the largest is 1 and nothing overflows;
 * without filters the whole row is one cumulative sum, with filters only the survivors are. */
#include "engine/sample/sampler.h"

#include "common/rng.h"
#include "engine/sample/filters.h"
#include "engine/sample/penalties.h"
#include "engine/sample/softmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this a temperature is greedy: 1/T would overflow the exponent's range. */
#define GREEDY_BELOW 1e-4

struct sampler {
    uint32_t n_vocab;
    const struct softmax_ops *ops;
    float *row, *weight;     /* [n_vocab] */
    uint32_t *counts;        /* [n_vocab], zero between calls */
    struct candidate *found; /* [n_vocab] */
};

int sampler_open(struct sampler **out, uint32_t n_vocab, struct err *e)
{
    struct sampler *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return err_set(e, ERR_NOMEM, "sampler");
    s->n_vocab = n_vocab;
    s->ops = softmax_select();
    s->row = calloc(n_vocab, sizeof *s->row);
    s->weight = calloc(n_vocab, sizeof *s->weight);
    s->counts = calloc(n_vocab, sizeof *s->counts);
    s->found = calloc(n_vocab, sizeof *s->found);
    if (s->row && s->weight && s->counts && s->found)
        return ERR_OK;
    sampler_close(s);
    *out = NULL;
    return err_set(e, ERR_NOMEM, "sampler for %u tokens", n_vocab);
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    free(s->row);
    free(s->weight);
    free(s->counts);
    free(s->found);
    free(s);
}

static int32_t first_with_value(const float *x, uint32_t n, float value)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == value)
            return (int32_t)i;
    return 0;
}

/* Counter-based: the same (seed, position) gives the same number whatever was drawn before. */
static double uniform_at(uint64_t seed, uint64_t position)
{
    uint64_t state = seed;
    uint64_t mixed = rng_splitmix(&state) ^ (position * 0xD1342543DE82EF95u);
    return (double)(rng_splitmix(&mixed) >> 11) * 0x1.0p-53;
}

static int32_t draw_from_all(const float *weight, uint32_t n, double target)
{
    double sum = 0;
    int32_t last = 0; /* rounding may leave the target above the sum: the last possible token */
    for (uint32_t i = 0; i < n; i++) {
        if (weight[i] <= 0)
            continue;
        sum += (double)weight[i];
        last = (int32_t)i;
        if (sum > target)
            break;
    }
    return last;
}

static int32_t draw_from_found(const struct candidate *c, uint32_t n, double u)
{
    double mass = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        mass += (double)c[i].weight;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)c[i].weight;
        if (sum > u * mass)
            return c[i].token;
    }
    return c[n - 1].token;
}

static int32_t draw(struct sampler *s, const float *logits, const struct sample_spec *spec)
{
    const double *v = spec->params->v;
    float top = s->ops->max(logits, s->n_vocab);
    if (v[PARAM_TEMPERATURE] < GREEDY_BELOW)
        return first_with_value(logits, s->n_vocab, top);
    float scale = (float)(1 / v[PARAM_TEMPERATURE]);
    double total = s->ops->exp_all(logits, s->n_vocab, top, scale, s->weight);
    double u = uniform_at(spec->seed, spec->position);
    struct filter_limits limits = {/* clients write "all" as 0 or -1 */
                                   .top_k = v[PARAM_TOP_K] > 0 ? (uint32_t)v[PARAM_TOP_K] : 0,
                                   .top_p = v[PARAM_TOP_P],
                                   .min_p = v[PARAM_MIN_P]};
    if (limits.top_k == 0 && limits.top_p >= 1 && limits.min_p <= 0)
        return draw_from_all(s->weight, s->n_vocab, u * total);
    uint32_t n = filter_candidates(s->weight, s->n_vocab, total, &limits, s->found);
    return draw_from_found(s->found, n, u);
}

/* Keeps the n best of the row, by insertion: n is at most 20 and inserts become rare. */
static void find_top(const float *logits, uint32_t n_vocab, double log_sum, uint32_t n,
                     struct sample_result *out)
{
    out->n_top = 0;
    for (uint32_t i = 0; n > 0 && i < n_vocab; i++) {
        uint32_t at = out->n_top;
        if (at == n && logits[i] <= out->top[n - 1].logprob)
            continue;
        if (at == n)
            at--;
        for (; at > 0 && out->top[at - 1].logprob < logits[i]; at--)
            out->top[at] = out->top[at - 1];
        out->top[at] = (struct gen_top){(int32_t)i, logits[i]};
        if (out->n_top < n)
            out->n_top++;
    }
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - log_sum);
}

int sampler_draw(struct sampler *s, const float *logits, const struct sample_spec *spec,
                 struct sample_result *out, struct err *e)
{
    float top = s->ops->max(logits, s->n_vocab);
    double log_sum = (double)top + log(s->ops->sum_exp(logits, s->n_vocab, top, 1));
    if (!isfinite(log_sum))
        return err_set(e, ERR_DEVICE, "logits are not finite: the weights or a kernel are broken");
    const float *row = logits;
    if (penalties_needed(spec)) {
        memcpy(s->row, logits, s->n_vocab * sizeof *s->row);
        penalties_apply(spec, s->row, s->n_vocab, s->counts);
        row = s->row;
    }
    out->token = draw(s, row, spec);
    out->logprob = (float)((double)logits[out->token] - log_sum);
    uint32_t n_top = spec->n_top < GEN_MAX_TOP ? spec->n_top : GEN_MAX_TOP;
    if (n_top > s->n_vocab)
        n_top = s->n_vocab;
    find_top(logits, s->n_vocab, log_sum, n_top, out);
    return ERR_OK;
}
