/* The table walk behind every codec: one reader and one writer per field type.
 *
 * Everything read is checked before it reaches the struct; sizes of texts come from the table, the
 * size of the whole from codec_open. No state; any thread. */
#include "schemas/codec.h"

#include "common/json_members.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEX_DIGITS = 64 };

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "out of memory in a message codec");
}

/* "milepost.output.v2" against "milepost.output.v1": same message, another version. */
static bool is_other_version(struct str got, const char *schema)
{
    const char *version = strrchr(schema, '.');
    struct str stem = {schema, (size_t)(version - schema) + 2}; /* up to and with ".v" */
    return str_starts(got, stem);
}

int codec_check_size(struct str text, const char *schema, size_t max_bytes, struct err *e)
{
    if (text.n <= max_bytes)
        return ERR_OK;
    return err_set(e, ERR_INVALID, "%s: message of %zu bytes; at most %zu are allowed", schema,
                   text.n, max_bytes);
}

static int parse(struct str text, const char *schema, json_t **out, struct err *e)
{
    json_t *doc = NULL;
    int rc = json_parse(text, 0, &doc, e);
    if (rc != ERR_OK)
        return err_wrap(e, "%s", schema);
    struct json_at root = json_root(doc), at = json_field(&root, "schema");
    struct str name = {0};
    rc = json_get_str(&at, &name, e);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(e, ERR_INVALID, "$.schema: missing; must be \"%s\"", schema);
    else if (rc == ERR_OK && !str_eq_c(name, schema))
        rc = err_set(e, is_other_version(name, schema) ? ERR_UNSUPPORTED : ERR_INVALID,
                     "$.schema: this build reads \"%s\", got \"%.64s\"", schema, name.p);
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    *out = doc;
    return ERR_OK;
}

int codec_open(struct str text, const char *schema, size_t max_bytes, json_t **out, struct err *e)
{
    *out = NULL;
    int rc = codec_check_size(text, schema, max_bytes, e);
    return rc == ERR_OK ? parse(text, schema, out, e) : rc;
}

static struct codec_apart *find_apart(struct codec_apart *apart, size_t n, struct str key)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq_c(key, apart[i].key))
            return &apart[i];
    return NULL;
}

/* Of a key that comes twice the last value counts, as in the tree. */
static int cut_apart(struct str text, struct codec_apart *apart, size_t n, struct buf *rest,
                     struct err *e)
{
    struct json_members m;
    struct json_member one;
    int rc = json_members_open(&m, text, e);
    buf_put_char(rest, '{');
    while (rc == ERR_OK && (rc = json_members_next(&m, &one, e)) == ERR_OK) {
        struct codec_apart *a = find_apart(apart, n, one.key);
        if (a) {
            a->text = one.value;
            continue;
        }
        if (rest->n > 1)
            buf_put_char(rest, ',');
        size_t from = (size_t)(one.key.p - text.p) - 1;
        buf_put_str(rest, str_slice(text, from, (size_t)(one.value.p - text.p) + one.value.n));
    }
    buf_put_char(rest, '}');
    return rc == ERR_NOT_FOUND ? buf_check(rest, "message", e) : rc;
}

int codec_open_apart(struct str text, const char *schema, size_t max_bytes,
                     struct codec_apart *apart, size_t n, json_t **out, struct err *e)
{
    struct buf rest;
    *out = NULL;
    for (size_t i = 0; i < n; i++)
        apart[i].text = (struct str){0};
    int rc = codec_check_size(text, schema, max_bytes, e);
    if (rc != ERR_OK)
        return rc;
    buf_init(&rest, max_bytes + 2);
    rc = cut_apart(text, apart, n, &rest, e);
    if (rc != ERR_OK)
        err_wrap(e, "%s", schema);
    else
        rc = parse(buf_str(&rest), schema, out, e);
    buf_free(&rest);
    return rc;
}

int codec_parse_apart(const struct codec_apart *apart, json_t **doc, struct err *e)
{
    json_t *v = NULL;
    int rc = apart->text.n ? json_parse(apart->text, JSON_ANY_VALUE, &v, e) : ERR_OK;
    if (rc != ERR_OK)
        return err_wrap(e, "%s", apart->key);
    *doc = json_object();
    rc = v ? codec_put(*doc, apart->key, v, e) : *doc ? ERR_OK : no_memory(e);
    if (rc != ERR_OK)
        json_decref(*doc);
    return rc;
}

