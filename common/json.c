/* Parsing and typed access on top of jansson.
 *
 * A getter never trusts the document: type, range and length are checked before a value leaves it,
 * and every refusal names the place, what stands there and what may stand there. Nothing here keeps
 * state, so any thread may use it on its own document. The writer is in json_write.c. */
#include "common/json.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { JSON_MAX_BYTES = 64 * 1024 * 1024, PATH_MAX_DEPTH = 24, FOUND_MAX = 72, PATH_CAP = 128 };

int json_parse(struct str text, int flags, json_t **out, struct err *e)
{
    *out = NULL;
    if (text.n > JSON_MAX_BYTES)
        return err_set(e, ERR_INVALID, "JSON text of %zu bytes; at most %d are allowed", text.n,
                       JSON_MAX_BYTES);
    /* jansson 2.14 takes a raw NUL after a number for white space; RFC 8259 knows no such byte. */
    if (text.n && memchr(text.p, '\0', text.n))
        return err_set(e, ERR_INVALID, "not valid JSON: byte %zu is NUL",
                       (size_t)((const char *)memchr(text.p, '\0', text.n) - text.p));
    size_t jansson_flags = JSON_ALLOW_NUL;
    if (flags & JSON_UNIQUE_KEYS)
        jansson_flags |= JSON_REJECT_DUPLICATES;
    if (flags & JSON_ANY_VALUE)
        jansson_flags |= JSON_DECODE_ANY;
    json_error_t je;
    json_t *v = json_loadb(text.p ? text.p : "", text.n, jansson_flags, &je);
    if (!v)
        return err_set(e, ERR_INVALID, "not valid JSON: line %d column %d: %s", je.line, je.column,
                       je.text);
    if (!(flags & JSON_ANY_VALUE) && !json_is_object(v)) {
        int rc = err_set(e, ERR_INVALID, "JSON must be an object, got %s", json_type_name(v));
        json_decref(v);
        return rc;
    }
    *out = v;
    return ERR_OK;
}

/* Places. */

struct json_at json_root(const json_t *v)
{
    return (struct json_at){.v = v};
}

struct json_at json_field(const struct json_at *parent, const char *key)
{
    return (struct json_at){.v = json_object_get(parent->v, key), .parent = parent, .key = key};
}

struct json_at json_item(const struct json_at *parent, size_t index)
{
    return (struct json_at){
        .v = json_array_get(parent->v, index), .parent = parent, .index = index};
}

void json_path(const struct json_at *at, char *out, size_t cap)
{
    const struct json_at *chain[PATH_MAX_DEPTH];
    size_t depth = 0;
    for (; at && at->parent && depth < PATH_MAX_DEPTH; at = at->parent)
        chain[depth++] = at;
    size_t n = (size_t)snprintf(out, cap, "$");
    while (depth > 0 && n < cap) {
        const struct json_at *step = chain[--depth];
        int wrote = step->key ? snprintf(out + n, cap - n, ".%s", step->key)
                              : snprintf(out + n, cap - n, "[%zu]", step->index);
        n += (size_t)wrote;
    }
}

const char *json_type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return v ? names[json_typeof(v)] : "nothing";
}

/* What stands at a place, for a message: numbers with their value, the rest by type. */
static const char *found(const json_t *v, char out[FOUND_MAX])
{
    if (json_is_integer(v))
        snprintf(out, FOUND_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, FOUND_MAX, "%.17g", json_real_value(v));
    else
        snprintf(out, FOUND_MAX, "%s", json_type_name(v));
    return out;
}

static int refuse(const struct json_at *at, struct err *e, const char *want)
{
    char path[PATH_CAP], what[FOUND_MAX];
    json_path(at, path, sizeof path);
    return err_set(e, ERR_INVALID, "%s: must be %s, got %s", path, want, found(at->v, what));
}

static bool is_absent(const struct json_at *at)
{
    return !at->v || json_is_null(at->v);
}

/* ERR_NOT_FOUND for nothing and null, so that each getter starts the same way. */
static int present(const struct json_at *at, const char *want, struct err *e)
{
    if (!is_absent(at))
        return ERR_OK;
    char path[PATH_CAP];
    json_path(at, path, sizeof path);
    return err_set(e, ERR_NOT_FOUND, "%s: missing; must be %s", path, want);
}

/* Getters. */

