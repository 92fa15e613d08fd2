/* Questions to a configuration tree, and its JSON form for free-form parts. */
#include "common/config_node.h"

#include "common/json.h"

#include <stdlib.h>

bool cfg_node_is_null(const struct cfg_node *n)
{
    if (!n)
        return true;
    return n->type == CFG_NODE_SCALAR && n->is_plain &&
           (n->text.n == 0 || str_eq_c(n->text, "~") || str_eq_c(n->text, "null"));
}

struct cfg_node *cfg_node_find(const struct cfg_node *map, const char *key)
{
    for (struct cfg_node *n = map ? map->child : NULL; n; n = n->next) {
        if (str_eq_c(n->key, key))
            return n;
    }
    return NULL;
}

static json_t *to_json(const struct cfg_node *n);

static json_t *scalar_to_json(const struct cfg_node *n)
{
    int64_t i = 0;
    double d = 0;
    if (cfg_node_is_null(n))
        return json_null();
    if (n->is_plain && (str_eq_c(n->text, "true") || str_eq_c(n->text, "false")))
        return json_boolean(n->text.n == 4);
    if (n->is_plain && str_to_i64(n->text, &i, NULL) == ERR_OK)
        return json_integer(i);
    if (n->is_plain && str_to_f64(n->text, &d, NULL) == ERR_OK)
        return json_real(d);
    return json_str(n->text);
}

static json_t *to_json(const struct cfg_node *n)
{
    if (n->type == CFG_NODE_SCALAR)
        return scalar_to_json(n);
    bool is_map = n->type == CFG_NODE_MAP;
    json_t *v = is_map ? json_object() : json_array();
    for (const struct cfg_node *c = n->child; c && v; c = c->next) {
        json_t *item = to_json(c);
        int failed =
            is_map ? json_object_set_new(v, c->key.p, item) : json_array_append_new(v, item);
        if (failed) {
            json_decref(v);
            v = NULL;
        }
    }
    return v;
}

int cfg_node_to_json(const struct cfg_node *n, struct buf *out, struct err *e)
{
    json_t *v = to_json(n);
    if (!v)
        return err_set(e, ERR_INVALID, "line %d: cannot be written as JSON", n->line);
    int rc = json_write_canonical(v, out, e);
    json_decref(v);
    return rc;
}
