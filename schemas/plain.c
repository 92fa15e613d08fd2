/* No state; any thread. */
#include "schemas/plain.h"

#include "common/json_members.h"
#include "common/utf8.h"

#include <string.h>

enum {
    REAL_DIGITS = 15,    /* below 2^53: exact in a double */
    INTEGER_DIGITS = 18, /* times in microseconds and epochs have 16; any such fits an int64_t */
    OBJECT_MEMBERS = 8
};

/* The character of a two-byte escape; 0 = none of these. */
static char escaped(char c)
{
    static const char NAMED[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    for (size_t i = 0; i + 1 < sizeof NAMED; i += 2)
        if (NAMED[i] == c)
            return NAMED[i + 1];
    return '\0';
}

static bool is_itself(char c)
{
    return (unsigned char)c >= 0x20 && c != '\\' && c != '"';
}

/* False: a control character, or \u. */
static bool unescape(struct str s, char *to, size_t *n)
{
    size_t at = 0, made = 0;
    while (at < s.n) {
        if (is_itself(s.p[at])) {
            to[made++] = s.p[at++];
            continue;
        }
        char c = s.p[at] == '\\' && at + 1 < s.n ? escaped(s.p[at + 1]) : '\0';
        if (!c)
            return false;
        to[made++] = c;
        at += 2;
    }
    *n = made;
    return true;
}

static bool is_plain_text(struct str inside)
{
    return utf8_plain_run(inside) == inside.n;
}

enum plain plain_text(struct str value, struct arena *a, struct str *out)
{
    size_t n = 0;
    if (value.n < 2 || value.p[0] != '"' || value.p[value.n - 1] != '"')
        return PLAIN_NOT;
    struct str inside = str_slice(value, 1, value.n - 1);
    if (is_plain_text(inside)) {
        *out = arena_str(a, inside);
        return out->p ? PLAIN_TAKEN : PLAIN_NO_MEMORY;
    }
    if (!utf8_is_valid(inside))
        return PLAIN_NOT;
    char *to = arena_alloc(a, inside.n + 1);
    if (!to)
        return PLAIN_NO_MEMORY;
    if (!unescape(inside, to, &n))
        return PLAIN_NOT;
    *out = (struct str){to, n};
    return PLAIN_TAKEN;
}

struct number {
    bool is_negative;
    uint64_t mantissa;
    unsigned n_digit, n_decimal;
};

static size_t read_digits(struct str s, size_t at, unsigned most, struct number *n)
{
    for (; at < s.n && s.p[at] >= '0' && s.p[at] <= '9' && n->n_digit < most; at++) {
        n->mantissa = n->mantissa * 10 + (uint64_t)(s.p[at] - '0');
        n->n_digit++;
    }
    return at;
}

/* -12 or -1.25; a leading zero stands alone (RFC 8259 section 6). */
static bool read_number(struct str s, unsigned most, struct number *n)
{
    *n = (struct number){.is_negative = s.n && s.p[0] == '-'};
    size_t start = n->is_negative, at = read_digits(s, start, most, n);
    if (at == start || (s.p[start] == '0' && at > start + 1))
        return false;
    unsigned n_whole = n->n_digit;
    if (at + 1 < s.n && s.p[at] == '.')
        at = read_digits(s, at + 1, most, n);
    n->n_decimal = n->n_digit - n_whole;
    return at == s.n;
}

bool plain_integer(struct str value, int64_t *out)
{
    struct number n;
    if (!read_number(value, INTEGER_DIGITS, &n) || n.n_decimal)
        return false;
    *out = n.is_negative ? -(int64_t)n.mantissa : (int64_t)n.mantissa;
    return true;
}

/* Mantissa and power of ten are exact, so their quotient is the nearest double. */
bool plain_real(struct str value, double *out)
{
    static const double POWER[REAL_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    struct number n;
    if (!read_number(value, REAL_DIGITS, &n))
        return false;
    double v = (double)n.mantissa / POWER[n.n_decimal];
    *out = n.is_negative ? -v : v;
    return true;
}

/* A zero with a sign loses it in a tree. */
static bool is_settled(struct str value)
{
    int64_t n;
    if (value.p[0] == '"')
        return is_plain_text(str_slice(value, 1, value.n - 1));
    return str_eq_c(value, "true") || str_eq_c(value, "false") ||
           (plain_integer(value, &n) && (n != 0 || value.n == 1));
}

bool plain_object(struct str text)
{
    struct json_members members;
    struct json_member m[OBJECT_MEMBERS];
    size_t n = 0, n_byte = 1; /* {, then each with a comma, or the }, behind it */
    int rc = json_members_open(&members, text, NULL);
    while (rc == ERR_OK && n < OBJECT_MEMBERS &&
           (rc = json_members_next(&members, &m[n], NULL)) == ERR_OK) {
        for (size_t i = 0; i < n; i++)
            if (str_eq(m[i].key, m[n].key))
                return false;
        if (m[n].key.n == 0 || !is_plain_text(m[n].key) || !is_settled(m[n].value))
            return false;
        n_byte += m[n].key.n + m[n].value.n + 4;
        n++;
    }
    return rc == ERR_NOT_FOUND && text.n == (n ? n_byte : 2);
}

void plain_put_key(struct buf *out, const char *key)
{
    size_t n = strlen(key);
    if (!buf_reserve(out, n + 4))
        return;
    char *to = out->p + out->n;
    if (out->n && to[-1] != '{')
        *to++ = ',';
    *to++ = '"';
    memcpy(to, key, n);
    to += n;
    *to++ = '"';
    *to++ = ':';
    out->n = (size_t)(to - out->p);
}
