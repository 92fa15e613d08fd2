/* verifier/text/text.h - counting and comparing model text. Linear time; invalid UTF-8 reads as
 * U+FFFD. Any thread. */
#ifndef VERIFIER_TEXT_TEXT_H
#define VERIFIER_TEXT_TEXT_H

#include "common/arena.h"

/* Next code point; false at the end. *rest moves past it. */
bool text_next_char(struct str *rest, uint32_t *cp);
bool text_is_space(uint32_t cp); /* as Python's str.split(): White_Space and U+001C..U+001F */
/* Next word between white space; false when none is left. Borrowed. */
bool text_next_word(struct str *rest, struct str *word);
/* Hash of the word after lower-casing each code point (Unicode simple mapping). */
uint64_t text_hash_lower(struct str word);
/* That of every word in turn into hash[s.n / 2 + 1]; returns how many. */
size_t text_hash_words(struct str s, uint64_t *hash);

size_t text_count_chars(struct str s);     /* code points */
size_t text_count_words(struct str s);     /* white-space separated */
size_t text_count_lines(struct str s);     /* with something other than white space on them */
size_t text_count_sentences(struct str s); /* runs of . ! ? before white space, quote or the end */

/* Where the needle begins for the last time, or -1. */
ptrdiff_t text_find_last(struct str s, struct str needle);
/* What is meant for the reader: behind the last </think>, and there inside the last <answer> tag
 * when there is one. A text that begins as JSON or with a fence stays whole. Borrowed. */
struct str text_answered(struct str s);

struct str text_trim(struct str s); /* Unicode white space at both ends; borrowed */

enum text_form {
    TEXT_FOLD_CASE = 1,  /* Unicode case folding */
    TEXT_COMPATIBLE = 2, /* NFKC: wide letters, ligatures, composed accents */
    TEXT_ONE_SPACE = 4,  /* runs of white space become one space, ends are trimmed */
    TEXT_PLAIN_ENDS = 8, /* quotes, brackets, markdown marks, stops at both ends go */
};
/* New text in the arena (or s itself when nothing changes); p NULL when memory is out. */
struct str text_form(struct str s, unsigned forms, struct arena *a);

/* s itself, or a copy with U+FFFD for what is no UTF-8; p NULL when memory is out. */
struct str text_valid(struct str s, struct arena *a);

#endif
