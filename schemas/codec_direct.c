/* One pass over the members. A member is taken directly, kept as text, or copied to a shorter
 * message that the tree is made of. Of a key that comes twice the last value counts, whichever way
 * each of them goes. No state; any thread. */
#include "schemas/codec_direct.h"

#include "common/json_members.h"
#include "schemas/plain.h"

#include <math.h>

/* Values. Each writes its place only when it returns PLAIN_TAKEN. */

typedef enum plain take_fn(struct str value, const struct codec_field *f, struct arena *a,
                           void *place);

static enum plain take_text(struct str value, const struct codec_field *f, struct arena *a,
                            void *place)
{
    struct str s;
    enum plain taken = plain_text(value, a, &s);
    if (taken != PLAIN_TAKEN)
        return taken;
    if (s.n > (size_t)f->max || (s.n == 0 && f->flags & CODEC_NOT_EMPTY))
        return PLAIN_NOT;
    *(struct str *)place = s;
    return PLAIN_TAKEN;
}

static enum plain take_u64(struct str value, const struct codec_field *f, struct arena *a,
                           void *place)
{
    (void)f, (void)a;
    int64_t v;
    if (!plain_integer(value, &v) || v < 0)
        return PLAIN_NOT;
    *(uint64_t *)place = (uint64_t)v;
    return PLAIN_TAKEN;
}

static enum plain take_u32(struct str value, const struct codec_field *f, struct arena *a,
                           void *place)
{
    (void)f, (void)a;
    int64_t v;
    if (!plain_integer(value, &v) || v < 0 || v > UINT32_MAX)
        return PLAIN_NOT;
    *(uint32_t *)place = (uint32_t)v;
    return PLAIN_TAKEN;
}

static enum plain take_i64(struct str value, const struct codec_field *f, struct arena *a,
                           void *place)
{
    (void)f, (void)a;
    return plain_integer(value, place) ? PLAIN_TAKEN : PLAIN_NOT;
}

static enum plain take_real(struct str value, const struct codec_field *f, struct arena *a,
                            void *place)
{
    (void)a;
    double v;
    if (!plain_real(value, &v) || !(v >= f->min && v <= f->max))
        return PLAIN_NOT;
    *(double *)place = v;
    return PLAIN_TAKEN;
}

static enum plain take_bool(struct str value, const struct codec_field *f, struct arena *a,
                            void *place)
{
    (void)f, (void)a;
    bool is_true = str_eq_c(value, "true");
    if (!is_true && !str_eq_c(value, "false"))
        return PLAIN_NOT;
    *(bool *)place = is_true;
    return PLAIN_TAKEN;
}

static enum plain take_hex(struct str value, const struct codec_field *f, struct arena *a,
                           void *place)
{
    (void)value, (void)f, (void)a, (void)place;
    return PLAIN_NOT;
}

/* Members. */

struct pass {
    const struct codec_direct *c;
    struct arena *a;
    void *out;
    struct buf rest;
    uint64_t taken; /* bit = index of the field */
    size_t next;    /* fields stand in the order of the table where the writer is ours */
    bool has_schema;
};

/* Names are short, and most differ in their first letter. A key may have a NUL in it. */
static bool is_key(const char *name, struct str key)
{
    size_t i = 0;
    while (i < key.n && name[i] && name[i] == key.p[i])
        i++;
    return i == key.n && name[i] == '\0';
}

static bool find_field(struct pass *p, struct str key, size_t *index)
{
    for (size_t i = 0, at = p->next; key.n && i < p->c->n;
         i++, at = at + 1 < p->c->n ? at + 1 : 0) {
        if (!is_key(p->c->field[at].key, key))
            continue;
        *index = at;
        p->next = at + 1 < p->c->n ? at + 1 : 0;
        return true;
    }
    return false;
}

static struct codec_apart *find_apart(const struct codec_direct *c, struct str key)
{
    for (size_t i = 0; i < c->n_apart; i++)
        if (is_key(c->apart[i].key, key))
            return &c->apart[i];
    return NULL;
}

static void put_rest(struct pass *p, struct str key, struct str value)
{
    buf_put_c(&p->rest, p->rest.n ? ",\"" : "{\"");
    buf_put_str(&p->rest, key);
    buf_put_c(&p->rest, "\":");
    buf_put_str(&p->rest, value);
}

/* The last value counts, but a message is refused for an earlier one that is no JSON. */
static void take_apart(struct pass *p, struct codec_apart *apart, const struct json_member *m)
{
    if (apart->text.p)
        put_rest(p, m->key, apart->text);
    apart->text = m->value;
}

static enum plain take_field(struct pass *p, size_t i, struct str value)
{
    static take_fn *const TAKE[] = {
        [CODEC_TEXT] = take_text, [CODEC_U64] = take_u64,   [CODEC_U32] = take_u32,
        [CODEC_I64] = take_i64,   [CODEC_REAL] = take_real, [CODEC_BOOL] = take_bool,
        [CODEC_HEX] = take_hex,
    };
    const struct codec_field *f = &p->c->field[i];
    enum plain taken = TAKE[f->type](value, f, p->a, (char *)p->out + f->offset);
    uint64_t bit = (uint64_t)1 << i;
    p->taken = taken == PLAIN_TAKEN ? p->taken | bit : p->taken & ~bit;
    return taken;
}

