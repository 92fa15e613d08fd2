/* engine/text/spm.h - SentencePiece's byte-pair encoding with scores: Llama 2, Mistral, Gemma.
 *
 * Kudo, Richardson 2018, "SentencePiece" (arXiv 1808.06226), model type BPE: of all neighbours
 * whose text together is a word, those with the highest score merge first, the leftmost of equals,
 * until none is left. There is no pre-split: a merge may cross any border. What is no word then is
 * written in byte tokens, or as the unknown token. Immutable after init. */
#ifndef ENGINE_TEXT_SPM_H
#define ENGINE_TEXT_SPM_H

#include "engine/text/id_sink.h"
#include "engine/text/vocab.h"

struct spm {
    const struct vocab *vocab;
    uint32_t *rank;  /* [n] by token: the higher its score, the lower */
    int32_t unknown; /* -1: left out */
};

/* Reads tokenizer.ggml.scores. ERR_INVALID: not one number per token. Borrows the vocabulary. */
MUST_USE int spm_init(struct spm *s, const struct vocab *v, const struct gguf *file,
                      struct arena *a, struct err *e);

/* Text without added tokens, spaces as spaces; may be invalid UTF-8, of which each byte stands
 * alone. O(n log n); ERR_NOMEM when there is no memory for the text. */
MUST_USE int spm_encode(const struct spm *s, struct str text, struct id_sink *out, struct err *e);

#endif
