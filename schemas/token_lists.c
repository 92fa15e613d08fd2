/* Plain numbers in one pass; the rest over a tree. Sizes are checked before memory is taken. */
#include "schemas/token_lists.h"

#include "schemas/codec.h"

#include <math.h>
#include <string.h>

enum { MAX_DIGITS = 15 }; /* of a mantissa: below 2^53, so exact in a double */

/* Writing. */

static void put_logprob(struct buf *b, float v)
{
    if (isfinite(v))
        buf_put_float(b, v);
    else
        buf_put_c(b, "null");
}

void token_lists_append(struct buf *object, const struct output *o)
{
    if (!o->token_ids)
        return;
    object->n--; /* the closing brace */
    buf_put_c(object, ",\"token_ids\":[");
    for (uint32_t i = 0; i < o->n_tokens; i++) {
        if (i)
            buf_put_char(object, ',');
        buf_put_i64(object, o->token_ids[i]);
    }
    if (o->logprobs)
        buf_put_c(object, "],\"logprobs\":[");
    for (uint32_t i = 0; o->logprobs && i < o->n_tokens; i++) {
        if (i)
            buf_put_char(object, ',');
        put_logprob(object, o->logprobs[i]);
    }
    buf_put_c(object, "]}");
}

/* Reading, the plain way: [12,345] and [-0.5,0.0]. False: not of that form. */

struct digits {
    uint64_t value;
    unsigned n;
};

static size_t take_digits(struct str s, size_t at, struct digits *d)
{
    for (; at < s.n && s.p[at] >= '0' && s.p[at] <= '9' && d->n < MAX_DIGITS; at++, d->n++)
        d->value = d->value * 10 + (uint64_t)(s.p[at] - '0');
    return at;
}

static bool is_end_of_item(struct str s, size_t at)
{
    return at < s.n && (s.p[at] == ',' || (s.p[at] == ']' && at + 1 == s.n));
}

/* A leading zero stands alone (RFC 8259 section 6). Returns where the number ends, 0 = not plain.
 */
static size_t take_whole(struct str s, size_t at, struct digits *d)
{
    size_t end = take_digits(s, at, d);
    bool is_good = end > at && (s.p[at] != '0' || end == at + 1);
    return is_good ? end : 0;
}

static size_t take_id(struct str s, size_t at, int32_t *out)
{
    struct digits d = {0};
    size_t end = take_whole(s, at, &d);
    *out = (int32_t)d.value;
    return d.value <= INT32_MAX ? end : 0;
}

