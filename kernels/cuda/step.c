/* What a step works on: its arrays on the device, the KV cache, attention and the head. */
#include "kernels/cuda/device.h"

#include <string.h>

enum { MIN_HEAD = 8, MAX_HEAD = 256 };
/* Runs of this many tokens of a sequence share their loads of keys and values. */
enum { MIN_PROMPT = 8, STEP_WORDS = 7 /* a token's, beside its table */ };

static size_t value_bytes(enum kern_kv_type type)
{
    return type == KERN_KV_INT8 || type == KERN_KV_FP8 ? 1 : 2;
}

static size_t layer_slots(const struct kern_attn_shape *s) /* of K, in one layer and block */
{
    return (size_t)KERN_BLOCK_TOKENS * s->n_head_kv;
}

size_t device_kv_block_bytes(const struct kern_attn_shape *s)
{
    size_t step = s->kv_type == KERN_KV_INT8 ? sizeof(uint16_t) : 0;
    return 2 * s->n_layer * layer_slots(s) * (s->d_head * value_bytes(s->kv_type) + step);
}

static bool take_cache(struct kern_device *d, struct kern_kv *kv)
{
    const struct kern_attn_shape *s = &kv->shape;
    size_t slots = layer_slots(s) * s->n_blocks;
    kv->layer_bytes = slots * s->d_head * value_bytes(s->kv_type);
    kv->layer_steps = s->kv_type == KERN_KV_INT8 ? slots * sizeof(uint16_t) : 0;
    kv->all.k = device_take(d, s->n_layer, kv->layer_bytes);
    kv->all.v = device_take(d, s->n_layer, kv->layer_bytes);
    kv->all.k_step = device_take(d, s->n_layer, kv->layer_steps);
    kv->all.v_step = device_take(d, s->n_layer, kv->layer_steps);
    return kv->all.k && kv->all.v && kv->all.k_step && kv->all.v_step;
}

/* Partial sums of one token at the longest context. */
static size_t chunk_floats(const struct kern_attn_shape *s)
{
    size_t chunks = s->max_position / ATTEND_CHUNK + 1;
    return chunks * s->n_head * (s->d_head + 2);
}

static bool take_step(struct kern_device *d, const struct kern_attn_shape *s)
{
    size_t blocks = 1, words, counts = (size_t)d->max_tok * s->n_head;
    while (blocks * KERN_BLOCK_TOKENS < s->max_position)
        blocks *= 2;
    if (!size_mul(d->max_tok, blocks + STEP_WORDS, &words) || words > SIZE_MAX / sizeof *d->stage)
        return false;
    for (int i = 0; i < MAX_UNDER_WAY; i++)
        if (!(d->steps.slot[i].stage = d->dev->host_alloc(words * sizeof *d->stage)))
            return false;
    d->stage = device_take(d, words, sizeof *d->stage);
    d->part_floats = chunk_floats(s) * d->max_tok;
    if (d->part_floats > MAX_PART_FLOATS)
        d->part_floats = MAX_PART_FLOATS;
    d->part = device_take(d, d->part_floats, sizeof *d->part);
    d->count = device_take(d, counts, sizeof *d->count);
    if (!d->stage || !d->part || !d->count)
        return false;
    d->dev->fill(d->count, 0, counts * sizeof *d->count, d->stream);
    return true;
}

static int upload_ropes(struct kern_device *d, struct kern_kv *kv, struct err *e)
{
    int rc = ERR_OK;
    for (uint32_t i = 0; i < kv->shape.n_rope && rc == ERR_OK; i++) {
        size_t n = kv->shape.n_rot / 2;
        double *copy = device_take(d, n, sizeof *copy);
        if (!copy)
            return device_no_memory(d, "rotations", e);
        rc = device_upload(d, copy, kv->shape.inv_freq[i], n * sizeof *copy, e);
        kv->inv_freq[i] = copy;
    }
    return rc;
}

