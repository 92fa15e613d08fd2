/* Causal attention over the paged cache, one query head at a time, softmax in double. */
#include "kernels/ref/device.h"

#include <math.h>
#include <string.h>

struct attend_job {
    struct kern_device *d;
    uint32_t layer;
    float *qkv, *y;
};

static uint32_t width_of(const struct kern_attn_shape *s)
{
    return (s->n_head + 2 * s->n_head_kv) * s->d_head;
}

static void rotate(const struct kern_attn_shape *s, float *head, uint32_t position)
{
    for (uint32_t i = 0; i < s->n_rot / 2; i++) {
        double angle = position * s->inv_freq[i], c = cos(angle), sn = sin(angle);
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
        for (uint32_t h = 0; h < s->n_head + s->n_head_kv; h++)
            rotate(s, q + h * s->d_head, step->position[t]);
        size_t at = slot(j->d, j->layer, step->seq[t], step->position[t], 0);
        memcpy(j->d->kv->k + at, k, s->n_head_kv * s->d_head * sizeof *k);
        memcpy(j->d->kv->v + at, v, s->n_head_kv * s->d_head * sizeof *v);
    }
}

/* score[p] = softmax over p <= position of q k_p / sqrt(d_head). */
static void weigh(const struct attend_job *j, uint32_t t, uint32_t head_kv, const float *q,
                  double *score)
{
    const struct kern_attn_shape *s = &j->d->kv->shape;
    uint32_t last = j->d->step->position[t], seq = j->d->step->seq[t];
    double most = -INFINITY, sum = 0, scale = 1 / sqrt((double)s->d_head);
    for (uint32_t p = 0; p <= last; p++) {
        const float *k = j->d->kv->k + slot(j->d, j->layer, seq, p, head_kv);
        double product = 0;
        for (uint32_t i = 0; i < s->d_head; i++)
            product += (double)q[i] * (double)k[i];
        score[p] = product * scale;
        most = score[p] > most ? score[p] : most;
    }
    for (uint32_t p = 0; p <= last; p++)
        sum += score[p] = exp(score[p] - most);
    for (uint32_t p = 0; p <= last; p++)
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
        for (uint32_t p = 0; p <= step->position[t]; p++) {
            const float *v = j->d->kv->v + slot(j->d, j->layer, step->seq[t], p, h / group);
            for (uint32_t i = 0; i < s->d_head; i++)
                y[i] += (float)(score[p] * (double)v[i]);
        }
    }
}

void ref_attention(struct kern_device *d, uint32_t layer, struct kern_buffer *qkv,
                   struct kern_buffer *y)
{
    struct attend_job j = {d, layer, qkv->data, y->data};
    uint32_t n = d->step->n_tok;
    team_each(d->team, team_shares(d->team, n), store_part, &j);
    team_each(d->team, team_shares(d->team, n * d->kv->shape.n_head), attend_part, &j);
}
