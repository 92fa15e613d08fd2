/* common/utf8.h - UTF-8 as of RFC 3629: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include "common/str.h"

/* Decodes one code point at s.p; returns its length in bytes, or 0 when s does not start with a
 * whole valid one (empty, cut or invalid). */
size_t utf8_decode(struct str s, uint32_t *cp);
/* Writes cp, returns 1..4; 0 for a surrogate or a value above U+10FFFF. */
size_t utf8_encode(uint32_t cp, char out[4]);
bool utf8_is_valid(struct str s);
/* How many bytes at the beginning stand in a JSON string as they are: printable ASCII, but no quote
 * and no backslash. */
size_t utf8_plain_run(struct str s);
/* How many bytes at the end are the beginning of a code point that may still be completed. */
size_t utf8_partial_tail(struct str s);
/* Length of the invalid piece at s.p, to be replaced by one U+FFFD (Unicode 15 section 3.9,
 * "maximal subpart"). Call it where utf8_decode gave 0 on a non-empty string. */
size_t utf8_invalid_run(struct str s);

#endif