int device_kv(struct kern_device *d, const struct kern_attn_shape *shape, struct kern_kv **out,
              struct err *e)
{
    if (shape->d_head % MIN_HEAD || shape->d_head > MAX_HEAD ||
        chunk_floats(shape) > MAX_PART_FLOATS)
        return err_set(e, ERR_UNSUPPORTED,
                       "backend %s: %u heads of %u at %u positions: heads are a multiple of %d, at "
                       "most %d; backend ref takes any",
                       d->dev->name, shape->n_head, shape->d_head, shape->max_position, MIN_HEAD,
                       MAX_HEAD);
    struct kern_kv *kv = arena_alloc(&d->arena, sizeof *kv);
    if (!kv)
        return err_set(e, ERR_NOMEM, "backend %s: the KV cache", d->dev->name);
    device_graphs_close(d); /* they name the cache before */
    *kv = (struct kern_kv){.shape = *shape};
    static const enum kv_format FORMATS[] = {[KERN_KV_F16] = KV_F16,
                                             [KERN_KV_INT8] = KV_INT8,
                                             [KERN_KV_BF16] = KV_BF16,
                                             [KERN_KV_FP8] = KV_FP8};
    kv->format = FORMATS[shape->kv_type];
    if (!take_cache(d, kv) || !take_step(d, shape))
        return device_no_memory(d, "the KV cache", e);
    *out = kv;
    return upload_ropes(d, kv, e);
}

static void copy_in_layers(struct kern_device *d, const struct kern_kv *kv, void *all,
                           size_t layer_bytes, uint32_t from, uint32_t to)
{
    size_t block = layer_bytes / kv->shape.n_blocks;
    for (uint32_t l = 0; l < kv->shape.n_layer && block; l++) {
        char *layer = (char *)all + l * layer_bytes;
        d->dev->copy(layer + to * block, layer + from * block, block, DEV_ON_DEVICE, d->stream);
    }
}

void device_copy_blocks(struct kern_device *d, struct kern_kv *kv, uint32_t n, const uint32_t *from,
                        const uint32_t *to)
{
    for (uint32_t i = 0; i < n && !d->graphs.is_again; i++) { /* else they are copied already */
        copy_in_layers(d, kv, kv->all.k, kv->layer_bytes, from[i], to[i]);
        copy_in_layers(d, kv, kv->all.v, kv->layer_bytes, from[i], to[i]);
        copy_in_layers(d, kv, kv->all.k_step, kv->layer_steps, from[i], to[i]);
        copy_in_layers(d, kv, kv->all.v_step, kv->layer_steps, from[i], to[i]);
    }
}

/* Which tokens prompts share and which stand alone, to the stage from word `at` on; words then. */
static size_t plan_attention(struct kern_device *d, const struct kern_step *step,
                             const struct kern_kv *kv, size_t at)
{
    uint32_t group = kv->shape.n_head / kv->shape.n_head_kv, most = PROMPT_ROWS / group;
    uint32_t n = step->n_tok, *single = device_slot(d)->stage + at, *tile = single + n;
    d->single = d->stage + at;
    d->tile = (const struct prompt_tile *)(d->single + n);
    d->n_single = d->n_tiles = 0;
    for (uint32_t t = 0, end; t < n; t = end) {
        for (end = t + 1; end < n && step->seq[end] == step->seq[t]; end++)
            continue;
        bool is_prompt = end - t >= MIN_PROMPT && most > 0;
        for (uint32_t i = t; i < end && !is_prompt; i++)
            single[d->n_single++] = i;
        for (uint32_t i = t; i < end && is_prompt; i += most, d->n_tiles++) {
            *tile++ = i;
            *tile++ = end - i < most ? end - i : most;
        }
    }
    return at + 3 * (size_t)n;
}

/* A power of two, so that few different ones are seen: chunks that a token has not cost a block
 * that ends at once. */
static uint32_t graph_chunks(uint32_t chunks, uint32_t max_position)
{
    uint32_t rounded = 1, most = max_position / ATTEND_CHUNK + 1;
    while (rounded < chunks)
        rounded *= 2;
    return rounded < most ? rounded : most;
}

