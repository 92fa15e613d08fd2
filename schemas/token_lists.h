/* schemas/token_lists.h - token ids and log-probabilities of an output, as JSON arrays.
 *
 * Most of an output's bytes. Written and read as text where they are plain numbers; anything else
 * that JSON allows (an exponent, null, white space) takes the way over a tree, which also finds the
 * words for what is wrong. */
#ifndef SCHEMAS_TOKEN_LISTS_H
#define SCHEMAS_TOKEN_LISTS_H

#include "schemas/output.h"

/* As the last members of the object in `object`. Values JSON cannot carry become null. */
void token_lists_append(struct buf *object, const struct output *o);
/* Texts of the two members, empty = absent, into out (n_tokens too); arrays are the arena's. */
MUST_USE int token_lists_read(struct str ids, struct str logprobs, struct arena *a,
                              struct output *out, struct err *e);

#endif
