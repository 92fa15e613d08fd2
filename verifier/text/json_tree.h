/* verifier/text/json_tree.h - JSON text as a tree that keeps numbers as they are written.
 *
 * jansson rounds numbers and refuses large ones; a schema must tell 9007199254740993 from
 * 9007199254740992. Members are sorted by key (of duplicates the last one counts), every value has
 * a hash of its content: equal values have equal ones. Built without recursion, linear but for the
 * sorting. Texts are borrowed from the source or the arena. */
#ifndef VERIFIER_TEXT_JSON_TREE_H
#define VERIFIER_TEXT_JSON_TREE_H

#include "verifier/text/decimal.h"

enum json_tree_type {
    TREE_NULL,
    TREE_FALSE,
    TREE_TRUE,
    TREE_NUMBER,
    TREE_STRING,
    TREE_ARRAY,
    TREE_OBJECT
};
enum { JSON_TREE_MAX_VALUES = 1 << 18 };

struct json_node {
    uint8_t type;
    uint32_t n;  /* children */
    uint32_t id; /* 0..n_values-1, in the order of the text */
    uint64_t hash;
    struct str key; /* of a member, else empty */
    union {
        struct str text; /* decoded */
        struct decimal number;
        struct json_node *child; /* [n] */
    };
};

enum json_tree_result { JSON_TREE_OK, JSON_TREE_BROKEN, JSON_TREE_LARGE, JSON_TREE_NO_MEMORY };

struct json_tree {
    struct json_node *root;
    uint32_t n_values;
};

enum json_tree_result json_tree_read(struct str text, struct arena *a, struct json_tree *out);
/* NULL when there is none. By bisection. */
const struct json_node *json_tree_get(const struct json_node *object, struct str key);

/* The hash that a string value of this text has. */
uint64_t json_tree_hash_text(struct str text);

#endif
