/* engine/text/pretok.h - cuts text into the words that BPE works on: the pre-split.
 *
 * Each split is one regular expression, matched again and again from the start; the words follow
 * each other without gaps. New split = one row in pretok.c. Immutable after open; a scan belongs to
 * one thread. */
#ifndef ENGINE_TEXT_PRETOK_H
#define ENGINE_TEXT_PRETOK_H

#include "common/str.h"

struct pretok;

/* name as in tokenizer.ggml.pre. ERR_UNSUPPORTED names those that are known. */
MUST_USE int pretok_open(struct pretok **out, struct str name, struct err *e);
void pretok_close(struct pretok *p);

/* True when a word that stands whole in the vocabulary is that token, whatever the merges say
 * ("ignore_merges" of Llama 3). */
bool pretok_is_whole_word_first(const struct pretok *p);
/* Whether texts begin with BOS where the file does not say (tokenizer.ggml.add_bos_token). */
bool pretok_is_bos_default(const struct pretok *p);

struct pretok_scan {
    const struct pretok *pretok;
    void *match; /* scratch of the regex library */
};

MUST_USE int pretok_scan_open(struct pretok_scan *s, const struct pretok *p, struct err *e);
void pretok_scan_close(struct pretok_scan *s);

/* The word of `text` that starts at `from` (< text.n): its end in *to, always > from. text must be
 * valid UTF-8: it is not looked at again. ERR_BUG when the expression does not cover the text. */
MUST_USE int pretok_next(struct pretok_scan *s, struct str text, size_t from, size_t *to,
                         struct err *e);

#endif
