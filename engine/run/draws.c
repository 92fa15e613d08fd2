/* One sampler a thread, since each has scratch as long as the vocabulary. A few rows are drawn
 * where they are asked for: waking threads would take longer. */
#include "engine/run/draws.h"

#include <stdlib.h>

enum { FEW_ROWS = 4 };

struct draws {
    struct model *model;
    uint32_t n_samplers;
    struct sampler **sampler; /* [n_samplers] */
    struct draw *draw;        /* [max_rows] */
    struct sequence *const *sequence;
    const float *logits;
};

int draws_open(struct draws **out, struct model *m, uint32_t max_rows, struct err *e)
{
    uint32_t n = model_n_threads(m);
    int rc = ERR_OK;
    struct draws *d = calloc(1, sizeof *d);
    *out = d;
    if (d) {
        d->model = m;
        d->sampler = calloc(n, sizeof *d->sampler);
        d->draw = calloc(max_rows, sizeof *d->draw);
    }
    if (!d || !d->sampler || !d->draw)
        return err_set(e, ERR_NOMEM, "draws of %u rows", max_rows);
    for (; rc == ERR_OK && d->n_samplers < n; d->n_samplers++)
        rc = sampler_open(&d->sampler[d->n_samplers], model_get_info(m)->n_vocab, e);
    return rc;
}

void draws_close(struct draws *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->n_samplers; i++)
        sampler_close(d->sampler[i]);
    free(d->sampler);
    free(d->draw);
    free(d);
}

static void draw_row(void *arg, uint32_t row, uint32_t thread)
{
    struct draws *d = arg;
    const struct sequence *q = d->sequence[row];
    const struct gen_request *r = &q->request;
    struct sample_spec spec = {.params = &r->params,
                               .seed = r->seed,
                               .position = seq_n_output(q),
                               .bias = r->bias,
                               .n_bias = r->n_bias,
                               .prompt = q->tokens,
                               .n_prompt = r->n_prompt,
                               .output = q->tokens + r->n_prompt,
                               .n_output = seq_n_output(q),
                               .n_top = r->want_logprobs ? r->n_top : 0};
    struct draw *out = &d->draw[row];
    out->rc = sampler_draw(d->sampler[thread],
                           d->logits + (size_t)row * model_get_info(d->model)->n_vocab, &spec,
                           &out->result, &out->error);
}

const struct draw *draws_make(struct draws *d, struct sequence *const *sequence, uint32_t n,
                              const float *logits)
{
    d->sequence = sequence;
    d->logits = logits;
    if (n >= FEW_ROWS && d->n_samplers > 1)
        model_each(d->model, n, draw_row, d);
    else
        for (uint32_t i = 0; i < n; i++)
            draw_row(d, i, 0);
    return d->draw;
}