static bool names_rows(const struct kern_step *step)
{
    for (uint32_t t = 0; t < step->n_tok; t++)
        if (step->token[t] < 0)
            return true;
    return false;
}

/* Token ids, positions, sequences and block tables, in one copy. The width of the tables is a power
 * of two, so that few different ones are seen. */
void device_begin(struct kern_device *d, const struct kern_step *step, struct kern_kv *kv)
{
    struct step_slot *slot = device_slot(d);
    uint32_t n = step->n_tok, last = 0, n_seq = 0, stride = 1;
    if (slot->is_staged) /* a second step of one run */
        (void)!d->dev->sync(d->stream, NULL);
    for (uint32_t t = 0; t < n; t++) {
        last = step->position[t] > last ? step->position[t] : last;
        n_seq = step->seq[t] >= n_seq ? step->seq[t] + 1 : n_seq;
    }
    while (stride * KERN_BLOCK_TOKENS <= last)
        stride *= 2;
    uint32_t *at = slot->stage;
    memcpy(at, step->token, n * sizeof *at);
    memcpy(at + n, step->position, n * sizeof *at);
    uint32_t *row = at + 2 * (size_t)n, *table = at + 4 * (size_t)n, n_rows = 0;
    for (uint32_t t = 0; t < n; t++) {
        bool is_new = t == 0 || step->seq[t] != step->seq[t - 1];
        bool is_last = t + 1 == n || step->seq[t + 1] != step->seq[t];
        n_rows += is_new;
        row[t] = n_rows - 1;
        if (is_last)
            memcpy(table + (size_t)(n_rows - 1) * stride, step->block_table[step->seq[t]],
                   (step->position[t] / KERN_BLOCK_TOKENS + 1) * sizeof *table);
    }
    size_t words = 4 * (size_t)n + (size_t)n_rows * stride;
    words = plan_attention(d, step, kv, words);
    d->dev->copy(d->stage, at, words * sizeof *at, DEV_TO_DEVICE, d->stream);
    if (names_rows(step) && d->draw.on_device.before) /* else another rank draws and embeds */
        device_keep_drawn(d);
    slot->is_staged = true;
    d->kv = kv;
    d->token = (const int32_t *)d->stage;
    d->pick = d->stage + 3 * (size_t)n;
    d->view = (struct step_view){d->stage + n, d->stage + 2 * (size_t)n, d->stage + 4 * (size_t)n,
                                 stride, n};
    d->max_chunks = last / ATTEND_CHUNK + 1;
    library_begin(d);
    if (d->graphs.is_on && n_rows == n && n <= GRAPH_TOKENS) {
        d->max_chunks = graph_chunks(d->max_chunks, kv->shape.max_position);
        device_graph_begin(d);
    }
}

static void *layer_of(void *all, size_t layer_bytes, uint32_t index)
{
    return (char *)all + layer_bytes * index;
}

static const float *data_of(const struct kern_vector *v)
{
    return v ? v->data : NULL;
}

/* By warpgroups where device and cache have them, else by warps. The code of wgmma is for exactly
 * these capabilities (sm_90a), not for later ones. */
static void prompt(struct kern_device *d, const struct attend_args *a)
{
    static const struct warpgroups {
        unsigned capability, kv_formats;
    } HAVE[] = {{90, 1u << KV_F16 | 1u << KV_BF16}};
    for (size_t i = 0; i < sizeof HAVE / sizeof *HAVE; i++)
        if (HAVE[i].capability == d->capability && HAVE[i].kv_formats >> a->kv_format & 1 &&
            d->kernels->prompt_wgmma(a, d->stream))
            return;
    d->kernels->prompt(a, d->stream);
}

