/* Keywords that apply subschemas (core draft, sections 8.2.3, 10 and 11). Children that a keyword
 * looked at are marked in `seen` when some unevaluated keyword above wants to know: then nothing
 * may be cut short that would have marked more. */
#include "verifier/schema/node.h"

bool run_reference(struct eval *ev, const struct rule *r, const struct json_node *v,
                   struct seen *seen)
{
    return eval_in_place(ev, r->sub, v, seen);
}

static const struct schema_node *dynamic_anchor(const struct resource *in, struct str name)
{
    for (const struct anchor *a = in->anchors; a; a = a->next)
        if (a->is_dynamic && str_eq(a->name, name))
            return a->node;
    return NULL;
}

/* Section 8.2.3.2: the outermost resource of the dynamic scope that has the anchor decides. */
bool run_dynamic_reference(struct eval *ev, const struct rule *r, const struct json_node *v,
                           struct seen *seen)
{
    const struct schema_node *target = r->sub;
    if (r->dynamic_name.p) {
        for (const struct scope *s = ev->scope; s && eval_charge(ev, 1); s = s->outer) {
            const struct schema_node *hit = dynamic_anchor(s->resource, r->dynamic_name);
            target = hit ? hit : target;
        }
    }
    return eval_in_place(ev, target, v, seen);
}

bool run_all_of(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    for (uint32_t i = 0; i < r->value->n; i++)
        if (!eval_in_place(ev, r->list[i], v, seen))
            return false;
    return true;
}

bool run_any_of(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    bool holds = false;
    for (uint32_t i = 0; i < r->value->n && (!holds || seen); i++)
        holds = eval_in_place(ev, r->list[i], v, seen) || holds;
    return holds;
}

bool run_one_of(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->value->n && n < 2; i++)
        n += eval_in_place(ev, r->list[i], v, seen);
    return n == 1;
}

bool run_not(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    (void)seen;
    return !eval_node(ev, r->sub, v, NULL);
}

bool run_if(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    const struct rule *then = r->sibling[0], *otherwise = r->sibling[1];
    const struct rule *next = eval_in_place(ev, r->sub, v, seen) ? then : otherwise;
    return !next || eval_in_place(ev, next->sub, v, seen);
}

bool run_dependent_schemas(struct eval *ev, const struct rule *r, const struct json_node *v,
                           struct seen *seen)
{
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < r->value->n; i++)
        if (json_tree_get(v, r->value->child[i].key) && !eval_in_place(ev, r->list[i], v, seen))
            return false;
    return true;
}

/* A child is seen whether or not it holds: when it does not, nobody will ask. */
static bool child_holds(struct eval *ev, const struct schema_node *s, const struct json_node *v,
                        uint32_t i, struct seen *seen)
{
    seen_mark(seen, i);
    return eval_node(ev, s, &v->child[i], NULL);
}

bool run_prefix_items(struct eval *ev, const struct rule *r, const struct json_node *v,
                      struct seen *seen)
{
    for (uint32_t i = 0; v->type == TREE_ARRAY && i < v->n && i < r->value->n; i++)
        if (!child_holds(ev, r->list[i], v, i, seen))
            return false;
    return true;
}

bool run_items(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    uint32_t from = r->sibling[0] ? r->sibling[0]->value->n : 0;
    for (uint32_t i = from; v->type == TREE_ARRAY && i < v->n; i++)
        if (!child_holds(ev, r->sub, v, i, seen))
            return false;
    return true;
}

bool run_contains(struct eval *ev, const struct rule *r, const struct json_node *v,
                  struct seen *seen)
{
    uint64_t least = r->sibling[0] ? r->sibling[0]->count : 1, n = 0;
    uint64_t most = r->sibling[1] ? r->sibling[1]->count : UINT64_MAX;
    if (v->type != TREE_ARRAY)
        return true;
    for (uint32_t i = 0; i < v->n && n <= most; i++) {
        if (!eval_node(ev, r->sub, &v->child[i], NULL))
            continue;
        seen_mark(seen, i);
        n++;
    }
    return n >= least && n <= most;
}

static bool names_match(struct eval *ev, const struct rule *patterns, uint32_t i, struct str name)
{
    enum pattern_result found = pattern_search(patterns->pattern[i], name, ev->work);
    if (!eval_charge(ev, 8) || found == PATTERN_INCONCLUSIVE || found == PATTERN_BAD_TEXT)
        ev->stop = ev->stop ? ev->stop : "inconclusive";
    return found == PATTERN_FOUND;
}

bool run_properties(struct eval *ev, const struct rule *r, const struct json_node *v,
                    struct seen *seen)
{
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < r->value->n; i++) {
        const struct json_node *found = json_tree_get(v, r->value->child[i].key);
        if (!eval_charge(ev, 1))
            return false;
        if (found && !child_holds(ev, r->list[i], v, (uint32_t)(found - v->child), seen))
            return false;
    }
    return true;
}

bool run_pattern_properties(struct eval *ev, const struct rule *r, const struct json_node *v,
                            struct seen *seen)
{
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < v->n; i++)
        for (uint32_t k = 0; k < r->value->n && !ev->stop; k++)
            if (names_match(ev, r, k, v->child[i].key) && !child_holds(ev, r->list[k], v, i, seen))
                return false;
    return true;
}

static bool is_additional(struct eval *ev, const struct rule *r, struct str name)
{
    const struct rule *named = r->sibling[0], *patterns = r->sibling[1];
    if (named && json_tree_get(named->value, name))
        return false;
    for (uint32_t k = 0; patterns && k < patterns->value->n && !ev->stop; k++)
        if (names_match(ev, patterns, k, name))
            return false;
    return true;
}

bool run_additional_properties(struct eval *ev, const struct rule *r, const struct json_node *v,
                               struct seen *seen)
{
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < v->n && eval_charge(ev, 1); i++)
        if (is_additional(ev, r, v->child[i].key) && !child_holds(ev, r->sub, v, i, seen))
            return false;
    return true;
}

bool run_property_names(struct eval *ev, const struct rule *r, const struct json_node *v,
                        struct seen *seen)
{
    (void)seen;
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < v->n; i++) {
        struct json_node name = {.type = TREE_STRING, .text = v->child[i].key};
        name.hash = json_tree_hash_text(name.text);
        if (!eval_node(ev, r->sub, &name, NULL))
            return false;
    }
    return true;
}

/* unevaluatedItems and unevaluatedProperties: what nothing beside or below has looked at. */
bool run_unevaluated(struct eval *ev, const struct rule *r, const struct json_node *v,
                     struct seen *seen)
{
    bool is_for_items = r->keyword->name[sizeof "unevaluated" - 1] == 'I';
    if (v->type != (is_for_items ? TREE_ARRAY : TREE_OBJECT))
        return true;
    for (uint32_t i = 0; i < v->n && eval_charge(ev, 1); i++)
        if (!seen_has(seen, i) && !child_holds(ev, r->sub, v, i, seen))
            return false;
    return true;
}
