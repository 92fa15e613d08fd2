/* common/json_members.h - the members of a JSON object as text, their values unread.
 *
 * For long members that are passed on as they are, or read by something faster than a tree. The
 * object itself is checked (RFC 8259 section 4); of a value only that its strings close and its
 * brackets balance, so whoever uses the text still has to read it. */
#ifndef COMMON_JSON_MEMBERS_H
#define COMMON_JSON_MEMBERS_H

#include "common/err.h"
#include "common/str.h"

struct json_members {
    struct str text;
    size_t at;
    bool is_first;
};

struct json_member { /* both borrowed from the text */
    struct str key;  /* between the quotes, escapes as they stand */
    struct str value;
};

/* ERR_INVALID: not an object. */
MUST_USE int json_members_open(struct json_members *m, struct str object, struct err *e);
/* ERR_NOT_FOUND after the last one; ERR_INVALID with the byte where the text breaks. */
MUST_USE int json_members_next(struct json_members *m, struct json_member *out, struct err *e);

/* The same for the items of an array: its values only. */
MUST_USE int json_items_open(struct json_members *m, struct str array, struct err *e);
MUST_USE int json_items_next(struct json_members *m, struct str *value, struct err *e);

#endif
