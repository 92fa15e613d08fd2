/* Causal attention over the paged cache, one query head at a time, softmax in double. */
#include "kernels/ref/device.h"

#include <math.h>
#include <string.h>

struct attend_job {
    struct kern_device *d;
    const struct kern_attn_layer *layer;
    float *qkv, *y;
};

static uint32_t width_of(const struct kern_attn_shape *s)
{
    return (s->n_head + 2 * s->n_head_kv) * s->d_head;
}

static void rotate(const struct kern_attn_shape *s, uint32_t rope, float *head, uint32_t position)
{
    for (uint32_t i = 0; i < s->n_rot / 2; i++) {
        double angle = position * s->inv_freq[rope][i], c = cos(angle), sn = sin(angle);
        double a = (double)head[2 * i], b = (double)head[2 * i + 1];
        head[2 * i] = (float)(a * c - b * sn);
        head[2 * i + 1] = (float)(a * sn + b * c);
    }
}

/* Index of (layer, position of the sequence, KV head) in k and v. */
static size_t slot(const struct kern_device *d, uint32_t layer, uint32_t seq, uint32_t position,
                   uint32_t head)
{
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t block = d->step->block_table[seq][position / KERN_BLOCK_TOKENS];
    size_t at = ((size_t)layer * s->n_blocks + block) * KERN_BLOCK_TOKENS;
    return ((at + position % KERN_BLOCK_TOKENS) * s->n_head_kv + head) * s->d_head;
}

/* Bias, norms and rotation of a token's q, k and v. */
static void make_heads(const struct attend_job *j, float *qkv, uint32_t position)
{
    const struct kern_attn_shape *s = &j->d->kv->shape;
    const struct kern_attn_layer *l = j->layer;
    for (uint32_t i = 0; l->bias && i < width_of(s); i++)
        qkv[i] += l->bias->data[i];
    for (uint32_t h = 0; h < s->n_head + s->n_head_kv; h++) {
        const struct kern_vector *norm = h < s->n_head ? l->q_norm : l->k_norm;
        float *head = qkv + h * s->d_head;
        if (norm)
            ref_norm_row(head, norm->data, l->eps, s->d_head, head);
        rotate(s, l->rope, head, position);
    }
}

/* What an int8 cache keeps of a vector: whole multiples of the largest / 127, that step rounded to
 * float16. */
static void round_to_bytes(float *x, uint32_t n)
{
    float largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    float step = f16_to_f32(f32_to_f16(largest / 127.0f));
    for (uint32_t i = 0; i < n; i++)
        x[i] = step > 0 ? step * fminf(fmaxf(rintf(x[i] / step), -127.0f), 127.0f) : 0.0f;
}

static void store_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    const struct kern_step *step = j->d->step;
    const struct kern_attn_shape *s = &j->d->kv->shape;
    struct team_range r = team_share(step->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++) {
        float *q = j->qkv + (size_t)t * width_of(s);
        float *k = q + s->n_head * s->d_head, *v = k + s->n_head_kv * s->d_head;
        make_heads(j, q, step->position[t]);
        for (uint32_t h = 0; s->kv_type == KERN_KV_INT8 && h < 2 * s->n_head_kv; h++)
            round_to_bytes(k + h * s->d_head, s->d_head);
        size_t at = slot(j->d, j->layer->index, step->seq[t], step->position[t], 0);
        memcpy(j->d->kv->k + at, k, s->n_head_kv * s->d_head * sizeof *k);
        memcpy(j->d->kv->v + at, v, s->n_head_kv * s->d_head * sizeof *v);
    }
}

static uint32_t first_seen(const struct kern_attn_layer *l, uint32_t position)
{
    return l->window && position >= l->window ? position + 1 - l->window : 0;
}

/* score[p] = softmax over first <= p <= position of scale q k_p. */
static void weigh(const struct attend_job *j, uint32_t t, uint32_t head_kv, const float *q,
                  double *score)
{
    const struct kern_attn_shape *s = &j->d->kv->shape;
    uint32_t last = j->d->step->position[t], first = first_seen(j->layer, last);
    double most = -INFINITY, sum = 0;
    for (uint32_t p = first; p <= last; p++) {
        const float *k = j->d->kv->k + slot(j->d, j->layer->index, j->d->step->seq[t], p, head_kv);
        double product = 0;
        for (uint32_t i = 0; i < s->d_head; i++)
            product += (double)q[i] * (double)k[i];
        score[p] = product * (double)s->scale;
        most = score[p] > most ? score[p] : most;
    }
    for (uint32_t p = first; p <= last; p++)
        sum += score[p] = exp(score[p] - most);
    for (uint32_t p = first; p <= last; p++)
        score[p] /= sum;
}

static void attend_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    const struct kern_step *step = j->d->step;
    const struct kern_attn_shape *s = &j->d->kv->shape;
    uint32_t group = s->n_head / s->n_head_kv;
    struct team_range r = team_share(step->n_tok * s->n_head, share, n_shares);
    double *score = j->d->score[thread];
    for (uint32_t item = r.from; item < r.to; item++) {
        uint32_t t = item / s->n_head, h = item % s->n_head;
        weigh(j, t, h / group, j->qkv + (size_t)t * width_of(s) + h * s->d_head, score);
        float *y = j->y + ((size_t)t * s->n_head + h) * s->d_head;
        memset(y, 0, s->d_head * sizeof *y);
        uint32_t last = step->position[t];
        for (uint32_t p = first_seen(j->layer, last); p <= last; p++) {
            const float *v = j->d->kv->v + slot(j->d, j->layer->index, step->seq[t], p, h / group);
            for (uint32_t i = 0; i < s->d_head; i++)
                y[i] += (float)(score[p] * (double)v[i]);
        }
    }
}

void ref_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y)
{
    struct attend_job j = {d, layer, qkv->data, y->data};
    uint32_t n = d->step->n_tok;
    team_each(d->team, team_shares(d->team, n), store_part, &j);
    team_each(d->team, team_shares(d->team, n * d->kv->shape.n_head), attend_part, &j);
}
