/* Ops of the backend that are matrix products or work on rows: each one launch, or one for each
 * type in a matrix. */
#include "kernels/cuda/device.h"

bool device_split_room(struct kern_device *d, size_t n, uint32_t cols)
{
    size_t blocks = n * ((cols + 31) / 32);
    if (blocks <= d->split_blocks)
        return true;
    d->split = device_take(d, blocks, 128);
    d->sums = device_take(d, blocks, sizeof *d->sums);
    d->split_blocks = d->split && d->sums ? blocks : 0;
    return d->split_blocks > 0;
}

void device_products(struct kern_device *d, struct product_args a, const struct kern_matrix *w)
{
    bool has_tiles = false;
    if (library_takes(d, &a)) {
        library_products(d, a, w);
        return;
    }
    for (uint32_t i = 0; i < w->n_panels; i++)
        has_tiles = has_tiles || format_has_tiles(w->panel[i].format);
    a.split = d->split;
    a.sums = d->sums;
    if (has_tiles && a.n_tok) {
        a.w = w->panel[0];
        d->kernels->split(&a, d->stream);
    }
    for (uint32_t i = 0; i < w->n_panels; i++) {
        a.w = w->panel[i];
        a.first_row = w->first_row[i];
        d->kernels->product(&a, d->stream);
    }
}

void device_embed(struct kern_device *d, const struct kern_matrix *w, float scale,
                  struct kern_buffer *x)
{
    const struct embed_args a = {w->panel[0], d->token,      d->draw.on_device.before,
                                 x->data,     d->view.n_tok, scale};
    d->kernels->embed(&a, d->stream);
}

static struct product_args args_of(const struct kern_device *d, const struct kern_buffer *x,
                                   const struct kern_norm *norm, struct kern_buffer *y)
{
    return (struct product_args){.x = x->data,
                                 .norm = norm ? norm->weight->data : NULL,
                                 .y = y->data,
                                 .x_stride = x->width,
                                 .y_stride = y->width,
                                 .n_tok = d->view.n_tok,
                                 .eps = norm ? norm->eps : 0};
}

void device_project(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w,
                    struct kern_buffer *y)
{
    device_products(d, args_of(d, x, norm, y), w);
}

void device_project_add(struct kern_device *d, const struct kern_buffer *h,
                        const struct kern_matrix *w, struct kern_buffer *x)
{
    struct product_args a = args_of(d, h, NULL, x);
    a.mode = PRODUCT_ADD;
    device_products(d, a, w);
}

void device_gate_up(struct kern_device *d, const struct kern_buffer *x,
                    const struct kern_norm *norm, const struct kern_matrix *w, enum kern_gate g,
                    struct kern_buffer *h)
{
    struct product_args a = args_of(d, x, norm, h);
    a.gate = g == KERN_GATE_GELU ? GATE_GELU : GATE_SILU;
    if (w->n_panels == 1) {
        a.mode = PRODUCT_GATE;
        device_products(d, a, w);
        return;
    }
    const struct gate_args last = {d->both, h->data, h->width, h->width, a.n_tok, a.gate};
    a.y = d->both;
    a.y_stride = w->rows;
    device_products(d, a, w);
    d->kernels->gate(&last, d->stream);
}

void device_add_norm(struct kern_device *d, const struct kern_buffer *y,
                     const struct kern_norm *norm, struct kern_buffer *x)
{
    const struct add_norm_args a = {y->data,  norm->weight->data, x->data,
                                    x->width, d->view.n_tok,      norm->eps};
    d->kernels->add_norm(&a, d->stream);
}
