/* Lexer of written numbers. Rules for separators: groups of exactly three digits after one to
 * three make thousands; a comma or point before other digits makes decimals; "1,2,3" is a list.
 * No state; any thread. */
#include "verifier/text/numeral.h"

#include "verifier/text/numeral_lex.h"
#include "verifier/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool last_numeral(struct str s, struct numeral_span *out)
{
    bool found = false;
    for (size_t at = 0; numeral_lex(s, at, out); at = out->end)
        found = true;
    return found;
}

/* Behind "####" or "answer is": a chain 2 + 40 = 42 states what follows its last sign. */
static bool stated_numeral(struct str s, struct numeral_span *out)
{
    static const char CHAIN[] = "0123456789+-*/x^(). ,=$%";
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        bool is_wide = (unsigned char)s.p[i] >= 0x80; /* a minus or times sign */
        if (!is_wide && (s.p[i] == '\0' || !strchr(CHAIN, s.p[i])))
            break;
        if (s.p[i] == '=')
            from = i + 1;
    }
    return numeral_lex(s, from, out);
}

/* Content of the last \boxed{...}. 1 found, 0 no box, -1 not closed. */
static int last_box(struct str s, struct str *inside)
{
    ptrdiff_t at = text_find_last(s, STR("\\boxed{"));
    if (at < 0)
        return 0;
    size_t start = (size_t)at + 7, depth = 1;
    for (size_t i = start; i < s.n; i++) {
        depth += s.p[i] == '{';
        depth -= s.p[i] == '}';
        if (depth == 0) {
            *inside = str_slice(s, start, i);
            return 1;
        }
    }
    return -1;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static bool starts_folded(struct str s, size_t at, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i < n; i++)
        if (at + i >= s.n || lower(s.p[at + i]) != word[i])
            return false;
    return true;
}

/* Index behind "is", ":" or "=" when they follow the word "answer" at `at`; 0 when not. */
static size_t behind_answer(struct str s, size_t at)
{
    static const char *const links[] = {"is", "would be", "equals", ":", "="};
    size_t i = at + 6;
    while (i < s.n && (s.p[i] == '*' || s.p[i] == '_' || s.p[i] == ' '))
        i++;
    for (size_t l = 0; l < sizeof links / sizeof links[0]; l++) {
        size_t end = i + strlen(links[l]);
        bool is_word = is_letter(links[l][0]) && end < s.n && is_letter(s.p[end]);
        if (starts_folded(s, i, links[l]) && !is_word)
            return end;
    }
    return 0;
}

/* What follows the last "answer is"; false when there is none. */
static bool after_answer(struct str s, struct str *rest)
{
    size_t found = 0;
    for (size_t i = 0; i + 6 < s.n; i++) {
        if (lower(s.p[i]) != 'a' || !starts_folded(s, i, "answer") ||
            (i > 0 && is_letter(s.p[i - 1])))
            continue;
        size_t end = behind_answer(s, i);
        found = end ? end : found;
    }
    *rest = str_slice(s, found, s.n);
    return found > 0;
}

static bool choose(struct str text, struct numeral_span *out, struct str *within)
{
    int box = last_box(text, within);
    if (box != 0)
        return box > 0 && stated_numeral(*within, out);
    ptrdiff_t hashes = text_find_last(text, STR("####"));
    if (hashes >= 0) {
        *within = str_slice(text, (size_t)hashes + 4, text.n);
        return stated_numeral(*within, out);
    }
    if (after_answer(text, within) && stated_numeral(*within, out))
        return true;
    *within = text;
    return last_numeral(text, out);
}

static double to_double(struct str digits, int exponent, struct arena *a)
{
    struct str text = arena_printf(a, "0" STR_FMT "e%d", STR_ARG(digits), exponent);
    double value = 0;
    if (!text.p || str_to_f64(text, &value, NULL) != ERR_OK)
        return INFINITY; /* out of range: equal to nothing but the same digits */
    return value;
}

/* Digits of the span without separators; the decimal mark becomes a point. */
static struct str plain_digits(const struct numeral_span *span, struct str s, struct arena *a)
{
    char *to = arena_alloc(a, span->end - span->start + 2);
    size_t n = 0, point = 0;
    bool has_point = false;
    if (!to)
        return (struct str){0};
    for (size_t i = span->start; i < span->mantissa_end; i++) {
        char c = s.p[i];
        if (i == span->decimal_at && span->has_decimal) {
            has_point = true;
            point = n;
            to[n++] = '.';
        } else if (c >= '0' && c <= '9' && !(n == 0 && c == '0')) {
            to[n++] = c;
        }
    }
    while (has_point && n > point + 1 && to[n - 1] == '0')
        n--;
    return (struct str){to, has_point && n == point + 1 ? point : n};
}

bool numeral_stated(struct str text, struct arena *a, struct numeral *out)
{
    struct numeral_span span;
    struct str within;
    if (!text.p || !choose(text_answered(text), &span, &within))
        return false;
    *out = (struct numeral){
        .text = str_slice(within, span.start, span.end),
        .is_negative = span.is_negative,
        .is_percent = span.is_percent,
        .is_exact = span.exponent == 0 && span.denominator == 1,
        .digits = plain_digits(&span, within, a),
    };
    if (!out->digits.p)
        return false;
    double part = (double)span.numerator / (double)span.denominator;
    out->value = to_double(out->digits, span.exponent, a);
    out->value = span.is_fraction ? out->value / (double)span.denominator : out->value + part;
    if (out->is_negative)
        out->value = -out->value;
    return true;
}

static bool is_zero(const struct numeral *n)
{
    return n->digits.n == 0;
}

bool numeral_equal(const struct numeral *a, const struct numeral *b, double tolerance)
{
    if (tolerance > 0)
        return fabs(a->value - b->value) <= tolerance * (1 + 1e-12);
    if (a->is_exact && b->is_exact)
        return str_eq(a->digits, b->digits) && (is_zero(a) || a->is_negative == b->is_negative);
    double scale = fmax(fabs(a->value), fabs(b->value));
    return isfinite(scale) && fabs(a->value - b->value) <= 1e-12 * scale;
}