/* The mantissa and the power of ten are exact, so their quotient is the nearest double. */
static size_t take_logprob(struct str s, size_t at, float *out)
{
    static const double POWER[MAX_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    struct digits d = {0};
    bool is_negative = s.p[at] == '-';
    size_t end = take_whole(s, at + is_negative, &d);
    if (!end || end + 1 >= s.n || s.p[end] != '.')
        return 0;
    unsigned n_whole = d.n;
    size_t decimals = end + 1;
    end = take_digits(s, decimals, &d);
    double v = (double)d.value / POWER[d.n - n_whole];
    *out = (float)(is_negative ? -v : v);
    return end > decimals && (is_negative || d.value == 0) ? end : 0;
}

static uint32_t count_items(struct str s)
{
    uint32_t n = 1;
    for (size_t i = 0; i < s.n && n <= OUTPUT_MAX_TOKENS; i++)
        n += s.p[i] == ',';
    return n;
}

static bool is_list(struct str s)
{
    return s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']';
}

static bool read_plain_ids(struct str s, int32_t *out, uint32_t n)
{
    size_t at = 1;
    for (uint32_t i = 0; i < n; i++, at++) {
        at = take_id(s, at, &out[i]);
        if (!at || !is_end_of_item(s, at))
            return false;
    }
    return at == s.n;
}

static bool read_plain_logprobs(struct str s, float *out, uint32_t n)
{
    size_t at = 1;
    for (uint32_t i = 0; i < n; i++, at++) {
        at = take_logprob(s, at, &out[i]);
        if (!at || !is_end_of_item(s, at))
            return false;
    }
    return at == s.n;
}

/* Reading, over a tree. */

static int item_id(const struct json_at *item, void *out, struct err *e)
{
    int64_t v = 0;
    int rc = json_get_i64(item, 0, INT32_MAX, &v, e);
    *(int32_t *)out = (int32_t)v;
    return rc;
}

static int item_logprob(const struct json_at *item, void *out, struct err *e)
{
    double v = NAN; /* null stands for a value JSON cannot carry */
    int rc = json_is_null(item->v) ? ERR_OK : json_get_f64(item, -1e30, 1e-3, &v, e);
    *(float *)out = (float)v;
    return rc;
}

struct list {
    const char *key;
    int (*item)(const struct json_at *item, void *out, struct err *e);
    void *values; /* [n] of four bytes, in the arena */
    uint32_t n;
};

static int read_items(const struct json_at *at, struct list *l, struct arena *a, struct err *e)
{
    size_t n = 0;
    int rc = json_get_array(at, OUTPUT_MAX_TOKENS, &n, e);
    if (rc != ERR_OK)
        return rc;
    unsigned char *values = arena_array(a, n + 1, sizeof(int32_t));
    if (!values)
        return err_set(e, ERR_NOMEM, "out of memory for the tokens of an output");
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        struct json_at item = json_item(at, i);
        rc = l->item(&item, values + i * sizeof(int32_t), e);
    }
    l->values = values;
    l->n = (uint32_t)n;
    return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
}

/* Wrapped in an object, so that messages say $.token_ids[3]. */
static int read_tree(struct str text, struct list *l, struct arena *a, struct err *e)
{
    json_t *list = NULL, *doc = json_object();
    int rc = json_parse(text, JSON_ANY_VALUE, &list, e);
    if (rc == ERR_OK)
        rc = codec_put(doc, l->key, list, e);
    struct json_at root = json_root(doc), at = json_field(&root, l->key);
    if (rc == ERR_OK && !json_is_null(at.v))
        rc = read_items(&at, l, a, e);
    json_decref(doc);
    return rc;
}

static void *array_for(struct str s, struct arena *a, uint32_t *n)
{
    *n = is_list(s) ? count_items(s) : 0;
    return *n && *n <= OUTPUT_MAX_TOKENS ? arena_array(a, *n, sizeof(int32_t)) : NULL;
}

static int read_ids(struct str s, struct arena *a, struct output *out, struct err *e)
{
    struct list l = {.key = "token_ids", .item = item_id};
    int32_t *plain = array_for(s, a, &l.n);
    if (plain && read_plain_ids(s, plain, l.n)) {
        out->token_ids = plain;
        out->n_tokens = l.n;
        return ERR_OK;
    }
    l.n = 0;
    int rc = s.n ? read_tree(s, &l, a, e) : ERR_OK;
    out->token_ids = l.values;
    out->n_tokens = l.n;
    return rc;
}

static int read_logprobs(struct str s, struct arena *a, struct output *out, struct err *e)
{
    struct list l = {.key = "logprobs", .item = item_logprob};
    float *plain = array_for(s, a, &l.n);
    int rc = ERR_OK;
    if (plain && read_plain_logprobs(s, plain, l.n))
        l.values = plain;
    else if (s.n)
        rc = read_tree(s, &l, a, e);
    if (rc == ERR_OK && l.values && l.n != out->n_tokens)
        rc = err_set(e, ERR_INVALID, "$.logprobs: has %u items, $.token_ids has %u", l.n,
                     out->n_tokens);
    out->logprobs = l.values;
    return rc;
}

int token_lists_read(struct str ids, struct str logprobs, struct arena *a, struct output *out,
                     struct err *e)
{
    int rc = read_ids(ids, a, out, e);
    return rc == ERR_OK ? read_logprobs(logprobs, a, out, e) : rc;
}
