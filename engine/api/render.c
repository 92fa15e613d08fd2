/* JSON of replies and chunks, written straight into the job's buffer: no tree per token. Everything
 * that comes from outside passes buf_put_json. */
#include "engine/api/job.h"

enum { ERROR_STATUS = 500 };
static const double LOWEST_LOGPROB = -9999; /* OpenAI's number for "as good as impossible" */

static void put_quoted(struct buf *b, struct str s)
{
    buf_put_char(b, '"');
    buf_put_json(b, s);
    buf_put_char(b, '"');
}

static void put_number(struct buf *b, double v)
{
    buf_printf(b, "%.6g", v > LOWEST_LOGPROB ? v : LOWEST_LOGPROB); /* NaN too */
}

/* From the opening brace up to the choices. */
static void put_head(struct job *j, const char *object)
{
    struct buf *b = &j->chunk;
    struct str model = j->request.model.n ? j->request.model : j->api->config.model;
    buf_put_c(b, "{\"id\":");
    put_quoted(b, j->id);
    buf_printf(b, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
               (long long)(j->created.us / 1000000));
    put_quoted(b, model);
    buf_printf(b, ",\"system_fingerprint\":\"milepost-r%llu-",
               (unsigned long long)j->route.arm->revision.number);
    buf_put_json(b, j->route.arm->name);
    buf_put_c(b, "\",\"choices\":[");
}

static void put_chunk_head(struct job *j)
{
    buf_put_c(&j->chunk, "data: ");
    put_head(j, j->request.kind == API_CHAT ? "chat.completion.chunk" : "text_completion");
}

