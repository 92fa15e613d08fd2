/* One allocation per array, at submit, so that no step ever allocates. */
#include "engine/sched/sequence.h"

#include "engine/sched/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

int seq_new(struct sequence **out, const struct gen_request *r, struct mono now, struct err *e)
{
    uint32_t cap = r->n_prompt + (uint32_t)r->params.v[PARAM_MAX_NEW_TOKENS];
    uint32_t n_blocks = (cap + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    struct sequence *s = calloc(1, sizeof *s);
    *out = s;
    if (s) {
        s->tokens = calloc(cap, sizeof *s->tokens);
        s->blocks = calloc(n_blocks, sizeof *s->blocks);
    }
    if (!s || !s->tokens || !s->blocks) {
        seq_free(s);
        *out = NULL;
        return err_set(e, ERR_NOMEM, "request of %u tokens", cap);
    }
    s->request = *r;
    s->n_capacity = cap;
    s->n_tokens = r->n_prompt;
    s->cache_entry = PREFIX_ROOT;
    s->submitted = now;
    memcpy(s->tokens, r->prompt, r->n_prompt * sizeof *s->tokens);
    return ERR_OK;
}

void seq_free(struct sequence *s)
{
    if (!s)
        return;
    free(s->tokens);
    free(s->blocks);
    free(s);
}
