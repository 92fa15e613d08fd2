/* Opening a model and running a batch. A batch comes from the scheduler, but a wrong index would
 * read foreign memory, so each one is checked against the model's shapes before the device runs. */
#include "engine/model/group.h"

#include "kernels/comm/comm.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH_TOKENS = 1 << 16, MAX_KV_BLOCKS = 1 << 22, MAX_UNDER_WAY = 2 /* ops.h */ };

_Static_assert((int)MODEL_KV_INT8 == (int)KERN_KV_INT8 && (int)MODEL_KV_BF16 == (int)KERN_KV_BF16 &&
                   (int)MODEL_KV_FP8 == (int)KERN_KV_FP8,
               "one list of cache types");
_Static_assert(KV_BLOCK_TOKENS == KERN_BLOCK_TOKENS, "one block size for scheduler and kernels");

static int check_options(const struct model_options *o, struct err *e)
{
    if (o->n_kv_blocks == 0 || o->n_kv_blocks > MAX_KV_BLOCKS)
        return err_set(e, ERR_INVALID, "model: %u KV blocks: 1 to %d", o->n_kv_blocks,
                       MAX_KV_BLOCKS);
    if (o->max_batch_tokens == 0 || o->max_batch_tokens > MAX_BATCH_TOKENS)
        return err_set(e, ERR_INVALID, "model: batches of %u tokens: 1 to %d", o->max_batch_tokens,
                       MAX_BATCH_TOKENS);
    if (o->max_batch_rows > o->max_batch_tokens)
        return err_set(e, ERR_INVALID, "model: %u rows with logits of %u tokens", o->max_batch_rows,
                       o->max_batch_tokens);
    return ERR_OK;
}

static int read_identity(struct model *m, const struct gguf *g, struct err *e)
{
    struct str arch, name = {0};
    int rc;
    TRY(gguf_get_str(g, "general.architecture", &arch, e));
    TRY(arch_find(arch, &m->arch, e));
    rc = gguf_get_str(g, "general.name", &name, e);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    m->name = calloc(1, name.n + 1);
    if (!m->name)
        return err_set(e, ERR_NOMEM, "model");
    if (name.n)
        memcpy(m->name, name.p, name.n);
    m->info.name = (struct str){m->name, name.n};
    m->info.arch = str_from(m->arch->name);
    gguf_content_hash(g, m->hash);
    m->info.weights_hash = (struct str){m->hash, 16};
    rc = ERR_OK;
out:
    return rc;
}

int model_open(struct model **out, const struct gguf *file, const struct model_options *options,
               struct err *e)
{
    int rc;
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "model");
    m->options = *options;
    TRY(check_options(options, e));
    TRY(read_identity(m, file, e));
    TRY(kern_find(options->backend, &m->ops, e));
    const struct kern_options kern = {.n_threads = options->n_threads,
                                      .max_tok = options->max_batch_tokens,
                                      .instruction_set = options->instruction_set,
                                      .device = options->ranks ? options->ranks->rank : 0,
                                      .has_graphs = !options->no_graphs,
                                      .has_fp8_weights = options->has_fp8_weights,
                                      .has_library_gemm = options->has_library_gemm};
    TRY(m->ops->open(&m->device, &kern, e));
    TRY(m->arch->load(m, file, e));
    TRY(group_ready(m, e));
    m->info.weight_bytes = m->ops->weight_bytes(m->device);
    *out = m;
    return ERR_OK;
out:
    group_abort(m, e);
    model_close(m);
    return rc;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    group_close(m);
    if (m->device)
        m->ops->close(m->device);
    free(m->state);
    free(m->name);
    free(m);
}

const struct model_info *model_get_info(const struct model *m)
{
    return &m->info;
}

static int check_token(const struct model *m, const struct model_batch *b, uint32_t t,
                       struct err *e)
{
    uint32_t position = b->position[t];
    bool is_known = b->token[t] >= 0;
    uint32_t id = is_known ? (uint32_t)b->token[t] : (uint32_t)(-1 - b->token[t]);
    if (id >= (is_known ? m->info.n_vocab : m->n_drawn))
        return err_set(e, ERR_INVALID, "batch: token %u has id %d of %u", t, b->token[t],
                       m->info.n_vocab);
    if (position >= m->info.n_ctx_train || position / KV_BLOCK_TOKENS >= m->options.n_kv_blocks)
        return err_set(e, ERR_INVALID, "batch: token %u at position %u: %u and %u KV blocks", t,
                       position, m->info.n_ctx_train, m->options.n_kv_blocks);
    if (t > 0 && b->seq[t] == b->seq[t - 1] && position != b->position[t - 1] + 1)
        return err_set(e, ERR_INVALID, "batch: token %u at position %u after %u", t, position,
                       b->position[t - 1]);
    bool is_last = t + 1 == b->n_tok || b->seq[t + 1] != b->seq[t];
    for (uint32_t i = 0; is_last && i <= position / KV_BLOCK_TOKENS; i++)
        if (b->block_table[b->seq[t]][i] >= m->options.n_kv_blocks)
            return err_set(e, ERR_BUG, "batch: sequence %u, block %u is %u of %u", b->seq[t], i,
                           b->block_table[b->seq[t]][i], m->options.n_kv_blocks);
    return ERR_OK;
}

static int check_copies(const struct model *m, const struct model_batch *b, struct err *e)
{
    for (uint32_t i = 0; i < b->n_copy; i++)
        if (b->copy_from[i] >= m->options.n_kv_blocks || b->copy_to[i] >= m->options.n_kv_blocks)
            return err_set(e, ERR_BUG, "batch: copy of block %u to %u of %u", b->copy_from[i],
                           b->copy_to[i], m->options.n_kv_blocks);
    return ERR_OK;
}

