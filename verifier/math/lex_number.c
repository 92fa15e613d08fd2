/* Digits, marks between thousands, the decimal mark, repeating decimals. Linear. */
#include "verifier/math/lex_number.h"

#include <string.h>

static bool is_digit_at(struct str s, size_t i)
{
    return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

static size_t digit_run(struct str s, size_t i)
{
    size_t start = i;
    while (is_digit_at(s, i))
        i++;
    return i - start;
}

static bool has_at(struct str s, size_t i, struct str what)
{
    return str_starts(str_slice(s, i, s.n), what);
}

/* Marks that never mean anything but a group of three. */
static const struct str GROUP_MARKS[] = {
    {" {, }", 5},
    {" {,} ", 5},
    {"{,}", 3},
    {", \\!", 4},
    {",\\! ", 4},
    {",\\!", 3},
    {"\\,", 2},
    {"\\ ", 2},
    {" ", 1},
    {"~", 1},
    {"'", 1},
    {"\xC2\xA0", 2},
    {"\xE2\x80\xAF", 3},
    {"\xE2\x80\x89", 3},
};

/* Index of the three digits behind a mark at i, 0 when there is none. */
static size_t behind_mark(struct str s, size_t i)
{
    for (size_t m = 0; m < sizeof GROUP_MARKS / sizeof GROUP_MARKS[0]; m++) {
        size_t behind = i + GROUP_MARKS[m].n;
        if (has_at(s, i, GROUP_MARKS[m]) && digit_run(s, behind) == 3)
            return behind;
    }
    return 0;
}

/* 1,234,567 and no further comma with digits: index behind it, else i. */
static size_t comma_groups(struct str s, size_t i)
{
    size_t at = i;
    while (at < s.n && s.p[at] == ',' && digit_run(s, at + 1) == 3)
        at += 4;
    return at < s.n && s.p[at] == ',' && is_digit_at(s, at + 1) ? i : at;
}

static size_t integer_end(struct str s, size_t at, enum math_reading reading, bool is_inside)
{
    size_t first = digit_run(s, at), end = at + first;
    if (first == 0 || first > 3 || s.p[at] == '0')
        return end;
    bool takes_commas =
        reading == MATH_READ_EVERY_GROUP || (reading == MATH_READ_GROUPS && !is_inside);
    size_t behind = takes_commas ? comma_groups(s, end) : end;
    if (behind > end)
        return behind;
    while ((behind = behind_mark(s, end)) != 0)
        end = behind + 3;
    return end;
}

/* Length of the decimal mark at i; 0 when digits do not follow it. */
static size_t decimal_mark(struct str s, size_t i, enum math_reading reading)
{
    static const struct str braced = {"{,}", 3};
    if (has_at(s, i, braced) && is_digit_at(s, i + 3))
        return 3;
    bool is_mark = i < s.n && (s.p[i] == '.' || (s.p[i] == ',' && reading == MATH_READ_DECIMAL));
    return is_mark && (is_digit_at(s, i + 1) || has_at(s, i + 1, STR("\\overline{"))) ? 1 : 0;
}

/* Digits of \overline{...} at i: index behind the brace, 0 when there are none. */
static size_t repeat_end(struct str s, size_t i, size_t *from)
{
    if (!has_at(s, i, STR("\\overline{")))
        return 0;
    *from = i + 10;
    size_t end = *from + digit_run(s, *from);
    return end > *from && end < s.n && s.p[end] == '}' ? end + 1 : 0;
}

static size_t copy_digits(char *to, size_t n, struct str s, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (is_digit_at(s, i))
            to[n++] = s.p[i];
    return n;
}

size_t math_lex_number(struct str s, size_t at, enum math_reading reading, bool is_inside,
                       struct arena *a, struct math_token *out)
{
    size_t end = integer_end(s, at, reading, is_inside), n = 0, from = 0;
    size_t mark = decimal_mark(s, end, reading);
    size_t decimals_end = mark ? end + mark + digit_run(s, end + mark) : end;
    size_t behind = mark ? repeat_end(s, decimals_end, &from) : 0;
    char *to = arena_alloc(a, (behind ? behind : decimals_end) - at + 2);
    if (!to)
        return 0;
    n = copy_digits(to, n, s, at, end);
    if (mark) {
        to[n++] = '.';
        n = copy_digits(to, n, s, end + mark, decimals_end);
    }
    size_t before_repeat = n;
    if (behind)
        n = copy_digits(to, n, s, from, behind);
    *out =
        (struct math_token){.kind = TOKEN_NUMBER, .op = (int)(n - before_repeat), .text = {to, n}};
    return behind ? behind : decimals_end;
}
