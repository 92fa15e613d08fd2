/* Opening and running a model: finds architecture and backend, checks a batch, hands over. */
#include "engine/model/arch.h"

#include "common/hash.h"

#include <stdlib.h>

static struct str hash_weights(const struct gguf *file, struct arena *a)
{
    uint64_t h = 0;
    for (uint64_t i = 0; i < gguf_tensor_count(file); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(file, i);
        h = hash64(t->name.p, t->name.n, h);
        h = hash64(t->data, t->bytes, h);
    }
    return arena_printf(a, "%016llx", (unsigned long long)h);
}

static int open_parts(struct model *m, const struct gguf *file, struct err *e)
{
    struct str arch, name = {0};
    int rc;
    TRY(gguf_get_str(file, "general.architecture", &arch, e));
    TRY(model_arch_find(&m->arch, arch, e));
    TRY(kern_find(&m->ops, m->options.backend, e));
    if (gguf_get_str(file, "general.name", &name, NULL) != ERR_OK)
        name = STR("");
    m->info.arch = str_from(m->arch->name);
    m->info.name = arena_str(&m->arena, str_slice(name, 0, 256));
    m->info.weights_hash = hash_weights(file, &m->arena);
    struct kern_options ko = {.n_threads = m->options.n_threads};
    TRY(m->ops->open(&m->kern, &ko, m->options.max_batch_tokens, e));
    TRY(m->arch->open(m, file, e));
out:
    return rc;
}

int model_open(struct model **out, const struct gguf *file, const struct model_options *options,
               struct err *e)
{
    *out = NULL;
    if (options->n_kv_blocks == 0 || options->max_batch_tokens == 0 || options->max_batch_rows == 0)
        return err_set(e, ERR_INVALID, "model: KV blocks, batch tokens and rows must be above 0");
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "model");
    arena_init(&m->arena, 64u << 20);
    m->options = *options;
    int rc = open_parts(m, file, e);
    if (rc != ERR_OK) {
        model_close(m);
        return rc;
    }
    *out = m;
    return ERR_OK;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    if (m->arch && m->kern)
        m->arch->close(m);
    if (m->ops)
        m->ops->close(m->kern);
    arena_free(&m->arena);
    free(m);
}

const struct model_info *model_get_info(const struct model *m)
{
    return &m->info;
}

int model_forward(struct model *m, const struct model_batch *b, float *logits, struct err *e)
{
    if (b->n_tok == 0 || b->n_tok > m->options.max_batch_tokens ||
        b->n_row > m->options.max_batch_rows)
        return err_set(e, ERR_BUG, "batch of %u tokens and %u rows: at most %u and %u", b->n_tok,
                       b->n_row, m->options.max_batch_tokens, m->options.max_batch_rows);
    for (uint32_t i = 0; i < b->n_tok; i++)
        if ((uint32_t)b->token[i] >= m->info.n_vocab || b->position[i] >= m->info.n_ctx_train)
            return err_set(e, ERR_BUG, "batch token %u: id %d at position %u is out of range", i,
                           (int)b->token[i], b->position[i]);
    return m->arch->forward(m, b, logits, e);
}
