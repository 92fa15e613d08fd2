/* Codec of milepost.output.v1. Flat fields by table; messages, tokens and parameters by hand.
 *
 * A record comes from the network: every count is checked against its limit before memory is taken.
 * No state; any thread. */
#include "schemas/output.h"

#include "schemas/codec.h"
#include "schemas/token_lists.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_MESSAGES = 4096, MAX_METADATA_BYTES = 256 * 1024 };

#define FIELD(key, type, flags, max)                                                               \
    {                                                                                              \
#key, type, flags, offsetof(struct output, key), 0, max                                    \
    }

static const struct codec_field KEY_FIELDS[] = {
    FIELD(engine, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(request_id, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(choice, CODEC_U32, 0, 0),
};

static const struct codec_field FIELDS[] = {
    FIELD(route, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(revision, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(arm, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(experiment, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    FIELD(propensity, CODEC_REAL, CODEC_REQUIRED, 1),
    FIELD(stratum, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    FIELD(unit, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    FIELD(admission, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(desired_version, CODEC_U64, 0, 0),
    FIELD(prompt, CODEC_TEXT, CODEC_SKIP_EMPTY, OUTPUT_MAX_BYTES),
    FIELD(text, CODEC_TEXT, CODEC_REQUIRED, OUTPUT_MAX_BYTES),
    FIELD(finish_reason, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, 32),
    FIELD(prompt_tokens, CODEC_U32, CODEC_REQUIRED, 0),
    FIELD(cached_tokens, CODEC_U32, 0, 0),
    FIELD(completion_tokens, CODEC_U32, CODEC_REQUIRED, 0),
    FIELD(queue_us, CODEC_U64, 0, 0),
    FIELD(ttft_us, CODEC_U64, 0, 0),
    FIELD(decode_us, CODEC_U64, 0, 0),
    FIELD(created_us, CODEC_I64, CODEC_REQUIRED, 0),
    FIELD(model, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
    FIELD(weights, CODEC_TEXT, CODEC_SKIP_EMPTY, CODEC_MAX_NAME),
};

enum { N_KEY = sizeof KEY_FIELDS / sizeof *KEY_FIELDS, N_FIELD = sizeof FIELDS / sizeof *FIELDS };

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for an output record");
}

/* Encoding. */

static int put_messages(json_t *obj, const struct output *o, struct err *e)
{
    if (o->n_messages == 0)
        return ERR_OK;
    json_t *list = json_array();
    bool is_good = list != NULL;
    for (uint32_t i = 0; i < o->n_messages && is_good; i++) {
        json_t *m = json_object();
        is_good = json_object_set_new(m, "role", json_str(o->messages[i].role)) == 0 &&
                  json_object_set_new(m, "content", json_str(o->messages[i].content)) == 0;
        is_good = json_array_append_new(list, m) == 0 && is_good;
    }
    int rc = codec_put(obj, "messages", list, e);
    return is_good ? rc : no_memory(e);
}

int output_encode(const struct output *o, struct buf *out, struct err *e)
{
    json_t *obj = codec_new(OUTPUT_SCHEMA);
    if (!obj)
        return no_memory(e);
    int rc = codec_write(obj, KEY_FIELDS, N_KEY, o, e);
    if (rc == ERR_OK)
        rc = codec_write(obj, FIELDS, N_FIELD, o, e);
    if (rc == ERR_OK)
        rc = put_messages(obj, o, e);
    if (rc == ERR_OK)
        rc = codec_put(obj, "effective", params_encode(&o->effective), e);
    if (rc == ERR_OK)
        rc = codec_put_object_text(obj, "metadata", o->metadata, e);
    if (rc == ERR_OK)
        rc = json_write(obj, out, e);
    json_decref(obj);
    if (rc != ERR_OK)
        return rc;
    token_lists_append(out, o);
    return buf_check(out, "output", e);
}

/* Decoding. */

static int get_messages(const struct json_at *root, struct arena *a, struct output *out,
                        struct err *e)
{
    static const struct codec_field fields[] = {
        {"role", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY,
         offsetof(struct output_message, role), 0, 64},
        {"content", CODEC_TEXT, CODEC_REQUIRED, offsetof(struct output_message, content), 0,
         OUTPUT_MAX_BYTES},
    };
    struct json_at at = json_field(root, "messages");
    if (!at.v || json_is_null(at.v))
        return ERR_OK;
    size_t n = 0;
    int rc = json_get_array(&at, MAX_MESSAGES, &n, e);
    if (rc != ERR_OK)
        return rc;
    struct output_message *m = arena_array(a, n + 1, sizeof *m);
    if (!m)
        return no_memory(e);
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(&at, i);
        rc = json_get_object(&item, e);
        if (rc == ERR_OK)
            rc = codec_read(&item, fields, 2, a, &m[i], e);
    }
    out->messages = m;
    out->n_messages = (uint32_t)n;
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

static int decode_body(const struct json_at *root, struct arena *a, struct output *out,
                       struct err *e)
{
    int rc = codec_read(root, KEY_FIELDS, N_KEY, a, out, e);
    if (rc == ERR_OK)
        rc = codec_read(root, FIELDS, N_FIELD, a, out, e);
    if (rc == ERR_OK)
        rc = get_messages(root, a, out, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at effective = json_field(root, "effective");
    rc = params_decode_known(&effective, a, &out->effective, e);
    if (rc == ERR_OK)
        rc = codec_get_object_text(root, "metadata", MAX_METADATA_BYTES, a, &out->metadata, e);
    return rc;
}

int output_decode(struct str json, struct arena *a, struct output *out, struct err *e)
{
    *out = (struct output){0};
    json_t *doc = NULL;
    struct codec_apart lists[] = {{.key = "token_ids"}, {.key = "logprobs"}};
    int rc = codec_open_apart(json, OUTPUT_SCHEMA, OUTPUT_MAX_BYTES, lists, 2, &doc, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(doc);
    rc = decode_body(&root, a, out, e);
    json_decref(doc);
    return rc == ERR_OK ? token_lists_read(lists[0].text, lists[1].text, a, out, e) : rc;
}

int output_decode_key(struct str json, struct arena *a, struct output *out, struct err *e)
{
    *out = (struct output){0};
    json_t *doc = NULL;
    if (json.n > OUTPUT_MAX_BYTES)
        return err_set(e, ERR_INVALID, "output of %zu bytes; at most %d are allowed", json.n,
                       OUTPUT_MAX_BYTES);
    int rc = json_parse(json, 0, &doc, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(doc);
    rc = codec_read(&root, KEY_FIELDS, N_KEY, a, out, e);
    json_decref(doc);
    return rc;
}
