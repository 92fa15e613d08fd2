/* Runs compiled schemas. Recursion is bounded by EVAL_MAX_DEPTH, work by EVAL_MAX_STEPS and the
 * output's CPU deadline; past either ev->stop is set, everything unwinds, and there is no verdict.
 * One thread per eval; the schema is shared. */
#include "verifier/schema/node.h"

#include <string.h>

enum { EVAL_MAX_DEPTH = 500, EVAL_MAX_STEPS = 1 << 23, STEPS_PER_CLOCK = 1 << 12 };

static bool stop(struct eval *ev, const char *why)
{
    ev->stop = ev->stop ? ev->stop : why;
    return false;
}

bool eval_charge(struct eval *ev, uint64_t steps)
{
    uint64_t before = ev->steps;
    ev->steps += steps;
    if (ev->stop)
        return false;
    if (ev->steps > EVAL_MAX_STEPS)
        return stop(ev, "inconclusive");
    if (before / STEPS_PER_CLOCK != ev->steps / STEPS_PER_CLOCK && check_is_late(ev->item))
        return stop(ev, "inconclusive");
    return true;
}

void seen_mark(struct seen *seen, uint32_t i)
{
    if (seen)
        seen->bits[i / 8] |= (uint8_t)(1u << (i % 8));
}

bool seen_has(const struct seen *seen, uint32_t i)
{
    return seen->bits[i / 8] >> (i % 8) & 1;
}

static bool seen_start(struct eval *ev, const struct json_node *v, struct seen *seen)
{
    seen->n = v->type == TREE_ARRAY || v->type == TREE_OBJECT ? v->n : 0;
    seen->bits = arena_alloc(ev->item->arena, seen->n / 8 + 1);
    if (!seen->bits)
        return stop(ev, "no_memory");
    return eval_charge(ev, seen->n / 64);
}

static void seen_add(struct seen *to, const struct seen *from)
{
    for (uint32_t i = 0; to && i < from->n / 8 + 1; i++)
        to->bits[i] |= from->bits[i];
}

static bool run_rules(struct eval *ev, const struct schema_node *s, const struct json_node *v,
                      struct seen *seen)
{
    for (uint32_t i = 0; i < s->n_rules; i++) {
        const struct rule *r = &s->rule[i];
        ev->why = NULL;
        if (!r->keyword->run || r->keyword->run(ev, r, v, seen))
            continue;
        if (!ev->why || r->keyword->names_failures)
            ev->why = r->keyword->name;
        return false;
    }
    return true;
}

static bool run_tracking(struct eval *ev, const struct schema_node *s, const struct json_node *v,
                         struct seen *seen)
{
    struct seen own;
    if (!s->tracks)
        return run_rules(ev, s, v, seen);
    if (!seen_start(ev, v, &own) || !run_rules(ev, s, v, &own))
        return false;
    seen_add(seen, &own);
    return true;
}

bool eval_node(struct eval *ev, const struct schema_node *s, const struct json_node *v,
               struct seen *seen)
{
    ev->why = NULL;
    if (!eval_charge(ev, 1))
        return false;
    if (s->is_boolean)
        return s->allows;
    if (ev->depth == EVAL_MAX_DEPTH)
        return stop(ev, "inconclusive");
    struct scope here = {s->resource, ev->scope};
    const struct scope *outer = ev->scope;
    bool is_new = !outer || outer->resource != s->resource;
    ev->depth++;
    ev->scope = is_new ? &here : outer;
    bool holds = run_tracking(ev, s, v, seen);
    ev->scope = outer;
    ev->depth--;
    return holds && !ev->stop;
}

bool eval_in_place(struct eval *ev, const struct schema_node *s, const struct json_node *v,
                   struct seen *seen)
{
    struct seen own;
    if (!seen)
        return eval_node(ev, s, v, NULL);
    if (!seen_start(ev, v, &own) || !eval_node(ev, s, v, &own))
        return false;
    seen_add(seen, &own);
    return true;
}

static bool equal_children(struct eval *ev, const struct json_node *a, const struct json_node *b)
{
    bool is_equal = a->n == b->n;
    if (ev->depth == EVAL_MAX_DEPTH)
        return stop(ev, "inconclusive");
    ev->depth++;
    for (uint32_t i = 0; i < a->n && is_equal; i++)
        is_equal = (a->type == TREE_ARRAY || str_eq(a->child[i].key, b->child[i].key)) &&
                   eval_equal(ev, &a->child[i], &b->child[i]);
    ev->depth--;
    return is_equal;
}

bool eval_equal(struct eval *ev, const struct json_node *a, const struct json_node *b)
{
    if (a->type != b->type || a->hash != b->hash || !eval_charge(ev, 1))
        return false;
    if (a->type == TREE_STRING)
        return eval_charge(ev, a->text.n / 256) && str_eq(a->text, b->text);
    if (a->type == TREE_NUMBER)
        return decimal_compare(&a->number, &b->number) == 0;
    return a->type < TREE_ARRAY || equal_children(ev, a, b);
}

static struct check_verdict judge(struct eval *ev, const struct schema *s,
                                  const struct json_node *v)
{
    bool holds = eval_node(ev, s->root, v, NULL);
    if (ev->stop)
        return check_unscored(ev->stop);
    return check_pass_if(holds, ev->why ? ev->why : "false_schema");
}

struct check_verdict schema_check(const struct schema *s, struct str text,
                                  const struct check_item *item)
{
    struct json_tree tree;
    switch (json_tree_read(text, item->arena, &tree)) {
    case JSON_TREE_OK:
        break;
    case JSON_TREE_BROKEN:
        return check_pass_if(false, "invalid_json");
    case JSON_TREE_LARGE:
        return check_unscored("inconclusive");
    default:
        return check_unscored("no_memory");
    }
    struct eval ev = {.item = item, .work = pattern_work_new(item->cpu_deadline_us)};
    if (!ev.work)
        return check_unscored("no_memory");
    struct check_verdict v = judge(&ev, s, tree.root);
    pattern_work_free(ev.work);
    return v;
}
