/* verifier/text/json_scan.h - the grammar of RFC 8259 over bytes: no values, no allocation, no
 * recursion.
 *
 * Linear time at any depth up to JSON_SCAN_DEPTH. Stricter than the grammar in one place: a \u
 * escape of half a surrogate pair is refused, since no UTF-8 text can hold it. */
#ifndef VERIFIER_TEXT_JSON_SCAN_H
#define VERIFIER_TEXT_JSON_SCAN_H

#include "common/str.h"

enum { JSON_SCAN_DEPTH = 1 << 19 };
enum json_scan_result { JSON_SCAN_OK, JSON_SCAN_BROKEN, JSON_SCAN_DEEP };

/* One value at text.p[from] (white space before it allowed). *end = the byte behind it, or where it
 * broke. Strings must be valid UTF-8. */
enum json_scan_result json_scan_value(struct str text, size_t from, size_t *end);
/* The whole text is one value. */
enum json_scan_result json_scan_text(struct str text);
/* from stands on { or [: the byte behind the bracket that closes it, brackets inside strings not
 * counted; text.n + 1 when it is never closed. Whatever stands between the brackets. */
size_t json_scan_brackets(struct str text, size_t from);

#endif
