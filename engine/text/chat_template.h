/* engine/text/chat_template.h - messages to token ids by a fixed, named set of templates.
 *
 * The file's Jinja text is recognised by its markers, never executed: it is untrusted input.
 * Known: chatml, llama3, mistral, gemma, deepseek. */
#ifndef ENGINE_TEXT_CHAT_TEMPLATE_H
#define ENGINE_TEXT_CHAT_TEMPLATE_H

#include "engine/text/tokenizer.h"

struct chat_message {
    struct str role; /* "system", "user", "assistant" (and "tool" where the template has it) */
    struct str content;
};

struct chat_template; /* a row of the const table */

/* By name ("chatml"), or recognised from the file when name is NULL. A file that has none gives the
 * template "none", which refuses every conversation. ERR_UNSUPPORTED quotes the start of the
 * unknown template and lists the known names. */
MUST_USE int chat_template_find(const struct chat_template **out, const struct gguf *file,
                                const char *name, struct err *e);
const char *chat_template_name(const struct chat_template *t);

/* Encodes the conversation, ending where the assistant's turn begins. Content is encoded without
 * special tokens. A default system prompt is added where the model's own template adds one.
 * ERR_INVALID names the message index and what is wrong (unknown role, order). As
 * tokenizer_encode for cap and *n. */
MUST_USE int chat_template_encode(const struct chat_template *t, const struct tokenizer *tok,
                                  const struct gguf *file, const struct chat_message *messages,
                                  size_t n_messages, int32_t *ids, size_t cap, size_t *n,
                                  struct err *e);
#endif
