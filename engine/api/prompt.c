/* What a request's body says, as tokens: the part of admission that grows with the body. For a
 * large one it runs on the reader thread (reader.c), which touches nothing but the job's own parts
 * and what never changes. */
#include "engine/api/job.h"

int job_no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for this request: try again later");
}

static int encode_text(struct job *j, size_t *n, struct err *e)
{
    const struct api_config *c = &j->api->config;
    const struct tokenizer_info *info = tokenizer_get_info(c->tokenizer);
    uint32_t skip = info->add_bos && info->bos >= 0 ? 1 : 0;
    if (skip)
        j->prompt[0] = info->bos;
    int rc = tokenizer_encode(c->tokenizer, j->request.prompt, false, j->prompt + skip,
                              c->max_context - skip, n, e);
    *n += skip;
    return rc;
}

static int too_long(struct job *j, const char *least, size_t n, struct err *e)
{
    j->code = "context_length_exceeded";
    return err_set(e, ERR_INVALID,
                   "$.%s: %s%zu tokens; with room for an answer at most %u are allowed",
                   j->request.kind == API_CHAT ? "messages" : "prompt", least, n,
                   j->api->config.max_context - 1);
}

/* No token stands for more bytes than the longest: what cannot fit is refused before the loop
 * spends time on its tokens. */
static size_t least_tokens(const struct job *j)
{
    const struct api_request *q = &j->request;
    size_t bytes = q->prompt.n;
    for (uint32_t i = 0; i < q->n_messages; i++)
        bytes += q->messages[i].content.n;
    return bytes / j->api->longest_token;
}

static int encode_prompt(struct job *j, struct err *e)
{
    const struct api_config *c = &j->api->config;
    const struct api_request *q = &j->request;
    size_t n = q->n_ids;
    int rc = ERR_OK;
    if (least_tokens(j) >= c->max_context)
        return too_long(j, "at least ", least_tokens(j), e);
    j->prompt = q->ids;
    if (!j->prompt) {
        j->prompt = arena_array(&j->arena, c->max_context, sizeof *j->prompt);
        if (!j->prompt)
            return job_no_memory(e);
        if (q->kind == API_CHAT)
            rc = chat_template_encode(c->chat_template, c->tokenizer, c->file, q->messages,
                                      q->n_messages, j->prompt, c->max_context, &n, e);
        else
            rc = encode_text(j, &n, e);
    }
    if ((rc == ERR_OK || rc == ERR_NOMEM) && n >= c->max_context)
        return too_long(j, "", n, e);
    if (rc == ERR_INVALID && q->kind == API_CHAT)
        err_wrap(e, "$.messages");
    j->n_prompt = (uint32_t)n;
    return rc;
}

int job_read(struct job *j, struct err *e)
{
    int rc;
    TRY(api_request_parse(j->body, j->request.kind, &j->arena, &j->request, e));
    TRY(encode_prompt(j, e));
out:
    if (rc == ERR_NOT_FOUND && !j->code) /* a part that the body must have */
        e->code = ERR_INVALID;
    return rc;
}
