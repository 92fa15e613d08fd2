/* Shapes, rotary positions and windows of a decoder, from the file's metadata.
 *
 * Positions: rope.scaling none, linear (arXiv 2306.15595), or Llama 3's per-dimension factors,
 * which the converter writes as the tensor rope_freqs. Layers with a window (arXiv 2004.05150,
 * 2503.19786) have a base of their own and no scaling. */
#include "engine/model/decoder.h"

#include "kernels/comm/comm.h"
#include "kernels/route.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Whole numbers of the metadata that land in model_info. */
static const struct {
    const char *name;
    size_t offset;
    struct weights_range range;
} SHAPE_KEYS[] = {
    {"block_count", offsetof(struct model_info, n_layer), {1, 512, true}},
    {"embedding_length", offsetof(struct model_info, d_model), {1, 65536, true}},
    {"feed_forward_length", offsetof(struct model_info, d_ff), {1, 1 << 20, false}},
    {"expert_count", offsetof(struct model_info, n_expert), {0, ROUTE_MAX_EXPERTS, false}},
    {"expert_used_count", offsetof(struct model_info, n_expert_used), {0, ROUTE_MAX_USED, false}},
    {"attention.head_count", offsetof(struct model_info, n_head), {1, 1024, true}},
    {"attention.head_count_kv", offsetof(struct model_info, n_head_kv), {1, 1024, false}},
    {"context_length", offsetof(struct model_info, n_ctx_train), {1, 1 << 24, true}},
    {"attention.key_length", offsetof(struct model_info, d_head), {2, DECODER_MAX_HEAD, false}},
};

/* Of an expert, where it says so; feed_forward_length is then that of layers without. */
static int read_experts(struct model *m, const struct gguf *g, struct err *e)
{
    struct model_info *info = &m->info;
    if ((info->n_expert == 0) != (info->n_expert_used == 0) || info->n_expert_used > info->n_expert)
        return err_set(e, ERR_INVALID, "model: %u experts are used of %u", info->n_expert_used,
                       info->n_expert);
    if (info->n_expert) {
        int rc = weights_u32(g, m->arch->name, "expert_feed_forward_length",
                             (struct weights_range){1, 1 << 20, false}, &info->d_ff, e);
        if (rc != ERR_OK)
            return rc;
    }
    if (info->d_ff == 0)
        return err_set(e, ERR_INVALID, "model: key %s.feed_forward_length is missing",
                       m->arch->name);
    return ERR_OK;
}

int decoder_read_shape(struct model *m, const struct gguf *g, struct err *e)
{
    struct model_info *info = &m->info;
    int rc = ERR_OK;
    for (size_t i = 0; i < sizeof SHAPE_KEYS / sizeof *SHAPE_KEYS; i++)
        TRY(weights_u32(g, m->arch->name, SHAPE_KEYS[i].name, SHAPE_KEYS[i].range,
                        (uint32_t *)((char *)info + SHAPE_KEYS[i].offset), e));
    TRY(read_experts(m, g, e));
    if (!info->n_head_kv)
        info->n_head_kv = info->n_head;
    if (info->n_head % info->n_head_kv)
        return err_set(e, ERR_INVALID, "model: %u heads cannot share %u KV heads evenly",
                       info->n_head, info->n_head_kv);
    if (!info->d_head && info->d_model % info->n_head)
        return err_set(e, ERR_INVALID, "model: embedding_length %u is no multiple of %u heads",
                       info->d_model, info->n_head);
    if (!info->d_head)
        info->d_head = info->d_model / info->n_head;
    if (info->d_head > DECODER_MAX_HEAD || info->d_head % 2)
        return err_set(e, ERR_UNSUPPORTED, "model: heads of %u: even, at most %d", info->d_head,
                       DECODER_MAX_HEAD);
    const struct gguf_tensor *embedding = gguf_find_tensor(g, "token_embd.weight");
    if (!embedding)
        return err_set(e, ERR_INVALID, "weights: tensor token_embd.weight is missing");
    if (embedding->dim[1] > INT32_MAX)
        return err_set(e, ERR_INVALID, "weights: token_embd.weight has too many rows");
    info->n_vocab = (uint32_t)embedding->dim[1];
out:
    return rc;
}

/* `unit`s as evenly as can be. */
static struct weights_span share_of(uint32_t all, uint32_t unit, const struct comm *ranks)
{
    if (!ranks)
        return weights_all(all);
    uint32_t n = all / unit, from = n * ranks->rank / ranks->size * unit;
    return (struct weights_span){from, n * (ranks->rank + 1) / ranks->size * unit - from, all};
}

