/* Loading and one step. Every tensor's shape follows from model_info; optional ones are those the
 * traits name. */
#include "engine/model/decoder.h"

#include "engine/model/group.h"

#include <math.h>
#include <stdlib.h>

static int load_norms(const struct weights *w, uint32_t d_model, uint32_t i, bool has_post_norms,
                      struct decoder_layer *out, struct err *e)
{
    const struct {
        const char *name;
        const struct kern_vector **to;
    } norms[] = {
        {"blk.%u.attn_norm.weight", &out->attn_norm},
        {"blk.%u.ffn_norm.weight", &out->ffn_norm},
        {"blk.%u.post_attention_norm.weight", &out->attn_post_norm},
        {"blk.%u.post_ffw_norm.weight", &out->ffn_post_norm},
    };
    int rc = ERR_OK;
    for (int k = 0; k < (has_post_norms ? 4 : 2); k++) {
        const struct weights_want want = {.name = norms[k].name, .rows = weights_all(d_model)};
        TRY(weights_vector(w, i, &want, 1, norms[k].to, e));
    }
out:
    return rc;
}

/* Rows whose pairs the file may keep half of n_rot apart. */
static struct weights_want turned(const char *name, struct weights_span rows, uint32_t d_head,
                                  uint32_t n_rot)
{
    return (struct weights_want){.name = name, .rows = rows, .d_head = d_head, .n_rot = n_rot};
}

/* Columns of a matrix that ends a block, where this rank has `own` of what goes into it. */
static struct weights_span columns(const struct decoder *d, struct weights_span own)
{
    return d->share.has_rows ? weights_all(own.of) : own;
}

static int load_attention(const struct weights *w, const struct model_info *info,
                          const struct decoder *d, uint32_t i, struct decoder_layer *out,
                          struct err *e)
{
    uint32_t d_head = info->d_head;
    const struct weights_span q = weights_times(d->share.head, d_head);
    const struct weights_span kv = weights_times(d->share.head_kv, d_head);
    const struct weights_span all = weights_all(info->d_model);
    uint32_t n_rot = d->traits.pairs_halves ? d->attention.n_rot : 0;
    const struct weights_want qkv[] = {turned("blk.%u.attn_q.weight", q, d_head, n_rot),
                                       turned("blk.%u.attn_k.weight", kv, d_head, n_rot),
                                       turned("blk.%u.attn_v.weight", kv, 0, 0)};
    const struct weights_want bias[] = {turned("blk.%u.attn_q.bias", q, d_head, n_rot),
                                        turned("blk.%u.attn_k.bias", kv, d_head, n_rot),
                                        turned("blk.%u.attn_v.bias", kv, 0, 0)};
    const struct weights_want q_norm =
        turned("blk.%u.attn_q_norm.weight", weights_all(d_head), d_head, n_rot);
    const struct weights_want k_norm =
        turned("blk.%u.attn_k_norm.weight", weights_all(d_head), d_head, n_rot);
    const struct weights_want output = {.name = "blk.%u.attn_output.weight",
                                        .rows = d->share.model};
    int rc;
    TRY(weights_matrix(w, i, all, qkv, 3, &out->qkv, e));
    if (d->traits.has_qkv_bias)
        TRY(weights_vector(w, i, bias, 3, &out->attention.bias, e));
    if (d->traits.has_head_norms) {
        TRY(weights_vector(w, i, &q_norm, 1, &out->attention.q_norm, e));
        TRY(weights_vector(w, i, &k_norm, 1, &out->attention.k_norm, e));
    }
    TRY(weights_matrix(w, i, columns(d, q), &output, 1, &out->output, e));
out:
    return rc;
}