static bool is_schema(struct pass *p, const struct json_member *m)
{
    struct str name = str_slice(m->value, 1, m->value.n - 1);
    if (!p->c->schema || !str_eq_c(m->key, "schema"))
        return false;
    p->has_schema = m->value.p[0] == '"' && str_eq_c(name, p->c->schema);
    return p->has_schema;
}

/* False: memory is out. */
static bool take_member(struct pass *p, const struct json_member *m)
{
    size_t i;
    enum plain taken = PLAIN_NOT;
    struct codec_apart *apart = NULL;
    if (find_field(p, m->key, &i))
        taken = take_field(p, i, m->value);
    else
        apart = find_apart(p->c, m->key);
    if (apart)
        take_apart(p, apart, m);
    else if (taken == PLAIN_NOT && !is_schema(p, m))
        put_rest(p, m->key, m->value);
    return taken != PLAIN_NO_MEMORY;
}

static int take_members(struct pass *p, struct str text, struct err *e)
{
    struct json_members members;
    struct json_member m;
    int rc = json_members_open(&members, text, e);
    while (rc == ERR_OK && (rc = json_members_next(&members, &m, e)) == ERR_OK)
        if (!take_member(p, &m))
            return err_set(e, ERR_NOMEM, "out of memory in a message codec");
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    return p->c->schema ? err_wrap(e, "%s", p->c->schema) : rc;
}

/* What has not been taken, as a tree; NULL, usually: nothing. */
static int read_rest(struct pass *p, json_t **rest, struct err *e)
{
    if (p->has_schema && p->rest.n == 0)
        return ERR_OK;
    if (!p->c->schema)
        return err_set(e, ERR_UNSUPPORTED, "a member that is not plain");
    if (p->has_schema)
        buf_printf(&p->rest, ",\"schema\":\"%s\"", p->c->schema);
    buf_put_c(&p->rest, p->rest.n ? "}" : "{}");
    int rc = buf_check(&p->rest, "message", e);
    return rc == ERR_OK ? codec_open(buf_str(&p->rest), p->c->schema, SIZE_MAX, rest, e) : rc;
}

int codec_read_direct(struct str text, const struct codec_direct *c, struct arena *a, void *out,
                      struct err *e)
{
    struct pass p = {.c = c, .a = a, .out = out, .has_schema = !c->schema};
    json_t *rest = NULL;
    for (size_t i = 0; i < c->n_apart; i++)
        c->apart[i].text = (struct str){0};
    int rc = codec_check_size(text, c->schema, c->max_bytes, e);
    if (rc != ERR_OK)
        return rc;
    buf_init(&p.rest, c->max_bytes + KiB);
    rc = take_members(&p, text, e);
    if (rc == ERR_OK)
        rc = read_rest(&p, &rest, e);
    struct json_at root = json_root(rest);
    if (rc == ERR_OK)
        rc = codec_read_others(&root, c->field, c->n, p.taken, a, out, e);
    json_decref(rest);
    buf_free(&p.rest);
    return rc;
}

/* Writing. */

typedef void put_fn(struct buf *out, const void *in);

static void put_text(struct buf *out, const void *in)
{
    buf_put_char(out, '"');
    buf_put_json(out, *(const struct str *)in);
    buf_put_char(out, '"');
}

static void put_u64(struct buf *out, const void *in)
{
    buf_put_u64(out, *(const uint64_t *)in);
}

static void put_u32(struct buf *out, const void *in)
{
    buf_put_u64(out, *(const uint32_t *)in);
}

static void put_i64(struct buf *out, const void *in)
{
    buf_put_i64(out, *(const int64_t *)in);
}

static void put_real(struct buf *out, const void *in)
{
    double v = *(const double *)in;
    if (isfinite(v))
        buf_put_real(out, v);
    else
        buf_put_c(out, "null");
}

static void put_bool(struct buf *out, const void *in)
{
    buf_put_c(out, *(const bool *)in ? "true" : "false");
}

static void put_hex(struct buf *out, const void *in)
{
    struct str s = str_from(in);
    put_text(out, &s);
}

int codec_write_direct(struct buf *out, const struct codec_field *field, size_t n, const void *in,
                       struct err *e)
{
    static put_fn *const PUT[] = {
        [CODEC_TEXT] = put_text, [CODEC_U64] = put_u64,   [CODEC_U32] = put_u32,
        [CODEC_I64] = put_i64,   [CODEC_REAL] = put_real, [CODEC_BOOL] = put_bool,
        [CODEC_HEX] = put_hex,
    };
    for (size_t i = 0; i < n; i++) {
        const struct codec_field *f = &field[i];
        const void *place = (const char *)in + f->offset;
        if (f->flags & CODEC_SKIP_EMPTY && codec_is_empty(f, place))
            continue;
        if (f->type == CODEC_U64 && *(const uint64_t *)place > INT64_MAX)
            return codec_refuse_u64(f->key, e);
        plain_put_key(out, f->key);
        PUT[f->type](out, place);
    }
    return ERR_OK;
}

void codec_open_direct(struct buf *out, const char *schema)
{
    buf_put_c(out, "{\"schema\":\"");
    buf_put_c(out, schema);
    buf_put_char(out, '"');
}
