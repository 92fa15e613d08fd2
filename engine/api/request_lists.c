/* Request fields that hold lists or objects: messages, prompt, stop, logit_bias, metadata. */
#include "engine/api/request.h"

#include <string.h>

enum { MAX_PARTS = 256 };

static int no_memory(const struct json_at *at, struct err *e)
{
    char path[96];
    json_path(at, path, sizeof path);
    return err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

/* Content as parts: [{"type":"text","text":"..."}, ...], joined. */
static int read_parts(const struct json_at *at, struct arena *a, struct str *out, struct err *e)
{
    size_t n = 0;
    struct buf text;
    buf_init(&text, 64 * MiB);
    int rc;
    TRY(json_get_array(at, MAX_PARTS, &n, e));
    for (size_t i = 0; i < n; i++) {
        struct json_at part = json_item(at, i), type = json_field(&part, "type"),
                       body = json_field(&part, "text");
        struct str kind = {0}, piece = {0};
        TRY(json_get_object(&part, e));
        TRY(json_get_str(&type, &kind, e));
        if (!str_eq_c(kind, "text"))
            TRY(api_refuse_field(&type, e, "only \"text\" parts are supported"));
        TRY(json_get_str(&body, &piece, e));
        buf_put_str(&text, piece);
    }
    TRY(buf_check(&text, "message content", e));
    *out = arena_str(a, buf_str(&text));
    if (!out->p)
        rc = no_memory(at, e);
out:
    buf_free(&text);
    return rc;
}

static int read_message(const struct json_at *at, struct arena *a, struct chat_message *out,
                        struct err *e)
{
    struct json_at role = json_field(at, "role"), content = json_field(at, "content");
    int rc;
    TRY(json_get_object(at, e));
    rc = json_get_str(&role, &out->role, e);
    if (rc == ERR_NOT_FOUND)
        rc = api_refuse_field(&role, e, "is required");
    if (rc != ERR_OK)
        return rc;
    if (str_eq_c(out->role, "developer"))
        out->role = STR("system");
    if (!content.v || json_is_null(content.v))
        return api_refuse_field(&content, e, "is required");
    rc = json_is_array(content.v) ? read_parts(&content, a, &out->content, e)
                                  : json_get_str(&content, &out->content, e);
out:
    return rc;
}

int api_read_messages(const struct json_at *at, struct arena *a, struct api_request *r,
                      struct err *e)
{
    size_t n = 0;
    int rc = json_get_array(at, API_MAX_MESSAGES, &n, e);
    if (rc == ERR_OK && n == 0)
        return api_refuse_field(at, e, "must hold at least one message");
    if (rc != ERR_OK)
        return rc;
    r->messages = arena_array(a, n, sizeof *r->messages);
    if (!r->messages)
        return no_memory(at, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(at, i);
        rc = read_message(&item, a, &r->messages[i], e);
    }
    r->n_messages = (uint32_t)n;
    return rc;
}

static int read_ids(const struct json_at *at, size_t n, struct arena *a, struct api_request *r,
                    struct err *e)
{
    r->ids = arena_array(a, n, sizeof *r->ids);
    if (!r->ids)
        return no_memory(at, e);
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        int64_t id = 0;
        int rc = json_get_i64(&item, 0, INT32_MAX, &id, e);
        if (rc != ERR_OK)
            return rc;
        r->ids[i] = (int32_t)id;
    }
    r->n_ids = (uint32_t)n;
    return ERR_OK;
}

int api_read_prompt(const struct json_at *at, struct arena *a, struct api_request *r, struct err *e)
{
    size_t n = 0;
    if (!json_is_array(at->v))
        return json_get_str(at, &r->prompt, e);
    int rc = json_get_array(at, 1u << 20, &n, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at first = json_item(at, 0);
    if (n == 0)
        return api_refuse_field(at, e, "must be a text, or at least one token id");
    if (json_is_string(first.v) && n == 1)
        return json_get_str(&first, &r->prompt, e);
    if (json_is_string(first.v) || json_is_array(first.v))
        return api_refuse_field(at, e, "one prompt a request: send several requests");
    return read_ids(at, n, a, r, e);
}

static int read_one_stop(const struct json_at *at, struct params *p, struct err *e)
{
    struct str text = {0};
    int rc = json_get_str(at, &text, e);
    if (rc == ERR_OK && (text.n == 0 || text.n > PARAMS_MAX_STOP_BYTES))
        return api_refuse_field(at, e, "must be 1 to 256 bytes");
    if (rc == ERR_OK)
        p->stop[p->n_stop++] = text;
    return rc;
}

int api_read_stop(const struct json_at *at, struct arena *a, struct api_request *r, struct err *e)
{
    (void)a;
    size_t n = 0;
    if (json_is_string(at->v))
        return read_one_stop(at, &r->client, e);
    int rc = json_get_array(at, PARAMS_MAX_STOP, &n, e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(at, i);
        rc = read_one_stop(&item, &r->client, e);
    }
    return rc;
}

int api_read_logit_bias(const struct json_at *at, struct arena *a, struct api_request *r,
                        struct err *e)
{
    const char *key;
    json_t *value;
    int rc = json_get_object(at, e);
    size_t n = rc == ERR_OK ? json_object_size(at->v) : 0;
    if (n > GEN_MAX_BIAS)
        return api_refuse_field(at, e, "at most 1024 tokens may have a bias");
    r->bias = arena_array(a, n + 1, sizeof *r->bias);
    if (rc == ERR_OK && !r->bias)
        return no_memory(at, e);
    json_t *object = (json_t *)(uintptr_t)at->v; /* jansson's iterator is not const */
    json_object_foreach(object, key, value)
    {
        struct json_at item = json_field(at, key);
        int64_t token;
        double bias = 0;
        if (rc != ERR_OK)
            break;
        if (str_to_i64(str_from(key), &token, NULL) != ERR_OK || token < 0 || token > INT32_MAX)
            return api_refuse_field(&item, e, "the key must be a token id");
        rc = json_get_f64(&item, -100, 100, &bias, e);
        r->bias[r->n_bias++] = (struct gen_bias){(int32_t)token, (float)bias};
    }
    return rc;
}

int api_read_metadata(const struct json_at *at, struct arena *a, struct api_request *r,
                      struct err *e)
{
    struct buf text;
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        rc = json_opt_str(at, "conversation_id", &r->conversation, e);
    if (rc == ERR_OK)
        rc = json_opt_str(at, "stratum", &r->stratum, e);
    if (rc != ERR_OK)
        return rc;
    if (r->stratum.n > API_MAX_STRATUM)
        return api_refuse_field(at, e, "must have a stratum of at most 64 bytes");
    buf_init(&text, API_MAX_METADATA);
    rc = json_write(at->v, &text, e);
    if (rc != ERR_OK || text.failed)
        rc = api_refuse_field(at, e, "must be at most 65536 bytes of JSON");
    else
        r->metadata = arena_str(a, buf_str(&text));
    buf_free(&text);
    return rc;
}
