/* Memory of the KV cache and of what attention needs for a step. Pages become resident when a block
 * is first written, so a pool larger than its use costs nothing. */
#include "kernels/cpu/device.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INT8_HEAD = 512 }; /* integer sums of longer heads could overflow */

static size_t head_bytes(const struct kern_attn_shape *s)
{
    size_t values = (size_t)2 * BLOCK_TOKENS * s->d_head;
    if (s->kv_type == KERN_KV_INT8)
        return values + 2 * BLOCK_TOKENS * sizeof(uint16_t);
    return values * sizeof(uint16_t);
}

size_t cpu_kv_block_bytes(const struct kern_attn_shape *s)
{
    return head_bytes(s) * s->n_head_kv * s->n_layer;
}

static int check_shape(const struct kern_attn_shape *s, struct err *e)
{
    if (s->d_head % LANES != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend cpu: heads of %u: a multiple of %d is supported; "
                       "backend ref takes any",
                       s->d_head, LANES);
    if (s->kv_type == KERN_KV_INT8 && s->d_head > MAX_INT8_HEAD)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend cpu: an int8 KV cache takes heads up to %d, not %u: use f16",
                       MAX_INT8_HEAD, s->d_head);
    return attention_refuse_kv("cpu", s, e);
}

static bool take_scratch(struct kern_device *d, const struct kern_attn_shape *s)
{
    size_t part = s->d_head + PART_EXTRA;
    bool ok = true;
    for (uint32_t i = 0; i < team_size(d->team); i++) {
        struct thread_scratch *t = &d->scratch[i];
        t->score = memory_take(&d->scratch_memory, MAX_QUERIES * SECTION_TOKENS, sizeof *t->score);
        t->part = memory_take(&d->scratch_memory, 2 * MAX_QUERIES * part, sizeof *t->part);
        t->words = memory_take(&d->scratch_memory, 2 * MAX_QUERIES * s->d_head, sizeof *t->words);
        ok = ok && t->score && t->part && t->words;
    }
    return ok;
}

static bool take_attention(struct kern_device *d, const struct kern_attn_shape *s)
{
    struct attention *a = &d->attention;
    struct memory *m = &d->scratch_memory;
    size_t n_tok = d->max_tok, split = n_tok < MAX_SPLIT_TOKENS ? n_tok : MAX_SPLIT_TOKENS;
    size_t n_sections = ((size_t)s->max_position + SECTION_TOKENS - 1) / SECTION_TOKENS;
    size_t members = n_tok + split * n_sections, parts = split * n_sections * s->n_head;
    size_t n_quant = s->kv_type == KERN_KV_INT8 ? n_tok * s->n_head : 0;
    a->max_parts = parts < UINT32_MAX ? (uint32_t)parts : UINT32_MAX;
    a->turn = memory_take(m, s->n_rope * n_tok * 2 * s->n_rot, sizeof *a->turn);
    a->quant = memory_take(m, n_quant * 2 * s->d_head, sizeof *a->quant);
    a->quant_scale = memory_take(m, n_quant * 2, sizeof *a->quant_scale);
    a->span = memory_take(m, members, sizeof *a->span);
    a->member = memory_take(m, members, sizeof *a->member);
    a->split = memory_take(m, split, sizeof *a->split);
    a->first_part = memory_take(m, n_tok, sizeof *a->first_part);
    a->is_taken = memory_take(m, split, sizeof *a->is_taken);
    a->part = memory_take(m, a->max_parts, (s->d_head + PART_EXTRA) * sizeof *a->part);
    return a->turn && a->quant && a->quant_scale && a->span && a->member && a->split &&
           a->first_part && a->is_taken && a->part;
}

int cpu_kv(struct kern_device *d, const struct kern_attn_shape *shape, struct kern_kv **out,
           struct err *e)
{
    int rc;
    TRY(check_shape(shape, e));
    struct kern_kv *kv = memory_take(&d->scratch_memory, 1, sizeof *kv);
    if (kv) {
        kv->shape = *shape;
        kv->head_bytes = head_bytes(shape);
        kv->layer_bytes = kv->head_bytes * shape->n_head_kv;
        kv->block_bytes = cpu_kv_block_bytes(shape);
        kv->data = memory_take(&d->memory, shape->n_blocks, kv->block_bytes);
    }
    if (!kv || !kv->data || !take_attention(d, shape) || !take_scratch(d, shape))
        return err_set(e, ERR_NOMEM, "backend cpu: no memory for a KV cache of %u blocks",
                       shape->n_blocks);
    *out = kv;
out:
    return rc;
}

void cpu_copy_blocks(struct kern_device *d, struct kern_kv *kv, uint32_t n, const uint32_t *from,
                     const uint32_t *to)
{
    (void)d;
    for (uint32_t i = 0; i < n; i++)
        memcpy(kv->data + to[i] * kv->block_bytes, kv->data + from[i] * kv->block_bytes,
               kv->block_bytes);
}
