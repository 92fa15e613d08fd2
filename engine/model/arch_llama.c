/* The llama architecture: pre-norm transformer with grouped-query attention, rotary positions and a
 * gated feed-forward layer (arXiv 2302.13971, 2305.13245, 2104.09864). Every shape comes from the
 * file. GGUF stores the rows of q and k so that a rotated pair is adjacent.
 *
 * Positions: rope.scaling none, linear (arXiv 2306.15595), or Llama 3's per-dimension factors,
 * which the converter writes as the tensor rope_freqs. */
#include "engine/model/arch.h"

#include "engine/model/weights.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_D_HEAD = 1024 };

struct llama_layer {
    const struct kern_vector *attn_norm, *ffn_norm;
    const struct kern_matrix *qkv, *output, *gate_up, *down;
};

struct llama {
    const struct kern_matrix *embedding, *head;
    const struct kern_vector *output_norm;
    struct kern_buffer *x, *qkv, *attended, *hidden;
    struct kern_attn_shape attention;
    float eps;
    double inv_freq[MAX_D_HEAD / 2];
    struct llama_layer layer[];
};

/* Whole numbers of the metadata that land in model_info. */
static const struct {
    const char *name;
    size_t offset;
    struct weights_range range;
} SHAPE_KEYS[] = {
    {"block_count", offsetof(struct model_info, n_layer), {1, 512, true}},
    {"embedding_length", offsetof(struct model_info, d_model), {1, 65536, true}},
    {"feed_forward_length", offsetof(struct model_info, d_ff), {1, 1 << 20, true}},
    {"attention.head_count", offsetof(struct model_info, n_head), {1, 1024, true}},
    {"attention.head_count_kv", offsetof(struct model_info, n_head_kv), {1, 1024, false}},
    {"context_length", offsetof(struct model_info, n_ctx_train), {1, 1 << 24, true}},
    {"attention.key_length", offsetof(struct model_info, d_head), {2, MAX_D_HEAD, false}},
};

static int read_shape(struct model *m, const struct gguf *g, struct err *e)
{
    struct model_info *info = &m->info;
    int rc = ERR_OK;
    for (size_t i = 0; i < sizeof SHAPE_KEYS / sizeof *SHAPE_KEYS; i++)
        TRY(weights_u32(g, m->arch->name, SHAPE_KEYS[i].name, SHAPE_KEYS[i].range,
                        (uint32_t *)((char *)info + SHAPE_KEYS[i].offset), e));
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
    if (info->d_head > MAX_D_HEAD || info->d_head % 2)
        return err_set(e, ERR_UNSUPPORTED, "model: heads of %u: even, at most %d", info->d_head,
                       MAX_D_HEAD);
    const struct gguf_tensor *embedding = gguf_find_tensor(g, "token_embd.weight");
    if (!embedding)
        return err_set(e, ERR_INVALID, "weights: tensor token_embd.weight is missing");
    if (embedding->dim[1] > INT32_MAX)
        return err_set(e, ERR_INVALID, "weights: token_embd.weight has too many rows");
    info->n_vocab = (uint32_t)embedding->dim[1];
out:
    return rc;
}

static int read_rope_factors(const struct gguf *g, struct llama *l, struct err *e)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, "rope_freqs.weight");
    if (!t)
        return ERR_OK;
    uint32_t n = l->attention.n_rot / 2;
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
        l->inv_freq[i] /= (double)factor;
    }
    return ERR_OK;
}

