/* verifier/text/fill.h - a template with named slots: "{prompt}" becomes the prompt.
 *
 * One pass: what is filled in is never looked at again, so a text that holds "{response}" stays as
 * it is. Braces around other words stay too. Linear. */
#ifndef VERIFIER_TEXT_FILL_H
#define VERIFIER_TEXT_FILL_H

#include "common/arena.h"

struct fill_slot {
    const char *name; /* without braces */
    struct str text;
};

/* p NULL when memory is out. */
struct str text_fill(struct str template, const struct fill_slot *slot, size_t n, struct arena *a);

#endif
