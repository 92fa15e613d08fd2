/* engine/text/detok.h - token ids of one stream to valid UTF-8 pieces, holding back what is cut.
 *
 * A token may end inside a code point: the bytes are held until the next token completes them; what
 * can never become valid leaves as U+FFFD. Stop strings are found across token borders: text that
 * may be the start of one is held back as well. One owner. */
#ifndef ENGINE_TEXT_DETOK_H
#define ENGINE_TEXT_DETOK_H

#include "common/buf.h"
#include "engine/text/tokenizer.h"

enum { DETOK_MAX_STOPS = 16 };

struct detok {
    const struct tokenizer *tokenizer;
    struct str stop[DETOK_MAX_STOPS]; /* borrowed for the life of the stream */
    uint32_t n_stop;
    struct buf text;      /* whole text so far, valid UTF-8, without the stop string */
    struct buf pending;   /* raw bytes of a cut code point */
    size_t emitted_bytes; /* of text, already handed out */
    bool stopped;         /* a stop string was met; later pushes do nothing */
};

void detok_init(struct detok *d, const struct tokenizer *t, const struct str *stop, uint32_t n_stop,
                size_t max_bytes);
void detok_fini(struct detok *d);
/* Adds a token. *piece = newly safe text (may be empty), borrowed until the next call. */
void detok_push(struct detok *d, int32_t id, struct str *piece);
/* The end of the stream: what was held back as a possible stop string or cut code point. */
void detok_finish(struct detok *d, struct str *piece);
#endif
