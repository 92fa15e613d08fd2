/* Rotation, KV store and attention. (Span, KV head) items go to whichever thread is free, since
 * their cost varies; a token whose sections were computed apart has them joined in order at the
 * end, so that its result does not depend on how the step was cut. */
#include "kernels/cpu/device.h"

#include <math.h>
#include <string.h>

enum { FEW_TOKENS = 4 }; /* below, waking the others costs more than the work */

#define LOG2_E 1.44269504f

struct attend_job {
    struct kern_device *d;
    const struct kern_attn_layer *layer;
    float *qkv, *y;
};

static uint32_t qkv_width(const struct kern_attn_shape *s)
{
    return (s->n_head + 2 * s->n_head_kv) * s->d_head;
}

static void each_of(struct kern_device *d, uint32_t n, team_fn fn, void *arg)
{
    team_each(d->team, n < FEW_TOKENS ? 1 : team_shares(d->team, n), fn, arg);
}

/* Cosines, then sines, of a token. */
static float *turn_of(const struct kern_device *d, uint32_t rope, uint32_t t)
{
    return d->attention.turn + ((size_t)rope * d->max_tok + t) * 2 * d->kv->shape.n_rot;
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

void cpu_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv)
{
    team_join(d->team);
    d->step = step;
    d->kv = kv;
    cpu_plan_attention(d);
    each_of(d, step->n_tok, turn_part, d);
}

static uint8_t *kv_base(const struct kern_device *d, uint32_t layer, uint32_t head) /* of block 0 */
{
    return d->kv->data + layer * d->kv->layer_bytes + head * d->kv->head_bytes;
}

static size_t query_index(const struct kern_device *d, uint32_t t, uint32_t head)
{
    return (size_t)t * d->kv->shape.n_head + head;
}

static float *query_of(const struct attend_job *j, uint32_t t, uint32_t head)
{
    const struct kern_attn_shape *s = &j->d->kv->shape;
    return j->qkv + (size_t)t * qkv_width(s) + head * s->d_head;
}

static void add_bias(const struct attend_job *j, uint32_t t)
{
    float *row = query_of(j, t, 0);
    for (uint32_t i = 0; j->layer->bias && i < qkv_width(&j->d->kv->shape); i++)
        row[i] += j->layer->bias->data[i];
}

static void norm_head(const struct attend_job *j, const struct kern_vector *norm, float *head)
{
    if (norm)
        j->d->isa->norm(head, norm->data, j->layer->eps, j->d->kv->shape.d_head, head);
}

static void make_query(const struct attend_job *j, uint32_t t, uint32_t head)
{
    const struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    float *q = query_of(j, t, head), *scale = d->attention.quant_scale;
    size_t at = query_index(d, t, head);
    norm_head(j, j->layer->q_norm, q);
    d->isa->rotate(q, turn_of(d, j->layer->rope, t), s->n_rot);
    if (s->kv_type == KERN_KV_INT8)
        d->isa->quantise_query(q, s->d_head, d->attention.quant + at * 2 * s->d_head,
                               &scale[2 * at], &scale[2 * at + 1]);
}

static void store_token(const struct attend_job *j, uint32_t t)
{
    const struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t position = d->step->position[t];
    uint32_t block = d->step->block_table[d->step->seq[t]][position / BLOCK_TOKENS];
    add_bias(j, t);
    for (uint32_t h = 0; h < s->n_head; h++)
        make_query(j, t, h);
    for (uint32_t h = 0; h < s->n_head_kv; h++) {
        float *k = query_of(j, t, s->n_head + h);
        norm_head(j, j->layer->k_norm, k);
        d->isa->store_kv[s->kv_type](k, turn_of(d, j->layer->rope, t), s->n_rot,
                                     query_of(j, t, s->n_head + s->n_head_kv + h),
                                     kv_base(d, j->layer->index, h) + block * d->kv->block_bytes,
                                     position % BLOCK_TOKENS, s->d_head);
    }
}

static void store_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    struct team_range r = team_share(j->d->step->n_tok, share, n_shares);
    (void)thread;
    for (uint32_t t = r.from; t < r.to; t++)
        store_token(j, t);
}

