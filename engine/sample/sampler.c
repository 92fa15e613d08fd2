/* Draws one token. Weights are exp((logit - max) / T), so the largest is 1 and nothing overflows;
 * without filters the whole row is one cumulative sum, with filters only the survivors are. A row
 * is read from end to end as seldom as can be: the largest and the sum of each block say where to
 * look closer. */
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
    float *row, *weight;             /* [n_vocab] */
    uint32_t *counts;                /* [n_vocab], zero between calls */
    struct candidate *found, *spare; /* [n_vocab] */
    float *most;                     /* [blocks] largest logit or weight of each */
    double *sum;                     /* [blocks] of weights */
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
    s->spare = calloc(n_vocab, sizeof *s->spare);
    s->most = calloc(softmax_blocks(n_vocab), sizeof *s->most);
    s->sum = calloc(softmax_blocks(n_vocab), sizeof *s->sum);
    if (s->row && s->weight && s->counts && s->found && s->spare && s->most && s->sum)
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
    free(s->spare);
    free(s->most);
    free(s->sum);
    free(s);
}

/* Largest of a row, and of each of its blocks in s->most. */
static float find_largest(struct sampler *s, const float *row)
{
    s->ops->block_max(row, s->n_vocab, s->most);
    return s->ops->max(s->most, softmax_blocks(s->n_vocab));
}

static uint32_t block_end(const struct sampler *s, uint32_t from)
{
    return s->n_vocab - from < SOFTMAX_BLOCK ? s->n_vocab : from + SOFTMAX_BLOCK;
}

/* Lowest id with the row's largest value; s->most is of the row. */
static int32_t first_of(const struct sampler *s, const float *row, float largest)
{
    for (uint32_t from = 0; from < s->n_vocab; from += SOFTMAX_BLOCK) {
        if (s->most[from / SOFTMAX_BLOCK] != largest)
            continue;
        for (uint32_t i = from; i < block_end(s, from); i++)
            if (row[i] == largest)
                return (int32_t)i;
    }
    return 0;
}

double sampler_uniform(uint64_t seed, uint64_t position)
{
    uint64_t state = seed;
    uint64_t mixed = rng_splitmix(&state) ^ (position * 0xD1342543DE82EF95u);
    return (double)(rng_splitmix(&mixed) >> 11) * 0x1.0p-53;
}

/* The token at which the sum of weights passes the target, which lies below the sum of all blocks
 * taken in order. Within a block rounding may leave it above: then the last possible token. */
static int32_t draw_from_all(const struct sampler *s, double target)
{
    uint32_t block = 0, last = (uint32_t)softmax_blocks(s->n_vocab) - 1;
    double sum = 0;
    for (; block < last && sum + s->sum[block] <= target; block++)
        sum += s->sum[block];
    int32_t token = 0;
    uint32_t from = block * SOFTMAX_BLOCK;
    for (uint32_t i = from; i < block_end(s, from); i++) {
        if (s->weight[i] <= 0)
            continue;
        sum += (double)s->weight[i];
        token = (int32_t)i;
        if (sum > target)
            break;
    }
    return token;
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

float sampler_scale(const struct params *p)
{
    double temperature = p->v[PARAM_TEMPERATURE];
    return temperature < GREEDY_BELOW ? 0 : (float)(1 / temperature);
}

uint32_t sampler_top_k(const struct params *p)
{
    return p->v[PARAM_TOP_K] > 0 ? (uint32_t)p->v[PARAM_TOP_K] : 0;
}

bool sampler_has_penalties(const struct params *p)
{
    return p->v[PARAM_REPETITION_PENALTY] != 1 || p->v[PARAM_PRESENCE_PENALTY] != 0 ||
           p->v[PARAM_FREQUENCY_PENALTY] != 0;
}

static bool is_greedy(const struct sample_spec *spec)
{
    return sampler_scale(spec->params) == 0;
}

/* s->weight and s->sum hold the row's weights, `total` in all. */
static int32_t draw(struct sampler *s, double total, const struct sample_spec *spec)
{
    const double *v = spec->params->v;
    double u = sampler_uniform(spec->seed, spec->position);
    struct filter_limits limits = {
        .top_k = sampler_top_k(spec->params), .top_p = v[PARAM_TOP_P], .min_p = v[PARAM_MIN_P]};
    if (limits.top_k == 0 && limits.top_p >= 1 && limits.min_p <= 0)
        return draw_from_all(s, fmin(u * total, nextafter(total, 0)));
    s->ops->block_max(s->weight, s->n_vocab, s->most);
    const struct filter_row row = {s->weight, s->most, s->n_vocab, total, s->spare};
    uint32_t n = filter_candidates(&row, &limits, s->found);
    return draw_from_found(s->found, n, u);
}

/* n values of a row are not below the n-th largest of its blocks' largest. */
static float top_threshold(const struct sampler *s, uint32_t n)
{
    float best[GEN_MAX_TOP];
    uint32_t found = 0, n_blocks = (uint32_t)softmax_blocks(s->n_vocab);
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t at = found < n ? found : n - 1;
        if (found == n && s->most[b] <= best[at])
            continue;
        found += found < n;
        for (; at > 0 && best[at - 1] < s->most[b]; at--)
            best[at] = best[at - 1];
        best[at] = s->most[b];
    }
    return found == n ? best[n - 1] : -INFINITY;
}