/* Columns of ffn_down are cut between the blocks of its type. */
static uint32_t ff_unit(const struct model *m, const struct gguf *g)
{
    uint32_t unit = 1, elements;
    size_t bytes;
    char name[64];
    for (uint32_t i = 0; i < m->info.n_layer; i++) {
        snprintf(name, sizeof name,
                 m->info.n_expert ? "blk.%u.ffn_down_exps.weight" : "blk.%u.ffn_down.weight", i);
        const struct gguf_tensor *t = gguf_find_tensor(g, name);
        if (t && dtype_layout(t->type, &elements, &bytes) && elements > unit)
            unit = elements;
    }
    return unit;
}

/* Backends take rows in groups of 16: whole ones, where there are enough. */
static struct weights_span rows_of(uint32_t all, const struct comm *ranks)
{
    bool has_groups = ranks && all % 16 == 0 && all / 16 >= ranks->size;
    return share_of(all, has_groups ? 16 : 1, ranks);
}

/* Of ranks that have rows. Those beyond the KV heads compute the first of them as well. */
static int share_rows(const struct model_info *info, const struct comm *ranks,
                      struct decoder_share *s, struct err *e)
{
    uint32_t least = info->d_ff < info->d_model ? info->d_ff : info->d_model;
    least = info->n_vocab < least ? info->n_vocab : least;
    if (ranks && ranks->size > least)
        return err_set(e, ERR_UNSUPPORTED,
                       "model: %u ranks: it has matrices of %u rows: lower engine.tp_size",
                       ranks->size, least);
    s->has_rows = ranks != NULL;
    s->model = rows_of(info->d_model, ranks);
    s->ff = rows_of(info->d_ff, ranks);
    s->has_heads = s->head_kv.n > 0;
    if (!s->has_heads)
        s->head_kv = (struct weights_span){0, 1, info->n_head_kv};
    return ERR_OK;
}

/* Of ranks that sum: columns. */
static int share_columns(const struct model *m, const struct gguf *g, struct decoder_share *s,
                         struct err *e)
{
    const struct model_info *info = &m->info;
    const struct comm *ranks = m->options.ranks;
    uint32_t unit = ff_unit(m, g), n_ff = info->d_ff / unit;
    if (ranks->size > info->n_head_kv || ranks->size > n_ff || info->d_ff % unit)
        return err_set(e, ERR_UNSUPPORTED,
                       "model: %u ranks: on %s at most one per KV head (%u) and per %u of the "
                       "feed-forward layer (%u): lower engine.tp_size",
                       ranks->size, m->ops->name, info->n_head_kv, unit, info->d_ff);
    s->model = weights_all(info->d_model);
    s->ff = share_of(info->d_ff, unit, ranks);
    s->has_heads = true;
    return ERR_OK;
}

int decoder_read_share(struct model *m, const struct gguf *g, struct decoder *d, struct err *e)
{
    const struct model_info *info = &m->info;
    const struct comm *ranks = m->options.ranks;
    struct decoder_share *s = &d->share;
    s->vocab = share_of(info->n_vocab, 1, ranks);
    s->head_kv = share_of(info->n_head_kv, 1, ranks);
    int rc = ranks && m->ops->join ? share_columns(m, g, s, e) : share_rows(info, ranks, s, e);
    s->head = weights_times(s->head_kv, info->n_head / info->n_head_kv);
    return rc;
}

static int read_rope_factors(const struct gguf *g, struct decoder *d, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, "rope_freqs.weight");
    if (!t)
        return ERR_OK;
    uint32_t n = d->attention.n_rot / 2;
    if (t->type != DTYPE_F32 || t->dim[0] != n || t->n_dim != 1)
        return err_set(e, ERR_INVALID,
                       "weights: tensor rope_freqs.weight: want F32 [%u], got %s [%llu]", n,
                       dtype_name(t->type), (unsigned long long)t->dim[0]);
    for (uint32_t i = 0; i < n; i++) {
        float factor;
        memcpy(&factor, (const char *)t->data + i * sizeof factor, sizeof factor);
        if (!(factor > 0.0f) || isinf(factor))
            return err_set(e, ERR_INVALID,
                           "weights: rope_freqs.weight[%u] is %g: above 0 is allowed", i,
                           (double)factor);
        d->inv_freq[0][i] /= (double)factor;
    }
    return ERR_OK;
}

