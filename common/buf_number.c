/* Numbers as text, without printf where integers will do.
 *
 * A real with few decimals: r = round(x * 10^k) is an exact integer below 2^53 and r / 10^k is
 * correctly rounded (10^k <= 10^22 is exact), so if that quotient is x, the digits of r read back
 * as x. Everything else goes through printf, in the fewest digits that read back. */
#include "common/buf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { U64_DIGITS = 20, REAL_MAX = 40, MAX_DECIMALS = 13 };

static const double EXACT = 9e15; /* below 2^53 */

/* Returns where the digits begin in text[U64_DIGITS]. */
static size_t digits_of(uint64_t v, char text[U64_DIGITS])
{
    size_t at = U64_DIGITS;
    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return at;
}

void buf_put_u64(struct buf *b, uint64_t v)
{
    char text[U64_DIGITS];
    size_t at = digits_of(v, text);
    buf_put(b, text + at, U64_DIGITS - at);
}

void buf_put_i64(struct buf *b, int64_t v)
{
    if (v < 0)
        buf_put_char(b, '-');
    buf_put_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* r / scale, scale = 10^decimals; at least one decimal. */
static void put_scaled(struct buf *b, uint64_t r, uint64_t scale, unsigned decimals)
{
    char text[MAX_DECIMALS];
    uint64_t part = r % scale;
    buf_put_u64(b, r / scale);
    buf_put_char(b, '.');
    for (unsigned i = decimals; i-- > 0; part /= 10)
        text[i] = (char)('0' + part % 10);
    while (decimals > 1 && text[decimals - 1] == '0')
        decimals--;
    buf_put(b, text, decimals);
}

/* Zeros and ones are most of what is written. */
static bool put_whole(struct buf *b, double x)
{
    if (!(x >= 0.0 && x < 1e9) || signbit(x) || x != (double)(uint32_t)x)
        return false;
    buf_put_u64(b, (uint32_t)x);
    buf_put(b, ".0", 2);
    return true;
}

static bool put_decimal(struct buf *b, double x, uint64_t scale, unsigned decimals, bool is_float)
{
    double size = fabs(x), scaled = size * (double)scale;
    if (!(scaled < EXACT))
        return false;
    uint64_t r = (uint64_t)(scaled + 0.5);
    double back = (double)r / (double)scale;
    if (is_float ? (float)back != (float)size : back != size)
        return false;
    if (signbit(x))
        buf_put_char(b, '-');
    put_scaled(b, r, scale, decimals);
    return true;
}

/* A real keeps a point or an exponent, so that it stays a real when read again. */
static void put_printed(struct buf *b, double x, int least, int most)
{
    char text[REAL_MAX];
    for (int precision = least; precision <= most; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, x);
        if (strtod(text, NULL) == x)
            break;
    }
    buf_put_c(b, text);
    if (!strpbrk(text, ".e"))
        buf_put_c(b, ".0");
}

void buf_put_real(struct buf *b, double x)
{
    if (!put_whole(b, x) && !put_decimal(b, x, 1000000, 6, false))
        put_printed(b, x, 15, 17);
}

void buf_put_float(struct buf *b, float x)
{
    if (!put_whole(b, x) && !put_decimal(b, x, 1000000000, 9, true) &&
        !put_decimal(b, x, 10000000000000, 13, true))
        put_printed(b, x, 9, 9);
}
