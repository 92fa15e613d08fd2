/* One pass over bytes; each rule is one function. Looks back at most a few bytes before a digit
 * (sign, currency), so the whole is linear. */
#include "verifier/text/numeral_lex.h"

#include "common/utf8.h"

#include <string.h>

enum { EXPONENT_MAX = 9999, DENOMINATOR_DIGITS_MAX = 15 };

static int byte_at(struct str s, size_t i)
{
    return i < s.n ? (unsigned char)s.p[i] : -1;
}

static bool is_digit_at(struct str s, size_t i)
{
    int c = byte_at(s, i);
    return c >= '0' && c <= '9';
}

static bool is_letter_at(struct str s, size_t i)
{
    int c = byte_at(s, i) | 32;
    return i < s.n && c >= 'a' && c <= 'z';
}

static bool is_alnum_at(struct str s, size_t i)
{
    return is_digit_at(s, i) || is_letter_at(s, i);
}

static size_t digit_run(struct str s, size_t i)
{
    size_t start = i;
    while (is_digit_at(s, i))
        i++;
    return i - start;
}

/* What may stand between groups of three digits. */
static const struct str GROUP_MARKS[] = {
    {"{,}", 3},
    {",\\!", 3},
    {"\\,", 2},
    {",", 1},
    {" ", 1},
    {"'", 1},
    {"\xC2\xA0", 2},
    {"\xE2\x80\xAF", 3}, /* no-break spaces */
    {"\xE2\x80\x89", 3},
    {"\xE2\x80\x99", 3}, /* thin space, right quote */
    {" {, }", 5},
    {".", 1},
};
enum { GROUP_MARKS_N = sizeof GROUP_MARKS / sizeof GROUP_MARKS[0] };

/* Index of the mark at i that is followed by exactly three digits, or -1. *behind = the digits. */
static int group_mark(struct str s, size_t i, size_t *behind)
{
    int c = byte_at(s, i);
    if (c < 0xC2 && (c <= 0 || !strchr("{,\\ '.", c)))
        return -1;
    for (int m = 0; m < GROUP_MARKS_N; m++) {
        *behind = i + GROUP_MARKS[m].n;
        if (str_starts(str_slice(s, i, s.n), GROUP_MARKS[m]) && digit_run(s, *behind) == 3)
            return m;
    }
    return -1;
}

/* Points group thousands only twice (1.234.567) or before a decimal comma (1.234,5). */
static bool points_group(struct str s, size_t i)
{
    size_t after = i + 4;
    bool twice = byte_at(s, after) == '.' && digit_run(s, after + 1) == 3;
    return twice || (byte_at(s, after) == ',' && is_digit_at(s, after + 1));
}

/* Index behind the integer part that starts at i; *mark = what grouped it, or -1. */
static size_t lex_integer(struct str s, size_t i, int *mark)
{
    size_t first = digit_run(s, i), end = i + first;
    *mark = -1;
    if (first > 3 || byte_at(s, i) == '0')
        return end;
    size_t behind;
    for (int m; (m = group_mark(s, end, &behind)) >= 0; end = behind + 3) {
        bool is_point = GROUP_MARKS[m].p[0] == '.';
        if ((*mark >= 0 && m != *mark) || (*mark < 0 && is_point && !points_group(s, end)))
            break;
        *mark = m;
    }
    return end;
}

/* 1,2,3: neither the comma before nor the one behind is a decimal mark. */
static bool is_list_comma(struct str s, size_t start, size_t comma)
{
    size_t after = comma + 1 + digit_run(s, comma + 1);
    bool before = start >= 2 && s.p[start - 1] == ',' && is_digit_at(s, start - 2);
    return before || (byte_at(s, after) == ',' && is_digit_at(s, after + 1));
}

