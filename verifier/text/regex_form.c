/* A lexer of PCRE2's single items, just enough to put a group around those before a plus. */
#include "verifier/text/regex_form.h"

#include "common/utf8.h"

#include <string.h>

static int byte_at(struct str s, size_t i)
{
    return i < s.n ? (unsigned char)s.p[i] : -1;
}

static bool is_in(int c, const char *set)
{
    return c > 0 && strchr(set, c) != NULL;
}

static size_t run_of(struct str s, size_t i, const char *set, size_t most)
{
    size_t n = 0;
    while (n < most && is_in(byte_at(s, i + n), set))
        n++;
    return n;
}

/* Index behind `close`, or the end. */
static size_t behind(struct str s, size_t i, int close)
{
    while (i < s.n && byte_at(s, i) != close)
        i++;
    return i < s.n ? i + 1 : s.n;
}

/* i stands on the backslash. */
static size_t lex_escape(struct str s, size_t i)
{
    static const char hex[] = "0123456789abcdefABCDEF", digits[] = "0123456789";
    int c = byte_at(s, i + 1), next = byte_at(s, i + 2);
    if (is_in(c, "pPxoNgk") && next == '{')
        return behind(s, i + 3, '}');
    if (is_in(c, "gk") && is_in(next, "<'"))
        return behind(s, i + 3, next == '<' ? '>' : '\'');
    if (c == 'x')
        return i + 2 + run_of(s, i + 2, hex, 2);
    if (is_in(c, "pPc"))
        return i + 3;
    if (c == 'g')
        return i + 2 + run_of(s, i + 2, "+-0123456789", 12);
    if (is_in(c, digits))
        return i + 1 + run_of(s, i + 1, digits, 12);
    return i + 2;
}

/* i stands on the opening bracket. */
static size_t lex_class(struct str s, size_t i)
{
    i += 1 + (byte_at(s, i + 1) == '^');
    i += byte_at(s, i) == ']';
    while (i < s.n && byte_at(s, i) != ']') {
        if (byte_at(s, i) == '\\')
            i = lex_escape(s, i);
        else if (byte_at(s, i) == '[' && is_in(byte_at(s, i + 1), ":.="))
            i = behind(s, i + 2, ']');
        else
            i++;
    }
    return i < s.n ? i + 1 : s.n;
}

/* Index behind the item at i; *is_item false for what no plus may be moved around. */
static size_t lex_item(struct str s, size_t i, bool *is_item)
{
    uint32_t cp;
    int c = byte_at(s, i);
    *is_item = true;
    if (c == '\\')
        return lex_escape(s, i);
    if (c == '[')
        return lex_class(s, i);
    *is_item = !is_in(c, "()|?*+{}^$]") && c != 0;
    size_t n = utf8_decode(str_slice(s, i, s.n), &cp);
    return i + (n ? n : 1);
}

/* Behind "(?": a plain group, flags, a name, or a look around. Everything else is out. */
static bool is_plain_group(struct str s, size_t at)
{
    static const struct str starts[] = {{":", 1}, {"=", 1}, {"!", 1}, {"P<", 2}, {"|", 1}};
    struct str rest = str_slice(s, at, s.n);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (str_starts(rest, starts[i]))
            return true;
    size_t flags = run_of(s, at, "imsnU^-", 8);
    return byte_at(s, at) == '<' || (flags > 0 && is_in(byte_at(s, at + flags), ":)"));
}

static bool has_plain_groups(struct str s)
{
    if (str_find(s, STR("(*"), 0) >= 0)
        return false;
    for (ptrdiff_t at = 0; (at = str_find(s, STR("(?"), (size_t)at)) >= 0; at += 2)
        if (!is_plain_group(s, (size_t)at + 2))
            return false;
    return str_find(s, STR("\\Q"), 0) < 0 && str_find(s, STR("\\E"), 0) < 0;
}

bool regex_form(struct str pattern, struct buf *out)
{
    bool is_plain = has_plain_groups(pattern), is_repeat = false;
    for (size_t i = 0, end; is_plain && i < pattern.n; i = end) {
        bool is_item, was_repeat = is_repeat;
        end = lex_item(pattern, i, &is_item);
        struct str item = str_slice(pattern, i, end);
        bool is_plus = byte_at(pattern, end) == '+';
        is_repeat = !is_item && is_in(item.p[0], "*+?}") && !was_repeat;
        is_plain = !(is_repeat && is_plus);
        buf_put_c(out, is_item && is_plus ? "(?:" : "");
        buf_put_str(out, item);
        buf_put_c(out, is_item && is_plus ? ")" : "");
    }
    return is_plain;
}