/* Router and experts of a layer; their matrices stand in d->matrix. */
static int load_experts(const struct weights *w, const struct model_info *info, struct decoder *d,
                        uint32_t i, struct err *e)
{
    const struct weights_span all = weights_all(info->d_model);
    const struct weights_want router = {.name = "blk.%u.ffn_gate_inp.weight",
                                        .rows = weights_all(info->n_expert)};
    struct weights_want gate_up[] = {
        {.name = "blk.%u.ffn_gate_exps.weight", .rows = d->share.ff, .n_planes = info->n_expert},
        {.name = "blk.%u.ffn_up_exps.weight", .rows = d->share.ff, .n_planes = info->n_expert}};
    struct weights_want down = {
        .name = "blk.%u.ffn_down_exps.weight", .rows = d->share.model, .n_planes = info->n_expert};
    const struct kern_matrix **first = d->matrix + (size_t)i * 2 * info->n_expert;
    int rc;
    TRY(weights_matrix(w, i, all, &router, 1, &d->layer[i].experts.router, e));
    for (uint32_t k = 0; k < info->n_expert; k++) {
        gate_up[0].plane = gate_up[1].plane = down.plane = k;
        TRY(weights_matrix(w, i, all, gate_up, 2, &first[k], e));
        TRY(weights_matrix(w, i, columns(d, d->share.ff), &down, 1, &first[info->n_expert + k], e));
    }
    d->layer[i].experts.gate_up = first;
    d->layer[i].experts.down = first + info->n_expert;
out:
    return rc;
}

static int load_layer(const struct weights *w, const struct model_info *info, struct decoder *d,
                      uint32_t i, struct err *e)
{
    const struct weights_want gate_up[] = {{.name = "blk.%u.ffn_gate.weight", .rows = d->share.ff},
                                           {.name = "blk.%u.ffn_up.weight", .rows = d->share.ff}};
    const struct weights_span all = weights_all(info->d_model);
    const struct weights_want down = {.name = "blk.%u.ffn_down.weight", .rows = d->share.model};
    struct decoder_layer *out = &d->layer[i];
    int rc;
    TRY(load_norms(w, info->d_model, i, d->traits.has_post_norms, out, e));
    TRY(load_attention(w, info, d, i, out, e));
    if (info->n_expert)
        return load_experts(w, info, d, i, e);
    TRY(weights_matrix(w, i, all, gate_up, 2, &out->gate_up, e));
    TRY(weights_matrix(w, i, columns(d, d->share.ff), &down, 1, &out->down, e));
out:
    return rc;
}

/* The head is the embedding itself in models that tie them. Of several ranks the first embeds, and
 * each has its rows of the head. */
static int load_ends(const struct weights *w, const struct model *m, struct decoder *d,
                     struct err *e)
{
    const struct weights_span vocab = weights_all(m->info.n_vocab),
                              all = weights_all(m->info.d_model);
    const struct weights_want embedding = {.name = "token_embd.weight", .rows = vocab};
    struct weights_want head = {.name = "output.weight", .rows = d->share.vocab};
    const struct weights_want norm = {.name = "output_norm.weight", .rows = all};
    bool is_tied = !gguf_find_tensor(w->file, head.name);
    int rc = ERR_OK;
    if (group_is_first(m))
        TRY(weights_matrix(w, 0, all, &embedding, 1, &d->embedding, e));
    d->head = d->embedding;
    if (is_tied)
        head.name = embedding.name;
    if (!is_tied || m->options.ranks)
        TRY(weights_matrix(w, 0, all, &head, 1, &d->head, e));
    TRY(weights_vector(w, 0, &norm, 1, &d->output_norm, e));
    d->embedding_scale = d->traits.scales_embedding ? sqrtf((float)m->info.d_model) : 1;
out:
    return rc;
}

static int open_mixer(struct model *m, struct decoder *d, struct err *e)
{
    const struct model_info *info = &m->info;
    const struct kern_mix_shape shape = {.n_expert = info->n_expert,
                                         .n_used = info->n_expert_used,
                                         .d_model = info->d_model,
                                         .d_ff = columns(d, d->share.ff).n,
                                         .is_normed = true,
                                         .gate = d->traits.gate};
    if (!m->ops->mixer)
        return err_set(e, ERR_UNSUPPORTED, "backend %s: no mixtures of experts", m->ops->name);
    return m->ops->mixer(m->device, &shape, &d->mixer, e);
}

