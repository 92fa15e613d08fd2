/* verifier/math/lex_number.h - one written number. */
#ifndef VERIFIER_MATH_LEX_NUMBER_H
#define VERIFIER_MATH_LEX_NUMBER_H

#include "verifier/math/lex.h"

/* s[at] is a digit, or a point before one. Returns the index behind the number, 0 when memory is
 * out; the token's text is its digits with at most one point. is_inside: within brackets. */
size_t math_lex_number(struct str s, size_t at, enum math_reading reading, bool is_inside,
                       struct arena *a, struct math_token *out);

#endif