static int read_rope(struct model *m, const struct gguf *g, struct llama *l, struct err *e)
{
    const char *arch = m->arch->name;
    double base = 10000, factor = 1;
    struct str scaling = STR("none");
    char key[64];
    int rc;
    l->attention.n_rot = m->info.d_head;
    TRY(weights_u32(g, arch, "rope.dimension_count",
                    (struct weights_range){2, m->info.d_head, false}, &l->attention.n_rot, e));
    TRY(weights_real(g, arch, "rope.freq_base", (struct weights_range){1, 1e12, false}, &base, e));
    TRY(weights_real(g, arch, "rope.scaling.factor", (struct weights_range){1e-3, 1e6, false},
                     &factor, e));
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    rc = gguf_get_str(g, key, &scaling, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    bool is_linear = str_eq_c(scaling, "linear");
    if (!is_linear && !str_eq_c(scaling, "none") && !str_eq_c(scaling, "llama3"))
        return err_set(e, ERR_UNSUPPORTED,
                       "model: %s '" STR_FMT "': none, linear, llama3 are known", key,
                       STR_ARG(str_slice(scaling, 0, 32)));
    if (l->attention.n_rot % 2)
        return err_set(e, ERR_UNSUPPORTED, "model: rope.dimension_count is odd");
    for (uint32_t i = 0; i < l->attention.n_rot / 2; i++)
        l->inv_freq[i] = pow(base, -2.0 * i / l->attention.n_rot) / (is_linear ? factor : 1);
    return read_rope_factors(g, l, e);
out:
    return rc;
}

static int load_layer(const struct weights *w, const struct model_info *info, uint32_t i,
                      struct llama_layer *out, struct err *e)
{
    uint32_t q = info->n_head * info->d_head, kv = info->n_head_kv * info->d_head;
    const struct weights_want qkv[] = {
        {"blk.%u.attn_q.weight", q}, {"blk.%u.attn_k.weight", kv}, {"blk.%u.attn_v.weight", kv}};
    const struct weights_want output = {"blk.%u.attn_output.weight", info->d_model};
    const struct weights_want gate_up[] = {{"blk.%u.ffn_gate.weight", info->d_ff},
                                           {"blk.%u.ffn_up.weight", info->d_ff}};
    const struct weights_want down = {"blk.%u.ffn_down.weight", info->d_model};
    int rc;
    TRY(weights_vector(w, i, "blk.%u.attn_norm.weight", info->d_model, &out->attn_norm, e));
    TRY(weights_vector(w, i, "blk.%u.ffn_norm.weight", info->d_model, &out->ffn_norm, e));
    TRY(weights_matrix(w, i, info->d_model, qkv, 3, &out->qkv, e));
    TRY(weights_matrix(w, i, q, &output, 1, &out->output, e));
    TRY(weights_matrix(w, i, info->d_model, gate_up, 2, &out->gate_up, e));
    TRY(weights_matrix(w, i, info->d_ff, &down, 1, &out->down, e));
out:
    return rc;
}

/* The head is the embedding itself in models that tie them. */
static int load_ends(const struct weights *w, const struct model_info *info, struct llama *l,
                     struct err *e)
{
    const struct weights_want embedding = {"token_embd.weight", info->n_vocab};
    const struct weights_want head = {"output.weight", info->n_vocab};
    int rc;
    TRY(weights_matrix(w, 0, info->d_model, &embedding, 1, &l->embedding, e));
    l->head = l->embedding;
    if (gguf_find_tensor(w->file, head.name))
        TRY(weights_matrix(w, 0, info->d_model, &head, 1, &l->head, e));
    TRY(weights_vector(w, 0, "output_norm.weight", info->d_model, &l->output_norm, e));
out:
    return rc;
}

static int open_buffers(struct model *m, struct llama *l, struct err *e)
{
    const struct model_info *info = &m->info;
    const struct kern_ops *k = m->ops;
    uint32_t q = info->n_head * info->d_head, kv = info->n_head_kv * info->d_head;
    int rc;
    TRY(k->buffer(m->device, info->d_model, &l->x, e));
    TRY(k->buffer(m->device, q + 2 * kv, &l->qkv, e));
    TRY(k->buffer(m->device, q, &l->attended, e));
    TRY(k->buffer(m->device, info->d_ff, &l->hidden, e));
    TRY(k->kv(m->device, &l->attention, &m->kv, e));
out:
    return rc;
}

static int llama_load(struct model *m, const struct gguf *g, struct err *e)
{
    const struct weights w = {g, m->ops, m->device};
    struct llama *l;
    double eps = 0;
    int rc;
    TRY(read_shape(m, g, e));
    m->state = l = calloc(1, sizeof *l + m->info.n_layer * sizeof *l->layer);
    if (!l)
        return err_set(e, ERR_NOMEM, "model: %u layers", m->info.n_layer);
    TRY(weights_real(g, m->arch->name, "attention.layer_norm_rms_epsilon",
                     (struct weights_range){0, 1, true}, &eps, e));
    l->eps = (float)eps;
    TRY(read_rope(m, g, l, e));
    for (uint32_t i = 0; i < m->info.n_layer; i++)
        TRY(load_layer(&w, &m->info, i, &l->layer[i], e));
    TRY(load_ends(&w, &m->info, l, e));
    l->attention.n_layer = m->info.n_layer;
    l->attention.n_head = m->info.n_head;
    l->attention.n_head_kv = m->info.n_head_kv;
    l->attention.d_head = m->info.d_head;
    l->attention.n_rope = 1;
    l->attention.inv_freq[0] = l->inv_freq;
    l->attention.scale = 1.0f / sqrtf((float)m->info.d_head);
    l->attention.n_blocks = m->options.n_kv_blocks;
    l->attention.max_position = m->info.n_ctx_train;
    if (m->info.n_ctx_train / KV_BLOCK_TOKENS >= m->options.n_kv_blocks)
        l->attention.max_position = m->options.n_kv_blocks * KV_BLOCK_TOKENS;
    m->info.kv_bytes_per_block = m->ops->kv_block_bytes(&l->attention);
    TRY(open_buffers(m, l, e));
out:
    return rc;
}

static void llama_forward(struct model *m, const struct model_batch *b, float *logits)
{
    const struct llama *l = m->state;
    const struct kern_ops *k = m->ops;
    struct kern_device *d = m->device;
    k->embed(d, l->embedding, 1, l->x);
    for (uint32_t i = 0; i < m->info.n_layer; i++) {
        const struct llama_layer *layer = &l->layer[i];
        const struct kern_norm attn_norm = {layer->attn_norm, l->eps};
        const struct kern_norm ffn_norm = {layer->ffn_norm, l->eps};
        k->project(d, l->x, &attn_norm, layer->qkv, l->qkv);
        const struct kern_attn_layer place = {.index = i};
        k->attention(d, &place, l->qkv, l->attended);
        k->project_add(d, l->attended, layer->output, l->x);
        k->gate_up(d, l->x, &ffn_norm, layer->gate_up, KERN_GATE_SILU, l->hidden);
        k->project_add(d, l->hidden, layer->down, l->x);
    }
    const struct kern_norm norm = {l->output_norm, l->eps};
    k->head(d, l->x, b->n_row, b->row_token, &norm, l->head, logits);
}

const struct model_arch ARCH_LLAMA = {"llama", llama_load, llama_forward};
