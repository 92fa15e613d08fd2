/* Mixture of experts, one token and one expert at a time. */
#include "kernels/ref/device.h"
#include "kernels/route.h"

#include <string.h>

int ref_mixer(struct kern_device *d, const struct kern_mix_shape *shape, struct kern_mixer **out,
              struct err *e)
{
    struct kern_mixer *m = arena_alloc(&d->arena, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "backend ref: no memory for experts");
    m->shape = *shape;
    size_t n_pairs = (size_t)d->max_tok * shape->n_used, n_hidden;
    if (!size_mul(n_pairs, shape->d_ff, &n_hidden))
        return err_set(e, ERR_NOMEM, "backend ref: no memory for experts");
    m->score = arena_array(&d->arena, shape->n_expert, sizeof *m->score);
    m->part = arena_array(&d->arena, shape->d_model, sizeof *m->part);
    m->expert = arena_array(&d->arena, n_pairs, sizeof *m->expert);
    m->weight = arena_array(&d->arena, n_pairs, sizeof *m->weight);
    m->hidden.data = arena_array(&d->arena, n_hidden, sizeof *m->hidden.data);
    *out = m;
    return m->score && m->part && m->expert && m->weight && m->hidden.data
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "backend ref: no memory for experts");
}

void ref_mix_up(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *h)
{
    const struct kern_mix_shape *s = &m->shape;
    uint32_t *expert = m->expert;
    float *row = d->normed, *weight = m->weight, *to = h->data;
    for (uint32_t t = 0; t < d->step->n_tok; t++, expert += s->n_used, weight += s->n_used) {
        ref_norm_row(x->data + (size_t)t * x->width, norm->weight->data, norm->eps, x->width, row);
        ref_product_row(d, row, experts->router, m->score);
        route_token(s, m->score, expert, weight);
        for (uint32_t k = 0; k < s->n_used; k++, to += experts->gate_up[0]->rows / 2)
            ref_gate_row(d, row, experts->gate_up[expert[k]], s->gate, to);
    }
}

void ref_mix_down(struct kern_device *d, const struct kern_buffer *h, struct kern_mixer *m,
                  const struct kern_experts *experts, struct kern_buffer *y)
{
    const float *from = h->data;
    uint32_t n_used = m->shape.n_used;
    memset(y->data, 0, (size_t)d->step->n_tok * y->width * sizeof *y->data);
    for (uint32_t k = 0; k < d->step->n_tok * n_used; k++) {
        const struct kern_matrix *w = experts->down[m->expert[k]];
        float *to = y->data + (size_t)(k / n_used) * y->width;
        ref_product_row(d, from, w, m->part);
        for (uint32_t i = 0; i < y->width; i++)
            to[i] += m->weight[k] * m->part[i];
        from += w->cols;
    }
}

void ref_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y)
{
    ref_mix_up(d, x, norm, m, experts, &m->hidden);
    ref_mix_down(d, &m->hidden, m, experts, y);
}

void ref_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x)
{
    for (size_t i = 0; i < (size_t)d->step->n_tok * x->width; i++)
        x->data[i] += y->data[i];
}
