/* verifier/text/numeral.h - numbers as people and models write them, and which one is the answer.
 *
 * 7,425,000   1 000   1'000   14{,}916   1.234.567,5   0,111   .4   004   -5   −5   $1,000.99
 * 50%   3/4   2 1/2   1e6   1.5 x 10^3   10^{-3}.  `32, 349` is two numbers, so is 1,2. Linear
 * time. */
#ifndef VERIFIER_TEXT_NUMERAL_H
#define VERIFIER_TEXT_NUMERAL_H

#include "common/arena.h"

struct numeral {
    struct str text; /* as it stands, without sign; borrowed */
    bool is_negative, is_percent;
    bool is_exact;     /* digits holds all of it (no exponent, no fraction) */
    struct str digits; /* no leading zeros, no trailing zeros behind the point; "" = 0; arena */
    double value;      /* with its sign; percent as written (50% = 50) */
};

/* The number that text_answered(text) gives as its answer: in the last \boxed{}, after the last
 * ####, after the last "answer is" or "answer:", else the last one. False when there is none, or
 * when the last box is not closed. */
bool numeral_stated(struct str text, struct arena *a, struct numeral *out);

/* |a - b| <= tolerance. Without a tolerance, digits are compared, so that long numbers are not
 * equal by rounding. */
bool numeral_equal(const struct numeral *a, const struct numeral *b, double tolerance);

#endif