static void put_chunk_end(struct job *j)
{
    buf_put_c(&j->chunk, j->request.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

/* Chat: one entry per token, with its bytes, since a token may be part of a character. */
static void put_token(struct job *j, int32_t token, double logprob)
{
    struct buf *b = &j->chunk;
    struct str bytes = tokenizer_token_bytes(j->api->config.tokenizer, token);
    buf_put_c(b, "{\"token\":");
    put_quoted(b, bytes);
    buf_put_c(b, ",\"logprob\":");
    put_number(b, logprob);
    buf_put_c(b, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.n; i++)
        buf_printf(b, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes.p[i]);
    buf_put_char(b, ']');
}

static const struct gen_top *top_of(const struct choice *c, uint32_t i)
{
    return c->top + (size_t)i * c->job->request.n_top;
}

static void put_chat_logprobs(const struct choice *c, uint32_t from)
{
    struct job *j = c->job;
    struct buf *b = &j->chunk;
    buf_put_c(b, "{\"content\":[");
    for (uint32_t i = from; i < c->n_token; i++) {
        buf_put_c(b, i > from ? "," : "");
        put_token(j, c->token[i], c->logprob[i]);
        buf_put_c(b, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < j->request.n_top && top_of(c, i)[k].token >= 0; k++) {
            buf_put_c(b, k ? "," : "");
            put_token(j, top_of(c, i)[k].token, top_of(c, i)[k].logprob);
            buf_put_char(b, '}');
        }
        buf_put_c(b, "]}");
    }
    buf_put_c(b, "],\"refusal\":null}");
}

static void put_top_object(const struct choice *c, uint32_t i)
{
    struct buf *b = &c->job->chunk;
    const struct tokenizer *t = c->job->api->config.tokenizer;
    buf_put_char(b, '{');
    for (uint32_t k = 0; k < c->job->request.n_top && top_of(c, i)[k].token >= 0; k++) {
        buf_put_c(b, k ? "," : "");
        put_quoted(b, tokenizer_token_bytes(t, top_of(c, i)[k].token));
        buf_put_char(b, ':');
        put_number(b, top_of(c, i)[k].logprob);
    }
    buf_put_char(b, '}');
}

/* Completions: four lists side by side. Offsets count bytes of the tokens before. */
static void put_text_logprobs(const struct choice *c, uint32_t from)
{
    struct buf *b = &c->job->chunk;
    const struct tokenizer *t = c->job->api->config.tokenizer;
    size_t offset = 0;
    buf_put_c(b, "{\"tokens\":[");
    for (uint32_t i = from; i < c->n_token; i++) {
        buf_put_c(b, i > from ? "," : "");
        put_quoted(b, tokenizer_token_bytes(t, c->token[i]));
    }
    buf_put_c(b, "],\"token_logprobs\":[");
    for (uint32_t i = from; i < c->n_token; i++) {
        buf_put_c(b, i > from ? "," : "");
        put_number(b, c->logprob[i]);
    }
    buf_put_c(b, "],\"top_logprobs\":[");
    for (uint32_t i = from; i < c->n_token && c->job->request.n_top; i++) {
        buf_put_c(b, i > from ? "," : "");
        put_top_object(c, i);
    }
    buf_put_c(b, "],\"text_offset\":[");
    for (uint32_t i = 0; i < c->n_token; i++) {
        if (i >= from)
            buf_printf(b, "%s%zu", i > from ? "," : "", offset);
        offset += tokenizer_token_bytes(t, c->token[i]).n;
    }
    buf_put_c(b, "]}");
}

/* ,"logprobs":...  of the tokens from `from` on. */
static void put_logprobs(const struct choice *c, uint32_t from)
{
    struct job *j = c->job;
    buf_put_c(&j->chunk, ",\"logprobs\":");
    if (!j->request.want_logprobs || from >= c->n_token)
        buf_put_c(&j->chunk, "null");
    else if (j->request.kind == API_CHAT)
        put_chat_logprobs(c, from);
    else
        put_text_logprobs(c, from);
}

static const char *finish_shown(const struct choice *c)
{
    return str_eq_c(str_from(c->finish), "stop") ? "stop" : "length";
}

void render_first(struct job *j, const struct choice *c)
{
    put_chunk_head(j);
    buf_printf(&j->chunk,
               "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
               "\"logprobs\":null,\"finish_reason\":null}",
               c->index);
    put_chunk_end(j);
}

static void put_delta(struct job *j, const struct choice *c, struct str piece)
{
    struct buf *b = &j->chunk;
    bool is_chat = j->request.kind == API_CHAT;
    buf_printf(
        b, is_chat ? "{\"index\":%u,\"delta\":{\"content\":" : "{\"index\":%u,\"text\":", c->index);
    put_quoted(b, piece);
    buf_put_c(b, is_chat ? "}" : "");
}

void render_piece(struct job *j, const struct choice *c, struct str piece, bool has_token)
{
    put_chunk_head(j);
    put_delta(j, c, piece);
    put_logprobs(c, has_token ? c->n_token - 1 : c->n_token);
    buf_put_c(&j->chunk, ",\"finish_reason\":null}");
    put_chunk_end(j);
}

void render_last(struct job *j, const struct choice *c)
{
    struct buf *b = &j->chunk;
    bool is_chat = j->request.kind == API_CHAT;
    if (c->tail.n && is_chat)
        render_piece(j, c, c->tail, false);
    put_chunk_head(j);
    if (is_chat)
        buf_printf(b, "{\"index\":%u,\"delta\":{}", c->index);
    else
        put_delta(j, c, c->tail);
    buf_printf(b, ",\"logprobs\":null,\"finish_reason\":\"%s\"}", finish_shown(c));
    put_chunk_end(j);
}

static void put_usage(struct job *j)
{
    uint64_t completion = 0, cached = 0;
    for (uint32_t i = 0; i < j->request.n; i++) {
        completion += j->choice[i].n_token;
        if (j->choice[i].output.cached_tokens > cached)
            cached = j->choice[i].output.cached_tokens;
    }
    buf_printf(&j->chunk,
               "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%llu}}",
               j->n_prompt, (unsigned long long)completion,
               (unsigned long long)(j->n_prompt + completion), (unsigned long long)cached);
}

void render_usage(struct job *j)
{
    put_chunk_head(j);
    buf_put_c(&j->chunk, "],");
    put_usage(j);
    buf_put_c(&j->chunk, "}\n\n");
}

void render_stream_error(struct job *j)
{
    buf_put_c(&j->chunk, "data: ");
    api_put_error(&j->chunk, ERROR_STATUS, str_from(j->error.msg), STR(""), NULL);
    buf_put_c(&j->chunk, "\n\n");
}

void render_body(struct job *j)
{
    struct buf *b = &j->chunk;
    bool is_chat = j->request.kind == API_CHAT;
    put_head(j, is_chat ? "chat.completion" : "text_completion");
    for (uint32_t i = 0; i < j->request.n; i++) {
        const struct choice *c = &j->choice[i];
        buf_printf(b, "%s{\"index\":%u,", i ? "," : "", i);
        buf_put_c(b, is_chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
        put_quoted(b, buf_str(&c->detok.text));
        buf_put_c(b, is_chat ? ",\"refusal\":null}" : "");
        put_logprobs(c, 0);
        buf_printf(b, ",\"finish_reason\":\"%s\"}", finish_shown(c));
    }
    buf_put_c(b, "],");
    put_usage(j);
    buf_put_char(b, '}');
}
