/* One sampler a thread, since each has scratch as long as the vocabulary. A few rows are drawn
 * where they are asked for: waking threads would take longer. What a device cannot do (logit bias,
 * histories past its room) it leaves to the host, row by row. */
#include "engine/run/draws.h"

#include "kernels/draw.h"

#include <math.h>
#include <stdlib.h>

enum { FEW_ROWS = 4 };

_Static_assert((int)DRAW_MAX_TOP == (int)GEN_MAX_TOP, "devices report as many alternatives");

struct draws {
    struct model *model;
    bool can_draw;
    uint32_t n_vocab, n_samplers, n_left;
    struct sampler **sampler; /* [n_samplers] */
    struct draw *draw;        /* [max_rows] */
    struct kern_draw *wanted; /* [max_rows] */
    struct kern_drawn *drawn; /* [max_rows] */
    uint32_t *left;           /* [n_left] rows for the host */
    float *logits;            /* [max_rows, n_vocab] */
    struct sequence *const *sequence;
    uint64_t n_on_device, n_on_host;
};

static bool take_memory(struct draws *d, uint32_t max_rows)
{
    d->sampler = calloc(d->n_samplers, sizeof *d->sampler);
    d->draw = calloc(max_rows, sizeof *d->draw);
    d->wanted = calloc(max_rows, sizeof *d->wanted);
    d->drawn = calloc(max_rows, sizeof *d->drawn);
    d->left = calloc(max_rows, sizeof *d->left);
    d->logits = calloc((size_t)max_rows * d->n_vocab, sizeof *d->logits);
    return d->sampler && d->draw && d->wanted && d->drawn && d->left && d->logits;
}

int draws_open(struct draws **out, struct model *m, uint32_t max_rows, struct err *e)
{
    int rc = ERR_OK;
    struct draws *d = calloc(1, sizeof *d);
    *out = d;
    if (!d)
        return err_set(e, ERR_NOMEM, "draws of %u rows", max_rows);
    d->model = m;
    d->can_draw = model_can_draw(m);
    d->n_vocab = model_get_info(m)->n_vocab;
    d->n_samplers = model_n_threads(m);
    if (!take_memory(d, max_rows))
        return err_set(e, ERR_NOMEM, "draws of %u rows", max_rows);
    for (uint32_t i = 0; rc == ERR_OK && i < d->n_samplers; i++)
        rc = sampler_open(&d->sampler[i], d->n_vocab, e);
    return rc;
}

void draws_close(struct draws *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; d->sampler && i < d->n_samplers; i++)
        sampler_close(d->sampler[i]);
    free(d->sampler);
    free(d->draw);
    free(d->wanted);
    free(d->drawn);
    free(d->left);
    free(d->logits);
    free(d);
}

/* How many rows before it are of the same sequence: its row is as many drafted tokens on. */
static uint32_t place_in_draft(const struct draws *d, uint32_t row)
{
    uint32_t n = 0;
    while (n < row && d->sequence[row - 1 - n] == d->sequence[row])
        n++;
    return n;
}

static void draw_row(void *arg, uint32_t i, uint32_t thread)
{
    struct draws *d = arg;
    uint32_t row = d->left[i];
    const struct sequence *q = d->sequence[row];
    const struct gen_request *r = &q->request;
    const uint32_t n_output = seq_n_output(q) + place_in_draft(d, row);
    struct sample_spec spec = {.params = &r->params,
                               .seed = r->seed,
                               .position = n_output,
                               .bias = r->bias,
                               .n_bias = r->n_bias,
                               .prompt = q->tokens,
                               .n_prompt = r->n_prompt,
                               .output = q->tokens + r->n_prompt,
                               .n_output = n_output,
                               .n_top = r->want_logprobs ? r->n_top : 0};
    struct draw *out = &d->draw[row];
    out->rc = sampler_draw(d->sampler[thread], d->logits + (size_t)row * d->n_vocab, &spec,
                           &out->result, &out->error);
}

static struct kern_draw wanted_for(const struct draws *d, const struct sequence *q)
{
    const struct gen_request *r = &q->request;
    const double *v = r->params.v;
    uint32_t n_top = r->want_logprobs ? r->n_top : 0;
    return (struct kern_draw){.on_host = r->n_bias > 0,
                              .scale = sampler_scale(&r->params),
                              .top_k = sampler_top_k(&r->params),
                              .n_top = n_top < d->n_vocab ? n_top : d->n_vocab,
                              .repetition = (float)v[PARAM_REPETITION_PENALTY],
                              .presence = v[PARAM_PRESENCE_PENALTY],
                              .frequency = v[PARAM_FREQUENCY_PENALTY],
                              .top_p = v[PARAM_TOP_P],
                              .min_p = v[PARAM_MIN_P],
                              .u = sampler_uniform(r->seed, seq_n_output(q)),
                              .tokens = sampler_has_penalties(&r->params) ? q->tokens : NULL,
                              .n_prompt = r->n_prompt,
                              .n_output = seq_n_output(q)};
}

/* The device's token as sampler_draw would give it. */
static void accept(const struct kern_drawn *k, struct draw *out)
{
    double log_sum = (double)k->largest + log(k->total);
    out->rc = isfinite(log_sum) ? ERR_OK : sampler_refuse(&out->error);
    out->result.token = k->token;
    out->result.logprob = (float)((double)k->logit - log_sum);
    out->result.n_top = k->n_top;
    for (uint32_t i = 0; i < k->n_top; i++)
        out->result.top[i] =
            (struct gen_top){k->top[i], (float)((double)k->top_logit[i] - log_sum)};
}

static void draw_left(struct draws *d)
{
    if (d->n_left >= FEW_ROWS && d->n_samplers > 1)
        model_each(d->model, d->n_left, draw_row, d);
    else
        for (uint32_t i = 0; i < d->n_left; i++)
            draw_row(d, i, 0);
    d->n_on_host += d->n_left;
}

int draws_start(struct draws *d, const struct model_batch *b, struct sequence *const *sequence,
                bool *is_on_device, struct err *e)
{
    uint64_t n_history = 0;
    *is_on_device = model_can_overlap(d->model);
    if (!d->can_draw)
        return model_forward(d->model, b, d->logits, e);
    for (uint32_t i = 0; i < b->n_row; i++) {
        const struct kern_draw *w = &d->wanted[i];
        d->wanted[i] = wanted_for(d, sequence[i]);
        n_history += w->tokens ? w->n_prompt + w->n_output : 0;
        *is_on_device = *is_on_device && !w->on_host && n_history <= DRAW_MAX_HISTORY;
    }
    return model_start(d->model, b, d->wanted, d->drawn, d->logits, e);
}

int draws_finish(struct draws *d, uint32_t n_row, struct sequence *const *sequence,
                 const struct draw **draw, struct err *e)
{
    int rc = d->can_draw ? model_finish(d->model, e) : ERR_OK;
    if (rc != ERR_OK)
        return rc;
    d->sequence = sequence;
    d->n_left = 0;
    for (uint32_t i = 0; i < n_row; i++) {
        if (d->can_draw && d->drawn[i].token >= 0)
            accept(&d->drawn[i], &d->draw[i]);
        else if (sequence[i])
            d->left[d->n_left++] = i;
    }
    d->n_on_device += n_row - d->n_left;
    draw_left(d);
    *draw = d->draw;
    return ERR_OK;
}

void draws_counts(const struct draws *d, uint64_t *on_device, uint64_t *on_host)
{
    *on_device = d->n_on_device;
    *on_host = d->n_on_host;
}
