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
    uint32_t *pair;                            /* [max_tok] of the expert under way, in expert */
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
    m->pair = memory_take(memory, d->max_tok, sizeof *m->pair);
    *out = m;
    return ok && m->expert && m->weight && m->pair
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "backend cpu: no memory for experts");
}

static void route(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                  struct kern_mixer *m, const struct kern_experts *experts)
{
    const struct kern_mix_shape *s = &m->shape;
    cpu_project(d, x, norm, experts->router, &m->score);
    team_join(d->team);
    for (uint32_t t = 0; t < d->step->n_tok; t++)
        route_token(s, m->score.data + (size_t)t * s->n_expert, m->expert + t * s->n_used,
                    m->weight + t * s->n_used);
}

/* Pairs of a token and expert i; gives how many. */
static uint32_t find_pairs(struct kern_mixer *m, uint32_t n_tok, uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_tok * m->shape.n_used; k++)
        if (m->expert[k] == i)
            m->pair[n++] = k;
    return n;
}

/* Row pair / share of x for each of n pairs. */
static void gather(const struct kern_mixer *m, uint32_t n, uint32_t share, const float *x,
                   struct kern_buffer *to)
{
    to->n_quant = 0;
    for (uint32_t k = 0; k < n; k++)
        memcpy(to->data + (size_t)k * to->width, x + (size_t)(m->pair[k] / share) * to->width,
               to->width * sizeof *x);
}

/* The products look at how many rows a step has: those of one expert. */
static void gate_up(struct kern_device *d, struct kern_mixer *m, const struct kern_norm *norm,
                    const struct kern_matrix *w, uint32_t n)
{
    const struct kern_step *whole = d->step, part = {.n_tok = n};
    d->step = &part;
    m->hidden.width = w->part[0].rows;
    cpu_gate_up(d, &m->in, norm, w, m->shape.gate, &m->hidden);
    team_join(d->team);
    d->step = whole;
}

static void add_down(struct kern_device *d, struct kern_mixer *m, const struct kern_matrix *w,
                     uint32_t n, struct kern_buffer *y)
{
    const struct kern_step *whole = d->step, part = {.n_tok = n};
    d->step = &part;
    m->out.width = w->rows;
    cpu_project(d, &m->hidden, NULL, w, &m->out);
    team_join(d->team);
    d->step = whole;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t pair = m->pair[k];
        float *to = y->data + (size_t)(pair / m->shape.n_used) * w->rows, p = m->weight[pair];
        const float *out = m->out.data + (size_t)k * w->rows;
        for (uint32_t i = 0; i < w->rows; i++)
            to[i] += p * out[i];
    }
}

static void clear(const struct kern_device *d, struct kern_buffer *y)
{
    team_join(d->team);
    y->n_quant = 0;
    memset(y->data, 0, (size_t)d->step->n_tok * y->width * sizeof *y->data);
}

void cpu_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y)
{
    route(d, x, norm, m, experts);
    clear(d, y);
    for (uint32_t i = 0; i < m->shape.n_expert; i++) {
        uint32_t n = find_pairs(m, d->step->n_tok, i);
        if (n == 0)
            continue;
        gather(m, n, m->shape.n_used, x->data, &m->in);
        gate_up(d, m, norm, experts->gate_up[i], n);
        add_down(d, m, experts->down[i], n, y);
    }
}

void cpu_mix_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *h)
{
    route(d, x, norm, m, experts);
    h->n_quant = 0;
    for (uint32_t i = 0; i < m->shape.n_expert; i++) {
        uint32_t n = find_pairs(m, d->step->n_tok, i);
        if (n == 0)
            continue;
        gather(m, n, m->shape.n_used, x->data, &m->in);
        gate_up(d, m, norm, experts->gate_up[i], n);
        for (uint32_t k = 0; k < n; k++)
            cpu_row(d, &m->hidden, k, h->data + (size_t)m->pair[k] * m->hidden.width);
    }
}

void cpu_mix_down(struct kern_device *d, const struct kern_buffer *h, struct kern_mixer *m,
                  const struct kern_experts *experts, struct kern_buffer *y)
{
    clear(d, y);
    for (uint32_t i = 0; i < m->shape.n_expert; i++) {
        uint32_t n = find_pairs(m, d->step->n_tok, i);
        if (n == 0)
            continue;
        m->hidden.width = experts->down[i]->cols;
        gather(m, n, 1, h->data, &m->hidden);
        add_down(d, m, experts->down[i], n, y);
    }
}

void cpu_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x)
{
    team_join(d->team);
    for (size_t i = 0; i < (size_t)d->step->n_tok * x->width; i++)
        x->data[i] += y->data[i];
}