/* For ranks that have rows: what all of them put together, and the part of a block. */
static int open_joint_buffers(struct model *m, struct decoder *d, struct err *e)
{
    const struct model_info *info = &m->info;
    const struct kern_ops *k = m->ops;
    uint32_t n_used = info->n_expert ? info->n_expert_used : 1;
    int rc;
    TRY(k->buffer(m->device, d->share.head.of * info->d_head, &d->all_attended, e));
    TRY(k->buffer(m->device, d->share.ff.of * n_used, &d->all_hidden, e));
    TRY(k->buffer(m->device, d->share.model.n, &d->part, e));
out:
    return rc;
}

static int open_buffers(struct model *m, struct decoder *d, struct err *e)
{
    const struct model_info *info = &m->info;
    const struct kern_ops *k = m->ops;
    uint32_t q = d->share.head.n * info->d_head, kv = d->share.head_kv.n * info->d_head;
    uint32_t n_used = info->n_expert ? info->n_expert_used : 1;
    int rc;
    TRY(k->buffer(m->device, info->d_model, &d->x, e));
    TRY(k->buffer(m->device, q + 2 * kv, &d->qkv, e));
    TRY(k->buffer(m->device, q, &d->attended, e));
    if (info->n_expert)
        TRY(open_mixer(m, d, e));
    if (!info->n_expert || d->share.has_rows)
        TRY(k->buffer(m->device, d->share.ff.n * n_used, &d->hidden, e));
    if (d->share.has_rows)
        TRY(open_joint_buffers(m, d, e));
    if (d->traits.has_post_norms || m->options.ranks || info->n_expert)
        TRY(k->buffer(m->device, info->d_model, &d->block, e));
    TRY(k->kv(m->device, &d->attention, &m->kv, e));
    m->can_draw = k->draws && info->n_vocab <= DRAW_MAX_VOCAB && m->options.max_batch_rows > 0;
    if (m->can_draw)
        TRY(k->draws(m->device, info->n_vocab, group_widths(m), m->options.max_batch_rows, e));
out:
    return rc;
}

int decoder_load(struct model *m, const struct gguf *g, const struct decoder_traits *traits,
                 struct err *e)
{
    const struct weights w = {g, m->ops, m->device};
    struct decoder *d;
    int rc;
    TRY(decoder_read_shape(m, g, e));
    size_t layers = sizeof *d + m->info.n_layer * sizeof *d->layer;
    size_t n_matrices = (size_t)m->info.n_layer * 2 * m->info.n_expert;
    m->state = d = calloc(1, layers + n_matrices * sizeof *d->matrix);
    if (!d)
        return err_set(e, ERR_NOMEM, "model: %u layers", m->info.n_layer);
    d->matrix = (const struct kern_matrix **)(void *)((char *)d + layers);
    d->traits = *traits;
    TRY(decoder_read_share(m, g, d, e));
    TRY(decoder_read_attention(m, g, d, e));
    const struct decoder_share *s = &d->share;
    const size_t widths[GROUP_WIDTHS] = {[GROUP_HEADS] =
                                             s->has_heads ? (size_t)s->head.n * m->info.d_head : 0,
                                         [GROUP_HIDDEN] = s->ff.n,
                                         [GROUP_MODEL] = s->model.n,
                                         [GROUP_VOCAB] = s->vocab.n};
    TRY(group_open(m, widths, e));
    /* The largest matrix first: while it is packed its source is resident beside it. */
    TRY(load_ends(&w, m, d, e));
    for (uint32_t i = 0; i < m->info.n_layer; i++)
        TRY(load_layer(&w, &m->info, d, i, e));
    m->info.kv_bytes_per_block = m->ops->kv_block_bytes(&d->attention);
    TRY(open_buffers(m, d, e));
out:
    return rc;
}

/* x += block, or x += norm(block). */
static void add_to_x(struct model *m, const struct kern_vector *norm)
{
    const struct decoder *d = m->state;
    const struct kern_norm post_norm = {norm, d->eps};
    if (norm)
        m->ops->add_norm(m->device, d->block, &post_norm, d->x);
    else
        m->ops->add(m->device, d->block, d->x);
}

/* x += w h, or x += norm(w h), where each rank has some columns of w. Without a norm the first
 * rank's part of the sum is x itself. */
