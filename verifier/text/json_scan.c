/* Iterative recogniser of JSON. One bit per open bracket says object or array, so that 500,000 of
 * them cost 64 KiB of stack and no recursion. Stateless: any thread. */
#include "verifier/text/json_scan.h"

#include "common/utf8.h"

#include <string.h>

struct scan {
    struct str s;
    size_t at;
    uint32_t depth;
    uint8_t is_object[JSON_SCAN_DEPTH / 8];
};

static int peek(const struct scan *c)
{
    return c->at < c->s.n ? (unsigned char)c->s.p[c->at] : -1;
}

static bool take(struct scan *c, char wanted)
{
    bool is_there = peek(c) == (unsigned char)wanted;
    c->at += is_there;
    return is_there;
}

static void skip_space(struct scan *c)
{
    while (peek(c) == ' ' || peek(c) == '\t' || peek(c) == '\n' || peek(c) == '\r')
        c->at++;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool scan_digits(struct scan *c)
{
    size_t start = c->at;
    while (is_digit(peek(c)))
        c->at++;
    return c->at > start;
}

/* Section 6: [ - ] int [ frac ] [ exp ], int without leading zeros. */
static bool scan_number(struct scan *c)
{
    take(c, '-');
    if (!take(c, '0') && !scan_digits(c))
        return false;
    if (take(c, '.') && !scan_digits(c))
        return false;
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+'))
            take(c, '-');
        return scan_digits(c);
    }
    return true;
}

static bool scan_hex4(struct scan *c, uint32_t *out)
{
    static const char digits[] = "0123456789abcdef";
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int ch = peek(c);
        if (ch >= 'A' && ch <= 'F')
            ch += 32;
        const char *hit = ch > 0 ? memchr(digits, ch, 16) : NULL;
        if (!hit)
            return false;
        *out = *out * 16 + (uint32_t)(hit - digits);
        c->at++;
    }
    return true;
}

/* Behind the backslash. */
static bool scan_escape(struct scan *c)
{
    int ch = peek(c);
    if (ch <= 0 || !strchr("\"\\/bfnrtu", ch))
        return false;
    c->at++;
    if (ch != 'u')
        return true;
    uint32_t high, low;
    if (!scan_hex4(c, &high) || (high >= 0xDC00 && high <= 0xDFFF))
        return false;
    if (high < 0xD800 || high > 0xDBFF)
        return true;
    return take(c, '\\') && take(c, 'u') && scan_hex4(c, &low) && low >= 0xDC00 && low <= 0xDFFF;
}

static bool scan_string(struct scan *c)
{
    if (!take(c, '"'))
        return false;
    for (int ch; (ch = peek(c)) >= 0x20;) {
        if (take(c, '"'))
            return true;
        if (take(c, '\\')) {
            if (!scan_escape(c))
                return false;
            continue;
        }
        uint32_t cp;
        size_t n = ch < 0x80 ? 1 : utf8_decode(str_slice(c->s, c->at, c->s.n), &cp);
        if (n == 0)
            return false;
        c->at += n;
    }
    return false;
}

static bool scan_word(struct scan *c)
{
    static const struct str words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    for (int i = 0; i < 3; i++) {
        if (str_starts(str_slice(c->s, c->at, c->s.n), words[i])) {
            c->at += words[i].n;
            return true;
        }
    }
    return false;
}

static bool in_object(const struct scan *c)
{
    uint32_t top = c->depth - 1;
    return c->is_object[top / 8] >> (top % 8) & 1;
}

static void push(struct scan *c, bool is_object)
{
    uint8_t bit = (uint8_t)(1u << (c->depth % 8));
    uint8_t *byte = &c->is_object[c->depth / 8];
    *byte = (uint8_t)(is_object ? *byte | bit : *byte & ~bit);
    c->depth++;
}

static bool scan_scalar(struct scan *c)
{
    int ch = peek(c);
    if (ch == '"')
        return scan_string(c);
    return ch == '-' || is_digit(ch) ? scan_number(c) : scan_word(c);
}

static bool scan_key(struct scan *c)
{
    skip_space(c);
    if (!scan_string(c))
        return false;
    skip_space(c);
    return take(c, ':');
}

/* Behind a value: closes what ends here, steps over a comma. False when neither fits. */
static bool scan_after_value(struct scan *c)
{
    while (c->depth > 0) {
        skip_space(c);
        if (take(c, in_object(c) ? '}' : ']')) {
            c->depth--;
            continue;
        }
        return take(c, ',') && (!in_object(c) || scan_key(c));
    }
    return true;
}

/* An opening bracket was taken. True and *is_empty when it closes at once. */
static bool scan_open(struct scan *c, bool is_object, bool *is_empty)
{
    push(c, is_object);
    skip_space(c);
    *is_empty = take(c, is_object ? '}' : ']');
    c->depth -= *is_empty;
    return *is_empty || !is_object || scan_key(c);
}

static enum json_scan_result scan_value(struct scan *c)
{
    do {
        skip_space(c);
        bool is_object = peek(c) == '{', is_empty = true;
        if (is_object || peek(c) == '[') {
            if (c->depth == JSON_SCAN_DEPTH)
                return JSON_SCAN_DEEP;
            c->at++;
            if (!scan_open(c, is_object, &is_empty))
                return JSON_SCAN_BROKEN;
            if (!is_empty)
                continue;
        } else if (!scan_scalar(c)) {
            return JSON_SCAN_BROKEN;
        }
        if (!scan_after_value(c))
            return JSON_SCAN_BROKEN;
    } while (c->depth > 0);
    return JSON_SCAN_OK;
}

enum json_scan_result json_scan_value(struct str text, size_t from, size_t *end)
{
    struct scan c; /* the bits are written before they are read: no need to clear 64 KiB */
    c.s = text;
    c.at = from;
    c.depth = 0;
    enum json_scan_result r = scan_value(&c);
    *end = c.at;
    return r;
}

enum json_scan_result json_scan_text(struct str text)
{
    size_t end;
    enum json_scan_result r = json_scan_value(text, 0, &end);
    if (r != JSON_SCAN_OK)
        return r;
    while (end < text.n && memchr(" \t\n\r", text.p[end], 4))
        end++;
    return end == text.n ? JSON_SCAN_OK : JSON_SCAN_BROKEN;
}

size_t json_scan_brackets(struct str text, size_t from)
{
    uint32_t depth = 0;
    bool in_string = false;
    for (size_t i = from; i < text.n; i++) {
        char ch = text.p[i];
        if (in_string) {
            i += ch == '\\';
            in_string = ch != '"';
        } else if (ch == '"') {
            in_string = true;
        } else if (ch == '{' || ch == '[') {
            depth++;
        } else if ((ch == '}' || ch == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return text.n + 1;
}
