/* One pass over the bytes: structure only. Brackets are counted without their kind, for a value
 * that mixes them up is found by its reader; the depth needs no stack that way. */
#include "common/json_members.h"

#include <string.h>

enum { NEAR = 32 /* bytes in which most strings end */ };

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
    if (m->at == m->text.n || m->text.p[m->at] != c)
        skip_space(m);
    if (m->at == m->text.n || m->text.p[m->at] != c)
        return false;
    m->at++;
    return true;
}

/* A high bit where a byte of x is 0, perhaps above such a byte, else nowhere: see "Determine if a
 * word has a zero byte" in S. E. Anderson, Bit Twiddling Hacks. */
static uint64_t zero_bytes(uint64_t x)
{
    return (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;
}

/* The first quote or backslash of the next bytes, eight at a time; NULL: not among them. */
static const char *near_stop(const char *p, const char *end)
{
    for (int i = 0; i < NEAR && end - p >= 8; i += 8, p += 8) {
        uint64_t eight;
        memcpy(&eight, p, sizeof eight);
        uint64_t stops =
            zero_bytes(eight ^ 0x2222222222222222u) | zero_bytes(eight ^ 0x5c5c5c5c5c5c5c5cu);
        if (stops)
            return p + __builtin_ctzll(stops) / 8; /* the first byte is the lowest */
    }
    return NULL;
}

/* From behind the opening quote to behind the closing one; NULL: there is none. The next quote is
 * looked for again only behind the last one found, so that a text full of escapes costs no more
 * than another. */
static const char *string_end(const char *p, const char *end)
{
    const char *quote = near_stop(p, end);
    if (quote && *quote == '"')
        return quote + 1;
    quote = memchr(p, '"', (size_t)(end - p));
    while (quote) {
        const char *escape = memchr(p, '\\', (size_t)(quote - p));
        if (!escape)
            return quote + 1;
        p = escape + 2;
        if (p > quote)
            quote = memchr(p, '"', (size_t)(end - p));
    }
    return NULL;
}

/* A list of plain values, as of tokens: no bracket or quote before its end. NULL: it is not. */
static const char *flat_list_end(const char *p, const char *end)
{
    const char *last = p[0] == '[' ? memchr(p, ']', (size_t)(end - p)) : NULL;
    size_t n = last ? (size_t)(last - p) : 0;
    bool is_flat = last && !memchr(p + 1, '[', n - 1) && !memchr(p, '{', n) && !memchr(p, '}', n) &&
                   !memchr(p, '"', n);
    return is_flat ? last + 1 : NULL;
}

static const char *brackets_end(const char *p, const char *end)
{
    static const bool TELLS[256] = {
        ['"'] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true};
    size_t depth = 0;
    const char *flat = flat_list_end(p, end);
    if (flat)
        return flat;
    while (p && p < end) {
        char c = *p++;
        if (!TELLS[(unsigned char)c])
            continue;
        if (c == '"')
            p = string_end(p, end);
        depth += c == '[' || c == '{';
        if ((c == ']' || c == '}') && --depth == 0)
            return p;
    }
    return NULL;
}

/* Where it stands when there is no value; NULL: one that does not end. */
static const char *value_end(const char *p, const char *end)
{
    static const bool ENDS[256] = {[','] = true,  ['}'] = true,  [']'] = true, [' '] = true,
                                   ['\t'] = true, ['\n'] = true, ['\r'] = true};
    if (p < end && (*p == '[' || *p == '{'))
        return brackets_end(p, end);
    if (p < end && *p == '"')
        return string_end(p + 1, end);
    while (p < end && !ENDS[(unsigned char)*p])
        p++;
    return p;
}

/* Goes on behind what ends there; a broken text is read no further. */
static bool pass(struct json_members *m, const char *there)
{
    m->at = there ? (size_t)(there - m->text.p) : m->text.n;
    return there != NULL;
}

static bool skip_string(struct json_members *m)
{
    return pass(m, string_end(m->text.p + m->at, m->text.p + m->text.n));
}

static bool skip_value(struct json_members *m)
{
    skip_space(m);
    size_t start = m->at;
    return pass(m, value_end(m->text.p + start, m->text.p + m->text.n)) && m->at > start;
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
