/* verifier/text/ecma_form.h - a pattern of ECMA-262 (u flag), as JSON Schema uses, in PCRE2's
 * words. */
#ifndef VERIFIER_TEXT_ECMA_FORM_H
#define VERIFIER_TEXT_ECMA_FORM_H

#include "common/buf.h"

/* Appends the form to out. ERR_INVALID: an escape that ECMA-262 does not know. What else PCRE2
 * would refuse is left to it. */
MUST_USE int ecma_form(struct str pattern, struct buf *out, struct err *e);

#endif
