/* engine/text/bpe.h - byte-pair merging of one word, exact in rank order.
 *
 * Sennrich, Haddow, Birch 2016, "Neural Machine Translation of Rare Words with Subword Units",
 * on bytes: of all adjacent pairs the one that was learnt first is merged, the leftmost of equals,
 * until none is left. Immutable after init. */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H

#include "engine/text/id_sink.h"
#include "engine/text/vocab.h"

enum { BPE_MAX_MERGES = 1 << 22, BPE_MAX_WORD_BYTES = 1 << 28 };

struct bpe {
    const struct vocab *vocab;
    struct bpe_merge *slot; /* open addressing by (left, right) */
    uint64_t mask, seed;
    int32_t *result; /* [n_merges] by rank */
    uint32_t n_merges;
};

/* Reads tokenizer.ggml.merges. ERR_INVALID names the merge at fault: not two parts, or a part or
 * the whole that is no word of the vocabulary. Borrows the vocabulary. */
MUST_USE int bpe_init(struct bpe *b, const struct vocab *v, const struct gguf *file,
                      struct arena *a, struct err *e);

/* Bytes without a word of their own are left out before merging, as Hugging Face tokenizers do for
 * a model without an unknown token. O(n log n); ERR_NOMEM when a long word finds no memory. */
MUST_USE int bpe_encode_word(const struct bpe *b, struct str word, struct id_sink *out,
                             struct err *e);

#endif
