/* One pass over the bytes: structure only. Brackets are counted without their kind, for a value
 * that mixes them up is found by its reader; the depth needs no stack that way. */
#include "common/json_members.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct json_members *m)
{
    while (m->at < m->text.n && is_space(m->text.p[m->at]))
        m->at++;
}

static int broken(const struct json_members *m, const char *want, struct err *e)
{
    return err_set(e, ERR_INVALID, "not valid JSON: byte %zu: %s expected", m->at, want);
}

static bool take(struct json_members *m, char c)
{
    skip_space(m);
    if (m->at == m->text.n || m->text.p[m->at] != c)
        return false;
    m->at++;
    return true;
}

/* From behind the opening quote to behind the closing one. The next quote is looked for again only
 * behind the last one found, so that a text full of escapes costs no more than another. */
static bool skip_string(struct json_members *m)
{
    const char *p = m->text.p + m->at, *end = m->text.p + m->text.n;
    const char *quote = memchr(p, '"', (size_t)(end - p));
    while (quote) {
        const char *escape = memchr(p, '\\', (size_t)(quote - p));
        if (!escape) {
            m->at = (size_t)(quote + 1 - m->text.p);
            return true;
        }
        p = escape + 2;
        if (p > quote)
            quote = memchr(p, '"', (size_t)(end - p));
    }
    m->at = m->text.n;
    return false;
}

static bool ends_scalar(char c)
{
    return c == ',' || c == '}' || c == ']' || is_space(c);
}

/* A list of plain values, as of tokens: no bracket or quote before its end. */
static bool skip_flat_list(struct json_members *m)
{
    const char *p = m->text.p + m->at;
    const char *end = p[0] == '[' ? memchr(p, ']', m->text.n - m->at) : NULL;
    size_t n = end ? (size_t)(end - p) : 0;
    bool is_flat = end && !memchr(p + 1, '[', n - 1) && !memchr(p, '{', n) && !memchr(p, '}', n) &&
                   !memchr(p, '"', n);
    m->at += is_flat ? n + 1 : 0;
    return is_flat;
}

static bool skip_brackets(struct json_members *m)
{
    static const bool TELLS[256] = {
        ['"'] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true};
    const unsigned char *p = (const unsigned char *)m->text.p;
    size_t depth = 0;
    if (skip_flat_list(m))
        return true;
    while (m->at < m->text.n) {
        unsigned char c = p[m->at++];
        if (!TELLS[c])
            continue;
        if (c == '"' && !skip_string(m))
            return false;
        depth += c == '[' || c == '{';
        if ((c == ']' || c == '}') && --depth == 0)
            return true;
    }
    return false;
}

static bool skip_value(struct json_members *m)
{
    skip_space(m);
    if (m->at == m->text.n)
        return false;
    char c = m->text.p[m->at];
    if (c == '[' || c == '{')
        return skip_brackets(m);
    if (c == '"') {
        m->at++;
        return skip_string(m);
    }
    size_t start = m->at;
    while (m->at < m->text.n && !ends_scalar(m->text.p[m->at]))
        m->at++;
    return m->at > start;
}

int json_members_open(struct json_members *m, struct str object, struct err *e)
{
    *m = (struct json_members){.text = object, .is_first = true};
    return take(m, '{') ? ERR_OK : broken(m, "'{'", e);
}

static int end_object(struct json_members *m, struct err *e)
{
    skip_space(m);
    return m->at == m->text.n ? ERR_NOT_FOUND : broken(m, "the end", e);
}

int json_members_next(struct json_members *m, struct json_member *out, struct err *e)
{
    if (m->is_first && take(m, '}'))
        return end_object(m, e);
    if (!m->is_first && !take(m, ','))
        return take(m, '}') ? end_object(m, e) : broken(m, "',' or '}'", e);
    m->is_first = false;
    if (!take(m, '"'))
        return broken(m, "'\"'", e);
    size_t key = m->at;
    if (!skip_string(m))
        return broken(m, "'\"'", e);
    out->key = str_slice(m->text, key, m->at - 1);
    if (!take(m, ':'))
        return broken(m, "':'", e);
    skip_space(m);
    size_t value = m->at;
    if (!skip_value(m))
        return broken(m, "a value", e);
    out->value = str_slice(m->text, value, m->at);
    return ERR_OK;
}

int json_items_open(struct json_members *m, struct str array, struct err *e)
{
    *m = (struct json_members){.text = array, .is_first = true};
    return take(m, '[') ? ERR_OK : broken(m, "'['", e);
}

int json_items_next(struct json_members *m, struct str *value, struct err *e)
{
    if (m->is_first && take(m, ']'))
        return end_object(m, e);
    if (!m->is_first && !take(m, ','))
        return take(m, ']') ? end_object(m, e) : broken(m, "',' or ']'", e);
    m->is_first = false;
    skip_space(m);
    size_t start = m->at;
    if (!skip_value(m))
        return broken(m, "a value", e);
    *value = str_slice(m->text, start, m->at);
    return ERR_OK;
}