/* Slices of tokens whose partial sums fit. */
static void attend(struct kern_device *d, struct attend_args a)
{
    size_t token_floats = (size_t)a.n_head * a.max_chunks * (a.d_head + 2);
    uint32_t most = (uint32_t)(d->part_floats / token_floats);
    if (a.n_tiles)
        prompt(d, &a);
    for (uint32_t t = 0; t < d->n_single; t += most) {
        a.n_rows = d->n_single - t < most ? d->n_single - t : most;
        d->kernels->attend(&a, d->stream);
        a.token += most;
    }
}

void device_attention(struct kern_device *d, const struct kern_attn_layer *layer,
                      struct kern_buffer *qkv, struct kern_buffer *y)
{
    const struct kern_kv *kv = d->kv;
    const struct kern_attn_shape *s = &kv->shape;
    const struct kv_layer cache = {layer_of(kv->all.k, kv->layer_bytes, layer->index),
                                   layer_of(kv->all.v, kv->layer_bytes, layer->index),
                                   layer_of(kv->all.k_step, kv->layer_steps, layer->index),
                                   layer_of(kv->all.v_step, kv->layer_steps, layer->index)};
    const struct heads_args heads = {.step = d->view,
                                     .kv = cache,
                                     .qkv = qkv->data,
                                     .bias = data_of(layer->bias),
                                     .q_norm = data_of(layer->q_norm),
                                     .k_norm = data_of(layer->k_norm),
                                     .inv_freq = kv->inv_freq[layer->rope],
                                     .n_head = s->n_head,
                                     .n_head_kv = s->n_head_kv,
                                     .d_head = s->d_head,
                                     .n_rot = s->n_rot,
                                     .kv_format = kv->format,
                                     .eps = layer->eps};
    d->kernels->heads(&heads, d->stream);
    attend(d, (struct attend_args){.step = d->view,
                                   .token = d->single,
                                   .tile = d->tile,
                                   .n_tiles = d->n_tiles,
                                   .kv = cache,
                                   .qkv = qkv->data,
                                   .y = y->data,
                                   .part = d->part,
                                   .count = d->count,
                                   .n_head = s->n_head,
                                   .n_head_kv = s->n_head_kv,
                                   .d_head = s->d_head,
                                   .kv_format = kv->format,
                                   .window = layer->window,
                                   .max_chunks = d->max_chunks,
                                   .n_blocks = s->n_blocks,
                                   .scale = s->scale});
}

void device_pick(struct kern_device *d, const uint32_t *row, uint32_t n_row)
{
    uint32_t *stage = device_slot(d)->stage + (d->pick - d->stage);
    if (n_row == 0)
        return;
    memcpy(stage, row, n_row * sizeof *row);
    d->dev->copy(d->pick, stage, n_row * sizeof *row, DEV_TO_DEVICE, d->stream);
}

/* Logits of the rows pick[first ...] to d->logits. */
void device_logits(struct kern_device *d, const struct kern_buffer *x, uint32_t first,
                   uint32_t n_row, const struct kern_norm *norm, const struct kern_matrix *w)
{
    const struct product_args a = {.x = x->data,
                                   .pick = d->pick + first,
                                   .norm = norm ? norm->weight->data : NULL,
                                   .y = d->logits,
                                   .x_stride = x->width,
                                   .y_stride = w->rows,
                                   .n_tok = n_row,
                                   .eps = norm ? norm->eps : 0};
    device_products(d, a, w);
}

void device_head(struct kern_device *d, const struct kern_buffer *x, uint32_t n_row,
                 const uint32_t *row, const struct kern_norm *norm, const struct kern_matrix *w,
                 float *logits)
{
    if (!device_graph_end(d))
        return;
    device_pick(d, row, n_row);
    for (uint32_t r = 0; r < n_row; r += LOGITS_ROWS) {
        uint32_t n = n_row - r < LOGITS_ROWS ? n_row - r : LOGITS_ROWS;
        device_logits(d, x, r, n, norm, w);
        d->dev->copy(logits + (size_t)r * w->rows, d->logits, (size_t)n * w->rows * sizeof *logits,
                     DEV_TO_HOST, d->stream);
    }
    (void)!d->dev->sync(d->stream, NULL); /* ranks exchange logits before run ends */
}
