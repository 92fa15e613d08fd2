/* Ops of the backend that are matrix products or work on rows: each one launch, or one for each
 * type in a matrix. */
#include "kernels/cuda/device.h"

/* Weights times rows of a fused product. Each block norms and splits the rows again: for a row and
 * 32 columns about 16 instructions of a warp, beside the 180 that 32 rows of 4-bit weights take,
 * and bytes that it would read from L2 anyhow. At this limit these are 2 us of all multiprocessors
 * of an H200 (132 of four instructions a cycle, 1.75 GHz), which is about what the launch saved
 * takes: 1.3 us, and a row read, summed and written. */
static const uint64_t FUSED_WORK = 1u << 27;

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

bool device_is_fused(const struct panel *w, uint32_t rows, uint32_t n_tok, uint32_t n_pairs)
{
    uint64_t work = (uint64_t)rows * w->cols * n_pairs;
    return n_tok <= FUSED_TOKENS && work <= FUSED_WORK && fused_bytes(w, n_tok) <= FUSED_BYTES;
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
    a.w = w->panel[0];
    if (!device_is_fused(&a.w, w->rows, a.n_tok, a.n_tok)) {
        a.split = d->split;
        a.sums = d->sums;
    }
    if (a.split && has_tiles && a.n_tok)
        d->kernels->split(&a, d->stream);
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