static void insert_top(struct sample_result *out, uint32_t n, int32_t token, float logit)
{
    uint32_t at = out->n_top;
    if (at == n && logit <= out->top[n - 1].logprob)
        return;
    if (at == n)
        at--;
    for (; at > 0 && out->top[at - 1].logprob < logit; at--)
        out->top[at] = out->top[at - 1];
    out->top[at] = (struct gen_top){token, logit};
    if (out->n_top < n)
        out->n_top++;
}

/* Keeps the n best of the row; s->most is of the row. */
static void find_top(const struct sampler *s, const float *logits, double log_sum, uint32_t n,
                     struct sample_result *out)
{
    out->n_top = 0;
    if (n == 0)
        return;
    float threshold = top_threshold(s, n);
    for (uint32_t from = 0; from < s->n_vocab; from += SOFTMAX_BLOCK) {
        if (s->most[from / SOFTMAX_BLOCK] < threshold)
            continue;
        for (uint32_t i = from; i < block_end(s, from); i++)
            if (logits[i] >= threshold)
                insert_top(out, n, (int32_t)i, logits[i]);
    }
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - log_sum);
}

static uint32_t wanted_top(const struct sampler *s, const struct sample_spec *spec)
{
    uint32_t n = spec->n_top < GEN_MAX_TOP ? spec->n_top : GEN_MAX_TOP;
    return n < s->n_vocab ? n : s->n_vocab;
}

/* A copy with bias and penalties; its largest value. */
static float make_row(struct sampler *s, const float *logits, const struct sample_spec *spec)
{
    memcpy(s->row, logits, s->n_vocab * sizeof *s->row);
    penalties_apply(spec, s->row, s->n_vocab, s->counts);
    return find_largest(s, s->row);
}

int sampler_refuse(struct err *e)
{
    return err_set(e, ERR_DEVICE, "logits are not finite: the weights or a kernel are broken");
}

int sampler_draw(struct sampler *s, const float *logits, const struct sample_spec *spec,
                 struct sample_result *out, struct err *e)
{
    float top = find_largest(s, logits);
    float scale = is_greedy(spec) ? 1 : sampler_scale(spec->params);
    bool is_changed = penalties_needed(spec);
    /* At temperature 1 the weights give the logprob's sum as well. */
    bool is_plain = !is_greedy(spec) && !is_changed && scale == 1;
    double total = is_plain ? s->ops->exp_all(logits, s->n_vocab, top, 1, s->weight, s->sum)
                            : s->ops->exp_all(logits, s->n_vocab, top, 1, NULL, NULL);
    double log_sum = (double)top + log(total);
    if (!isfinite(log_sum))
        return sampler_refuse(e);
    find_top(s, logits, log_sum, wanted_top(s, spec), out);
    const float *row = is_changed ? s->row : logits;
    if (is_changed)
        top = make_row(s, logits, spec);
    if (!is_greedy(spec) && !is_plain)
        total = s->ops->exp_all(row, s->n_vocab, top, scale, s->weight, s->sum);
    out->token = is_greedy(spec) ? first_of(s, row, top) : draw(s, total, spec);
    out->logprob = (float)((double)logits[out->token] - log_sum);
    return ERR_OK;
}
