/* verifier/math/parse.h - tokens to a tree, by recursive descent of bounded depth. */
#ifndef VERIFIER_MATH_PARSE_H
#define VERIFIER_MATH_PARSE_H

#include "verifier/math/lex.h"

/* The whole text as one answer; NULL when it is not mathematics as known here, or too large.
 * Lives in the arena of w. */
const struct math_node *math_parse(struct str text, enum math_reading reading, struct math_work *w);

#endif