/* Factor of linear scaling, 1 without. */
static int read_scaling(const struct gguf *g, const char *arch, double *factor, struct err *e)
{
    struct str type = STR("none");
    char key[64];
    int rc;
    *factor = 1;
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    rc = gguf_get_str(g, key, &type, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (str_eq_c(type, "linear"))
        return weights_real(g, arch, "rope.scaling.factor",
                            (struct weights_range){1e-3, 1e6, false}, factor, e);
    if (!str_eq_c(type, "none") && !str_eq_c(type, "llama3"))
        return err_set(e, ERR_UNSUPPORTED,
                       "model: %s '" STR_FMT "': none, linear, llama3 are known", key,
                       STR_ARG(str_slice(type, 0, 32)));
    return ERR_OK;
}

static void fill_rope(struct decoder *d, uint32_t rope, double base, double factor)
{
    uint32_t n_rot = d->attention.n_rot;
    for (uint32_t i = 0; i < n_rot / 2; i++)
        d->inv_freq[rope][i] = pow(base, -2.0 * i / n_rot) / factor;
    d->attention.inv_freq[rope] = d->inv_freq[rope];
    d->attention.n_rope = rope + 1;
}

static int read_rope(struct model *m, const struct gguf *g, struct decoder *d, struct err *e)
{
    const struct weights_range base_range = {1, 1e12, false};
    const char *arch = m->arch->name;
    double base = 10000, window_base = d->traits.window_rope_base, factor;
    int rc;
    d->attention.n_rot = m->info.d_head;
    TRY(weights_u32(g, arch, "rope.dimension_count",
                    (struct weights_range){2, m->info.d_head, false}, &d->attention.n_rot, e));
    if (d->attention.n_rot % 2)
        return err_set(e, ERR_UNSUPPORTED, "model: rope.dimension_count is odd");
    TRY(weights_real(g, arch, "rope.freq_base", base_range, &base, e));
    TRY(read_scaling(g, arch, &factor, e));
    fill_rope(d, 0, base, factor);
    TRY(read_rope_factors(g, d, e));
    if (d->traits.window_period) {
        TRY(weights_real(g, arch, "rope.freq_base_swa", base_range, &window_base, e));
        fill_rope(d, 1, window_base, 1);
    }
out:
    return rc;
}

static int read_windows(struct model *m, const struct gguf *g, struct decoder *d, struct err *e)
{
    const char *arch = m->arch->name;
    uint32_t window = 0, period = d->traits.window_period;
    int rc;
    TRY(weights_u32(g, arch, "attention.sliding_window", (struct weights_range){1, 1 << 24, true},
                    &window, e));
    TRY(weights_u32(g, arch, "attention.sliding_window_pattern",
                    (struct weights_range){1, 512, false}, &period, e));
    for (uint32_t i = 0; i < m->info.n_layer; i++) {
        if ((i + 1) % period == 0)
            continue;
        d->layer[i].attention.window = window;
        d->layer[i].attention.rope = 1;
    }
out:
    return rc;
}

int decoder_read_attention(struct model *m, const struct gguf *g, struct decoder *d, struct err *e)
{
    const struct model_info *info = &m->info;
    struct kern_attn_shape *a = &d->attention;
    double width = d->traits.scales_by_width ? (double)info->d_model / info->n_head : info->d_head;
    double eps = 0;
    int rc;
    TRY(weights_real(g, m->arch->name, "attention.layer_norm_rms_epsilon",
                     (struct weights_range){0, 1, true}, &eps, e));
    d->eps = (float)eps;
    a->n_layer = info->n_layer;
    a->n_head = d->share.head.n;
    a->n_head_kv = d->share.head_kv.n;
    a->d_head = info->d_head;
    a->scale = (float)(1 / sqrt(width));
    a->n_blocks = m->options.n_kv_blocks;
    a->kv_type = (enum kern_kv_type)m->options.kv_type;
    a->max_position = info->n_ctx_train;
    if (info->n_ctx_train / KV_BLOCK_TOKENS >= m->options.n_kv_blocks)
        a->max_position = m->options.n_kv_blocks * KV_BLOCK_TOKENS;
    for (uint32_t i = 0; i < info->n_layer; i++) {
        d->layer[i].attention.index = i;
        d->layer[i].attention.eps = d->eps;
    }
    TRY(read_rope(m, g, d, e));
    if (d->traits.window_period)
        TRY(read_windows(m, g, d, e));
out:
    return rc;
}
