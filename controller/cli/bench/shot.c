/* One request. The clock is read before the event is parsed, so that the client's own work does
 * not count as the server's. */
#include "controller/cli/bench/shot.h"

#include "common/clock.h"
#include "common/http_client.h"
#include "common/json.h"
#include "controller/cli/sse.h"

#include <stdio.h>

struct flight {
    struct shot *shot;
    struct buf *answer;
    struct buf raw; /* the begin of what came, for error answers */
    struct sse sse;
    uint64_t now_us, last_us;
};

static uint64_t now_us(void)
{
    return clock_mono(&CLOCK_REAL).us;
}

static bool take_text(struct flight *f, const json_t *text)
{
    struct str s = {json_string_value(text), json_string_length(text)};

    buf_put_str(f->answer, s);
    return s.n > 0;
}

/* A token may have no text, or none yet: part of a character, a control token. Its event counts as
 * one of the stream, but the first token is the first text. */
static void note_token(struct flight *f, const json_t *delta)
{
    struct shot *s = f->shot;
    const json_t *text = json_object_get(delta, "content");
    const json_t *thought = json_object_get(delta, "reasoning_content");
    bool has_content = take_text(f, text);
    bool has_text = take_text(f, thought) || has_content;

    if (s->first_us == 0 ? !has_text : !json_is_string(text) && !json_is_string(thought))
        return;
    if (s->first_us == 0)
        s->first_us = f->now_us;
    else if (s->n_gap < s->max_gap)
        s->gap_us[s->n_gap++] = (uint32_t)(f->now_us - f->last_us);
    f->last_us = f->now_us;
}

static uint32_t count_of(const json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));

    return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void note_usage(struct shot *s, const json_t *usage)
{
    s->prompt_tokens = count_of(usage, "prompt_tokens");
    s->completion_tokens = count_of(usage, "completion_tokens");
    s->cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

static void note_error(struct shot *s, const json_t *doc)
{
    const char *text = json_string_value(json_object_get(json_object_get(doc, "error"), "message"));

    if (text != NULL)
        snprintf(s->error, sizeof s->error, "%s", text);
}

static bool on_event(void *ctx, struct str data)
{
    struct flight *f = ctx;
    json_t *doc = NULL;

    if (str_eq_c(data, "[DONE]")) {
        f->shot->is_done = true;
        return true;
    }
    if (json_parse(data, 0, &doc, NULL) != ERR_OK)
        return true;
    const json_t *choice = json_array_get(json_object_get(doc, "choices"), 0);
    note_token(f, json_object_get(choice, "delta"));
    if (json_is_object(json_object_get(doc, "usage")))
        note_usage(f->shot, json_object_get(doc, "usage"));
    note_error(f->shot, doc);
    json_decref(doc);
    return true;
}

static bool on_data(void *ctx, struct str piece)
{
    struct flight *f = ctx;

    f->now_us = now_us();
    if (f->raw.n < KiB)
        buf_put_str(&f->raw, str_slice(piece, 0, KiB));
    return sse_feed(&f->sse, piece);
}

static void refused(struct flight *f, int status)
{
    json_t *doc = NULL;
    struct shot *s = f->shot;

    snprintf(s->error, sizeof s->error, "status %d", status);
    if (json_parse(buf_str(&f->raw), 0, &doc, NULL) == ERR_OK)
        note_error(s, doc);
    json_decref(doc);
}

void shot_fire(struct shot *s, const struct target *t, struct http_client *http, struct str body,
               struct buf *answer)
{
    struct flight f = {.shot = s, .answer = answer};
    struct http_result r = {0};
    struct err e = {0};
    struct http_call call = {.url = t->url,
                             .body = body,
                             .headers = t->header,
                             .timeout_ms = t->timeout_ms,
                             .on_data = on_data,
                             .ctx = &f};

    buf_init(&f.raw, 4 * KiB);
    sse_init(&f.sse, MiB, on_event, &f);
    s->start_us = now_us();
    int rc = http_client_call(http, &call, &r, &e);
    s->end_us = now_us();
    if (rc != ERR_OK)
        snprintf(s->error, sizeof s->error, "%.159s", e.msg);
    else if (r.status != 200)
        refused(&f, r.status);
    else if (s->first_us == 0 && s->error[0] == '\0')
        snprintf(s->error, sizeof s->error, "the stream held no text");
    s->is_ok = s->error[0] == '\0';
    http_result_free(&r);
    sse_fini(&f.sse);
    buf_free(&f.raw);
}
