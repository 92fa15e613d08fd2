/* Rotation, KV write and attention over the paged cache. The cache keeps one KV head's blocks
 * together; K is transposed within a block so that positions are lanes. */
#include "kernels/cpu/device.h"

#include <math.h>

struct job {
    struct kern_device *d;
    uint32_t layer;
    float *qkv, *y;
};

/* cos and sin of every pair at every token's position; once a step, used by all layers. */
static void angles_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = arg;
    const struct kern_attn_shape *s = &j->d->kv->shape;
    struct team_range r = team_share(j->d->step->n_tok, thread, n_threads);
    for (uint32_t t = r.from; t < r.to; t++) {
        float *out = j->d->rope + (size_t)t * s->n_rot;
        for (uint32_t i = 0; i < s->n_rot / 2; i++) {
            double angle = j->d->step->position[t] * s->inv_freq[i];
            out[2 * i] = (float)cos(angle);
            out[2 * i + 1] = (float)sin(angle);
        }
    }
}

static void rotate(const float *angles, uint32_t n_rot, float *head)
{
    for (uint32_t i = 0; i < n_rot; i += 2) {
        float a = head[i], b = head[i + 1];
        head[i] = a * angles[i] - b * angles[i + 1];
        head[i + 1] = a * angles[i + 1] + b * angles[i];
    }
}

static uint16_t *cache_head(const struct kern_device *d, uint32_t layer, uint32_t head)
{
    return d->kv->data + layer * d->kv->layer_values + head * d->kv->head_values;
}

static void store_token(const struct job *j, uint32_t t)
{
    struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t width = (s->n_head + 2 * s->n_head_kv) * s->d_head, position = d->step->position[t];
    float *q = j->qkv + (size_t)t * width, *k = q + s->n_head * s->d_head;
    const float *v = k + s->n_head_kv * s->d_head, *angles = d->rope + (size_t)t * s->n_rot;
    uint32_t block = d->step->block_table[d->step->seq[t]][position / LANES];
    uint32_t slot = position % LANES;
    for (uint32_t h = 0; h < s->n_head + s->n_head_kv; h++)
        rotate(angles, s->n_rot, q + h * s->d_head);
    for (uint32_t h = 0; h < s->n_head_kv; h++) {
        uint16_t *at = cache_head(d, j->layer, h) + block * d->kv->block_values;
        d->isa->to_half(k + h * s->d_head, at + slot, s->d_head, LANES);
        d->isa->to_half(v + h * s->d_head, at + (size_t)(LANES + slot) * s->d_head, s->d_head, 1);
    }
}

static void store_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, thread, n_threads);
    for (uint32_t t = r.from; t < r.to; t++)
        store_token(j, t);
}

/* Items in turn, not in halves: later tokens of a prompt attend to more positions. */
static void attend_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = arg;
    struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t width = (s->n_head + 2 * s->n_head_kv) * s->d_head, group = s->n_head / s->n_head_kv;
    for (uint32_t item = thread; item < d->step->n_tok * s->n_head_kv; item += n_threads) {
        uint32_t t = item / s->n_head_kv, h = item % s->n_head_kv;
        struct cpu_attend a = {.q = j->qkv + (size_t)t * width + h * group * s->d_head,
                               .y = j->y + ((size_t)t * s->n_head + h * group) * s->d_head,
                               .n_group = group,
                               .d_head = s->d_head,
                               .n_position = d->step->position[t] + 1,
                               .cache = cache_head(d, j->layer, h),
                               .block_stride = d->kv->block_values,
                               .table = d->step->block_table[d->step->seq[t]],
                               .score = d->score[thread]};
        d->isa->attend(&a);
    }
}

void cpu_attention(struct kern_device *d, uint32_t layer, struct kern_buffer *qkv,
                   struct kern_buffer *y)
{
    struct job j = {d, layer, qkv->data, y->data};
    if (layer == 0)
        team_each(d->team, angles_part, &j);
    team_each(d->team, store_part, &j);
    team_each(d->team, attend_part, &j);
}
