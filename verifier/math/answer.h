/* verifier/math/answer.h - which part of a text is the answer. Linear time for any text. */
#ifndef VERIFIER_MATH_ANSWER_H
#define VERIFIER_MATH_ANSWER_H

#include "common/arena.h"

enum math_found { MATH_ANSWER_FOUND, MATH_ANSWER_NONE, MATH_ANSWER_OPEN_BOX };

/* Of text_answered(text): the last \boxed{} (and those joined to it by "and", "or" or a comma),
 * else what follows the last
 * "####" or stated "answer", else the whole when it is no prose, else the last formula or number.
 * A last box that is not closed is no answer. *out lives in the arena or borrows the text. */
enum math_found math_answer(struct str text, struct arena *a, struct str *out);

#endif
