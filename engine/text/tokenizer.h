/* engine/text/tokenizer.h - text to token ids and back.
 *
 * Byte-level BPE with the pre-splits gpt-2, llama-bpe (Llama 3), qwen2 and smollm, or SentencePiece
 * BPE with scores (tokenizer.ggml.model = llama: Llama 2, Mistral, Gemma), taken from the GGUF's
 * tokenizer.ggml.* keys. Immutable after open: any number of threads may encode and decode
 * at once, each with its own scratch. Input may be any bytes. */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include "common/arena.h"
#include "common/buf.h"

struct gguf;
struct tokenizer;

/* ERR_UNSUPPORTED names the tokenizer model or pre-split found and those that are known. */
MUST_USE int tokenizer_open(struct tokenizer **out, const struct gguf *file, struct err *e);
/* With the pre-split `split` instead of the file's own; for files that name none or a wrong one. */
MUST_USE int tokenizer_open_split(struct tokenizer **out, const struct gguf *file, struct str split,
                                  struct err *e);
void tokenizer_close(struct tokenizer *t);

struct tokenizer_info {
    uint32_t n_vocab;
    int32_t bos, eos, unk, pad; /* -1 when the file has none */
    bool add_bos;
    uint32_t n_missing_bytes; /* of 256: byte values no token stands for, see tokenizer_encode */
};
const struct tokenizer_info *tokenizer_get_info(const struct tokenizer *t);

/* Growable id list in an arena is avoided on purpose: ids go to a caller's array.
 * Special tokens in the text ("<|im_end|>") become their ids only when parse_special; user text is
 * encoded with it off, so that a user cannot forge a turn. Writes at most cap ids and sets *n to
 * the number needed; ERR_NOMEM when *n > cap. Time is O(n log n) in the text, whatever the text.
 * Decoding gives the text back byte for byte, invalid UTF-8 too, but for bytes that no token of the
 * vocabulary stands for (SmolLM2 lacks 21: six control characters and lead bytes of unassigned or
 * invalid code points): they are left out, as Hugging Face tokenizers do. A run of invalid UTF-8 is
 * a word of its own. User-defined tokens are found in the text with parse_special or without.
 *
 * SentencePiece: U+2581 is a space. With add_space_prefix one space is put before the text and
 * behind each control token, and decoding drops it there. */
MUST_USE int tokenizer_encode(const struct tokenizer *t, struct str text, bool parse_special,
                              int32_t *ids, size_t cap, size_t *n, struct err *e);

/* The bytes of one token; a special token gives its text. Empty for an id out of range. */
struct str tokenizer_token_bytes(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* -1 when the text is not exactly one token of the vocabulary. */
int32_t tokenizer_find(const struct tokenizer *t, struct str token_text);
/* True for ids that end a generation: eos, and the end-of-turn tokens of the known templates. */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);
/* Appends the text of ids; special tokens are left out when skip_special. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                      struct buf *out);
#endif
