/* The reference backend: plain C, float32 weights and cache, one thread. It is the truth the fast
 * backends are compared with, so it is written to be read. Sums run in a fixed order over LANES
 * partial sums, joined in double. */
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

struct kern {
    float *normed; /* [n_cols] of the widest weight */
    float *pair;   /* [n_rows] of the widest weight: gate and up */
    float *scores; /* [max_position] */
    size_t n_normed, n_pair;
};

struct kern_weight {
    float *value; /* [n_rows, n_cols] */
    size_t n_rows, n_cols;
};

struct kern_kv {
    struct kern_attention shape;
    float *inv_freq;
    float *key, *value; /* [n_layer, n_blocks, KERN_BLOCK_TOKENS, n_head_kv, d_head] */
};

static bool ref_is_available(void)
{
    return true;
}

static int ref_open(struct kern **out, const struct kern_options *o, uint32_t max_tok,
                    struct err *e)
{
    (void)o;
    (void)max_tok;
    *out = calloc(1, sizeof **out);
    return *out ? ERR_OK : err_set(e, ERR_NOMEM, "ref backend");
}

static void ref_close(struct kern *k)
{
    if (!k)
        return;
    free(k->normed);
    free(k->pair);
    free(k->scores);
    free(k);
}

static int alloc_floats(size_t n, float **out, struct err *e)
{
    *out = calloc(n ? n : 1, sizeof **out);
    return *out ? ERR_OK : err_set(e, ERR_NOMEM, "%zu floats", n);
}

static int ref_buffer_alloc(struct kern *k, size_t n, float **out, struct err *e)
{
    (void)k;
    return alloc_floats(n, out, e);
}

static void ref_buffer_free(struct kern *k, float *p)
{
    (void)k;
    free(p);
}

static int grow_scratch(float **p, size_t *have, size_t need, struct err *e)
{
    if (need <= *have)
        return ERR_OK;
    free(*p);
    *have = need;
    return alloc_floats(need, p, e);
}

static void ref_weight_free(struct kern *k, struct kern_weight *w)
{
    (void)k;
    if (!w)
        return;
    free(w->value);
    free(w);
}

/* GATE_UP needs no interleaving here: gate rows, then up rows. */
static int ref_weight_load(struct kern *k, const struct kern_matrix *part, uint32_t n_part,
                           enum kern_layout layout, struct kern_weight **out, struct err *e)
{
    (void)layout;
    int rc = ERR_OK;
    struct kern_weight *w = calloc(1, sizeof *w);
    *out = w;
    if (!w)
        return err_set(e, ERR_NOMEM, "weight");
    w->n_cols = part[0].n_cols;
    for (uint32_t i = 0; i < n_part; i++)
        w->n_rows += part[i].n_rows;
    TRY(alloc_floats(w->n_rows * w->n_cols, &w->value, e));
    TRY(grow_scratch(&k->normed, &k->n_normed, w->n_cols, e));
    TRY(grow_scratch(&k->pair, &k->n_pair, w->n_rows, e));
    float *at = w->value;
    for (uint32_t i = 0; i < n_part; i++) {
        dtype_to_f32(part[i].dtype, part[i].data, at, part[i].n_rows * part[i].n_cols);
        at += part[i].n_rows * part[i].n_cols;
    }
    return ERR_OK;
out:
    ref_weight_free(k, w);
    *out = NULL;
    return rc;
}

static size_t ref_weight_bytes(const struct kern_weight *w)
{
    return w->n_rows * w->n_cols * sizeof(float);
}

static void ref_kv_close(struct kern *k, struct kern_kv *kv)
{
    (void)k;
    if (!kv)
        return;
    free(kv->inv_freq);
    free(kv->key);
    free(kv->value);
    free(kv);
}

static size_t ref_kv_block_bytes(const struct kern_attention *a)
{
    return (size_t)2 * a->n_layer * KERN_BLOCK_TOKENS * a->n_head_kv * a->d_head * sizeof(float);
}

