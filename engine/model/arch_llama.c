/* The llama architecture: SmolLM2, Llama 2 and 3, Mistral (https://arxiv.org/abs/2302.13971).
 * Shapes come from the file's llama.* keys. Pre-norm decoder layers, rotary positions on adjacent
 * pairs (GGUF files of this architecture store q and k rows permuted for that), grouped-query
 * attention, SwiGLU feed-forward, head tied to the embedding when output.weight is absent. */
#include "engine/model/arch.h"
#include "engine/model/weights.h"

#include <math.h>
#include <stdio.h>

/* Sizes above these are not a model but a broken file. */
enum { MAX_LAYERS = 1024, MAX_WIDTH = 1 << 18, MAX_VOCAB = 1 << 21, MAX_CONTEXT = 1 << 24 };

struct layer {
    float *attn_norm, *ffn_norm;
    struct kern_weight *qkv, *output, *gate_up, *down;
};

struct llama {
    struct layer *layer;              /* [n_layer] */
    struct kern_weight *embed, *head; /* head NULL: tied */
    float *out_norm;
    float eps;
    struct kern_kv *kv;
    float *x, *qkv, *att, *h; /* activations of a step */
};

static int get_size(const struct gguf *file, const char *key, uint64_t max, uint32_t *out,
                    struct err *e)
{
    uint64_t v;
    int rc = gguf_get_u64(file, key, &v, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? err_set(e, ERR_INVALID, "model: key %s is missing", key) : rc;
    if (v == 0 || v > max)
        return err_set(e, ERR_INVALID, "model: %s is %llu: 1 to %llu is allowed", key,
                       (unsigned long long)v, (unsigned long long)max);
    *out = (uint32_t)v;
    return ERR_OK;
}

/* Absent: *out is left as it is. */
static int get_real(const struct gguf *file, const char *key, double *out, struct err *e)
{
    int rc = gguf_get_f64(file, key, out, e);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK && !(isfinite(*out) && *out > 0))
        return err_set(e, ERR_INVALID, "model: %s is %g: a positive number is allowed", key, *out);
    return rc;
}

static int read_sizes(struct model *m, const struct gguf *file, struct err *e)
{
    struct model_info *i = &m->info;
    const struct gguf_tensor *embed = gguf_find_tensor(file, "token_embd.weight");
    int rc;
    TRY(get_size(file, "llama.block_count", MAX_LAYERS, &i->n_layer, e));
    TRY(get_size(file, "llama.embedding_length", MAX_WIDTH, &i->d_model, e));
    TRY(get_size(file, "llama.feed_forward_length", MAX_WIDTH, &i->d_ff, e));
    TRY(get_size(file, "llama.attention.head_count", MAX_WIDTH, &i->n_head, e));
    TRY(get_size(file, "llama.context_length", MAX_CONTEXT, &i->n_ctx_train, e));
    i->n_head_kv = i->n_head;
    if (gguf_get_u64(file, "llama.attention.head_count_kv", &(uint64_t){0}, NULL) == ERR_OK)
        TRY(get_size(file, "llama.attention.head_count_kv", i->n_head, &i->n_head_kv, e));
    i->d_head = i->d_model / i->n_head;
    if (gguf_get_u64(file, "llama.attention.key_length", &(uint64_t){0}, NULL) == ERR_OK)
        TRY(get_size(file, "llama.attention.key_length", 1024, &i->d_head, e));
    if (i->n_head % i->n_head_kv != 0 || i->d_head == 0 || i->d_head % 2 != 0 || i->d_head > 1024)
        return err_set(e, ERR_INVALID,
                       "model: %u heads over %u KV heads of %u: heads must be a multiple of KV "
                       "heads, the head size even and at most 1024",
                       i->n_head, i->n_head_kv, i->d_head);
    if (!embed || embed->dim[1] > MAX_VOCAB)
        return err_set(e, ERR_INVALID,
                       "model: tensor token_embd.weight is missing or has more "
                       "than %d rows",
                       MAX_VOCAB);
    i->n_vocab = (uint32_t)embed->dim[1];
out:
    return rc;
}