static size_t lex_decimals(struct str s, size_t start, size_t at, int mark,
                           struct numeral_span *out)
{
    int c = byte_at(s, at);
    char grouped_by = mark >= 0 ? GROUP_MARKS[mark].p[0] : '\0';
    bool is_mark = (c == '.' || c == ',') && c != grouped_by && is_digit_at(s, at + 1);
    if (!is_mark || (c == ',' && is_list_comma(s, start, at)) ||
        (c == ',' && mark >= 0 && grouped_by == '{'))
        return at;
    out->has_decimal = true;
    out->decimal_at = at;
    return at + 1 + digit_run(s, at + 1);
}

static size_t lex_exponent(struct str s, size_t start, size_t at, struct numeral_span *out)
{
    (void)start;
    if ((byte_at(s, at) | 32) != 'e' || at >= s.n)
        return at;
    size_t i = at + 1;
    bool is_negative = byte_at(s, i) == '-';
    i += is_negative || byte_at(s, i) == '+';
    size_t n = digit_run(s, i);
    if (n == 0 || is_letter_at(s, i + n))
        return at;
    for (size_t d = 0; d < n && out->exponent < EXPONENT_MAX; d++)
        out->exponent = out->exponent * 10 + (s.p[i + d] - '0');
    if (is_negative)
        out->exponent = -out->exponent;
    return i + n;
}

/* The number written in digits at i, at most DENOMINATOR_DIGITS_MAX of them; 0 when there is none.
 */
static uint64_t digits_at(struct str s, size_t i, size_t *n)
{
    uint64_t value = 0;
    *n = digit_run(s, i);
    for (size_t d = 0; d < *n && *n <= DENOMINATOR_DIGITS_MAX; d++)
        value = value * 10 + (uint64_t)(s.p[i + d] - '0');
    return value;
}

/* 2 1/2 */
static size_t lex_mixed(struct str s, size_t start, size_t at, struct numeral_span *out)
{
    (void)start;
    size_t n, d;
    uint64_t numerator = byte_at(s, at) == ' ' ? digits_at(s, at + 1, &n) : 0;
    if (numerator == 0 || byte_at(s, at + 1 + n) != '/' || out->has_decimal)
        return at;
    uint64_t denominator = digits_at(s, at + 2 + n, &d);
    size_t end = at + 2 + n + d;
    if (denominator <= numerator || byte_at(s, end) == '/')
        return at;
    out->numerator = numerator;
    out->denominator = denominator;
    return end;
}

/* Behind one of the times signs and white space around it; i when there is none. */
static size_t behind_times(struct str s, size_t i)
{
    static const struct str times[] = {{"\xC3\x97", 2}, {"\\times", 6}, {"\\cdot", 5},
                                       {"\xC2\xB7", 2}, {"*", 1},       {"x", 1}};
    size_t at = i;
    while (byte_at(s, at) == ' ')
        at++;
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++) {
        if (!str_starts(str_slice(s, at, s.n), times[k]))
            continue;
        at += times[k].n;
        while (byte_at(s, at) == ' ')
            at++;
        return at;
    }
    return i;
}

/* The exponent behind 10^, with or without braces. */
static size_t lex_power_of_ten(struct str s, size_t i, int *exponent)
{
    if (!str_starts(str_slice(s, i, s.n), STR("10^")))
        return i;
    bool is_braced = byte_at(s, i + 3) == '{';
    size_t at = i + 3 + is_braced, n;
    bool is_negative = byte_at(s, at) == '-';
    uint64_t value = digits_at(s, at + is_negative, &n);
    size_t end = at + is_negative + n;
    if (n == 0 || value > EXPONENT_MAX || (is_braced && byte_at(s, end) != '}'))
        return i;
    *exponent = is_negative ? -(int)value : (int)value;
    return end + is_braced;
}