/* The queries of one KV head that a call of the inner loops takes from a span. */
struct group {
    const struct attend_job *j;
    const struct span *span;
    uint32_t kv_head, from; /* first of the span's queries: its members times heads to a KV head */
    uint32_t n, thread;
    struct kv_ahead next; /* of what the thread computes after it */
    uint32_t token[MAX_QUERIES], head[MAX_QUERIES];
};

static uint32_t heads_to_kv_head(const struct kern_device *d)
{
    return d->kv->shape.n_head / d->kv->shape.n_head_kv;
}

/* Heads of a token stand together. */
static void list_queries(struct group *g)
{
    const struct kern_device *d = g->j->d;
    uint32_t heads = heads_to_kv_head(d), rest = g->span->n * heads - g->from;
    uint32_t member = g->span->member + g->from / heads, head = g->from % heads;
    g->n = rest < MAX_QUERIES ? rest : MAX_QUERIES;
    for (uint32_t i = 0; i < g->n; i++) {
        g->token[i] = d->attention.member[member];
        g->head[i] = g->kv_head * heads + head;
        head = head + 1 < heads ? head + 1 : 0;
        member += head == 0;
    }
}

static float *output_at(const struct group *g, uint32_t i)
{
    const struct kern_device *d = g->j->d;
    return g->j->y + query_index(d, g->token[i], g->head[i]) * d->kv->shape.d_head;
}

static uint32_t first_seen(const struct kern_attn_layer *l, uint32_t position)
{
    return l->window && position >= l->window ? position + 1 - l->window : 0;
}

static void set_query(const struct group *g, struct attend *a, uint32_t i)
{
    const struct kern_device *d = g->j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    uint32_t t = g->token[i], head = g->head[i];
    size_t at = query_index(d, t, head);
    a->query[i] = query_of(g->j, t, head);
    a->query_scale[i] = s->scale * LOG2_E;
    a->first[i] = first_seen(g->j->layer, d->step->position[t]);
    a->end[i] = d->step->position[t] + 1;
    if (s->kv_type == KERN_KV_INT8) {
        a->query[i] = d->attention.quant + at * 2 * s->d_head;
        a->query_scale[i] *= d->attention.quant_scale[2 * at];
        a->query_bias[i] = d->attention.quant_scale[2 * at + 1];
    }
}

/* Blocks of a section that a token sees. */
static struct kv_ahead blocks_seen(const struct kern_device *d, const uint8_t *kv, uint32_t token,
                                   uint32_t section)
{
    uint32_t first = section * SECTION_BLOCKS;
    uint32_t n = d->step->position[token] / BLOCK_TOKENS + 1 - first;
    n = n < SECTION_BLOCKS ? n : SECTION_BLOCKS;
    return (struct kv_ahead){kv, d->step->block_table[d->step->seq[token]] + first, n};
}

/* What item `i` of the step reads first. */
static struct kv_ahead item_ahead(const struct attend_job *j, uint32_t i)
{
    const struct kern_device *d = j->d;
    uint32_t n_heads = d->kv->shape.n_head_kv;
    if (i >= d->attention.n_spans * n_heads)
        return (struct kv_ahead){0};
    const struct span *span = &d->attention.span[i / n_heads];
    uint32_t token = d->attention.member[span->member], section = span->section;
    if (section == EVERY_SECTION)
        section = first_seen(j->layer, d->step->position[token]) / SECTION_TOKENS;
    return blocks_seen(d, kv_base(d, j->layer->index, i % n_heads), token, section);
}

static size_t part_floats(const struct kern_device *d)
{
    return d->kv->shape.d_head + PART_EXTRA;
}

static struct attend attend_group(struct group *g)
{
    const struct kern_device *d = g->j->d;
    list_queries(g);
    struct attend a = {.n = g->n,
                       .d_head = d->kv->shape.d_head,
                       .kv = kv_base(d, g->j->layer->index, g->kv_head),
                       .block_stride = d->kv->block_bytes,
                       .table = d->step->block_table[d->step->seq[g->token[0]]],
                       .score = d->scratch[g->thread].score,
                       .words = d->scratch[g->thread].words};
    for (uint32_t i = 0; i < a.n; i++)
        set_query(g, &a, i);
    d->isa->gather[d->kv->shape.kv_type](&a);
    return a;
}

