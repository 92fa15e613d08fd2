/* common/json.h - jansson with typed getters that report the JSON path.
 *
 * Getters: the field absent or null gives ERR_NOT_FOUND and leaves *out alone (opt forms: ERR_OK);
 * a wrong type or a value out of range gives ERR_INVALID with path, what was found, what is
 * allowed. Strings are borrowed from the document. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include "common/arena.h"
#include "common/buf.h"

#include <jansson.h>

enum { JSON_UNIQUE_KEYS = 1, JSON_ANY_VALUE = 2 };

/* Whole text is one value (an object unless JSON_ANY_VALUE). Depth and size bounded. NUL escapes
 * are allowed: model output may hold them. Release with json_decref. */
MUST_USE int json_parse(struct str text, int flags, json_t **out, struct err *e);
/* Compact, ASCII not forced, key order kept. */
MUST_USE int json_write(const json_t *v, struct buf *out, struct err *e);
/* Canonical: keys sorted, compact, %.17g reals: for hashing. */
MUST_USE int json_write_canonical(const json_t *v, struct buf *out, struct err *e);

struct json_at { /* a value and where it stands, for messages: "$.messages[2].content" */
    const json_t *v;
    const struct json_at *parent;
    const char *key; /* NULL for an index */
    size_t index;
};
struct json_at json_root(const json_t *v);
struct json_at json_field(const struct json_at *parent, const char *key); /* v NULL if absent */
struct json_at json_item(const struct json_at *parent, size_t index);
void json_path(const struct json_at *at, char *out, size_t cap);

MUST_USE int json_get_str(const struct json_at *at, struct str *out, struct err *e);
MUST_USE int json_get_i64(const struct json_at *at, int64_t min, int64_t max, int64_t *out,
                          struct err *e); /* 3.0 is an integer */
MUST_USE int json_get_f64(const struct json_at *at, double min, double max, double *out,
                          struct err *e);
MUST_USE int json_get_bool(const struct json_at *at, bool *out, struct err *e);
MUST_USE int json_get_object(const struct json_at *at, struct err *e);
MUST_USE int json_get_array(const struct json_at *at, size_t max_items, size_t *n, struct err *e);

/* The same by key of an object; absent or null = ERR_OK and *out unchanged. */
MUST_USE int json_opt_str(const struct json_at *obj, const char *key, struct str *out,
                          struct err *e);
MUST_USE int json_opt_i64(const struct json_at *obj, const char *key, int64_t min, int64_t max,
                          int64_t *out, struct err *e);
MUST_USE int json_opt_f64(const struct json_at *obj, const char *key, double min, double max,
                          double *out, struct err *e);
MUST_USE int json_opt_bool(const struct json_at *obj, const char *key, bool *out, struct err *e);

/* New string value from any bytes: invalid UTF-8 becomes U+FFFD. Never NULL unless out of memory.
 */
json_t *json_str(struct str s);
/* New number; NaN and infinities become null. */
json_t *json_num(double v);
const char *json_type_name(const json_t *v); /* "a string", "null", "nothing" */

#endif
