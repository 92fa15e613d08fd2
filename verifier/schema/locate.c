/* Identifiers and references (core draft, sections 8 and 9): which resource a subschema belongs
 * to, where anchors are, and where a reference leads. Only this text is searched. */
#include "verifier/schema/node.h"
#include "verifier/schema/uri.h"

#include <string.h>

int locate_enter(struct compile *c, const struct json_node *v, struct resource **in,
                 const struct place *at, struct err *e)
{
    const struct json_node *id = json_tree_get(v, STR("$id"));
    struct str fragment;
    if (!id)
        return ERR_OK;
    if (id->type != TREE_STRING || str_find(id->text, STR("#"), 0) >= 0) {
        struct place here = {at, STR("$id"), at->depth + 1};
        bool is_bare = id->type == TREE_STRING && str_ends(id->text, STR("#")) &&
                       str_find(id->text, STR("#"), 0) == (ptrdiff_t)id->text.n - 1;
        if (!is_bare)
            return place_refuse(&here, id, "a URI without a fragment", e);
    }
    struct str base = uri_resolve((*in)->base, id->text, &fragment, c->arena);
    struct resource *r = arena_alloc(c->arena, sizeof *r);
    if (!base.p || !r)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    for (const struct resource *other = c->resources; other; other = other->next) {
        if (str_eq(other->base, base) && other->root != v) {
            struct place here = {at, STR("$id"), at->depth + 1};
            return place_refuse(&here, id, "each identifier once", e);
        }
    }
    *r = (struct resource){.base = base, .root = v, .next = c->resources};
    c->resources = r;
    *in = r;
    return ERR_OK;
}

static struct anchor *find_anchor(const struct resource *r, struct str name)
{
    for (struct anchor *a = r->anchors; a; a = a->next)
        if (str_eq(a->name, name))
            return a;
    return NULL;
}

/* Section 8.2.2: a letter or underscore, then letters, digits, - _ and . */
static bool is_anchor_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char ch = s.p[i];
        bool is_first = ((ch | 32) >= 'a' && (ch | 32) <= 'z') || ch == '_';
        if (!is_first && (i == 0 || !((ch >= '0' && ch <= '9') || ch == '-' || ch == '.')))
            return false;
    }
    return s.n > 0;
}

int locate_anchors(struct compile *c, const struct json_node *v, struct schema_node *node,
                   const struct place *at, struct err *e)
{
    static const char *const keys[] = {"$anchor", "$dynamicAnchor"};
    for (int k = 0; k < 2; k++) {
        const struct json_node *name = json_tree_get(v, str_from(keys[k]));
        struct place here = {at, str_from(keys[k]), at->depth + 1};
        if (!name)
            continue;
        if (name->type != TREE_STRING || !is_anchor_name(name->text))
            return place_refuse(&here, name, "a name of letters, digits, - _ .", e);
        const struct anchor *other = find_anchor(node->resource, name->text);
        if (other && other->at != v)
            return place_refuse(&here, name, "each name once", e);
        struct anchor *a = arena_alloc(c->arena, sizeof *a);
        if (!a)
            return err_set(e, ERR_NOMEM, "no memory for a schema");
        *a = (struct anchor){name->text, v, node, k == 1, node->resource->anchors};
        node->resource->anchors = a;
    }
    return ERR_OK;
}

/* ~1 is a slash, ~0 a tilde (RFC 6901). In place. */
static bool unescape_pointer(char *p, size_t *n)
{
    size_t to = 0;
    for (size_t i = 0; i < *n; i++) {
        if (p[i] == '~' && (i + 1 == *n || (p[i + 1] != '0' && p[i + 1] != '1')))
            return false;
        p[to++] = p[i] != '~' ? p[i] : p[++i] == '1' ? '/' : '~';
    }
    *n = to;
    return true;
}

static const struct json_node *array_item(const struct json_node *v, struct str key)
{
    int64_t index;
    if (key.n == 0 || key.n > 9 || (key.n > 1 && key.p[0] == '0') || key.p[0] == '-' ||
        key.p[0] == '+' || str_to_i64(key, &index, NULL) != ERR_OK || index >= v->n)
        return NULL;
    return &v->child[index];
}