/* Frequencies of the rotary embedding; rope_freqs.weight (Llama 3.1) divides them one by one. */
static int read_frequencies(struct model *m, const struct gguf *file, uint32_t n_rope, float **out,
                            struct err *e)
{
    double base = 10000, factor = 1;
    struct str scaling = {0};
    int rc;
    TRY(get_real(file, "llama.rope.freq_base", &base, e));
    TRY(get_real(file, "llama.rope.scaling.factor", &factor, e));
    if (gguf_get_str(file, "llama.rope.scaling.type", &scaling, NULL) == ERR_OK &&
        !str_eq_c(scaling, "none") && !str_eq_c(scaling, "linear"))
        return err_set(e, ERR_UNSUPPORTED,
                       "model: llama.rope.scaling.type '" STR_FMT "' is not "
                       "supported: none, linear, or a rope_freqs tensor",
                       STR_ARG(str_slice(scaling, 0, 32)));
    if (!str_eq_c(scaling, "linear"))
        factor = 1;
    float *f = arena_array(&m->arena, n_rope / 2, sizeof *f), *divide = NULL;
    if (!f)
        return err_set(e, ERR_NOMEM, "rope frequencies");
    for (uint32_t i = 0; i < n_rope / 2; i++)
        f[i] = (float)(pow(base, -2.0 * i / n_rope) / factor);
    if (gguf_find_tensor(file, "rope_freqs.weight")) {
        TRY(weights_load_vector(m, file, "rope_freqs.weight", n_rope / 2, &divide, e));
        for (uint32_t i = 0; i < n_rope / 2; i++)
            f[i] /= divide[i];
        m->ops->buffer_free(m->kern, divide);
    }
    *out = f;
out:
    return rc;
}

static int open_cache(struct model *m, const struct gguf *file, struct llama *l, struct err *e)
{
    const struct model_info *i = &m->info;
    struct kern_attention a = {.n_layer = i->n_layer,
                               .n_head = i->n_head,
                               .n_head_kv = i->n_head_kv,
                               .d_head = i->d_head,
                               .n_rope = i->d_head,
                               .rope = KERN_ROPE_ADJACENT,
                               .max_position = i->n_ctx_train,
                               .scale = (float)(1 / sqrt(i->d_head)),
                               .n_blocks = m->options.n_kv_blocks};
    float *inv_freq = NULL;
    int rc;
    if (gguf_get_u64(file, "llama.rope.dimension_count", &(uint64_t){0}, NULL) == ERR_OK)
        TRY(get_size(file, "llama.rope.dimension_count", i->d_head, &a.n_rope, e));
    TRY(read_frequencies(m, file, a.n_rope & ~1u, &inv_freq, e));
    a.inv_freq = inv_freq;
    m->info.kv_bytes_per_block = m->ops->kv_block_bytes(&a);
    TRY(m->ops->kv_open(m->kern, &a, &l->kv, e));
out:
    return rc;
}

static int open_layer(struct model *m, const struct gguf *file, uint32_t n, struct layer *out,
                      struct err *e)
{
    const struct model_info *i = &m->info;
    uint64_t d = i->d_model, q = (uint64_t)i->n_head * i->d_head;
    uint64_t kv = (uint64_t)i->n_head_kv * i->d_head, ff = i->d_ff;
    static const char *const SUFFIX[] = {"attn_q",      "attn_k",    "attn_v",
                                         "attn_output", "ffn_gate",  "ffn_up",
                                         "ffn_down",    "attn_norm", "ffn_norm"};
    char name[9][48];
    for (int s = 0; s < 9; s++)
        snprintf(name[s], sizeof name[s], "blk.%u.%s.weight", n, SUFFIX[s]);
    const struct weight_want qkv[] = {{name[0], q, d}, {name[1], kv, d}, {name[2], kv, d}};
    const struct weight_want output = {name[3], d, q}, down = {name[6], d, ff};
    const struct weight_want gate_up[] = {{name[4], ff, d}, {name[5], ff, d}};
    int rc;
    TRY(weights_load(m, file, qkv, 3, KERN_CONCAT, &out->qkv, e));
    TRY(weights_load(m, file, &output, 1, KERN_CONCAT, &out->output, e));
    TRY(weights_load(m, file, gate_up, 2, KERN_GATE_UP, &out->gate_up, e));
    TRY(weights_load(m, file, &down, 1, KERN_CONCAT, &out->down, e));
    TRY(weights_load_vector(m, file, name[7], d, &out->attn_norm, e));
    TRY(weights_load_vector(m, file, name[8], d, &out->ffn_norm, e));
out:
    return rc;
}

static int open_activations(struct model *m, struct llama *l, struct err *e)
{
    const struct model_info *i = &m->info;
    size_t n = m->options.max_batch_tokens, q = (size_t)i->n_head * i->d_head;
    size_t qkv = q + 2 * (size_t)i->n_head_kv * i->d_head;
    int rc;
    TRY(m->ops->buffer_alloc(m->kern, n * i->d_model, &l->x, e));
    TRY(m->ops->buffer_alloc(m->kern, n * qkv, &l->qkv, e));
    TRY(m->ops->buffer_alloc(m->kern, n * q, &l->att, e));
    TRY(m->ops->buffer_alloc(m->kern, n * i->d_ff, &l->h, e));
out:
    return rc;
}

