/* verifier/math/equal.h - do two texts state the same mathematical answer?
 *
 * Exact rationals first, then evaluation in two precisions at seeded random points; no computer
 * algebra. Bounded work: nodes, depth, digits, exponents, and steps over all (node.h). */
#ifndef VERIFIER_MATH_EQUAL_H
#define VERIFIER_MATH_EQUAL_H

#include "common/arena.h"

enum math_verdict { MATH_DIFFERENT, MATH_SAME, MATH_UNDECIDED };

/* want: the reference. decimals: compare after rounding to so many, -1 exactly. Scratch memory
 * comes from the arena. MATH_UNDECIDED: the budget ran out, or one of them is
 * a sum, an integral or a limit, which are not evaluated. */
enum math_verdict math_equal(struct str want, struct str got, int decimals, struct arena *a);

/* Both are words ("12 PM", a date), and the same ones but for fonts, marks and case. */
bool math_same_words(struct str want, struct str got, struct arena *a);

#endif
