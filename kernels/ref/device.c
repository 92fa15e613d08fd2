/* The reference backend: opening, memory and the ops table. Weights are copied as they stand in
 * the file and expanded row by row when used. */
#include "kernels/ref/device.h"

#include "kernels/fp8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void ref_close(struct kern_device *d)
{
    if (!d)
        return;
    team_close(d->team);
    arena_free(&d->arena);
    free(d);
}

static int ref_open(struct kern_device **out, const struct kern_options *o, struct err *e)
{
    *out = NULL;
    if (o->has_library_gemm)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend ref: engine.gemm cublaslt is for devices cuda and simt: own here");
    struct kern_device *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, ERR_NOMEM, "backend ref");
    arena_init(&d->arena, SIZE_MAX / 2);
    d->max_tok = o->max_tok;
    d->has_fp8_weights = o->has_fp8_weights;
    int rc = team_open(&d->team, o->n_threads, e);
    if (rc == ERR_OK) {
        d->row_scratch = arena_array(&d->arena, team_size(d->team), sizeof *d->row_scratch);
        d->score = arena_array(&d->arena, team_size(d->team), sizeof *d->score);
        if (!d->row_scratch || !d->score)
            rc = err_set(e, ERR_NOMEM, "backend ref");
    }
    if (rc != ERR_OK) {
        ref_close(d);
        return rc;
    }
    *out = d;
    return ERR_OK;
}

static uint32_t ref_n_threads(const struct kern_device *d)
{
    return team_size(d->team);
}

static size_t ref_weight_bytes(const struct kern_device *d)
{
    return d->weight_bytes;
}

static int no_memory(const char *what, struct err *e)
{
    return err_set(e, ERR_NOMEM, "backend ref: no memory for %s", what);
}

/* Scratch wide enough for the widest matrix seen; the arena keeps the narrower ones. */
static int grow_scratch(struct kern_device *d, uint32_t cols, struct err *e)
{
    if (cols <= d->max_cols)
        return ERR_OK;
    size_t n;
    if (!size_mul(d->max_tok, cols, &n))
        return no_memory("scratch", e);
    d->normed = arena_array(&d->arena, n, sizeof(float));
    d->head_in = arena_array(&d->arena, n, sizeof(float));
    bool ok = d->normed && d->head_in;
    for (uint32_t i = 0; i < team_size(d->team); i++) {
        d->row_scratch[i] = arena_array(&d->arena, cols, sizeof(float));
        ok = ok && d->row_scratch[i];
    }
    d->max_cols = cols;
    return ok ? ERR_OK : no_memory("scratch", e);
}

/* What fp8 leaves of a bf16 part's rows, as float32. */
static void round_part(struct kern_part *part, uint32_t cols, float *to)
{
    const uint16_t *from = part->data;
    for (uint32_t r = 0; r < part->rows; r++, from += cols, to += cols) {
        float most = 0;
        dtype_to_f32(DTYPE_BF16, from, to, cols);
        for (uint32_t i = 0; i < cols; i++)
            most = fmaxf(most, fabsf(to[i]));
        float step = fp8_step(most);
        for (uint32_t i = 0; i < cols; i++)
            to[i] = fp8_to_f32(fp8_from_f32(to[i] / step)) * step;
    }
    part->dtype = DTYPE_F32;
}

static int ref_matrix(struct kern_device *d, uint32_t cols, const struct kern_part *parts,
                      uint32_t n_parts, const struct kern_matrix **out, struct err *e)
{
    struct kern_matrix *m = arena_alloc(&d->arena, sizeof *m);
    if (!m || grow_scratch(d, cols, e) != ERR_OK)
        return no_memory("a matrix", e);
    m->cols = cols;
    m->n_parts = n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t elements;
        size_t block_bytes, bytes;
        if (!dtype_layout(parts[i].dtype, &elements, &block_bytes) || cols % elements)
            return err_set(e, ERR_UNSUPPORTED, "backend ref: rows of %u elements of type %u", cols,
                           parts[i].dtype);
        bool is_fp8 = d->has_fp8_weights && parts[i].dtype == DTYPE_BF16;
        m->row_bytes[i] = is_fp8 ? cols * sizeof(float) : cols / elements * block_bytes;
        void *copy =
            size_mul(m->row_bytes[i], parts[i].rows, &bytes) ? arena_alloc(&d->arena, bytes) : NULL;
        if (!copy)
            return no_memory("a matrix", e);
        m->part[i] = parts[i];
        if (is_fp8)
            round_part(&m->part[i], cols, copy);
        else
            memcpy(copy, parts[i].data, bytes);
        m->part[i].data = copy;
        m->rows += parts[i].rows;
        d->weight_bytes += bytes;
    }
    *out = m;
    return ERR_OK;
}

