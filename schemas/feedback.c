/* Codec of milepost.feedback.v1: the request body a client posts, and the record on the wire. */
#include "schemas/feedback.h"

#include "schemas/codec.h"

#include <math.h>

enum { FEEDBACK_MAX_BYTES = 256 * 1024, MAX_TEXT = 64 * 1024 };

#define FIELD(key, type, flags, max)                                                               \
    {                                                                                              \
#key, type, flags, offsetof(struct feedback, key), 0, max                                  \
    }

static const struct codec_field ORIGIN[] = {
    FIELD(engine, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(epoch, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(seq, CODEC_U64, CODEC_REQUIRED, 0),
    FIELD(created_us, CODEC_I64, CODEC_REQUIRED, 0),
};

static const struct codec_field CONTENT[] = {
    FIELD(request_id, CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, CODEC_MAX_NAME),
    FIELD(value, CODEC_REAL, CODEC_SKIP_EMPTY, 1),
    FIELD(corrected, CODEC_TEXT, CODEC_SKIP_EMPTY, MAX_TEXT),
    FIELD(comment, CODEC_TEXT, CODEC_SKIP_EMPTY, MAX_TEXT),
};

enum { N_ORIGIN = sizeof ORIGIN / sizeof *ORIGIN, N_CONTENT = sizeof CONTENT / sizeof *CONTENT };

/* An absent value reads as NaN; the struct says so with a flag instead. */
static void settle_value(struct feedback *f)
{
    f->has_value = !isnan(f->value);
    if (!f->has_value)
        f->value = 0;
}

static int check_content(const struct feedback *f, struct err *e)
{
    if (f->has_value || f->corrected.n > 0 || f->comment.n > 0)
        return ERR_OK;
    return err_set(e, ERR_INVALID,
                   "feedback says nothing: give value, thumb, corrected or comment");
}

static int read_thumb(const struct json_at *root, struct feedback *out, struct err *e)
{
    static const char *const thumbs[] = {"down", "up"};
    struct json_at at = json_field(root, "thumb");
    if (!at.v || json_is_null(at.v))
        return ERR_OK;
    if (out->has_value)
        return err_set(e, ERR_INVALID, "$.thumb: give either value or thumb, not both");
    size_t value = 0;
    int rc = codec_get_name(root, "thumb", thumbs, 2, &value, e);
    if (rc == ERR_OK) {
        out->has_value = true;
        out->value = (double)value;
    }
    return rc;
}

int feedback_decode_request(struct str body, struct arena *a, struct feedback *out, struct err *e)
{
    *out = (struct feedback){0};
    if (body.n > FEEDBACK_MAX_BYTES)
        return err_set(e, ERR_INVALID, "feedback of %zu bytes; at most %d are allowed", body.n,
                       FEEDBACK_MAX_BYTES);
    json_t *doc = NULL;
    int rc = json_parse(body, JSON_UNIQUE_KEYS, &doc, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(doc);
    rc = codec_read(&root, CONTENT, N_CONTENT, a, out, e);
    if (rc == ERR_OK) {
        settle_value(out);
        rc = read_thumb(&root, out, e);
    }
    if (rc == ERR_OK)
        rc = check_content(out, e);
    json_decref(doc);
    return rc;
}

int feedback_decode(struct str json, struct arena *a, struct feedback *out, struct err *e)
{
    *out = (struct feedback){0};
    json_t *doc = NULL;
    int rc = codec_open(json, FEEDBACK_SCHEMA, FEEDBACK_MAX_BYTES, &doc, e);
    if (rc != ERR_OK)
        return rc;
    struct json_at root = json_root(doc);
    rc = codec_read(&root, ORIGIN, N_ORIGIN, a, out, e);
    if (rc == ERR_OK)
        rc = codec_read(&root, CONTENT, N_CONTENT, a, out, e);
    if (rc == ERR_OK) {
        settle_value(out);
        rc = check_content(out, e);
    }
    json_decref(doc);
    return rc;
}

int feedback_encode(const struct feedback *f, struct buf *out, struct err *e)
{
    struct feedback copy = *f;
    if (!f->has_value)
        copy.value = NAN;
    json_t *obj = codec_new(FEEDBACK_SCHEMA);
    if (!obj)
        return err_set(e, ERR_NOMEM, "out of memory for feedback");
    int rc = codec_write(obj, ORIGIN, N_ORIGIN, f, e);
    if (rc == ERR_OK)
        rc = codec_write(obj, CONTENT, N_CONTENT, &copy, e);
    if (rc == ERR_OK)
        rc = json_write(obj, out, e);
    json_decref(obj);
    return rc;
}
