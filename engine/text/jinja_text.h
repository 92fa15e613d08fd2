/* engine/text/jinja_text.h - the constant texts inside a Jinja template, without running it.
 *
 * A template is data from a file that nobody vouches for. Of its language only this much is read:
 * where tags begin and end, and what stands between quotes. Pure; any thread. */
#ifndef ENGINE_TEXT_JINJA_TEXT_H
#define ENGINE_TEXT_JINJA_TEXT_H

#include "common/buf.h"

struct jinja_scan {
    struct str rest;
    char tag; /* '{' or '%' while inside {{ }} or {% %}, else 0 */
};

/* The next text between tags, or quoted string inside one, with its escapes. False at the end. */
bool jinja_next(struct jinja_scan *s, struct str *piece, bool *is_quoted);

/* The first constant text that holds `marker`, escapes resolved, in *out. False when none does or
 * it does not fit. */
bool jinja_find_text(struct str jinja, struct str marker, struct buf *out);

/* The first non-empty text between `before` and `after` inside one constant text, escapes
 * resolved. False when there is none. */
bool jinja_find_between(struct str jinja, struct str before, struct str after, struct buf *out);

/* The string that follows `code`, as in `name = "text"`, escapes resolved. False when none does. */
bool jinja_find_quoted_after(struct str jinja, struct str code, struct buf *out);

#endif