static int ref_vector(struct kern_device *d, const float *data, uint32_t n,
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

static int ref_buffer(struct kern_device *d, uint32_t width, struct kern_buffer **out,
                      struct err *e)
{
    struct kern_buffer *b = arena_alloc(&d->arena, sizeof *b);
    size_t n;
    float *data = size_mul(d->max_tok, width, &n) ? arena_array(&d->arena, n, sizeof *data) : NULL;
    if (!b || !data)
        return no_memory("activations", e);
    *b = (struct kern_buffer){width, data};
    *out = b;
    return ERR_OK;
}

static size_t layer_values(const struct kern_attn_shape *s) /* of K, in one layer and block */
{
    return (size_t)KERN_BLOCK_TOKENS * s->n_head_kv * s->d_head;
}

static size_t ref_kv_block_bytes(const struct kern_attn_shape *s)
{
    return 2 * sizeof(float) * s->n_layer * layer_values(s);
}

static int ref_kv(struct kern_device *d, const struct kern_attn_shape *shape, struct kern_kv **out,
                  struct err *e)
{
    int rc = attention_refuse_kv("ref", shape, e);
    if (rc != ERR_OK)
        return rc;
    struct kern_kv *kv = arena_alloc(&d->arena, sizeof *kv);
    size_t n;
    if (!kv || !size_mul(layer_values(shape) * shape->n_layer, shape->n_blocks, &n))
        return no_memory("the KV cache", e);
    kv->shape = *shape;
    kv->k = arena_array(&d->arena, n, sizeof(float));
    kv->v = arena_array(&d->arena, n, sizeof(float));
    bool ok = kv->k && kv->v;
    for (uint32_t i = 0; i < team_size(d->team); i++) {
        d->score[i] = arena_array(&d->arena, shape->max_position, sizeof(double));
        ok = ok && d->score[i];
    }
    *out = kv;
    return ok ? ERR_OK : no_memory("the KV cache", e);
}

static int ref_run(struct kern_device *d, void (*body)(void *arg), void *arg, struct err *e)
{
    (void)e;
    team_run(d->team, body, arg);
    return ERR_OK;
}

static void ref_copy_blocks(struct kern_device *d, struct kern_kv *kv, uint32_t n,
                            const uint32_t *from, const uint32_t *to)
{
    size_t block = layer_values(&kv->shape), layer = block * kv->shape.n_blocks;
    (void)d;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t l = 0; l < kv->shape.n_layer; l++) {
            size_t source = l * layer + from[i] * block, target = l * layer + to[i] * block;
            memcpy(kv->k + target, kv->k + source, block * sizeof *kv->k);
            memcpy(kv->v + target, kv->v + source, block * sizeof *kv->v);
        }
    }
}

static void ref_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv)
{
    d->step = step;
    d->kv = kv;
}

static void ref_each(struct kern_device *d, uint32_t n,
                     void (*fn)(void *arg, uint32_t i, uint32_t thread), void *arg)
{
    team_each_item(d->team, n, fn, arg);
}

static void ref_write(struct kern_device *d, struct kern_buffer *b, const float *src, uint32_t n)
{
    (void)d;
    memcpy(b->data, src, (size_t)n * b->width * sizeof *src);
}

static void ref_read(struct kern_device *d, const struct kern_buffer *b, float *dst, uint32_t n)
{
    (void)d;
    memcpy(dst, b->data, (size_t)n * b->width * sizeof *dst);
}

const struct kern_ops KERN_REF = {
    .name = "ref",
    .summary = "plain C, float32: slow, the reference for tests",
    .open = ref_open,
    .close = ref_close,
    .n_threads = ref_n_threads,
    .weight_bytes = ref_weight_bytes,
    .matrix = ref_matrix,
    .vector = ref_vector,
    .buffer = ref_buffer,
    .kv = ref_kv,
    .kv_block_bytes = ref_kv_block_bytes,
    .mixer = ref_mixer,
    .run = ref_run,
    .each = ref_each,
    .copy_blocks = ref_copy_blocks,
    .begin = ref_begin,
    .embed = ref_embed,
    .project = ref_project,
    .project_add = ref_project_add,
    .add_norm = ref_add_norm,
    .gate_up = ref_gate_up,
    .mix = ref_mix,
    .mix_up = ref_mix_up,
    .mix_down = ref_mix_down,
    .add = ref_add,
    .attention = ref_attention,
    .head = ref_head,
    .write = ref_write,
    .read = ref_read,
};
