/* engine/text/vocab.h - the tokens of a vocabulary: bytes by id, id by bytes.
 *
 * Two name spaces that never mix: *words*, which BPE may produce from text, and *added* tokens
 * (control, unknown, user defined), which are found whole in the text or not at all. A control
 * token is never a word, so that no text can be merged into one. Immutable after init. */
#ifndef ENGINE_TEXT_VOCAB_H
#define ENGINE_TEXT_VOCAB_H

#include "common/arena.h"

struct gguf;

enum {
    VOCAB_MAX_TOKENS = 1 << 20,
    VOCAB_MAX_TOKEN_BYTES = 4096, /* as stored in the file */
    VOCAB_MAX_BYTES = 1 << 27     /* all tokens together */
};

enum token_kind { /* tokenizer.ggml.token_type, GGUF specification */
                  TOKEN_NORMAL = 1,
                  TOKEN_UNKNOWN,
                  TOKEN_CONTROL,
                  TOKEN_USER_DEFINED,
                  TOKEN_UNUSED,
                  TOKEN_BYTE
};

enum vocab_spelling {                   /* of words in the file */
                      VOCAB_BYTE_LEVEL, /* GPT-2's visible code points stand for bytes */
                      VOCAB_PIECES      /* SentencePiece: U+2581 is a space, <0x0A> a byte */
};

struct vocab {
    enum vocab_spelling spelling;
    uint32_t n;
    struct str *bytes;        /* [n] what the token decodes to; an added token's own text */
    uint8_t *kind;            /* [n] enum token_kind */
    int32_t byte_id[256];     /* the word of that one byte, -1 when the file has none */
    int32_t byte_token[256];  /* pieces: the token of type byte, -1 when the file has none */
    uint32_t n_missing_bytes; /* with neither */
    uint32_t *word_slot;      /* open addressing, id + 1, 0 is free */
    uint64_t word_mask, seed;
    uint32_t n_added;
    int32_t *added;           /* [n_added] sorted by bytes */
    bool added_first[2][256]; /* [with control tokens?][byte]: some added token starts with it */
};

/* Memory from `a`. ERR_INVALID names the token at fault, ERR_NOMEM when `a` is full. */
MUST_USE int vocab_init(struct vocab *v, const struct gguf *file, enum vocab_spelling spelling,
                        struct arena *a, struct err *e);

/* -1 when there is none. */
int32_t vocab_find_word(const struct vocab *v, struct str bytes);
int32_t vocab_find_added(const struct vocab *v, struct str text);
/* The longest added token text starts with, -1 when none. Only user-defined ones unless
 * with_control. O(length of the longest * log n_added). */
int32_t vocab_match_added(const struct vocab *v, struct str text, bool with_control);
bool vocab_is_control(const struct vocab *v,
                      int32_t id); /* control or unknown; false out of range */

#endif