json_t *codec_new(const char *schema)
{
    json_t *obj = json_object();
    if (obj && json_object_set_new(obj, "schema", json_string(schema)) != 0) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

int codec_put(json_t *obj, const char *key, json_t *v, struct err *e)
{
    return json_object_set_new(obj, key, v) == 0 ? ERR_OK : no_memory(e);
}

/* Readers: at is there and not null. */

typedef int read_fn(const struct json_at *at, const struct codec_field *f, struct arena *a,
                    void *out, struct err *e);

static int read_text(const struct json_at *at, const struct codec_field *f, struct arena *a,
                     void *out, struct err *e)
{
    struct str s = {0};
    int rc = json_get_str(at, &s, e);
    if (rc != ERR_OK)
        return rc;
    bool is_too_short = (f->flags & CODEC_NOT_EMPTY) && s.n == 0;
    if (is_too_short || s.n > (size_t)f->max) {
        char path[128];
        json_path(at, path, sizeof path);
        return err_set(e, ERR_INVALID, "%s: text of %zu bytes; %d to %.0f are allowed", path, s.n,
                       (f->flags & CODEC_NOT_EMPTY) != 0, f->max);
    }
    struct str copy = arena_str(a, s);
    if (!copy.p)
        return no_memory(e);
    *(struct str *)out = copy;
    return ERR_OK;
}

static int read_u64(const struct json_at *at, const struct codec_field *f, struct arena *a,
                    void *out, struct err *e)
{
    (void)f, (void)a;
    int64_t v = 0;
    int rc = json_get_i64(at, 0, INT64_MAX, &v, e);
    if (rc == ERR_OK)
        *(uint64_t *)out = (uint64_t)v;
    return rc;
}

static int read_u32(const struct json_at *at, const struct codec_field *f, struct arena *a,
                    void *out, struct err *e)
{
    (void)f, (void)a;
    int64_t v = 0;
    int rc = json_get_i64(at, 0, UINT32_MAX, &v, e);
    if (rc == ERR_OK)
        *(uint32_t *)out = (uint32_t)v;
    return rc;
}

static int read_i64(const struct json_at *at, const struct codec_field *f, struct arena *a,
                    void *out, struct err *e)
{
    (void)f, (void)a;
    return json_get_i64(at, INT64_MIN, INT64_MAX, out, e);
}

static int read_real(const struct json_at *at, const struct codec_field *f, struct arena *a,
                     void *out, struct err *e)
{
    (void)a;
    return json_get_f64(at, f->min, f->max, out, e);
}

static int read_bool(const struct json_at *at, const struct codec_field *f, struct arena *a,
                     void *out, struct err *e)
{
    (void)f, (void)a;
    return json_get_bool(at, out, e);
}

static int read_hex(const struct json_at *at, const struct codec_field *f, struct arena *a,
                    void *out, struct err *e)
{
    (void)a;
    struct str s = {0};
    int rc = json_get_str(at, &s, e);
    if (rc != ERR_OK)
        return rc;
    bool is_good = s.n == HEX_DIGITS || (s.n == 0 && !(f->flags & CODEC_NOT_EMPTY));
    for (size_t i = 0; i < s.n && is_good; i++)
        is_good = (s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f');
    if (!is_good) {
        char path[128];
        json_path(at, path, sizeof path);
        return err_set(e, ERR_INVALID, "%s: must be 64 lower case hex digits", path);
    }
    if (s.n > 0)
        memcpy(out, s.p, s.n);
    ((char *)out)[s.n] = '\0';
    return ERR_OK;
}

int codec_read(const struct json_at *obj, const struct codec_field *field, size_t n,
               struct arena *a, void *out, struct err *e)
{
    return codec_read_others(obj, field, n, 0, a, out, e);
}

int codec_read_others(const struct json_at *obj, const struct codec_field *field, size_t n,
                      uint64_t done, struct arena *a, void *out, struct err *e)
{
    static read_fn *const readers[] = {
        [CODEC_TEXT] = read_text, [CODEC_U64] = read_u64,   [CODEC_U32] = read_u32,
        [CODEC_I64] = read_i64,   [CODEC_REAL] = read_real, [CODEC_BOOL] = read_bool,
        [CODEC_HEX] = read_hex,
    };
    for (size_t i = 0; i < n; i++) {
        const struct codec_field *f = &field[i];
        if (i < 64 && done >> i & 1)
            continue;
        struct json_at at = json_field(obj, f->key);
        void *place = (char *)out + f->offset;
        bool is_absent = !at.v || json_is_null(at.v);
        if (is_absent && (f->flags & CODEC_REQUIRED)) {
            char path[128];
            json_path(&at, path, sizeof path);
            return err_set(e, ERR_INVALID, "%s: missing", path);
        }
        if (is_absent && f->type == CODEC_REAL)
            *(double *)place = NAN;
        if (is_absent)
            continue;
        int rc = readers[f->type](&at, f, a, place, e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Writers. */

typedef json_t *write_fn(const void *in);

static json_t *write_text(const void *in)
{
    return json_str(*(const struct str *)in);
}

static json_t *write_u64(const void *in)
{
    uint64_t v = *(const uint64_t *)in;
    return v > INT64_MAX ? NULL : json_integer((json_int_t)v);
}

static json_t *write_u32(const void *in)
{
    return json_integer(*(const uint32_t *)in);
}

static json_t *write_i64(const void *in)
{
    return json_integer(*(const int64_t *)in);
}

static json_t *write_real(const void *in)
{
    return json_num(*(const double *)in);
}

static json_t *write_bool(const void *in)
{
    return json_boolean(*(const bool *)in);
}

static json_t *write_hex(const void *in)
{
    return json_string(in);
}

bool codec_is_empty(const struct codec_field *f, const void *in)
{
    return (f->type == CODEC_TEXT && ((const struct str *)in)->n == 0) ||
           (f->type == CODEC_REAL && isnan(*(const double *)in)) ||
           (f->type == CODEC_BOOL && !*(const bool *)in);
}

int codec_refuse_u64(const char *key, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s: value above 2^63-1 cannot travel in JSON", key);
}

int codec_write(json_t *obj, const struct codec_field *field, size_t n, const void *in,
                struct err *e)
{
    static write_fn *const writers[] = {
        [CODEC_TEXT] = write_text, [CODEC_U64] = write_u64,   [CODEC_U32] = write_u32,
        [CODEC_I64] = write_i64,   [CODEC_REAL] = write_real, [CODEC_BOOL] = write_bool,
        [CODEC_HEX] = write_hex,
    };
    for (size_t i = 0; i < n; i++) {
        const struct codec_field *f = &field[i];
        const void *place = (const char *)in + f->offset;
        if ((f->flags & CODEC_SKIP_EMPTY) && codec_is_empty(f, place))
            continue;
        if (f->type == CODEC_U64 && *(const uint64_t *)place > INT64_MAX)
            return codec_refuse_u64(f->key, e);
        int rc = codec_put(obj, f->key, writers[f->type](place), e);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Objects that travel as text on this side. */

int codec_put_object_text(json_t *obj, const char *key, struct str text, struct err *e)
{
    if (text.n == 0)
        return ERR_OK;
    json_t *v = NULL;
    int rc = json_parse(text, 0, &v, e);
    if (rc != ERR_OK)
        return err_wrap(e, "%s", key);
    return codec_put(obj, key, v, e);
}

int codec_get_object_text(const struct json_at *obj, const char *key, size_t max_bytes,
                          struct arena *a, struct str *out, struct err *e)
{
    struct json_at at = json_field(obj, key);
    *out = (struct str){"", 0};
    if (!at.v || json_is_null(at.v))
        return ERR_OK;
    int rc = json_get_object(&at, e);
    if (rc != ERR_OK)
        return rc;
    struct buf b;
    buf_init(&b, max_bytes);
    rc = json_write(at.v, &b, e);
    if (rc == ERR_OK) {
        *out = arena_str(a, buf_str(&b));
        rc = out->p ? ERR_OK : no_memory(e);
    } else {
        rc = err_set(e, ERR_INVALID, "$.%s: larger than %zu bytes", key, max_bytes);
    }
    buf_free(&b);
    return rc;
}

int codec_get_name(const struct json_at *obj, const char *key, const char *const *names, size_t n,
                   size_t *out, struct err *e)
{
    struct json_at at = json_field(obj, key);
    struct str s = {0};
    int rc = json_get_str(&at, &s, e);
    if (rc == ERR_NOT_FOUND && e)
        e->code = ERR_INVALID;
    if (rc != ERR_OK)
        return ERR_INVALID;
    for (size_t i = 0; i < n; i++) {
        if (str_eq_c(s, names[i])) {
            *out = i;
            return ERR_OK;
        }
    }
    char list[128] = "", path[128];
    for (size_t i = 0, used = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    json_path(&at, path, sizeof path);
    return err_set(e, ERR_INVALID, "%s: must be one of %s, got \"%.40s\"", path, list, s.p);
}
