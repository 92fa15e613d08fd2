/* The cpu backend: opening, memory and the ops table. */
#include "kernels/cpu/device.h"

#include <stdlib.h>
#include <string.h>

static void cpu_close(struct kern_device *d)
{
    if (!d)
        return;
    team_close(d->team);
    cpu_big_free_all(d);
    arena_free(&d->arena);
    free(d);
}

static int no_memory(const char *what, struct err *e)
{
    return err_set(e, ERR_NOMEM, "backend cpu: no memory for %s", what);
}

static int cpu_open(struct kern_device **out, const struct kern_options *o, struct err *e)
{
    *out = NULL;
    struct kern_device *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory("the device", e);
    arena_init(&d->arena, SIZE_MAX / 2);
    d->max_tok = o->max_tok;
    d->isa = cpu_isa_select(getenv("MILEPOST_CPU_ISA"));
    int rc = d->isa ? team_open(&d->team, o->n_threads, e)
                    : err_set(e, ERR_UNSUPPORTED,
                              "MILEPOST_CPU_ISA: this machine runs some of avx512, avx2, plain");
    if (rc == ERR_OK) {
        d->alone = arena_array(&d->arena, team_size(d->team), sizeof *d->alone);
        d->score = arena_array(&d->arena, team_size(d->team), sizeof *d->score);
        if (!d->alone || !d->score)
            rc = no_memory("the threads", e);
    }
    if (rc != ERR_OK)
        cpu_close(d);
    else
        *out = d;
    return rc;
}

static uint32_t cpu_n_threads(const struct kern_device *d)
{
    return team_size(d->team);
}

static size_t cpu_weight_bytes(const struct kern_device *d)
{
    return d->weight_bytes;
}

static bool alloc_acts(struct kern_device *d, struct cpu_acts *a, uint32_t n_tok, uint32_t cols)
{
    size_t n;
    if (!size_mul(n_tok, cols, &n))
        return false;
    a->q = cpu_big_alloc(d, n);
    a->scale = cpu_big_alloc(d, n / UNIT * sizeof *a->scale);
    a->sum = cpu_big_alloc(d, n / UNIT * sizeof *a->sum);
    return a->q && a->scale && a->sum;
}

/* For the widest matrix seen; narrower ones are given back at close. */
static bool grow_acts(struct kern_device *d, uint32_t cols)
{
    if (cols <= d->max_cols)
        return true;
    bool ok = alloc_acts(d, &d->acts, d->max_tok, cols);
    for (uint32_t i = 0; i < team_size(d->team); i++)
        ok = ok && alloc_acts(d, &d->alone[i], 1, cols);
    d->max_cols = cols;
    return ok;
}

static int cpu_matrix(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                      uint32_t n_parts, const struct kern_matrix **out, struct err *e)
{
    struct kern_matrix *m = arena_alloc(&d->arena, sizeof *m);
    if (!m)
        return no_memory("a matrix", e);
    m->cols = cols;
    m->n_parts = n_parts;
    int rc = cpu_pack(d, m, parts, e);
    if (rc == ERR_OK && !grow_acts(d, cols))
        rc = no_memory("activations", e);
    if (rc == ERR_OK)
        *out = m;
    return rc;
}

static int cpu_vector(struct kern_device *d, const float *data, uint32_t n,
                      const struct kern_vector **out, struct err *e)
{
    struct kern_vector *v = arena_alloc(&d->arena, sizeof *v);
    float *copy = arena_array(&d->arena, n, sizeof *copy);
    if (!v || !copy)
        return no_memory("a vector", e);
    memcpy(copy, data, n * sizeof *copy);
    *v = (struct kern_vector){n, copy};
    d->weight_bytes += n * sizeof *copy;
    *out = v;
    return ERR_OK;
}

static int cpu_buffer(struct kern_device *d, uint32_t width, struct kern_buffer **out,
                      struct err *e)
{
    struct kern_buffer *b = arena_alloc(&d->arena, sizeof *b);
    size_t n;
    float *data = size_mul(d->max_tok, width, &n) ? cpu_big_alloc(d, n * sizeof *data) : NULL;
    if (!b || !data)
        return no_memory("activations", e);
    *b = (struct kern_buffer){width, data};
    *out = b;
    return ERR_OK;
}

static size_t block_values(const struct kern_attn_shape *s)
{
    return (size_t)2 * KERN_BLOCK_TOKENS * s->d_head;
}

static size_t cpu_kv_block_bytes(const struct kern_attn_shape *s)
{
    return block_values(s) * s->n_layer * s->n_head_kv * sizeof(uint16_t);
}

static bool alloc_scratch(struct kern_device *d, const struct kern_attn_shape *s)
{
    size_t group = s->n_head / s->n_head_kv, positions = (size_t)s->n_blocks * KERN_BLOCK_TOKENS;
    d->rope = cpu_big_alloc(d, (size_t)d->max_tok * s->n_rot * sizeof *d->rope);
    bool ok = d->rope != NULL;
    for (uint32_t i = 0; i < team_size(d->team); i++) {
        d->score[i] = cpu_big_alloc(d, group * positions * sizeof(float));
        ok = ok && d->score[i];
    }
    return ok;
}

static int cpu_kv(struct kern_device *d, const struct kern_attn_shape *shape, struct kern_kv **out,
                  struct err *e)
{
    struct kern_kv *kv = arena_alloc(&d->arena, sizeof *kv);
    size_t bytes;
    if (!kv || !size_mul(cpu_kv_block_bytes(shape), shape->n_blocks, &bytes))
        return no_memory("the KV cache", e);
    kv->shape = *shape;
    kv->block_values = block_values(shape);
    kv->head_values = kv->block_values * shape->n_blocks;
    kv->layer_values = kv->head_values * shape->n_head_kv;
    kv->data = cpu_big_alloc(d, bytes);
    if (!kv->data || !alloc_scratch(d, shape))
        return err_set(e, ERR_NOMEM, "backend cpu: no memory for a KV cache of %zu MiB",
                       bytes >> 20);
    *out = kv;
    return ERR_OK;
}

static int cpu_run(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    (void)e;
    team_run(d->team, body, arg);
    return ERR_OK;
}

static void cpu_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv)
{
    d->step = step;
    d->kv = kv;
}

static void cpu_write(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n)
{
    (void)d;
    memcpy(b->data, src, (size_t)n * b->width * sizeof *src);
}

static void cpu_read(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n)
{
    (void)d;
    memcpy(dst, b->data, (size_t)n * b->width * sizeof *dst);
}

const struct kern_ops KERN_CPU = {
    .name = "cpu",
    .summary = "vectorised: packed 4 and 8 bit weights, int8 activations, f16 cache",
    .open = cpu_open,
    .close = cpu_close,
    .n_threads = cpu_n_threads,
    .weight_bytes = cpu_weight_bytes,
    .matrix = cpu_matrix,
    .vector = cpu_vector,
    .buffer = cpu_buffer,
    .kv = cpu_kv,
    .kv_block_bytes = cpu_kv_block_bytes,
    .run = cpu_run,
    .begin = cpu_begin,
    .embed = cpu_embed,
    .project = cpu_project,
    .project_add = cpu_project_add,
    .gate_up = cpu_gate_up,
    .attention = cpu_attention,
    .head = cpu_head,
    .write = cpu_write,
    .read = cpu_read,
};
