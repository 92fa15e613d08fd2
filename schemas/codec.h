/* schemas/codec.h - flat fields of a message through a table, for the codecs in this folder.
 *
 * A table lists key, type, place in the struct and limits; reading and writing both walk it, so
 * that they cannot drift apart. Unknown fields are left alone; null counts as absent; an absent
 * optional field leaves the struct's zero. Texts are copied into the arena. */
#ifndef SCHEMAS_CODEC_H
#define SCHEMAS_CODEC_H

#include "common/json.h"

enum codec_type {
    CODEC_TEXT, /* struct str; max = longest length in bytes */
    CODEC_U64,  /* uint64_t; JSON carries up to 2^63-1 */
    CODEC_U32,
    CODEC_I64,
    CODEC_REAL, /* double in [min, max]; an absent or null one is NaN */
    CODEC_BOOL,
    CODEC_HEX /* char[65]: 64 lower case hex digits, or empty */
};

enum { CODEC_REQUIRED = 1, CODEC_NOT_EMPTY = 2, CODEC_SKIP_EMPTY = 4 };

struct codec_field {
    const char *key;
    enum codec_type type;
    unsigned flags;
    size_t offset;
    double min, max;
};

enum { CODEC_MAX_NAME = 256 }; /* longest id, route, arm, author, model */

MUST_USE int codec_check_size(struct str text, const char *schema, size_t max_bytes, struct err *e);
/* Parses a message and checks "schema". ERR_INVALID: too large, not JSON, no schema, another
 * message; ERR_UNSUPPORTED: another version of it. Release with json_decref. */
MUST_USE int codec_open(struct str text, const char *schema, size_t max_bytes, json_t **out,
                        struct err *e);
/* A member that stays text: of a message opened without it. */
struct codec_apart {
    const char *key;
    struct str text; /* its value as it stands, borrowed from the message; empty = absent */
};
/* As codec_open, but n members of the message are not read into the tree: whoever reads their
 * text checks it. */
MUST_USE int codec_open_apart(struct str text, const char *schema, size_t max_bytes,
                              struct codec_apart *apart, size_t n, json_t **out, struct err *e);
/* {key: value} of such a member as a tree, so that messages name its place; {} when it is absent.
 * Release with json_decref. */
MUST_USE int codec_parse_apart(const struct codec_apart *apart, json_t **doc, struct err *e);
/* New object with "schema" first. NULL when memory is out. */
json_t *codec_new(const char *schema);

MUST_USE int codec_read(const struct json_at *obj, const struct codec_field *field, size_t n,
                        struct arena *a, void *out, struct err *e);
/* All but those whose bit (of the first 64) is set in `done`. */
MUST_USE int codec_read_others(const struct json_at *obj, const struct codec_field *field, size_t n,
                               uint64_t done, struct arena *a, void *out, struct err *e);
MUST_USE int codec_write(json_t *obj, const struct codec_field *field, size_t n, const void *in,
                         struct err *e);

int codec_refuse_u64(const char *key, struct err *e); /* ERR_INVALID */
/* A field that CODEC_SKIP_EMPTY leaves out. */
bool codec_is_empty(const struct codec_field *f, const void *in);

/* Takes v; ERR_NOMEM when v is NULL or memory is out. */
MUST_USE int codec_put(json_t *obj, const char *key, json_t *v, struct err *e);
/* JSON object text (empty = nothing is put) as a member. */
MUST_USE int codec_put_object_text(json_t *obj, const char *key, struct str text, struct err *e);
/* The member as JSON text in the arena; absent = empty. It must be an object. */
MUST_USE int codec_get_object_text(const struct json_at *obj, const char *key, size_t max_bytes,
                                   struct arena *a, struct str *out, struct err *e);
/* Index of the text in names[n]; ERR_INVALID lists what is allowed. */
MUST_USE int codec_get_name(const struct json_at *obj, const char *key, const char *const *names,
                            size_t n, size_t *out, struct err *e);

#endif
