/* verifier/text/regex_form.h - the same pattern in the form in which PCRE2's DFA matcher is linear.
 *
 * That matcher tells states apart by place and repeat count, and counts without bound for X+ when X
 * is a single item (character, escape, class): as many states as characters. Written (?:X)+ there
 * is no count. Both mean the same. */
#ifndef VERIFIER_TEXT_REGEX_FORM_H
#define VERIFIER_TEXT_REGEX_FORM_H

#include "common/buf.h"

/* Appends the form to out. False when the pattern holds what a DFA treats otherwise (atomic groups,
 * possessive repeats, recursion, conditions, verbs) or what is not told apart here (\Q, comments,
 * callouts, the x flag): it then needs the backtracking matcher. */
bool regex_form(struct str pattern, struct buf *out);

#endif
