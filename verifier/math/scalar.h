/* verifier/math/scalar.h - are two expressions the same value, or the same up to a factor? */
#ifndef VERIFIER_MATH_SCALAR_H
#define VERIFIER_MATH_SCALAR_H

#include "verifier/math/numeric.h"

/* Exactly when both are rational; else to the precision of the wide evaluation, at random points
 * when there are names. A decimal fraction of six digits or more also equals what it rounds; with
 * w->decimals, both are rounded first. False when that cannot be told. */
bool math_scalar_same(struct math_work *w, const struct math_node *a, const struct math_node *b);

/* a = factor * b at all points for one factor that is not zero. *is_positive: its sign. */
bool math_scalar_proportional(struct math_work *w, const struct math_node *a,
                              const struct math_node *b, bool *is_positive);

bool math_is_closed(const struct math_node *n); /* no names in it */

#endif