static void add_columns(struct model *m, const struct kern_buffer *h, const struct kern_matrix *w,
                        const struct kern_vector *norm)
{
    const struct decoder *d = m->state;
    if (!norm && group_is_first(m)) {
        m->ops->project_add(m->device, h, w, d->x);
        group_sum(m, d->x, d->x);
        return;
    }
    m->ops->project(m->device, h, NULL, w, d->block);
    group_sum(m, d->block, norm ? d->block : d->x);
    if (norm)
        add_to_x(m, norm);
}

/* The same, where each rank has some of h, `what` of it, and rows of w. */
static void add_rows(struct model *m, enum group_width what, const struct kern_buffer *h,
                     struct kern_buffer *all, const struct kern_matrix *w,
                     const struct kern_vector *norm)
{
    const struct decoder *d = m->state;
    group_collect(m, what, h, all);
    m->ops->project(m->device, all, NULL, w, d->part);
    group_collect(m, GROUP_MODEL, d->part, d->block);
    add_to_x(m, norm);
}

static void add_attention(struct model *m, const struct decoder_layer *layer)
{
    const struct decoder *d = m->state;
    if (d->share.has_rows)
        add_rows(m, GROUP_HEADS, d->attended, d->all_attended, layer->output,
                 layer->attn_post_norm);
    else
        add_columns(m, d->attended, layer->output, layer->attn_post_norm);
}

static void add_feed_forward(struct model *m, const struct decoder_layer *layer,
                             const struct kern_norm *norm)
{
    const struct decoder *d = m->state;
    m->ops->gate_up(m->device, d->x, norm, layer->gate_up, d->traits.gate, d->hidden);
    if (d->share.has_rows)
        add_rows(m, GROUP_HIDDEN, d->hidden, d->all_hidden, layer->down, layer->ffn_post_norm);
    else
        add_columns(m, d->hidden, layer->down, layer->ffn_post_norm);
}

static void add_experts(struct model *m, const struct decoder_layer *layer,
                        const struct kern_norm *norm)
{
    const struct decoder *d = m->state;
    const struct kern_experts *experts = &layer->experts;
    if (d->share.has_rows) {
        m->ops->mix_up(m->device, d->x, norm, d->mixer, experts, d->hidden);
        group_collect(m, GROUP_HIDDEN, d->hidden, d->all_hidden);
        m->ops->mix_down(m->device, d->all_hidden, d->mixer, experts, d->part);
        group_collect(m, GROUP_MODEL, d->part, d->block);
    } else {
        m->ops->mix(m->device, d->x, norm, d->mixer, experts, d->block);
        group_sum(m, d->block, d->block);
    }
    add_to_x(m, layer->ffn_post_norm);
}

void decoder_forward(struct model *m, const struct model_batch *b, float *logits)
{
    const struct decoder *d = m->state;
    const struct kern_ops *k = m->ops;
    struct kern_device *dev = m->device;
    if (group_is_first(m))
        k->embed(dev, d->embedding, d->embedding_scale, d->x);
    group_share(m, d->x);
    for (uint32_t i = 0; i < m->info.n_layer; i++) {
        const struct decoder_layer *layer = &d->layer[i];
        const struct kern_norm attn_norm = {layer->attn_norm, d->eps};
        const struct kern_norm ffn_norm = {layer->ffn_norm, d->eps};
        k->project(dev, d->x, &attn_norm, layer->qkv, d->qkv);
        k->attention(dev, &layer->attention, d->qkv, d->attended);
        add_attention(m, layer);
        if (d->mixer)
            add_experts(m, layer, &ffn_norm);
        else
            add_feed_forward(m, layer, &ffn_norm);
    }
    const struct kern_norm norm = {d->output_norm, d->eps};
    if (m->is_drawn) {
        k->head_draw(dev, d->x, b->n_row, b->row_token, &norm, d->head, m->draw, m->drawn, logits);
        return;
    }
    k->head(dev, d->x, b->n_row, b->row_token, &norm, d->head, group_logits(m, logits));
    group_gather(m, b->n_row, logits);
}
