/* verifier/text/language.h - which language a text is in.
 *
 * The script decides where it has one language (Thai, Hangul, kana, ...); libexttextcat's n-gram
 * profiles (Cavnar and Trenkle 1994) decide among those that share one. A sample of the text is
 * looked at: constant time. */
#ifndef VERIFIER_TEXT_LANGUAGE_H
#define VERIFIER_TEXT_LANGUAGE_H

#include "common/buf.h"

struct language; /* any number of threads; they take turns in the library */

enum language_answer { LANGUAGE_YES, LANGUAGE_NO, LANGUAGE_UNSURE /* too short, no words */ };

/* ERR_UNSUPPORTED when the library's profiles are not installed. */
MUST_USE int language_open(struct language **out, struct err *e);
void language_close(struct language *l);
/* code: ISO 639-1, "pt-BR" counts as "pt", "no" as "nb" or "nn". */
bool language_is_known(struct str code);
void language_codes(struct buf *out); /* "af, ar, ..." */
enum language_answer language_is(const struct language *l, struct str text, struct str code);

#endif