/* pointer starts with a slash. *in becomes the resource of the innermost schema on the way. */
static const struct json_node *follow(struct compile *c, struct str pointer, struct resource **in)
{
    const struct json_node *v = (*in)->root;
    struct str rest = uri_decode(str_slice(pointer, 1, pointer.n), c->arena), step;
    while (v && str_split(&rest, '/', &step)) {
        struct str key = arena_str(c->arena, step);
        if (!key.p || !unescape_pointer((char *)key.p, &key.n))
            return NULL;
        v = v->type == TREE_ARRAY ? array_item(v, key) : json_tree_get(v, key);
        if (v && c->by_id[v->id])
            *in = c->by_id[v->id]->resource;
    }
    return v;
}

static struct resource *find_resource(const struct compile *c, struct str base)
{
    for (struct resource *r = c->resources; r; r = r->next)
        if (str_eq(r->base, base))
            return r;
    return NULL;
}

static int refuse_reference(const struct rule *r, const char *why, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED, STR_FMT ": '" STR_FMT "' %s", STR_ARG(r->where),
                   STR_ARG(str_slice(r->value->text, 0, 60)), why);
}

static int resolve(struct compile *c, struct rule *r, struct err *e)
{
    struct str fragment, base = r->node->resource->base;
    struct str target = uri_resolve(base, r->value->text, &fragment, c->arena);
    if (!target.p)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    struct resource *in = find_resource(c, target);
    if (!in)
        return refuse_reference(
            r, "is another document; allowed: references to what stands in this schema", e);
    const struct json_node *v = in->root;
    const struct anchor *anchor = NULL;
    if (fragment.n && fragment.p[0] == '/')
        v = follow(c, fragment, &in);
    else if (fragment.n) {
        anchor = find_anchor(in, fragment);
        v = anchor ? anchor->at : NULL;
    }
    if (!v)
        return refuse_reference(r, "leads nowhere", e);
    if (anchor && anchor->is_dynamic && strcmp(r->keyword->name, "$dynamicRef") == 0)
        r->dynamic_name = anchor->name;
    struct place at = {.key = r->where};
    return compile_schema(c, v, in, &at, &r->sub, e);
}

/* Compiling the target of one may add others. */
int locate_references(struct compile *c, struct err *e)
{
    int rc = ERR_OK;
    while (c->refs && rc == ERR_OK) {
        struct rule *r = c->refs;
        c->refs = r->next_ref;
        rc = resolve(c, r, e);
    }
    return rc;
}

struct order {
    uint32_t *appliers; /* [n_nodes] how many apply this one to their own value */
    uint32_t *ready;    /* [n_nodes] nobody is left that does */
    uint32_t n;
};
typedef void order_fn(struct order *o, const struct schema_node *sub);

/* For every subschema that s applies to the same value. */
static void each_in_place(struct order *o, const struct schema_node *s, order_fn *call)
{
    for (uint32_t i = 0; i < s->n_rules; i++) {
        const struct rule *r = &s->rule[i];
        if (!r->keyword->is_in_place)
            continue;
        if (r->sub)
            call(o, r->sub);
        for (uint32_t k = 0; r->list && k < r->value->n; k++)
            call(o, r->list[k]);
    }
}

static void add_applier(struct order *o, const struct schema_node *sub)
{
    o->appliers[sub->index]++;
}

static void remove_applier(struct order *o, const struct schema_node *sub)
{
    if (--o->appliers[sub->index] == 0)
        o->ready[o->n++] = sub->index;
}

/* Kahn's order: what nobody applies is taken away until nothing is left, or only loops are. */
int locate_loops(const struct compile *c, struct err *e)
{
    struct order o = {.appliers = arena_array(c->arena, c->n_nodes, sizeof *o.appliers),
                      .ready = arena_array(c->arena, c->n_nodes, sizeof *o.ready)};
    if (!o.appliers || !o.ready)
        return err_set(e, ERR_NOMEM, "no memory for a schema");
    for (uint32_t i = 0; i < c->n_nodes; i++)
        each_in_place(&o, c->all[i], add_applier);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        if (o.appliers[i] == 0)
            o.ready[o.n++] = i;
    for (uint32_t done = 0; done < o.n; done++)
        each_in_place(&o, c->all[o.ready[done]], remove_applier);
    if (o.n == c->n_nodes)
        return ERR_OK;
    return err_set(e, ERR_INVALID,
                   "schema: a subschema refers to itself ($ref, allOf, ...) without going into the "
                   "value: it would never end");
}
