/* verifier/math/exact.h - values that are rational numbers, exactly. */
#ifndef VERIFIER_MATH_EXACT_H
#define VERIFIER_MATH_EXACT_H

#include "verifier/math/node.h"

#include <gmp.h>

/* The value when it is a rational number that can be had within the budget; out is initialised by
 * the caller and holds nothing of use when the answer is false. */
bool math_exact(struct math_work *w, const struct math_node *n, mpq_t out);

#endif
