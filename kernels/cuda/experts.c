/* Mixtures of experts on the device: router, then for each (token, chosen expert) the products with
 * that expert's weights, without the host knowing which were chosen; their sum in order. */
#include "kernels/cuda/device.h"

#include <string.h>

struct kern_mixer {
    struct kern_mix_shape shape;
    uint32_t *expert, *list; /* [max_tok, n_used] */
    struct expert_tile *tile;
    float *weight, *logits, *both, *hidden, *of_pair;
    struct experts_args args; /* too large for a stack */
};

/* Tiles that n pairs can need: each expert's last one may not be full. */
static uint32_t most_tiles(const struct kern_mix_shape *s, uint32_t n, uint32_t width)
{
    uint32_t full = s->n_expert + n / width;
    return n < full ? n : full;
}

int device_mixer(struct kern_device *d, const struct kern_mix_shape *s, struct kern_mixer **out,
                 struct err *e)
{
    *out = NULL;
    if (s->n_expert > MAX_EXPERTS || s->n_used > MAX_USED || s->n_used > s->n_expert)
        return err_set(e, ERR_UNSUPPORTED, "backend %s: %u of %u experts: at most %d of %d",
                       d->dev->name, s->n_used, s->n_expert, MAX_USED, MAX_EXPERTS);
    struct kern_mixer *m = arena_alloc(&d->arena, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "backend %s: experts", d->dev->name);
    memset(m, 0, sizeof *m);
    m->shape = *s;
    size_t pairs = (size_t)d->max_tok * s->n_used;
    m->expert = device_take(d, pairs, sizeof *m->expert);
    m->list = device_take(d, pairs, sizeof *m->list);
    m->tile = device_take(d, most_tiles(s, (uint32_t)pairs, EXPERT_TILE_SMALL), sizeof *m->tile);
    m->weight = device_take(d, pairs, sizeof *m->weight);
    m->logits = device_take(d, (size_t)d->max_tok * s->n_expert, sizeof *m->logits);
    m->both = device_take(d, pairs * 2 * s->d_ff, sizeof *m->both);
    m->hidden = device_take(d, pairs * s->d_ff, sizeof *m->hidden);
    m->of_pair = device_take(d, pairs * s->d_model, sizeof *m->of_pair);
    if (!device_split_room(d, d->max_tok, s->d_model) || !device_split_room(d, pairs, s->d_ff) ||
        !m->list || !m->tile || !m->expert || !m->weight || !m->logits || !m->both || !m->hidden ||
        !m->of_pair)
        return err_set(e, ERR_NOMEM, "backend %s: no memory for %u tokens of %u experts",
                       d->dev->name, d->max_tok, s->n_used);
    *out = m;
    return ERR_OK;
}

/* Panel i of every expert's matrix, once for each format among them. */
static void launch_panels(struct kern_device *d, struct kern_mixer *m,
                          const struct kern_matrix *const *w, uint32_t i)
{
    bool has[N_PANEL_FORMATS] = {false};
    m->args.p.first_row = w[0]->first_row[i];
    for (uint32_t x = 0; x < m->shape.n_expert; x++) {
        if (w[x]->n_panels != w[0]->n_panels || w[x]->first_row[i] != w[0]->first_row[i]) {
            d->refusal = "gate and up of one type in some experts and of two in others";
            return;
        }
        m->args.panel[x] = w[x]->panel[i];
        has[w[x]->panel[i].format] = true;
    }
    for (uint32_t f = 0; f < N_PANEL_FORMATS; f++) {
        m->args.format = f;
        if (has[f])
            d->kernels->product_of_experts(&m->args, d->stream);
    }
}

static void launch_experts(struct kern_device *d, struct kern_mixer *m, struct product_args p,
                           uint32_t share, const struct kern_matrix *const *w)
{
    struct product_args rows = p;
    rows.w = w[0]->panel[0];
    rows.n_tok = p.n_tok / share;
    if (!device_is_fused(&rows.w, w[0]->rows, d->view.n_tok, p.n_tok)) {
        rows.split = p.split = d->split;
        rows.sums = p.sums = d->sums;
        d->kernels->split(&rows, d->stream);
    }
    m->args.p = p;
    m->args.share = share;
    m->args.most = d->view.n_tok;
    for (uint32_t i = 0; i < w[0]->n_panels; i++)
        launch_panels(d, m, w, i);
}

static void choose(struct kern_device *d, struct kern_mixer *m, struct product_args p,
                   const struct kern_matrix *router)
{
    const struct kern_mix_shape *s = &m->shape;
    const struct route_args route = {m->logits,   m->expert, m->weight,   p.n_tok,
                                     s->n_expert, s->n_used, s->is_normed};
    p.y = m->logits;
    p.y_stride = s->n_expert;
    device_products(d, p, router);
    d->kernels->route(&route, d->stream);
    m->args.group = (struct group_args){
        m->expert, m->list, m->tile, p.n_tok * s->n_used, s->n_expert, EXPERT_TILE_SMALL, 0};
    if (m->args.group.n_pairs > EXPERT_TILE_LARGE)
        m->args.group.width = EXPERT_TILE_LARGE;
    m->args.group.n_tiles = most_tiles(s, m->args.group.n_pairs, m->args.group.width);
    d->kernels->group(&m->args.group, d->stream);
}

/* Gate and up of all pairs: in one when every expert keeps both in one panel. */
static void gate_pairs(struct kern_device *d, struct kern_mixer *m, struct product_args p,
                       const struct kern_matrix *const *gate_up)
{
    const struct kern_mix_shape *s = &m->shape;
    const struct gate_args last = {m->both, m->hidden,           s->d_ff,
                                   s->d_ff, p.n_tok * s->n_used, p.gate};
    p.n_tok *= s->n_used;
    p.y = m->hidden;
    p.y_stride = s->d_ff;
    p.mode = PRODUCT_GATE;
    if (gate_up[0]->n_panels > 1) {
        p.y = m->both;
        p.y_stride = 2 * s->d_ff;
        p.mode = PRODUCT_STORE;
    }
    launch_experts(d, m, p, s->n_used, gate_up);
    if (gate_up[0]->n_panels > 1)
        d->kernels->gate(&last, d->stream);
}

void device_mix(struct kern_device *d, const struct kern_buffer *x, const struct kern_norm *norm,
                struct kern_mixer *m, const struct kern_experts *experts, struct kern_buffer *y)
{
    const struct kern_mix_shape *s = &m->shape;
    uint32_t n = d->view.n_tok;
    const struct product_args p = {.x = x->data,
                                   .norm = norm ? norm->weight->data : NULL,
                                   .x_stride = x->width,
                                   .n_tok = n,
                                   .gate = s->gate == KERN_GATE_GELU ? GATE_GELU : GATE_SILU,
                                   .eps = norm ? norm->eps : 0};
    const struct product_args down = {.x = m->hidden,
                                      .x_stride = s->d_ff,
                                      .y = m->of_pair,
                                      .y_stride = s->d_model,
                                      .n_tok = n * s->n_used};
    const struct combine_args sum = {m->of_pair, m->weight, y->data, s->d_model, n, s->n_used};
    choose(d, m, p, experts->router);
    gate_pairs(d, m, p, experts->gate_up);
    launch_experts(d, m, down, 1, experts->down);
    d->kernels->combine(&sum, d->stream);
}

void device_add(struct kern_device *d, const struct kern_buffer *y, struct kern_buffer *x)
{
    const struct add_args a = {y->data, x->data, d->view.n_tok * x->width};
    d->kernels->add(&a, d->stream);
}