/* One section after the other, from the first that is seen, each joined to those before. */
static uint32_t attend_every(struct group *g)
{
    const struct kern_device *d = g->j->d;
    struct attend a = attend_group(g);
    float *other = d->scratch[g->thread].part, *joined = other + MAX_QUERIES * part_floats(d);
    uint32_t last = d->step->position[g->token[a.n - 1]] / SECTION_TOKENS;
    uint32_t first = a.first[0] / SECTION_TOKENS;
    for (a.section = first; a.section <= last; a.section++) {
        a.next =
            a.section < last ? blocks_seen(d, a.kv, g->token[a.n - 1], a.section + 1) : g->next;
        for (uint32_t i = 0; i < a.n; i++)
            a.part[i] = (a.section == first ? joined : other) + i * part_floats(d);
        d->isa->attend[d->kv->shape.kv_type](&a);
        for (uint32_t i = 0; i < a.n && a.section > first; i++)
            d->isa->fold(joined + i * part_floats(d), a.part[i], a.d_head);
    }
    for (uint32_t i = 0; i < a.n; i++)
        d->isa->finish(joined + i * part_floats(d), output_at(g, i), a.d_head);
    return a.n;
}

static uint32_t sections_of(const struct kern_device *d, uint32_t token)
{
    return d->step->position[token] / SECTION_TOKENS + 1;
}

static float *part_of(const struct kern_device *d, uint32_t token, uint32_t head, uint32_t section)
{
    size_t at = (size_t)head * sections_of(d, token) + section;
    return d->attention.part + (d->attention.first_part[token] + at) * part_floats(d);
}

static uint32_t attend_one(struct group *g)
{
    const struct kern_device *d = g->j->d;
    struct attend a = attend_group(g);
    a.section = g->span->section;
    a.next = g->next;
    for (uint32_t i = 0; i < a.n; i++)
        a.part[i] = part_of(d, g->token[i], g->head[i], a.section);
    d->isa->attend[d->kv->shape.kv_type](&a);
    return a.n;
}

static void attend_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    struct attend_job *j = arg;
    const struct kern_device *d = j->d;
    uint32_t n_heads = d->kv->shape.n_head_kv;
    struct team_range r = team_share(d->attention.n_spans * n_heads, share, n_shares);
    for (uint32_t i = r.from; i < r.to; i++) {
        const struct span *span = &d->attention.span[i / n_heads];
        struct group g = {.j = j, .span = span, .kv_head = i % n_heads, .thread = thread};
        for (uint32_t n = span->n * heads_to_kv_head(d); g.from < n;) {
            if (n - g.from <= MAX_QUERIES)
                g.next = item_ahead(j, i + 1);
            g.from += span->section == EVERY_SECTION ? attend_every(&g) : attend_one(&g);
        }
    }
}

/* Parts 0 to n-1 of a head into the first. */
static void join_part(void *arg, uint32_t share, uint32_t n_shares, uint32_t thread)
{
    const struct attend_job *j = arg;
    const struct kern_device *d = j->d;
    const struct kern_attn_shape *s = &d->kv->shape;
    struct team_range r = team_share(d->attention.n_split, share, n_shares);
    (void)thread;
    for (uint32_t i = r.from; i < r.to; i++) {
        uint32_t t = d->attention.split[i];
        for (uint32_t h = 0; h < s->n_head; h++) {
            for (uint32_t k = 1; k < sections_of(d, t); k++)
                d->isa->fold(part_of(d, t, h, 0), part_of(d, t, h, k), s->d_head);
            d->isa->finish(part_of(d, t, h, 0), j->y + query_index(d, t, h) * s->d_head, s->d_head);
        }
    }
}

void cpu_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                   struct kern_buffer *qkv, struct kern_buffer *y)
{
    struct attend_job j = {d, layer, qkv->data, y->data};
    uint32_t n_items = d->attention.n_spans * d->kv->shape.n_head_kv;
    y->n_quant = 0;
    each_of(d, d->step->n_tok, store_part, &j);
    team_each(d->team, n_items < TEAM_MAX_SHARES ? n_items : TEAM_MAX_SHARES, attend_part, &j);
    if (d->attention.n_split)
        each_of(d, d->attention.n_split, join_part, &j);
}
