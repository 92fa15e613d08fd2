/* A scanner, not a parser: {{ }}, {% %} and {# #} as in the Jinja template designer documentation,
 * quotes only inside tags. One pass, linear. */
#include "engine/text/jinja_text.h"

/* Skips to the end of a comment. */
static void skip_comment(struct jinja_scan *s)
{
    ptrdiff_t end = str_find(s->rest, STR("#}"), 0);
    s->rest = end < 0 ? STR("") : str_slice(s->rest, (size_t)end + 2, s->rest.n);
}

/* Text up to the next tag, which is then entered. */
static struct str take_plain(struct jinja_scan *s)
{
    size_t at = 0;
    while (at + 1 < s->rest.n &&
           !(s->rest.p[at] == '{' &&
             (s->rest.p[at + 1] == '{' || s->rest.p[at + 1] == '%' || s->rest.p[at + 1] == '#')))
        at++;
    if (at + 1 >= s->rest.n) {
        struct str all = s->rest;
        s->rest = STR("");
        return all;
    }
    struct str piece = str_slice(s->rest, 0, at);
    char tag = s->rest.p[at + 1];
    s->rest = str_slice(s->rest, at + 2, s->rest.n);
    if (tag == '#')
        skip_comment(s);
    else
        s->tag = tag;
    return piece;
}

/* The string behind the quote at the start of rest; one without an end runs to the end. */
static struct str take_quoted(struct jinja_scan *s)
{
    char quote = s->rest.p[0];
    size_t end = 1;
    while (end < s->rest.n && s->rest.p[end] != quote)
        end += s->rest.p[end] == '\\' ? 2 : 1;
    struct str piece = str_slice(s->rest, 1, end);
    s->rest = str_slice(s->rest, end + 1, s->rest.n);
    return piece;
}

bool jinja_next(struct jinja_scan *s, struct str *piece, bool *is_quoted)
{
    while (s->rest.n) {
        if (!s->tag) {
            *piece = take_plain(s);
            *is_quoted = false;
            return true;
        }
        char c = s->rest.p[0];
        if (c == '\'' || c == '"') {
            *piece = take_quoted(s);
            *is_quoted = true;
            return true;
        }
        bool is_end = s->rest.n > 1 && s->rest.p[1] == '}' && c == (s->tag == '{' ? '}' : '%');
        s->rest = str_slice(s->rest, is_end ? 2 : 1, s->rest.n);
        if (is_end)
            s->tag = 0;
    }
    return false;
}

/* \n \t \r \\ \' \": what templates use; any other escape stays as it is written. */
static void put_unescaped(struct buf *out, struct str s)
{
    static const char KNOWN[] = "n\nt\tr\r\\\\''\"\"";
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        for (size_t k = 0; c == '\\' && i + 1 < s.n && k + 1 < sizeof KNOWN; k += 2) {
            if (KNOWN[k] == s.p[i + 1]) {
                buf_put_char(out, KNOWN[k + 1]);
                i++;
                goto next;
            }
        }
        buf_put_char(out, c);
    next:;
    }
}

/* The next constant text with its escapes resolved; false at the end. */
static bool next_text(struct jinja_scan *s, struct buf *out)
{
    struct str piece;
    bool is_quoted;
    if (!jinja_next(s, &piece, &is_quoted))
        return false;
    buf_reset(out);
    if (is_quoted)
        put_unescaped(out, piece);
    else
        buf_put_str(out, piece);
    return true;
}

bool jinja_find_text(struct str jinja, struct str marker, struct buf *out)
{
    struct jinja_scan s = {.rest = jinja};
    while (next_text(&s, out))
        if (!out->failed && str_find(buf_str(out), marker, 0) >= 0)
            return true;
    buf_reset(out);
    return false;
}

bool jinja_find_between(struct str jinja, struct str before, struct str after, struct buf *out)
{
    struct jinja_scan s = {.rest = jinja};
    while (next_text(&s, out)) {
        struct str text = buf_str(out);
        ptrdiff_t from = out->failed ? -1 : str_find(text, before, 0);
        ptrdiff_t to = from < 0 ? -1 : str_find(text, after, (size_t)from + before.n);
        if (to <= from + (ptrdiff_t)before.n)
            continue;
        struct buf part;
        buf_init(&part, out->max_bytes);
        buf_put_str(&part, str_slice(text, (size_t)from + before.n, (size_t)to));
        buf_free(out);
        *out = part;
        return !part.failed;
    }
    buf_reset(out);
    return false;
}

bool jinja_find_quoted_after(struct str jinja, struct str code, struct buf *out)
{
    ptrdiff_t at = str_find(jinja, code, 0);
    if (at < 0)
        return false;
    struct jinja_scan s = {.rest = str_slice(jinja, (size_t)at + code.n, jinja.n), .tag = '%'};
    if (!s.rest.n || (s.rest.p[0] != '\'' && s.rest.p[0] != '"'))
        return false;
    return next_text(&s, out);
}
