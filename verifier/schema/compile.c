/* From schema text to nodes: one node per subschema, one rule per keyword. Start-up only (or once
 * per output for a schema out of its metadata): everything is bounded by size, depth and count. */
#include "verifier/schema/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void place_put(const struct place *at, struct buf *out)
{
    if (!at->outer) {
        buf_put_str(out, at->key);
        return;
    }
    place_put(at->outer, out);
    buf_put_char(out, '.');
    buf_put_str(out, str_slice(at->key, 0, 40));
}

void place_text(const struct place *at, char *out, size_t cap)
{
    struct buf b;
    buf_init(&b, 16 * KiB);
    place_put(at, &b);
    struct str text = buf_str(&b);
    if (text.n >= cap) /* the end says more than the beginning */
        snprintf(out, cap, "..." STR_FMT, STR_ARG(str_slice(text, text.n - cap + 4, text.n)));
    else
        snprintf(out, cap, STR_FMT, STR_ARG(text));
    buf_free(&b);
}

static const char *type_text(const struct json_node *v)
{
    static const char *const names[] = {
        [TREE_NULL] = "null",        [TREE_FALSE] = "false",     [TREE_TRUE] = "true",
        [TREE_NUMBER] = "a number",  [TREE_STRING] = "a string", [TREE_ARRAY] = "an array",
        [TREE_OBJECT] = "an object",
    };
    return names[v->type];
}

int place_refuse(const struct place *at, const struct json_node *found, const char *allowed,
                 struct err *e)
{
    char where[120];
    place_text(at, where, sizeof where);
    if (found->type == TREE_STRING)
        return err_set(e, ERR_INVALID, "%s: found '" STR_FMT "', allowed: %s", where,
                       STR_ARG(str_slice(found->text, 0, 40)), allowed);
    return err_set(e, ERR_INVALID, "%s: found %s, allowed: %s", where, type_text(found), allowed);
}

static const struct keyword *find_keyword(struct str name)
{
    for (size_t i = 0; i < KEYWORDS_N; i++)
        if (str_eq_c(name, KEYWORDS[i].name))
            return &KEYWORDS[i];
    return NULL;
}

static int refuse_unknown(const struct json_node *v, const struct place *at, struct err *e)
{
    for (uint32_t i = 0; i < v->n; i++) {
        if (find_keyword(v->child[i].key))
            continue;
        char where[120];
        place_text(at, where, sizeof where);
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: keyword '" STR_FMT "' is not known to draft 2020-12 (allow it with "
                       "unknown_keywords: ignore)",
                       where, STR_ARG(str_slice(v->child[i].key, 0, 40)));
    }
    return ERR_OK;
}

static struct schema_node *new_node(struct compile *c, const struct json_node *v)
{
    struct schema_node *s = arena_alloc(c->arena, sizeof *s);
    if (!s)
        return NULL;
    s->index = c->n_nodes;
    s->is_boolean = v->type == TREE_TRUE || v->type == TREE_FALSE;
    s->allows = v->type == TREE_TRUE;
    c->all[c->n_nodes++] = s;
    c->by_id[v->id] = s;
    return s;
}

static void link_siblings(struct schema_node *s)
{
    for (uint32_t i = 0; i < s->n_rules; i++)
        for (int k = 0; k < SIBLINGS; k++)
            for (uint32_t j = 0; s->rule[i].keyword->sibling[k] && j < s->n_rules; j++)
                if (strcmp(s->rule[j].keyword->name, s->rule[i].keyword->sibling[k]) == 0)
                    s->rule[i].sibling[k] = &s->rule[j];
}

static int compile_rules(struct compile *c, const struct json_node *v, struct schema_node *s,
                         const struct place *at, struct err *e)
{
    s->rule = arena_array(c->arena, v->n ? v->n : 1, sizeof *s->rule);
    if (!s->rule)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    for (size_t i = 0; i < KEYWORDS_N; i++) {
        const struct json_node *value = json_tree_get(v, str_from(KEYWORDS[i].name));
        if (!value)
            continue;
        struct rule *r = &s->rule[s->n_rules++];
        *r = (struct rule){.keyword = &KEYWORDS[i], .value = value, .node = s};
        s->tracks = s->tracks || KEYWORDS[i].run == run_unevaluated;
        struct place here = {at, value->key, at->depth + 1};
        int rc = KEYWORDS[i].compile(c, &here, r, e);
        if (rc != ERR_OK)
            return rc;
    }
    link_siblings(s);
    return ERR_OK;
}