int json_get_str(const struct json_at *at, struct str *out, struct err *e)
{
    int rc = present(at, "a string", e);
    if (rc != ERR_OK)
        return rc;
    if (!json_is_string(at->v))
        return refuse(at, e, "a string");
    *out = (struct str){json_string_value(at->v), json_string_length(at->v)};
    return ERR_OK;
}

/* An integer, or a real without a fraction that an int64_t can hold: some clients send 3.0. */
static bool as_integer(const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (!json_is_real(v))
        return false;
    double d = json_real_value(v);
    if (d != floor(d) || d < -0x1p63 || d >= 0x1p63)
        return false;
    *out = (int64_t)d;
    return true;
}

int json_get_i64(const struct json_at *at, int64_t min, int64_t max, int64_t *out, struct err *e)
{
    int64_t value = 0;
    if (at->v && as_integer(at->v, &value) && value >= min && value <= max) {
        *out = value;
        return ERR_OK;
    }
    char want[96];
    snprintf(want, sizeof want, "an integer from %" PRId64 " to %" PRId64, min, max);
    return is_absent(at) ? present(at, want, e) : refuse(at, e, want);
}

int json_get_f64(const struct json_at *at, double min, double max, double *out, struct err *e)
{
    double value = json_number_value(at->v);
    if (json_is_number(at->v) && value >= min && value <= max) {
        *out = value;
        return ERR_OK;
    }
    char want[96];
    snprintf(want, sizeof want, "a number from %g to %g", min, max);
    return is_absent(at) ? present(at, want, e) : refuse(at, e, want);
}

int json_get_bool(const struct json_at *at, bool *out, struct err *e)
{
    int rc = present(at, "true or false", e);
    if (rc != ERR_OK)
        return rc;
    if (!json_is_boolean(at->v))
        return refuse(at, e, "true or false");
    *out = json_is_true(at->v);
    return ERR_OK;
}

int json_get_object(const struct json_at *at, struct err *e)
{
    int rc = present(at, "an object", e);
    if (rc == ERR_OK && !json_is_object(at->v))
        rc = refuse(at, e, "an object");
    return rc;
}

int json_get_array(const struct json_at *at, size_t max_items, size_t *n, struct err *e)
{
    int rc = present(at, "an array", e);
    if (rc != ERR_OK)
        return rc;
    if (!json_is_array(at->v))
        return refuse(at, e, "an array");
    size_t count = json_array_size(at->v);
    if (count > max_items) {
        char path[PATH_CAP];
        json_path(at, path, sizeof path);
        return err_set(e, ERR_INVALID, "%s: has %zu items; at most %zu are allowed", path, count,
                       max_items);
    }
    *n = count;
    return ERR_OK;
}

/* Optional fields: only a value that is there can be wrong. */

int json_opt_str(const struct json_at *obj, const char *key, struct str *out, struct err *e)
{
    struct json_at at = json_field(obj, key);
    return is_absent(&at) ? ERR_OK : json_get_str(&at, out, e);
}

int json_opt_i64(const struct json_at *obj, const char *key, int64_t min, int64_t max, int64_t *out,
                 struct err *e)
{
    struct json_at at = json_field(obj, key);
    return is_absent(&at) ? ERR_OK : json_get_i64(&at, min, max, out, e);
}

int json_opt_f64(const struct json_at *obj, const char *key, double min, double max, double *out,
                 struct err *e)
{
    struct json_at at = json_field(obj, key);
    return is_absent(&at) ? ERR_OK : json_get_f64(&at, min, max, out, e);
}

int json_opt_bool(const struct json_at *obj, const char *key, bool *out, struct err *e)
{
    struct json_at at = json_field(obj, key);
    return is_absent(&at) ? ERR_OK : json_get_bool(&at, out, e);
}

/* New values. */

static void put_repaired(struct buf *b, struct str s)
{
    while (s.n > 0) {
        uint32_t cp;
        size_t n = utf8_decode(s, &cp);
        if (n > 0) {
            buf_put(b, s.p, n);
        } else {
            n = utf8_invalid_run(s);
            buf_put_c(b, "\xEF\xBF\xBD");
        }
        s = str_slice(s, n, s.n);
    }
}

json_t *json_str(struct str s)
{
    if (utf8_is_valid(s))
        return json_stringn_nocheck(s.p ? s.p : "", s.n);
    struct buf b;
    buf_init(&b, s.n * 3); /* a bad byte becomes three */
    put_repaired(&b, s);
    json_t *v = b.failed ? NULL : json_stringn_nocheck(b.p, b.n);
    buf_free(&b);
    return v;
}

json_t *json_num(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}