/* 1.5 x 10^3, 10^{-3} */
static size_t lex_scientific(struct str s, size_t start, size_t at, struct numeral_span *out)
{
    size_t power = behind_times(s, at), end = power;
    if (power > at)
        end = lex_power_of_ten(s, power, &out->exponent);
    if (end > power)
        return end;
    int exponent;
    end = lex_power_of_ten(s, start, &exponent);
    if (end == start)
        return at;
    out->mantissa_end = start + 1; /* the 1 of 10 */
    out->exponent = exponent;
    return end;
}

/* 3/4 but not a date (1/2/2024) nor a division by zero. */
static size_t lex_fraction(struct str s, size_t start, size_t at, struct numeral_span *out)
{
    size_t n;
    uint64_t value = byte_at(s, at) == '/' ? digits_at(s, at + 1, &n) : 0;
    if (value == 0)
        return at;
    bool is_alone = !(start > 0 && s.p[start - 1] == '/') && byte_at(s, at + 1 + n) != '/';
    if (!is_alone || out->has_decimal)
        return at;
    out->denominator = value;
    out->is_fraction = true;
    return at + 1 + n;
}

static bool lex_percent(struct str s, size_t at)
{
    static const struct str words[] = {{"%", 1}, {"\\%", 2}, {"percent", 7}, {"pct", 3}};
    while (byte_at(s, at) == ' ')
        at++;
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        if (str_starts(str_slice(s, at, s.n), words[w]))
            return true;
    return false;
}

/* Steps back over one mark that ends at `at`; returns its start, or `at` when it is not there. */
static size_t before_mark(struct str s, size_t at, const struct str *mark, size_t n)
{
    for (size_t m = 0; m < n; m++)
        if (str_ends(str_slice(s, 0, at), mark[m]))
            return at - mark[m].n;
    return at;
}

/* -5, -$5, $-5, and with U+2212. A dash behind a letter, digit or bracket is an operator or a
 * range. */
static bool lex_sign(struct str s, size_t start)
{
    static const struct str currency[] = {
        {"\\$", 2}, {"$", 1}, {"\xC2\xA3", 2}, {"\xE2\x82\xAC", 3}, {"\xC2\xA5", 2}};
    static const struct str minus[] = {{"-", 1}, {"\xE2\x88\x92", 3}};
    size_t at = before_mark(s, start, currency, 5);
    size_t sign = before_mark(s, at, minus, 2);
    if (sign == at)
        return false;
    sign = before_mark(s, sign, currency, 5);
    return sign == 0 || !(is_alnum_at(s, sign - 1) || s.p[sign - 1] == ')' || s.p[sign - 1] == '-');
}

/* Index of the next digit (or point before digits) that begins a number; s.n when there is none.
 * Digits behind letters belong to a name: x2, H2O. */
static size_t next_start(struct str s, size_t i)
{
    while (i < s.n) {
        if (is_letter_at(s, i)) {
            while (is_alnum_at(s, i) || byte_at(s, i) == '_')
                i++;
            continue;
        }
        bool is_point = s.p[i] == '.' && is_digit_at(s, i + 1) && !(i > 0 && is_digit_at(s, i - 1));
        if (is_digit_at(s, i) || is_point)
            return i;
        i++;
    }
    return s.n;
}

bool numeral_lex(struct str s, size_t from, struct numeral_span *out)
{
    size_t start = next_start(s, from);
    if (start >= s.n)
        return false;
    struct numeral_span span = {.start = start, .denominator = 1};
    int mark = -1;
    size_t at = byte_at(s, start) == '.' ? start : lex_integer(s, start, &mark);
    at = lex_decimals(s, start, at, mark, &span);
    span.mantissa_end = at;
    size_t (*const tail[])(struct str, size_t, size_t, struct numeral_span *) = {
        lex_exponent, lex_scientific, lex_fraction, lex_mixed};
    for (size_t k = 0; k < sizeof tail / sizeof tail[0] && at == span.mantissa_end; k++)
        at = tail[k](s, start, at, &span);
    span.end = at;
    span.is_percent = lex_percent(s, at);
    span.is_negative = lex_sign(s, start);
    *out = span;
    return true;
}
