/* verifier/text/json_find.h - the JSON value inside a model's answer.
 *
 * Of text_answered(text), in this order: the whole; the fenced block (closing fence at least as
 * long as the opening one); the first complete value from the first { or [. A block that says it is
 * JSON and is not ends the search, and so does a bracket that is never closed: a value nested in a
 * broken one is never taken for the answer. Linear time. */
#ifndef VERIFIER_TEXT_JSON_FIND_H
#define VERIFIER_TEXT_JSON_FIND_H

#include "common/str.h"

enum json_want { JSON_WANT_ANY, JSON_WANT_OBJECT, JSON_WANT_ARRAY };

/* True and *value = the text of a valid value (borrowed). Else *why = "no_json", "invalid_json". */
bool json_find(struct str text, enum json_want want, struct str *value, const char **why);

#endif
