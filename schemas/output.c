/* Codec of milepost.output.v1. Flat fields by table; messages, tokens and parameters by hand.
 *
 * A record comes from the network: every count is checked against its limit before memory is taken.
 * No state; any thread. */
#include "schemas/output.h"

#include "common/json_members.h"
#include "schemas/codec_direct.h"
#include "schemas/plain.h"
#include "schemas/token_lists.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_MESSAGES = 4096, PLAIN_MESSAGES = 16, MAX_METADATA_BYTES = 256 * 1024 };

#define FIELD(key, type, flags, max)                                                               \
    {                                                                                              \
#key, type, flags, offsetof(struct output, key), 0, max                                    \
    }

static const struct codec_field FIELDS[] = {
    /* the key first */
    FIELD(engine, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(request_id, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(choice, CODEC_U32, 0, 0),
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

enum { N_KEY = 5, N_FIELD = sizeof FIELDS / sizeof *FIELDS };

static const struct codec_field MESSAGE_FIELDS[] = {
    {"role", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct output_message, role), 0,
     64},
    {"content", CODEC_TEXT, CODEC_REQUIRED, offsetof(struct output_message, content), 0,
     OUTPUT_MAX_BYTES},
};

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for an output record");
}

/* Encoding. */

static int put_messages(struct buf *out, const struct output *o, struct err *e)
{
    int rc = ERR_OK;
    if (o->n_messages)
        buf_put_c(out, ",\"messages\":[");
    for (uint32_t i = 0; i < o->n_messages && rc == ERR_OK; i++) {
        buf_put_c(out, i ? ",{" : "{");
        rc = codec_write_direct(out, MESSAGE_FIELDS, 2, &o->messages[i], e);
        buf_put_char(out, '}');
    }
    if (o->n_messages)
        buf_put_char(out, ']');
    return rc;
}

static int put_metadata(struct buf *out, struct str text, struct err *e)
{
    json_t *v = NULL;
    if (text.n == 0)
        return ERR_OK;
    bool is_plain = plain_object(text);
    int rc = is_plain ? ERR_OK : json_parse(text, 0, &v, e);
    if (rc != ERR_OK)
        return err_wrap(e, "metadata");
    buf_put_c(out, ",\"metadata\":");
    if (is_plain)
        buf_put_str(out, text);
    else
        rc = json_write(v, out, e);
    json_decref(v);
    return rc;
}

int output_encode(const struct output *o, struct buf *out, struct err *e)
{
    codec_open_direct(out, OUTPUT_SCHEMA);
    int rc = codec_write_direct(out, FIELDS, N_FIELD, o, e);
    if (rc == ERR_OK)
        rc = put_messages(out, o, e);
    buf_put_c(out, ",\"effective\":");
    params_write(&o->effective, out);
    if (rc == ERR_OK)
        rc = put_metadata(out, o->metadata, e);
    buf_put_char(out, '}');
    if (rc == ERR_OK)
        rc = buf_check(out, "output", e);
    if (rc != ERR_OK)
        return rc;
    token_lists_append(out, o);
    return buf_check(out, "output", e);
}

/* Decoding. */

/* {"role":TEXT,"content":TEXT} and no more. */
static enum plain take_message(struct str text, struct arena *a, struct output_message *out)
{
    struct json_members members;
    struct json_member m;
    enum plain taken = PLAIN_TAKEN;
    int rc = json_members_open(&members, text, NULL);
    while (rc == ERR_OK && taken == PLAIN_TAKEN &&
           (rc = json_members_next(&members, &m, NULL)) == ERR_OK) {
        bool is_role = str_eq_c(m.key, "role");
        if (is_role || str_eq_c(m.key, "content"))
            taken = plain_text(m.value, a, is_role ? &out->role : &out->content);
        else
            taken = PLAIN_NOT;
    }
    bool is_good = rc == ERR_NOT_FOUND && out->content.p && out->role.n > 0 && out->role.n <= 64;
    return taken == PLAIN_TAKEN && !is_good ? PLAIN_NOT : taken;
}

static enum plain take_messages(struct str text, struct arena *a, struct output *out)
{
    struct output_message few[PLAIN_MESSAGES];
    struct json_members items;
    struct str item;
    uint32_t n = 0;
    enum plain taken = PLAIN_TAKEN;
    int rc = json_items_open(&items, text, NULL);
    while (rc == ERR_OK && taken == PLAIN_TAKEN &&
           (rc = json_items_next(&items, &item, NULL)) == ERR_OK) {
        if (n == PLAIN_MESSAGES)
            return PLAIN_NOT;
        few[n] = (struct output_message){{0}, {0}};
        taken = take_message(item, a, &few[n++]);
    }
    if (taken != PLAIN_TAKEN || rc != ERR_NOT_FOUND)
        return taken == PLAIN_TAKEN ? PLAIN_NOT : taken;
    struct output_message *m = arena_array(a, n + 1, sizeof *m);
    if (!m)
        return PLAIN_NO_MEMORY;
    memcpy(m, few, n * sizeof *m);
    out->messages = m;
    out->n_messages = n;
    return PLAIN_TAKEN;
}

static enum plain take_effective(struct str text, struct arena *a, struct output *out)
{
    (void)a;
    return params_take_plain(text, &out->effective) ? PLAIN_TAKEN : PLAIN_NOT;
}

static enum plain take_metadata(struct str text, struct arena *a, struct output *out)
{
    if (text.n > MAX_METADATA_BYTES || !plain_object(text))
        return PLAIN_NOT;
    out->metadata = arena_str(a, text);
    return out->metadata.p ? PLAIN_TAKEN : PLAIN_NO_MEMORY;
}

static int get_messages(const struct json_at *root, struct arena *a, struct output *out,
                        struct err *e)
{
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
            rc = codec_read(&item, MESSAGE_FIELDS, 2, a, &m[i], e);
    }
    out->messages = m;
    out->n_messages = (uint32_t)n;
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

static int get_effective(const struct json_at *root, struct arena *a, struct output *out,
                         struct err *e)
{
    struct json_at at = json_field(root, "effective");
    return params_decode_known(&at, a, &out->effective, e);
}

static int get_metadata(const struct json_at *root, struct arena *a, struct output *out,
                        struct err *e)
{
    return codec_get_object_text(root, "metadata", MAX_METADATA_BYTES, a, &out->metadata, e);
}

enum { TOKEN_IDS, LOGPROBS, MESSAGES, EFFECTIVE, METADATA, N_APART };

/* The members that are neither flat nor token lists: as they are usually written, or by a tree. */
static int decode_parts(const struct codec_apart part[N_APART], struct arena *a, struct output *out,
                        struct err *e)
{
    static enum plain (*const TAKE[N_APART])(struct str text, struct arena * a,
                                             struct output * out) = {
        [MESSAGES] = take_messages, [EFFECTIVE] = take_effective, [METADATA] = take_metadata};
    static int (*const GET[N_APART])(const struct json_at *root, struct arena *a,
                                     struct output *out, struct err *e) = {
        [MESSAGES] = get_messages, [EFFECTIVE] = get_effective, [METADATA] = get_metadata};
    int rc = ERR_OK;
    for (int i = MESSAGES; i < N_APART && rc == ERR_OK; i++) {
        enum plain taken = TAKE[i](part[i].text, a, out);
        if (taken == PLAIN_NO_MEMORY)
            rc = no_memory(e);
        if (taken != PLAIN_NOT)
            continue;
        json_t *doc = NULL;
        rc = codec_parse_apart(&part[i], &doc, e);
        struct json_at root = json_root(doc);
        if (rc == ERR_OK)
            rc = GET[i](&root, a, out, e);
        json_decref(doc);
    }
    return rc;
}

static int read_columns(struct str json, struct codec_apart part[N_APART], struct arena *a,
                        struct output *out, struct err *e)
{
    static const char *const KEYS[N_APART] = {[TOKEN_IDS] = "token_ids",
                                              [LOGPROBS] = "logprobs",
                                              [MESSAGES] = "messages",
                                              [EFFECTIVE] = "effective",
                                              [METADATA] = "metadata"};
    *out = (struct output){.metadata = STR("")};
    for (int i = 0; i < N_APART; i++)
        part[i] = (struct codec_apart){.key = KEYS[i]};
    const struct codec_direct c = {OUTPUT_SCHEMA, OUTPUT_MAX_BYTES, FIELDS, N_FIELD, part, N_APART};
    return codec_read_direct(json, &c, a, out, e);
}

int output_decode_columns(struct str json, struct arena *a, struct output *out, struct err *e)
{
    struct codec_apart part[N_APART];
    return read_columns(json, part, a, out, e);
}

int output_decode(struct str json, struct arena *a, struct output *out, struct err *e)
{
    struct codec_apart part[N_APART];
    int rc = read_columns(json, part, a, out, e);
    if (rc == ERR_OK)
        rc = decode_parts(part, a, out, e);
    if (rc == ERR_OK)
        rc = token_lists_read(part[TOKEN_IDS].text, part[LOGPROBS].text, a, out, e);
    return rc;
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
    rc = codec_read(&root, FIELDS, N_KEY, a, out, e);
    json_decref(doc);
    return rc;
}