static int ref_kv_open(struct kern *k, const struct kern_attention *a, struct kern_kv **out,
                       struct err *e)
{
    int rc;
    size_t half = ref_kv_block_bytes(a) / 2 / sizeof(float) * a->n_blocks;
    struct kern_kv *kv = calloc(1, sizeof *kv);
    *out = kv;
    if (!kv)
        return err_set(e, ERR_NOMEM, "KV cache");
    kv->shape = *a;
    TRY(alloc_floats(a->n_rope / 2, &kv->inv_freq, e));
    TRY(alloc_floats(half, &kv->key, e));
    TRY(alloc_floats(half, &kv->value, e));
    free(k->scores);
    TRY(alloc_floats(a->max_position, &k->scores, e));
    memcpy(kv->inv_freq, a->inv_freq, a->n_rope / 2 * sizeof(float));
    return ERR_OK;
out:
    ref_kv_close(k, kv);
    *out = NULL;
    return rc;
}

static float dot(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    double sum = 0;
    for (size_t j = 0; j < LANES; j++)
        sum += (double)lane[j];
    for (size_t i = whole; i < n; i++)
        sum += (double)(a[i] * b[i]);
    return (float)sum;
}

/* https://arxiv.org/abs/1910.07467 */
static void rms_norm(const float *x, const float *gain, float eps, size_t n, float *out)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float scale = (float)(1 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * gain[i];
}

static void matvec(const struct kern_weight *w, const float *x, float *y)
{
    for (size_t r = 0; r < w->n_rows; r++)
        y[r] = dot(w->value + r * w->n_cols, x, w->n_cols);
}

static int ref_embed(struct kern *k, const struct kern_weight *w, const int32_t *token, uint32_t n,
                     float *x, struct err *e)
{
    (void)k;
    (void)e;
    for (uint32_t i = 0; i < n; i++)
        memcpy(x + i * w->n_cols, w->value + (size_t)token[i] * w->n_cols,
               w->n_cols * sizeof(float));
    return ERR_OK;
}

static int ref_norm_matmul(struct kern *k, const struct kern_weight *w, const float *gain,
                           float eps, const float *x, const uint32_t *row, uint32_t n, float *y,
                           struct err *e)
{
    (void)e;
    for (uint32_t i = 0; i < n; i++) {
        rms_norm(x + (row ? row[i] : i) * w->n_cols, gain, eps, w->n_cols, k->normed);
        matvec(w, k->normed, y + i * w->n_rows);
    }
    return ERR_OK;
}

static int ref_matmul_add(struct kern *k, const struct kern_weight *w, const float *x, uint32_t n,
                          float *y, struct err *e)
{
    (void)e;
    for (uint32_t i = 0; i < n; i++) {
        matvec(w, x + i * w->n_cols, k->pair);
        for (size_t r = 0; r < w->n_rows; r++)
            y[i * w->n_rows + r] += k->pair[r];
    }
    return ERR_OK;
}

static int ref_norm_swiglu(struct kern *k, const struct kern_weight *w, const float *gain,
                           float eps, const float *x, uint32_t n, float *h, struct err *e)
{
    (void)e;
    size_t n_ff = w->n_rows / 2;
    for (uint32_t i = 0; i < n; i++) {
        rms_norm(x + i * w->n_cols, gain, eps, w->n_cols, k->normed);
        matvec(w, k->normed, k->pair);
        for (size_t r = 0; r < n_ff; r++) { /* SwiGLU, https://arxiv.org/abs/2002.05202 */
            float g = k->pair[r];
            h[i * n_ff + r] = g / (1 + expf(-g)) * k->pair[n_ff + r];
        }
    }
    return ERR_OK;
}

/* https://arxiv.org/abs/2104.09864 */
static void rotate(const struct kern_kv *kv, float *head, uint32_t position)
{
    uint32_t half = kv->shape.n_rope / 2;
    bool adjacent = kv->shape.rope == KERN_ROPE_ADJACENT;
    for (uint32_t i = 0; i < half; i++) {
        float angle = (float)position * kv->inv_freq[i], c = cosf(angle), s = sinf(angle);
        float *a = &head[adjacent ? 2 * i : i], *b = &head[adjacent ? 2 * i + 1 : i + half];
        float first = *a, second = *b;
        *a = first * c - second * s;
        *b = first * s + second * c;
    }
}

