/* verifier/math/shape.h - what a tree is, seen from above. */
#ifndef VERIFIER_MATH_SHAPE_H
#define VERIFIER_MATH_SHAPE_H

#include "verifier/math/node.h"

/* What stands on the left of "k = 3" or "|AB| = 4" or "f(2) = 5": a name for a value. */
bool math_is_label(const struct math_node *n);
int math_infinite_sign(const struct math_node *n); /* 1, -1, 0 when it is not infinity */
bool math_is_equation(const struct math_node *n);  /* a chain of = only */
/* The value that a chain of = states, NULL when it states none: k = 1/3, 2 + 2 = 4. */
const struct math_node *math_stated_value(const struct math_node *n);
bool math_is_bare_list(const struct math_node *n); /* 1, 2: no brackets */
bool math_is_tuple(const struct math_node *n);     /* in round, square or angle brackets */

/* One step towards the plainest form: a list of one is its element, plus-minus becomes the two
 * values, the choice of a sign moves into lists and relations. NULL when the budget is spent. */
const struct math_node *math_plain(struct math_work *w, const struct math_node *n);

/* Units known under several names have one: 0 length when the unit is not known. */
struct str math_unit_name(struct math_work *w, struct str unit);

#endif
