/* Mixture of experts: tokens are grouped by the experts they use, so that each expert's weights are
 * read once a step; an expert's tokens go through the ordinary products. Experts are taken by
 * rising number, so a token's sum does not depend on who else is in the step. */
#include "kernels/cpu/device.h"
#include "kernels/route.h"

#include <string.h>

struct kern_mixer {
    struct kern_mix_shape shape;
    struct kern_buffer score, in, hidden, out; /* [max_tok, .] */
    uint32_t *expert;                          /* [max_tok][n_used] */
    float *weight;                             /* likewise */
    uint32_t *token;                           /* [max_tok] of the expert under way */
    float *share;                              /* likewise: p */
};

int cpu_mixer(struct kern_device *d, const struct kern_mix_shape *shape, struct kern_mixer **out,
              struct err *e)
{
    struct memory *memory = &d->scratch_memory;
    struct kern_mixer *m = memory_take(memory, 1, sizeof *m);
    size_t n_used = (size_t)d->max_tok * shape->n_used;
    if (!m)
        return err_set(e, ERR_NOMEM, "backend cpu: no memory for experts");
    m->shape = *shape;
    bool ok = cpu_take_buffer(d, shape->n_expert, &m->score) &&
              cpu_take_buffer(d, shape->d_model, &m->in) &&
              cpu_take_buffer(d, shape->d_ff, &m->hidden) &&
              cpu_take_buffer(d, shape->d_model, &m->out);
    m->expert = memory_take(memory, n_used, sizeof *m->expert);
    m->weight = memory_take(memory, n_used, sizeof *m->weight);
    m->token = memory_take(memory, d->max_tok, sizeof *m->token);
    m->share = memory_take(memory, d->max_tok, sizeof *m->share);
    *out = m;
    return ok && m->expert && m->weight && m->token && m->share
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "backend cpu: no memory for experts");
}

static void route(struct kern_mixer *m, uint32_t n_tok)
{
    const struct kern_mix_shape *s = &m->shape;
    for (uint32_t t = 0; t < n_tok; t++)
        route_token(s, m->score.data + (size_t)t * s->n_expert, m->expert + t * s->n_used,
                    m->weight + t * s->n_used);
}

/* Tokens that use expert i, with their weights; gives how many. */
static uint32_t gather(struct kern_mixer *m, uint32_t n_tok, uint32_t i, const float *x)
{
    const struct kern_mix_shape *s = &m->shape;
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_tok * s->n_used; k++) {
        if (m->expert[k] != i)
            continue;
        m->token[n] = k / s->n_used;
        m->share[n] = m->weight[k];
        memcpy(m->in.data + (size_t)n * s->d_model, x + (size_t)m->token[n] * s->d_model,
               s->d_model * sizeof *x);
        n++;
    }
    return n;
}

static void add_weighted(const struct kern_mixer *m, uint32_t n, float *y)
{
    uint32_t width = m->shape.d_model;
    for (uint32_t k = 0; k < n; k++) {
        float *to = y + (size_t)m->token[k] * width, p = m->share[k];
        const float *out = m->out.data + (size_t)k * width;
        for (uint32_t i = 0; i < width; i++)
            to[i] += p * out[i];
    }
}

/* The step's rows, then those of one expert: products only look at how many there are. */
static void run_expert(struct kern_device *d, struct kern_mixer *m, const struct kern_norm *norm,
                       const struct kern_experts *experts, uint32_t i, uint32_t n, float *y)
{
    const struct kern_step *whole = d->step;
    const struct kern_step part = {.n_tok = n};
    d->step = &part;
    cpu_gate_up(d, &m->in, norm, experts->gate_up[i], m->shape.gate, &m->hidden);
    cpu_project(d, &m->hidden, NULL, experts->down[i], &m->out);
    d->step = whole;
    add_weighted(m, n, y);
}

void cpu_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y)
{
    uint32_t n_tok = d->step->n_tok;
    cpu_project(d, x, norm, experts->router, &m->score);
    route(m, n_tok);
    y->n_quant = 0;
    memset(y->data, 0, (size_t)n_tok * y->width * sizeof *y->data);
    for (uint32_t i = 0; i < m->shape.n_expert; i++) {
        uint32_t n = gather(m, n_tok, i, x->data);
        if (n)
            run_expert(d, m, norm, experts, i, n, y->data);
    }
}

void cpu_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x)
{
    for (size_t i = 0; i < (size_t)d->step->n_tok * x->width; i++)
        x->data[i] += y->data[i];
}
