/* verifier/text/decimal.h - JSON numbers as they are written: no rounding, any length. Stateless.
 *
 * Value = digits * 10^exponent. Digits have no zero at either end; none at all is zero. */
#ifndef VERIFIER_TEXT_DECIMAL_H
#define VERIFIER_TEXT_DECIMAL_H

#include "common/arena.h"

enum { DECIMAL_DIVISOR_DIGITS = 18 };

struct decimal {
    struct str digits; /* borrowed from the text, or from the arena */
    int64_t exponent;  /* clamped to +-10^15: further apart nothing is compared by digits */
    bool is_negative;  /* never of zero */
};

/* text fits the grammar of RFC 8259 section 6. False when memory is out. */
bool decimal_read(struct str text, struct arena *a, struct decimal *out) MUST_USE;
int decimal_compare(const struct decimal *x, const struct decimal *y); /* <0, 0, >0 */
bool decimal_is_integer(const struct decimal *x);
/* False when it is no integer of 0 to 2^53. */
bool decimal_to_count(const struct decimal *x, uint64_t *out);
/* x is an integer times y. y positive, at most DECIMAL_DIVISOR_DIGITS digits. */
bool decimal_is_multiple(const struct decimal *x, const struct decimal *y);

#endif
