/* common/nearest.h - the known name a mistyped one was probably meant to be. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include "common/str.h"

/* The name with the smallest edit distance to s, or NULL when none is close (more than a third of
 * its letters differ). O(n * length^2); for messages. */
const char *nearest_name(struct str s, const char *const *names, size_t n);

#endif
