/* Rotation, KV store and attention. Up to TILE_SEQ_TOKENS neighbouring tokens of a sequence share a
 * pass over its blocks; (tile, KV head) items go to whichever thread is free, since their cost
 * varies with the position. Where every token has a sequence of its own, nobody reads what another
 * writes, and one pass does all three. */
#include "kernels/cpu/device.h"

#include <math.h>

struct attend_job {
    struct kern_device *d;
    const struct kern_attn_layer *layer;
    float *qkv, *y;
    bool stores; /* items rotate and store too */
};

static uint32_t qkv_width(const struct kern_attn_shape *s)
{
    return (s->n_head + 2 * s->n_head_kv) * s->d_head;
}

/* Cosines, then sines, of a token. */
static float *turn_of(const struct kern_device *d, uint32_t rope, uint32_t t)
{
    return d->turn + ((size_t)rope * d->max_tok + t) * 2 * d->kv->shape.n_rot;
}

static void turn_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    struct kern_device *d = arg;
    const struct kern_attn_shape *s = &d->kv->shape;
    struct team_range r = team_share(d->step->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t k = r.from * s->n_rope; k < r.to * s->n_rope; k++) {
        uint32_t t = k / s->n_rope, rope = k % s->n_rope;
        float *cosines = turn_of(d, rope, t), *sines = cosines + s->n_rot;
        for (uint32_t i = 0; i < s->n_rot / 2; i++) {
            double angle = d->step->position[t] * s->inv_freq[rope][i];
            cosines[2 * i] = cosines[2 * i + 1] = (float)cos(angle);
            sines[2 * i + 1] = (float)sin(angle);
            sines[2 * i] = -sines[2 * i + 1];
        }
    }
}

static void cut_tiles(struct kern_device *d)
{
    const uint32_t *seq = d->step->seq;
    d->n_tiles = 0;
    for (uint32_t t = 0; t < d->step->n_tok; t++) {
        struct seq_tile *last = d->n_tiles ? &d->tile[d->n_tiles - 1] : NULL;
        if (last && seq[t] == seq[last->first] && last->n < TILE_SEQ_TOKENS)
            last->n++;
        else
            d->tile[d->n_tiles++] = (struct seq_tile){t, 1};
    }
}

void cpu_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv)
{
    d->step = step;
    d->kv = kv;
    cut_tiles(d);
    if (step->n_tok < 4)
        turn_part(d, 0, 1, 0);
    else
        team_each(d->team, team_shares(d->team, step->n_tok), turn_part, d);
}

/* Of block 0. */
static uint16_t *kv_base(const struct kern_device *d, uint32_t layer, uint32_t head)
{
    const struct kern_attn_shape *s = &d->kv->shape;
    size_t in_layer = (size_t)head * 2 * BLOCK_TOKENS * s->d_head;
    return d->kv->data + layer * d->kv->layer_halves + in_layer;
}

static void add_bias(const struct kern_vector *bias, float *row, size_t at, uint32_t n)
{
    for (size_t i = at; i < at + n; i++)
        row[i] += bias->data[i];
}

static void make_head(const struct attend_job *j, const struct kern_vector *norm, const float *turn,
                      float *head)
{
    const struct kern_attn_shape *s = &j->d->kv->shape;
    if (norm)
        j->d->isa->norm(head, norm->data, j->layer->eps, s->d_head, head);
    j->d->isa->rotate(head, turn, s->n_rot);
}

/* Makes the queries, the key and the value of one KV head, stores key and value. */
static void store_head(const struct attend_job *j, uint32_t t, uint32_t head)
{
    const struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t group = s->n_head / s->n_head_kv, position = d->step->position[t];
    uint32_t in_k = (s->n_head + head) * s->d_head, in_v = in_k + s->n_head_kv * s->d_head;
    float *row = j->qkv + (size_t)t * qkv_width(s), *q = row + head * group * s->d_head;
    const float *turn = turn_of(d, j->layer->rope, t);
    if (j->layer->bias) {
        add_bias(j->layer->bias, row, (size_t)head * group * s->d_head, group * s->d_head);
        add_bias(j->layer->bias, row, in_k, s->d_head);
        add_bias(j->layer->bias, row, in_v, s->d_head);
    }
    for (uint32_t i = 0; i < group; i++)
        make_head(j, j->layer->q_norm, turn, q + i * s->d_head);
    make_head(j, j->layer->k_norm, turn, row + in_k);
    uint32_t block = d->step->block_table[d->step->seq[t]][position / BLOCK_TOKENS];
    d->isa->store_kv(row + in_k, row + in_v,
                     kv_base(d, j->layer->index, head) + block * d->kv->block_halves,
                     position % BLOCK_TOKENS, s->d_head);
}

static void store_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++)
        for (uint32_t h = 0; h < j->d->kv->shape.n_head_kv; h++)
            store_head(j, t, h);
}

static uint32_t first_seen(const struct kern_attn_layer *l, uint32_t position)
{
    return l->window && position >= l->window ? position + 1 - l->window : 0;
}

static void attend_tile(const struct attend_job *j, uint32_t thread, const struct seq_tile *tile,
                        uint32_t head)
{
    const struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t group = s->n_head / s->n_head_kv, n = tile->n * group;
    struct attend a = {.d_head = s->d_head,
                       .kv = kv_base(d, j->layer->index, head),
                       .block_stride = d->kv->block_halves,
                       .table = d->step->block_table[d->step->seq[tile->first]],
                       .scale = s->scale,
                       .score = d->scratch[thread].score,
                       .score_stride = d->score_stride};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t t = tile->first + i / group, h = head * group + i % group;
        a.query[a.n] = j->qkv + (size_t)t * qkv_width(s) + h * s->d_head;
        a.out[a.n] = j->y + ((size_t)t * s->n_head + h) * s->d_head;
        a.first[a.n] = first_seen(j->layer, d->step->position[t]);
        a.length[a.n++] = d->step->position[t] + 1;
        if (a.n == MAX_QUERIES || i + 1 == n) {
            d->isa->attend(&a);
            a.n = 0;
        }
    }
}

static void attend_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    struct kern_device *d = j->d;
    uint32_t n_heads = d->kv->shape.n_head_kv;
    struct team_range r = team_share(d->n_tiles * n_heads, share, n_shares);
    for (uint32_t i = r.from; i < r.to; i++) {
        const struct seq_tile *tile = &d->tile[i / n_heads];
        if (j->stores)
            store_head(j, tile->first, i % n_heads);
        attend_tile(j, thread, tile, i % n_heads);
    }
}

/* Two tiles of one sequence stand side by side. */
static bool are_sequences_single(const struct kern_device *d)
{
    return d->n_tiles == d->step->n_tok;
}

void cpu_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y)
{
    struct attend_job j = {d, layer, qkv->data, y->data, are_sequences_single(d)};
    if (!j.stores)
        team_each(d->team, team_shares(d->team, d->step->n_tok), store_part, &j);
    uint32_t n_items = d->n_tiles * d->kv->shape.n_head_kv;
    team_each(d->team, n_items < TEAM_MAX_SHARES ? n_items : TEAM_MAX_SHARES, attend_part, &j);
}
