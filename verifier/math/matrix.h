/* verifier/math/matrix.h - sums, products and multiples of matrices, worked out. */
#ifndef VERIFIER_MATH_MATRIX_H
#define VERIFIER_MATH_MATRIX_H

#include "verifier/math/node.h"

/* One matrix for an expression of matrices; n itself when it is none or the sizes do not fit.
 * NULL when the budget is spent. */
const struct math_node *math_matrix_value(struct math_work *w, const struct math_node *n);

#endif
