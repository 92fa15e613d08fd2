/* verifier/text/letter.h - the answer letter of a multiple-choice question in model text. */
#ifndef VERIFIER_TEXT_LETTER_H
#define VERIFIER_TEXT_LETTER_H

#include "common/str.h"

/* The letter stated in text_answered(text), 'A' .. at most n_letters of them; 0 when none is, or
 * when the last \boxed{} is not closed or holds none. Linear. */
char letter_stated(struct str text, int n_letters);
/* A letter and nothing beside marks: C, (C), c), **C**, \text{C}. 0 when it is something else. */
char letter_alone(struct str text, int n_letters);

#endif
