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
    uint32_t *border[DETOK_MAX_STOPS]; /* failure functions, into border_mem */
    uint32_t *border_mem;
    size_t matched[DETOK_MAX_STOPS]; /* bytes of the stop string that text ends with */
    struct buf text;                 /* whole text so far, valid UTF-8, without the stop string */
    struct buf pending;              /* raw bytes of a cut code point */
    size_t emitted_bytes;            /* of text, already handed out */
    bool stopped;                    /* a stop string was met; later pushes do nothing */
};

/* Empty stop strings, and those that are not UTF-8, never match. When memory runs out, when there
 * are more than DETOK_MAX_STOPS stop strings, or when the text passes max_bytes, text.failed is set
 * and nothing more comes out: check it with buf_check. */
void detok_init(struct detok *d, const struct tokenizer *t, const struct str *stop, uint32_t n_stop,
                size_t max_bytes);
void detok_fini(struct detok *d);
/* Adds a token; control tokens have no text. *piece = newly safe text (may be empty), borrowed
 * until the next call. The stop string that is complete first wins, of two that end together the
 * longer one: where the tokens' borders lie makes no difference. */
void detok_push(struct detok *d, int32_t id, struct str *piece);
/* The end of the stream: what was held back as a possible stop string or cut code point. */
void detok_finish(struct detok *d, struct str *piece);
#endif
