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
    m->score = arena_array(&d->arena, shape->n_expert, sizeof *m->score);
    m->hidden = arena_array(&d->arena, shape->d_ff, sizeof *m->hidden);
    m->part = arena_array(&d->arena, shape->d_model, sizeof *m->part);
    *out = m;
    return m->score && m->hidden && m->part
               ? ERR_OK
               : err_set(e, ERR_NOMEM, "backend ref: no memory for experts");
}

static void mix_row(struct kern_device *d, struct kern_mixer *m, const struct kern_experts *experts,
                    const float *x, float *y)
{
    const struct kern_mix_shape *s = &m->shape;
    uint32_t expert[ROUTE_MAX_USED];
    float weight[ROUTE_MAX_USED];
    ref_product_row(d, x, experts->router, m->score);
    route_token(s, m->score, expert, weight);
    memset(y, 0, s->d_model * sizeof *y);
    for (uint32_t k = 0; k < s->n_used; k++) {
        ref_gate_row(d, x, experts->gate_up[expert[k]], s->gate, m->hidden);
        ref_product_row(d, m->hidden, experts->down[expert[k]], m->part);
        for (uint32_t i = 0; i < s->d_model; i++)
            y[i] += weight[k] * m->part[i];
    }
}

void ref_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
             struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y)
{
    float *row = d->normed;
    for (uint32_t t = 0; t < d->step->n_tok; t++) {
        ref_norm_row(x->data + (size_t)t * x->width, norm->weight->data, norm->eps, x->width, row);
        mix_row(d, m, experts, row, y->data + (size_t)t * y->width);
    }
}

void ref_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x)
{
    for (size_t i = 0; i < (size_t)d->step->n_tok * x->width; i++)
        x->data[i] += y->data[i];
}
