/* Exact decimals. Everything is linear in the digits. */
#include "verifier/text/decimal.h"

#include <string.h>

static const int64_t EXPONENT_MAX = 1000000000000000;

static int64_t clamp(int64_t v)
{
    return v > EXPONENT_MAX ? EXPONENT_MAX : v < -EXPONENT_MAX ? -EXPONENT_MAX : v;
}

/* Behind the e; an exponent that passes the clamp stays there. */
static int64_t read_exponent(struct str s)
{
    int64_t v = 0;
    bool is_negative = s.n > 0 && s.p[0] == '-';
    for (size_t i = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'); i < s.n; i++)
        v = clamp(v * 10 + (s.p[i] - '0'));
    return is_negative ? -v : v;
}

/* Integer and fraction in one piece, without the point. */
static struct str join(struct str whole, struct str fraction, struct arena *a)
{
    if (fraction.n == 0)
        return whole;
    if (str_eq_c(whole, "0"))
        return fraction;
    char *p = arena_alloc(a, whole.n + fraction.n);
    if (!p)
        return (struct str){0};
    memcpy(p, whole.p, whole.n);
    memcpy(p + whole.n, fraction.p, fraction.n);
    return (struct str){p, whole.n + fraction.n};
}

bool decimal_read(struct str text, struct arena *a, struct decimal *out)
{
    size_t mark = 0;
    bool is_negative = str_starts(text, STR("-"));
    text = str_slice(text, is_negative, text.n);
    while (mark < text.n && (text.p[mark] | 32) != 'e')
        mark++;
    int64_t exponent = mark < text.n ? read_exponent(str_slice(text, mark + 1, text.n)) : 0;
    struct str fraction = str_slice(text, 0, mark), whole;
    str_split(&fraction, '.', &whole);
    struct str digits = join(whole, fraction.p ? fraction : STR(""), a);
    if (!digits.p)
        return false;
    exponent -= fraction.p ? (int64_t)fraction.n : 0;
    while (digits.n && digits.p[0] == '0')
        digits = str_slice(digits, 1, digits.n);
    for (; digits.n && digits.p[digits.n - 1] == '0'; exponent++)
        digits.n--;
    *out = (struct decimal){digits, digits.n ? clamp(exponent) : 0, is_negative && digits.n > 0};
    return true;
}

static int compare_magnitude(const struct decimal *x, const struct decimal *y)
{
    int64_t top_x = x->exponent + (int64_t)x->digits.n, top_y = y->exponent + (int64_t)y->digits.n;
    if (x->digits.n == 0 || y->digits.n == 0)
        return (x->digits.n > 0) - (y->digits.n > 0);
    if (top_x != top_y)
        return top_x > top_y ? 1 : -1;
    return str_compare(x->digits, y->digits); /* no zeros at the end: longer is larger */
}

int decimal_compare(const struct decimal *x, const struct decimal *y)
{
    if (x->is_negative != y->is_negative)
        return x->is_negative ? -1 : 1;
    int magnitude = compare_magnitude(x, y);
    return x->is_negative ? -magnitude : magnitude;
}

bool decimal_is_integer(const struct decimal *x)
{
    return x->exponent >= 0;
}

bool decimal_to_count(const struct decimal *x, uint64_t *out)
{
    const uint64_t most = (uint64_t)1 << 53;
    uint64_t v = 0;
    if (x->is_negative || x->exponent < 0 || x->exponent > 16 || x->digits.n > 16)
        return false;
    for (size_t i = 0; i < x->digits.n; i++)
        v = v * 10 + (uint64_t)(x->digits.p[i] - '0');
    for (int64_t i = 0; i < x->exponent && v <= most; i++)
        v *= 10;
    *out = v;
    return v <= most;
}

__extension__ typedef unsigned __int128 wide;

static uint64_t times(uint64_t x, uint64_t y, uint64_t divisor)
{
    return (uint64_t)((wide)x * y % divisor);
}

/* 10^n mod divisor, by squaring. */
static uint64_t power_of_ten(uint64_t n, uint64_t divisor)
{
    uint64_t result = 1 % divisor, base = 10 % divisor;
    for (; n; n >>= 1) {
        if (n & 1)
            result = times(result, base, divisor);
        base = times(base, base, divisor);
    }
    return result;
}

/* Both over 10^(exponent of y). When x reaches below that, its last digit, which is no zero, makes
 * it no multiple of ten, let alone of digits(y) * 10^k. */
bool decimal_is_multiple(const struct decimal *x, const struct decimal *y)
{
    uint64_t divisor = 0, rest = 0;
    if (x->digits.n == 0)
        return true;
    if (x->exponent < y->exponent || y->digits.n > DECIMAL_DIVISOR_DIGITS || y->digits.n == 0)
        return false;
    for (size_t i = 0; i < y->digits.n; i++)
        divisor = divisor * 10 + (uint64_t)(y->digits.p[i] - '0');
    for (size_t i = 0; i < x->digits.n; i++)
        rest = (uint64_t)(((wide)rest * 10 + (uint64_t)(x->digits.p[i] - '0')) % divisor);
    return times(rest, power_of_ten((uint64_t)(x->exponent - y->exponent), divisor), divisor) == 0;
}