static int check_batch(const struct model *m, const struct model_batch *b, struct err *e)
{
    int rc = ERR_OK;
    if (b->n_tok == 0 || b->n_tok > m->options.max_batch_tokens)
        return err_set(e, ERR_INVALID, "batch: %u tokens: 1 to %u", b->n_tok,
                       m->options.max_batch_tokens);
    if (b->n_row > m->options.max_batch_rows)
        return err_set(e, ERR_INVALID, "batch: %u rows: at most %u", b->n_row,
                       m->options.max_batch_rows);
    TRY(check_copies(m, b, e));
    for (uint32_t t = 0; t < b->n_tok; t++)
        TRY(check_token(m, b, t, e));
    for (uint32_t r = 0; r < b->n_row; r++)
        if (b->row_token[r] >= b->n_tok)
            return err_set(e, ERR_INVALID, "batch: row %u wants token %u of %u", r, b->row_token[r],
                           b->n_tok);
out:
    return rc;
}

struct step {
    struct model *model;
    const struct model_batch *batch;
    float *logits;
};

static void run_step(void *arg)
{
    const struct step *s = arg;
    const struct model_batch *b = s->batch;
    const struct kern_step work = {b->n_tok, b->token, b->position, b->seq, b->block_table};
    struct model *m = s->model;
    if (b->n_copy)
        m->ops->copy_blocks(m->device, m->kv, b->n_copy, b->copy_from, b->copy_to);
    m->ops->begin(m->device, &work, m->kv);
    m->arch->forward(m, b, s->logits);
}

static int forward(struct model *m, const struct model_batch *batch, float *logits, struct err *e)
{
    m->n_drawn = 0;
    struct step s = {m, batch, logits};
    int rc = m->ops->run(m->device, run_step, &s, e);
    return rc == ERR_OK ? group_error(m, e) : rc;
}

int model_forward(struct model *m, const struct model_batch *batch, float *logits, struct err *e)
{
    int rc = check_batch(m, batch, e);
    if (rc != ERR_OK)
        return rc;
    group_send(m, batch);
    return forward(m, batch, logits, e);
}

bool model_can_draw(const struct model *m)
{
    return m->can_draw;
}

bool model_can_overlap(const struct model *m)
{
    return m->can_draw && m->ops->can_overlap(m->device);
}

int model_start(struct model *m, const struct model_batch *batch, const struct kern_draw *draw,
                struct kern_drawn *drawn, float *logits, struct err *e)
{
    if (!m->can_draw)
        return err_set(e, ERR_UNSUPPORTED, "model: backend %s draws no tokens", m->ops->name);
    int rc = check_batch(m, batch, e);
    if (rc != ERR_OK)
        return rc;
    struct step s = {m, batch, logits};
    m->is_drawn = true;
    group_send(m, batch);
    m->draw = draw;
    m->drawn = drawn;
    m->n_drawn = batch->n_row;
    rc = m->ops->start(m->device, run_step, &s, e);
    m->draw = NULL;
    m->is_drawn = false;
    return rc;
}

int model_finish(struct model *m, struct err *e)
{
    int rc = m->ops->finish(m->device, e);
    group_count(m);
    return rc == ERR_OK ? group_error(m, e) : rc;
}

static int finish_all(struct model *m, uint32_t *n_under_way, struct err *e)
{
    int rc = ERR_OK;
    for (; *n_under_way; --*n_under_way)
        rc = rc == ERR_OK ? model_finish(m, e) : model_finish(m, NULL);
    return rc;
}

/* As rank 0 began it: with or without waiting for it. */
static int follow_step(struct model *m, const struct model_batch *batch, uint32_t *n_under_way,
                       struct err *e)
{
    struct step s = {m, batch, NULL};
    int rc;
    if (!m->is_drawn) {
        TRY(finish_all(m, n_under_way, e));
        return forward(m, batch, NULL, e);
    }
    TRY(m->ops->start(m->device, run_step, &s, e));
    m->n_drawn = batch->n_row;
    ++*n_under_way;
out:
    return rc;
}

int model_follow(struct model *m, struct err *e)
{
    struct model_batch batch;
    uint32_t n_under_way = 0;
    int rc;
    for (;;) {
        if (n_under_way == MAX_UNDER_WAY || (n_under_way && !group_is_called(m))) {
            n_under_way--;
            TRY(model_finish(m, e));
            continue;
        }
        TRY(group_receive(m, &batch, e));
        TRY(check_batch(m, &batch, e));
        TRY(follow_step(m, &batch, &n_under_way, e));
    }
out:
    if (rc != ERR_CANCELLED)
        group_abort(m, e);
    (void)!finish_all(m, &n_under_way, NULL);
    return rc == ERR_CANCELLED ? ERR_OK : rc;
}

uint64_t model_comm_us(const struct model *m)
{
    return group_comm_us(m);
}

struct each {
    struct model *model;
    uint32_t n;
    void (*fn)(void *arg, uint32_t i, uint32_t thread);
    void *arg;
};

static void run_each(void *arg)
{
    const struct each *a = arg;
    a->model->ops->each(a->model->device, a->n, a->fn, a->arg);
}

void model_each(struct model *m, uint32_t n, void (*fn)(void *arg, uint32_t i, uint32_t thread),
                void *arg)
{
    struct each a = {m, n, fn, arg};
    if (m->ops->run(m->device, run_each, &a, NULL) != ERR_OK)
        for (uint32_t i = 0; i < n; i++) /* a lost device: the host is still there */
            fn(arg, i, 0);
}

uint32_t model_n_threads(const struct model *m)
{
    return m->ops->n_threads(m->device);
}
