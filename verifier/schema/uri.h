/* verifier/schema/uri.h - references as of RFC 3986 section 5.2. Load time only. */
#ifndef VERIFIER_SCHEMA_URI_H
#define VERIFIER_SCHEMA_URI_H

#include "common/arena.h"

/* reference against base (absolute, or empty), with its fragment cut off into *fragment (borrowed
 * from reference, p NULL when there is none). p of the result is NULL when memory is out. */
struct str uri_resolve(struct str base, struct str reference, struct str *fragment,
                       struct arena *a);
/* %XX decoded. p NULL when memory is out or a % has no two digits behind it. */
struct str uri_decode(struct str s, struct arena *a);

#endif
