/* schemas/plain.h - JSON values that are written the plain way, read straight from their text:
 * strings with simple escapes, numbers without an exponent of up to 15 digits, 18 where only
 * integers may stand. The readers in this folder try these first and send the rest over a tree,
 * which also words what is wrong. */
#ifndef SCHEMAS_PLAIN_H
#define SCHEMAS_PLAIN_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/err.h"

enum plain { PLAIN_TAKEN, PLAIN_NOT, PLAIN_NO_MEMORY };

/* A whole value, as json_members gives it. *out is the arena's, and is set only by PLAIN_TAKEN. */
enum plain plain_text(struct str value, struct arena *a, struct str *out);
/* True: all of it is such a number, exact. *out is set only then. */
bool plain_integer(struct str value, int64_t *out);
bool plain_real(struct str value, double *out);

/* True: an object of a few texts, booleans and integers without white space or escapes, which
 * reading it into a tree and writing that would leave as it stands. */
bool plain_object(struct str text);

/* "key": behind a comma, where it is not the first. */
void plain_put_key(struct buf *out, const char *key);

#endif