static int llama_open(struct model *m, const struct gguf *file, struct err *e)
{
    double eps = 1e-5;
    int rc;
    TRY(read_sizes(m, file, e));
    struct llama *l = arena_alloc(&m->arena, sizeof *l);
    m->state = l;
    if (!l || !(l->layer = arena_array(&m->arena, m->info.n_layer, sizeof *l->layer)))
        return err_set(e, ERR_NOMEM, "model");
    TRY(get_real(file, "llama.attention.layer_norm_rms_epsilon", &eps, e));
    l->eps = (float)eps;
    const struct weight_want embed = {"token_embd.weight", m->info.n_vocab, m->info.d_model};
    const struct weight_want head = {"output.weight", m->info.n_vocab, m->info.d_model};
    TRY(weights_load(m, file, &embed, 1, KERN_CONCAT, &l->embed, e));
    if (gguf_find_tensor(file, "output.weight"))
        TRY(weights_load(m, file, &head, 1, KERN_CONCAT, &l->head, e));
    TRY(weights_load_vector(m, file, "output_norm.weight", m->info.d_model, &l->out_norm, e));
    for (uint32_t n = 0; n < m->info.n_layer; n++)
        TRY(open_layer(m, file, n, &l->layer[n], e));
    TRY(open_cache(m, file, l, e));
    TRY(open_activations(m, l, e));
out:
    return rc;
}

static void close_layer(struct model *m, struct layer *y)
{
    m->ops->weight_free(m->kern, y->qkv);
    m->ops->weight_free(m->kern, y->output);
    m->ops->weight_free(m->kern, y->gate_up);
    m->ops->weight_free(m->kern, y->down);
    m->ops->buffer_free(m->kern, y->attn_norm);
    m->ops->buffer_free(m->kern, y->ffn_norm);
}

static void llama_close(struct model *m)
{
    struct llama *l = m->state;
    if (!l)
        return;
    for (uint32_t n = 0; l->layer && n < m->info.n_layer; n++)
        close_layer(m, &l->layer[n]);
    m->ops->weight_free(m->kern, l->embed);
    m->ops->weight_free(m->kern, l->head);
    m->ops->buffer_free(m->kern, l->out_norm);
    m->ops->kv_close(m->kern, l->kv);
    m->ops->buffer_free(m->kern, l->x);
    m->ops->buffer_free(m->kern, l->qkv);
    m->ops->buffer_free(m->kern, l->att);
    m->ops->buffer_free(m->kern, l->h);
}

static int forward_layer(struct model *m, uint32_t n, const struct kern_batch *b, struct err *e)
{
    const struct kern_ops *k = m->ops;
    struct llama *l = m->state;
    const struct layer *y = &l->layer[n];
    uint32_t n_tok = b->n_tok;
    int rc;
    TRY(k->norm_matmul(m->kern, y->qkv, y->attn_norm, l->eps, l->x, NULL, n_tok, l->qkv, e));
    TRY(k->attention(m->kern, l->kv, n, b, l->qkv, l->att, e));
    TRY(k->matmul_add(m->kern, y->output, l->att, n_tok, l->x, e));
    TRY(k->norm_swiglu(m->kern, y->gate_up, y->ffn_norm, l->eps, l->x, n_tok, l->h, e));
    TRY(k->matmul_add(m->kern, y->down, l->h, n_tok, l->x, e));
out:
    return rc;
}

static int llama_forward(struct model *m, const struct model_batch *b, float *logits, struct err *e)
{
    struct llama *l = m->state;
    struct kern_batch kb = {b->n_tok, b->position, b->seq, b->block_table};
    int rc;
    TRY(m->ops->embed(m->kern, l->embed, b->token, b->n_tok, l->x, e));
    for (uint32_t n = 0; n < m->info.n_layer; n++)
        TRY(forward_layer(m, n, &kb, e));
    if (b->n_row)
        TRY(m->ops->norm_matmul(m->kern, l->head ? l->head : l->embed, l->out_norm, l->eps, l->x,
                                b->row_token, b->n_row, logits, e));
out:
    return rc;
}

const struct model_arch ARCH_LLAMA = {
    .name = "llama",
    .open = llama_open,
    .close = llama_close,
    .forward = llama_forward,
};
