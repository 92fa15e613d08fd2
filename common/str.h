/* common/str.h - borrowed text with a length; never NUL-terminated by contract.
 *
 * The bytes belong to someone else (an arena, a frame, a literal) and must outlive the str. */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include "common/err.h"

#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_FMT      "%.*s"
#define STR_ARG(s)   (int)(s).n, (s).p ? (s).p : ""

/* These few are short and everywhere: in the header, the length of a literal costs nothing. */
static inline struct str str_from(const char *c) /* NULL gives the empty string */
{
    return (struct str){c ? c : "", c ? strlen(c) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_eq_c(struct str a, const char *c)
{
    return str_eq(a, str_from(c));
}

static inline struct str str_slice(struct str s, size_t from, size_t to) /* clamped */
{
    if (to > s.n)
        to = s.n;
    if (from > to)
        from = to;
    return (struct str){s.p ? s.p + from : s.p, to - from};
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_compare(struct str a, struct str b); /* bytewise, as memcmp */
struct str str_trim(struct str s);           /* ASCII white space at both ends */
/* Index of the first needle at or after `from`, or -1. Linear time for any input (memmem). */
ptrdiff_t str_find(struct str s, struct str needle, size_t from);
/* Next piece up to `sep`; *rest moves past it. False when rest was already used up (p == NULL). */
bool str_split(struct str *rest, char sep, struct str *piece);

/* Whole string must be a number; ERR_INVALID says what was found. */
MUST_USE int str_to_i64(struct str s, int64_t *out, struct err *e);
MUST_USE int str_to_f64(struct str s, double *out, struct err *e); /* refuses nan, inf */

/* NUL-terminated heap copy; the caller frees. NULL when memory is out or s holds a NUL. */
char *str_dup_c(struct str s);

#endif
