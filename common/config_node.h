/* common/config_node.h - a configuration text as a plain tree with line numbers; for config_*.c.
 *
 * Nodes live in the arena given. Only config_yaml.c knows the YAML library. */
#ifndef COMMON_CONFIG_NODE_H
#define COMMON_CONFIG_NODE_H

#include "common/arena.h"
#include "common/buf.h"

enum cfg_node_type { CFG_NODE_SCALAR, CFG_NODE_MAP, CFG_NODE_LIST };

struct cfg_node {
    enum cfg_node_type type;
    int line;              /* from 1; 0 = unknown */
    struct str key;        /* of a MAP's child */
    struct str text;       /* SCALAR */
    bool is_plain;         /* SCALAR without quotes: may be null, true, a number */
    struct cfg_node *next; /* sibling */
    struct cfg_node *child;
    uint32_t n_child;
};

/* ERR_INVALID: not YAML, more than one document, anchors, aliases, tags, duplicate keys, nested
 * too deep; the message starts with "name:line: ". An empty text gives *out = NULL. */
MUST_USE int cfg_parse_yaml(struct str text, const char *name, struct arena *a,
                            struct cfg_node **out, struct err *e);

bool cfg_node_is_null(const struct cfg_node *n); /* NULL, or plain empty, ~, null */
struct cfg_node *cfg_node_find(const struct cfg_node *map, const char *key);
/* Plain scalars become null, booleans and numbers as YAML 1.2 reads them. */
MUST_USE int cfg_node_to_json(const struct cfg_node *n, struct buf *out, struct err *e);

#endif
