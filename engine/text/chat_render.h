/* engine/text/chat_render.h - what the renderers of chat_template.c are written with.
 *
 * Text is gathered up to the next control token and encoded in one piece, as the model saw it when
 * it was trained: a split may join the role's line break with the first words of the content. The
 * gathered text is encoded with special tokens off, so that no content can become a control token.
 */
#ifndef ENGINE_TEXT_CHAT_RENDER_H
#define ENGINE_TEXT_CHAT_RENDER_H

#include "engine/text/chat_template.h"
#include "engine/text/id_sink.h"

struct chat_render {
    const struct tokenizer *tok;
    struct str jinja; /* decides the details: default system prompt, spaces, BOS */
    struct buf text;  /* plain text not yet encoded */
    struct id_sink out;
    const char *name; /* of the template, for messages */
    bool trims;       /* the template's text strips contents */
    struct err *e;
    int rc; /* the first error; later puts do nothing */
};

void chat_put_text(struct chat_render *r, struct str text);
/* As one id when the vocabulary has such a control token, else as text. */
void chat_put_special(struct chat_render *r, struct str token_text);
/* BOS when the template's text writes bos_token and the file has one. */
void chat_put_bos(struct chat_render *r);
void chat_put_eos(struct chat_render *r);
/* Encodes what was gathered. */
void chat_flush(struct chat_render *r);

/* ERR_INVALID "message I: ..." ; keeps the first. */
int chat_fail(struct chat_render *r, size_t message, const char *what);
/* ERR_INVALID unless user and assistant take turns from message `from` on, user first. */
int chat_check_turns(struct chat_render *r, const struct chat_message *m, size_t n, size_t from);

bool chat_has(const struct chat_render *r, const char *text); /* in the template's text */
/* Python's str.strip, which the trim filter is. */
struct str chat_strip(struct str s);
/* Whether the template's text puts contents through the trim filter. */
bool chat_is_trimming(struct str jinja);
/* content, stripped where the template does. */
struct str chat_content(const struct chat_render *r, struct str content);

#endif
