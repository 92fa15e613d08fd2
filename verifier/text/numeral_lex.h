/* verifier/text/numeral_lex.h - where a written number begins and ends, and what its marks mean. */
#ifndef VERIFIER_TEXT_NUMERAL_LEX_H
#define VERIFIER_TEXT_NUMERAL_LEX_H

#include "common/str.h"

struct numeral_span {
    size_t start, mantissa_end, end; /* digits with separators; with exponent or denominator */
    size_t decimal_at;               /* of the decimal mark, when has_decimal */
    bool has_decimal, is_negative, is_percent;
    int exponent;
    uint64_t numerator, denominator; /* to be added: 0 / 1, or the 1/2 of 2 1/2 */
    bool is_fraction;                /* the mantissa is over the denominator: 3/4 */
};

/* The first number at or after `from`. False, and *out untouched, when there is none. */
bool numeral_lex(struct str s, size_t from, struct numeral_span *out);

#endif
