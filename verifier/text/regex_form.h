/* verifier/text/regex_form.h - the same pattern in the form in which PCRE2's DFA matcher is linear.
 *
 * That matcher tells states apart by place and repeat count, and counts without bound for X+ when X
 * is a single item (character, escape, class): as many states as characters. Written (?:X)+ there
 * is no count. Both mean the same. */
#ifndef VERIFIER_TEXT_REGEX_FORM_H
#define VERIFIER_TEXT_REGEX_FORM_H

#include "common/buf.h"

/* Appends the pattern to out. Patterns with \Q, comments, callouts or the x flag stay as they are:
 * their single items are not told apart here. */
void regex_form(struct str pattern, struct buf *out);

#endif
