/* Plain numbers in one pass; the rest over a tree. Sizes are checked before memory is taken. */
#include "schemas/token_lists.h"

#include "schemas/codec.h"
#include "schemas/plain.h"

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

/* Reading, the plain way: [12,345] and [-0.5,0.0]. */

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

/* p runs to the last byte of the list, a bracket: no digit, so it ends every run. */
static const char *take_digits(const char *p, uint64_t *value, unsigned *n)
{
    uint64_t v = *value;
    unsigned left = MAX_DIGITS - *n;
    for (; left && is_digit(*p); left--)
        v = v * 10 + (uint64_t)(*p++ - '0');
    *value = v;
    *n = MAX_DIGITS - left;
    return p;
}

/* A leading zero stands alone (RFC 8259 section 6). NULL = not plain. */
static const char *take_whole(const char *p, uint64_t *value, unsigned *n)
{
    const char *end = take_digits(p, value, n);
    return end > p && (*p != '0' || end == p + 1) ? end : NULL;
}

static const char *take_id(const char *p, void *out)
{
    uint64_t value = 0;
    unsigned n = 0;
    const char *end = take_whole(p, &value, &n);
    *(int32_t *)out = (int32_t)value;
    return value <= INT32_MAX ? end : NULL;
}

/* The mantissa and the power of ten are exact, so their quotient is the nearest double. */
static const char *take_logprob(const char *p, void *out)
{
    static const double POWER[MAX_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t value = 0;
    unsigned n = 0;
    bool is_negative = *p == '-';
    const char *end = take_whole(p + is_negative, &value, &n);
    if (!end || *end != '.')
        return NULL;
    unsigned n_whole = n;
    const char *decimals = end + 1;
    end = take_digits(decimals, &value, &n);
    double v = (double)value / POWER[n - n_whole];
    *(float *)out = (float)(is_negative ? -v : v);
    return end > decimals && (is_negative || value == 0) ? end : NULL;
}

static bool is_list(struct str s)
{
    return s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']';
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

static int read_tree(struct str text, struct list *l, struct arena *a, struct err *e)
{
    const struct codec_apart list = {l->key, text};
    json_t *doc = NULL;
    int rc = codec_parse_apart(&list, &doc, e);
    struct json_at root = json_root(doc), at = json_field(&root, l->key);
    if (rc == ERR_OK && !json_is_null(at.v))
        rc = read_items(&at, l, a, e);
    json_decref(doc);
    return rc;
}

typedef const char *take_item_fn(const char *p, void *out);

/* A list of n bytes has fewer than n / 2 items. Inline: take is a constant then. */
static inline enum plain read_plain(struct str s, struct arena *a, take_item_fn *take,
                                    struct list *l)
{
    if (!is_list(s))
        return PLAIN_NOT;
    const char *p = s.p + 1, *last = s.p + s.n - 1;
    size_t n = 0, most = s.n / 2 < OUTPUT_MAX_TOKENS ? s.n / 2 : OUTPUT_MAX_TOKENS;
    unsigned char *values = arena_array(a, most, sizeof(int32_t));
    if (!values)
        return PLAIN_NO_MEMORY;
    for (; n < most; p++) {
        p = take(p, values + n++ * sizeof(int32_t));
        if (!p || (*p != ',' && p != last))
            return PLAIN_NOT;
        if (p == last) {
            l->values = values;
            l->n = (uint32_t)n;
            return PLAIN_TAKEN;
        }
    }
    return PLAIN_NOT;
}

static int read_list(struct str s, take_item_fn *take, struct list *l, struct arena *a,
                     struct err *e)
{
    enum plain taken =
        take == take_id ? read_plain(s, a, take_id, l) : read_plain(s, a, take_logprob, l);
    if (taken == PLAIN_NO_MEMORY)
        return err_set(e, ERR_NOMEM, "out of memory for the tokens of an output");
    return taken == PLAIN_NOT && s.n ? read_tree(s, l, a, e) : ERR_OK;
}

int token_lists_read(struct str ids, struct str logprobs, struct arena *a, struct output *out,
                     struct err *e)
{
    struct list id = {.key = "token_ids", .item = item_id};
    struct list logprob = {.key = "logprobs", .item = item_logprob};
    int rc = read_list(ids, take_id, &id, a, e);
    if (rc == ERR_OK)
        rc = read_list(logprobs, take_logprob, &logprob, a, e);
    if (rc == ERR_OK && logprob.values && logprob.n != id.n)
        rc = err_set(e, ERR_INVALID, "$.logprobs: has %u items, $.token_ids has %u", logprob.n,
                     id.n);
    out->token_ids = id.values;
    out->n_tokens = id.n;
    out->logprobs = logprob.values;
    return rc;
}