static float *cache_row(const struct kern_kv *kv, float *cache, uint32_t layer,
                        const uint32_t *table, uint32_t position, uint32_t head)
{
    const struct kern_attention *a = &kv->shape;
    size_t block = (size_t)layer * a->n_blocks + table[position / KERN_BLOCK_TOKENS];
    size_t slot = block * KERN_BLOCK_TOKENS + position % KERN_BLOCK_TOKENS;
    return cache + (slot * a->n_head_kv + head) * a->d_head;
}

static void write_token(struct kern_kv *kv, uint32_t layer, const uint32_t *table,
                        uint32_t position, float *qkv)
{
    const struct kern_attention *a = &kv->shape;
    float *key = qkv + (size_t)a->n_head * a->d_head;
    float *value = key + (size_t)a->n_head_kv * a->d_head;
    for (uint32_t h = 0; h < a->n_head; h++)
        rotate(kv, qkv + (size_t)h * a->d_head, position);
    for (uint32_t h = 0; h < a->n_head_kv; h++) {
        rotate(kv, key + (size_t)h * a->d_head, position);
        memcpy(cache_row(kv, kv->key, layer, table, position, h), key + (size_t)h * a->d_head,
               a->d_head * sizeof(float));
        memcpy(cache_row(kv, kv->value, layer, table, position, h), value + (size_t)h * a->d_head,
               a->d_head * sizeof(float));
    }
}

static void attend(struct kern *k, struct kern_kv *kv, uint32_t layer, const uint32_t *table,
                   uint32_t position, uint32_t head, const float *q, float *out)
{
    const struct kern_attention *a = &kv->shape;
    uint32_t kv_head = head / (a->n_head / a->n_head_kv);
    float top = -INFINITY;
    for (uint32_t p = 0; p <= position; p++) {
        k->scores[p] =
            a->scale * dot(q, cache_row(kv, kv->key, layer, table, p, kv_head), a->d_head);
        top = k->scores[p] > top ? k->scores[p] : top;
    }
    double total = 0;
    for (uint32_t p = 0; p <= position; p++) {
        k->scores[p] = expf(k->scores[p] - top);
        total += (double)k->scores[p];
    }
    memset(out, 0, a->d_head * sizeof *out);
    for (uint32_t p = 0; p <= position; p++) {
        const float *v = cache_row(kv, kv->value, layer, table, p, kv_head);
        float weight = (float)((double)k->scores[p] / total);
        for (uint32_t i = 0; i < a->d_head; i++)
            out[i] += weight * v[i];
    }
}

static int ref_attention(struct kern *k, struct kern_kv *kv, uint32_t layer,
                         const struct kern_batch *b, float *qkv, float *out, struct err *e)
{
    (void)e;
    const struct kern_attention *a = &kv->shape;
    size_t row = (size_t)(a->n_head + 2 * a->n_head_kv) * a->d_head;
    size_t out_row = (size_t)a->n_head * a->d_head;
    for (uint32_t t = 0; t < b->n_tok; t++)
        write_token(kv, layer, b->block_table[b->seq[t]], b->position[t], qkv + t * row);
    for (uint32_t t = 0; t < b->n_tok; t++)
        for (uint32_t h = 0; h < a->n_head; h++)
            attend(k, kv, layer, b->block_table[b->seq[t]], b->position[t], h,
                   qkv + t * row + (size_t)h * a->d_head,
                   out + t * out_row + (size_t)h * a->d_head);
    return ERR_OK;
}

const struct kern_ops KERN_REF = {
    .name = "ref",
    .is_available = ref_is_available,
    .open = ref_open,
    .close = ref_close,
    .buffer_alloc = ref_buffer_alloc,
    .buffer_free = ref_buffer_free,
    .weight_load = ref_weight_load,
    .weight_free = ref_weight_free,
    .weight_bytes = ref_weight_bytes,
    .kv_open = ref_kv_open,
    .kv_close = ref_kv_close,
    .kv_block_bytes = ref_kv_block_bytes,
    .embed = ref_embed,
    .norm_matmul = ref_norm_matmul,
    .matmul_add = ref_matmul_add,
    .norm_swiglu = ref_norm_swiglu,
    .attention = ref_attention,
};
