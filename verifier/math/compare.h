/* verifier/math/compare.h - do two trees state the same answer? */
#ifndef VERIFIER_MATH_COMPARE_H
#define VERIFIER_MATH_COMPARE_H

#include "verifier/math/node.h"

/* want is the reference: an answer may say more than it ("x + y = 7" for 7), not less. */
bool math_same(struct math_work *w, const struct math_node *want, const struct math_node *got);

#endif
