/* JSON text from jansson values.
 *
 * Own writer, for two reasons: reals come out in the shortest form that reads back as the same
 * double (jansson writes 0.1 as 0.10000000000000001), and the canonical form is pinned here, since
 * hashes of revisions and decisions rest on it. Recursion is bounded by the parser's depth. */
#include "common/json.h"

#include "common/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REAL_MAX = 40, WRITE_MAX_DEPTH = 2100 }; /* jansson parses at most 2048 levels */

struct writer {
    struct buf *out;
    bool is_canonical;
    bool too_deep;
    unsigned depth;
};

static void put_value(struct writer *w, const json_t *v);

static void put_string(struct writer *w, struct str s)
{
    buf_put_char(w->out, '"');
    buf_put_json(w->out, s);
    buf_put_char(w->out, '"');
}

/* A real keeps a point or an exponent, so that it stays a real when read again. */
static void put_canonical_real(struct writer *w, double d)
{
    char text[REAL_MAX];
    snprintf(text, sizeof text, "%.17g", d);
    buf_put_c(w->out, text);
    if (!strpbrk(text, ".e"))
        buf_put_c(w->out, ".0");
}

static void put_array(struct writer *w, const json_t *v)
{
    buf_put_char(w->out, '[');
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (i > 0)
            buf_put_char(w->out, ',');
        put_value(w, json_array_get(v, i));
    }
    buf_put_char(w->out, ']');
}

static void put_member(struct writer *w, bool is_first, const char *key, const json_t *v)
{
    if (!is_first)
        buf_put_char(w->out, ',');
    put_string(w, str_from(key));
    buf_put_char(w->out, ':');
    put_value(w, v);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_sorted_members(struct writer *w, const json_t *v)
{
    size_t n = json_object_size(v), i = 0;
    const char **keys = n ? calloc(n, sizeof *keys) : NULL;
    if (n && !keys) {
        w->out->failed = true;
        return;
    }
    const char *key;
    json_t *value;
    /* jansson's iteration takes a non-const object but does not change it. */
    json_object_foreach((json_t *)(uintptr_t)v, key, value) keys[i++] = key;
    if (n)
        qsort(keys, n, sizeof *keys, compare_keys);
    for (i = 0; i < n; i++)
        put_member(w, i == 0, keys[i], json_object_get(v, keys[i]));
    free(keys);
}

static void put_object(struct writer *w, const json_t *v)
{
    buf_put_char(w->out, '{');
    if (w->is_canonical) {
        put_sorted_members(w, v);
    } else {
        bool is_first = true;
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)v, key, value)
        {
            put_member(w, is_first, key, value);
            is_first = false;
        }
    }
    buf_put_char(w->out, '}');
}

static void put_scalar(struct writer *w, const json_t *v)
{
    if (json_is_string(v))
        put_string(w, (struct str){json_string_value(v), json_string_length(v)});
    else if (json_is_integer(v))
        buf_put_i64(w->out, json_integer_value(v));
    else if (json_is_real(v) && w->is_canonical)
        put_canonical_real(w, json_real_value(v));
    else if (json_is_real(v))
        buf_put_real(w->out, json_real_value(v));
    else
        buf_put_c(w->out, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
}

static void put_value(struct writer *w, const json_t *v)
{
    if (++w->depth > WRITE_MAX_DEPTH)
        w->too_deep = true;
    else if (json_is_object(v))
        put_object(w, v);
    else if (json_is_array(v))
        put_array(w, v);
    else
        put_scalar(w, v);
    w->depth--;
}

static int write_value(const json_t *v, bool is_canonical, struct buf *out, struct err *e)
{
    struct writer w = {.out = out, .is_canonical = is_canonical};
    put_value(&w, v);
    if (w.too_deep)
        return err_set(e, ERR_INVALID, "JSON value nested deeper than %d levels", WRITE_MAX_DEPTH);
    return buf_check(out, "JSON text", e);
}

int json_write(const json_t *v, struct buf *out, struct err *e)
{
    return write_value(v, false, out, e);
}

int json_write_canonical(const json_t *v, struct buf *out, struct err *e)
{
    return write_value(v, true, out, e);
}
