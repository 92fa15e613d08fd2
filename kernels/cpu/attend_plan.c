/* Which tokens of a step share a pass over KV blocks. A sequence with one token has its sections
 * computed apart: by several threads when it is alone, and once for all sequences that have the
 * same blocks there (a common beginning, kept once by the prefix cache). Tokens of a longer run
 * share passes over all their sections. Spans never change what a token's result is. */
#include "kernels/cpu/device.h"

#include <stdlib.h>
#include <string.h>

enum {
    SPAN_QUERIES = 2 * MAX_QUERIES, /* of a run, for one KV head */
    SHARED_TOKENS = 16              /* of one section: more, and threads would wait for the last */
};

static uint32_t sections_of(const struct kern_device *d, uint32_t token)
{
    return d->step->position[token] / SECTION_TOKENS + 1;
}

static struct span *add_span(struct attention *a, uint32_t section)
{
    struct span *s = &a->span[a->n_spans++];
    *s = (struct span){a->n_members, 0, section, 0};
    return s;
}

static void add_member(struct attention *a, struct span *s, uint32_t token, uint32_t cost)
{
    a->member[a->n_members++] = token;
    s->n++;
    s->cost += cost;
}

static void plan_run(struct kern_device *d, uint32_t first, uint32_t n)
{
    const struct kern_attn_shape *shape = &d->kv->shape;
    struct attention *a = &d->attention;
    uint32_t most = SPAN_QUERIES / (shape->n_head / shape->n_head_kv);
    struct span *s = NULL;
    for (uint32_t t = first; t < first + n; t++) {
        if (!s || s->n >= most)
            s = add_span(a, EVERY_SECTION);
        add_member(a, s, t, d->step->position[t] / BLOCK_TOKENS + 1);
    }
}

/* False when there is no room for its parts. */
static bool split_token(struct kern_device *d, uint32_t token)
{
    struct attention *a = &d->attention;
    uint64_t need = (uint64_t)sections_of(d, token) * d->kv->shape.n_head;
    if (a->n_split == MAX_SPLIT_TOKENS || a->n_parts + need > a->max_parts)
        return false;
    a->first_part[token] = a->n_parts;
    a->n_parts += (uint32_t)need;
    a->split[a->n_split++] = token;
    return true;
}

static const uint32_t *section_blocks(const struct kern_device *d, uint32_t token, uint32_t section)
{
    return d->step->block_table[d->step->seq[token]] + section * SECTION_BLOCKS;
}

/* Both see all of the section, in the same blocks. */
static bool is_shared(const struct kern_device *d, uint32_t a, uint32_t b, uint32_t section)
{
    uint32_t last = (section + 1) * SECTION_TOKENS - 1;
    return d->step->position[a] >= last && d->step->position[b] >= last &&
           memcmp(section_blocks(d, a, section), section_blocks(d, b, section),
                  SECTION_BLOCKS * sizeof(uint32_t)) == 0;
}

/* A span for the i-th split token and those after it that share the section with it. */
static void plan_shared(struct kern_device *d, uint32_t i, uint32_t section)
{
    struct attention *a = &d->attention;
    struct span *s = add_span(a, section);
    for (uint32_t k = i; k < a->n_split && s->n < SHARED_TOKENS; k++) {
        uint32_t first = a->split[i], token = a->split[k];
        if (k > i && (a->is_taken[k] || !is_shared(d, first, token, section)))
            continue;
        a->is_taken[k] = true;
        add_member(a, s, token, SECTION_BLOCKS);
    }
}

/* True while some token has that section. */
static bool plan_section(struct kern_device *d, uint32_t section)
{
    struct attention *a = &d->attention;
    uint32_t before = a->n_spans;
    for (uint32_t i = 0; i < a->n_split; i++)
        a->is_taken[i] = sections_of(d, a->split[i]) <= section;
    for (uint32_t i = 0; i < a->n_split; i++)
        if (!a->is_taken[i])
            plan_shared(d, i, section);
    return a->n_spans > before;
}

static int by_cost(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->cost < y->cost) - (x->cost > y->cost);
}

void cpu_plan_attention(struct kern_device *d)
{
    struct attention *a = &d->attention;
    const uint32_t *seq = d->step->seq;
    a->n_spans = a->n_members = a->n_split = a->n_parts = 0;
    for (uint32_t t = 0, n; t < d->step->n_tok; t += n) {
        for (n = 1; t + n < d->step->n_tok && seq[t + n] == seq[t];)
            n++;
        if (n > 1 || !split_token(d, t))
            plan_run(d, t, n);
    }
    for (uint32_t section = 0; plan_section(d, section);)
        section++;
    /* The dearest first: no thread is left with a long one at the end. */
    qsort(a->span, a->n_spans, sizeof *a->span, by_cost);
}