int compile_schema(struct compile *c, const struct json_node *v, struct resource *in,
                   const struct place *at, struct schema_node **out, struct err *e)
{
    *out = c->by_id[v->id];
    if (*out)
        return ERR_OK;
    if (v->type != TREE_TRUE && v->type != TREE_FALSE && v->type != TREE_OBJECT)
        return place_refuse(at, v, "true, false or an object (a schema)", e);
    if (at->depth > SCHEMA_MAX_DEPTH || c->n_nodes == SCHEMA_MAX_NODES)
        return err_set(e, ERR_INVALID, "schema: %s, allowed: %d levels, %d subschemas",
                       c->n_nodes == SCHEMA_MAX_NODES ? "too many subschemas" : "nested too deep",
                       SCHEMA_MAX_DEPTH, SCHEMA_MAX_NODES);
    struct schema_node *s = new_node(c, v);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    *out = s;
    s->resource = in;
    if (s->is_boolean)
        return ERR_OK;
    int rc = c->options.ignores_unknown ? ERR_OK : refuse_unknown(v, at, e);
    if (rc == ERR_OK)
        rc = locate_enter(c, v, &s->resource, at, e);
    if (rc == ERR_OK)
        rc = locate_anchors(c, v, s, at, e);
    return rc == ERR_OK ? compile_rules(c, v, s, at, e) : rc;
}

static int compile_all(struct compile *c, struct schema *s, struct err *e)
{
    struct place root = {.key = STR("schema")};
    struct resource *top = arena_alloc(c->arena, sizeof *top);
    c->by_id = arena_array(c->arena, c->tree.n_values, sizeof *c->by_id);
    c->all = arena_array(c->arena, SCHEMA_MAX_NODES, sizeof *c->all);
    if (!top || !c->by_id || !c->all)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    *top = (struct resource){.base = STR(""), .root = c->tree.root};
    c->resources = top;
    int rc = compile_schema(c, c->tree.root, top, &root, &s->root, e);
    if (rc == ERR_OK)
        rc = locate_references(c, e);
    if (rc == ERR_OK)
        rc = locate_loops(c, e);
    s->all = c->all;
    s->n_nodes = c->n_nodes;
    return rc;
}

static int read_text(struct compile *c, struct str text, struct err *e)
{
    if (text.n > SCHEMA_MAX_BYTES)
        return err_set(e, ERR_INVALID, "schema: found %zu bytes, allowed: %d", text.n,
                       SCHEMA_MAX_BYTES);
    switch (json_tree_read(text, c->arena, &c->tree)) {
    case JSON_TREE_OK:
        return ERR_OK;
    case JSON_TREE_NO_MEMORY:
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    case JSON_TREE_LARGE:
        return err_set(e, ERR_INVALID, "schema: too many values, allowed: %d",
                       JSON_TREE_MAX_VALUES);
    default:
        return err_set(e, ERR_INVALID, "schema: found text that is not JSON");
    }
}

int schema_open(struct schema **out, struct str text, struct schema_options options, struct err *e)
{
    *out = NULL;
    struct schema *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    arena_init(&s->arena, 64 * MiB);
    struct compile c = {.arena = &s->arena, .options = options};
    int rc = read_text(&c, text, e);
    if (rc == ERR_OK)
        rc = compile_all(&c, s, e);
    if (rc != ERR_OK) {
        schema_close(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void schema_close(struct schema *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        for (uint32_t k = 0; k < s->all[i]->n_rules; k++)
            for (uint32_t p = 0; p < s->all[i]->rule[k].n_pattern; p++)
                pattern_close(s->all[i]->rule[k].pattern[p]);
    arena_free(&s->arena);
    free(s);
}
