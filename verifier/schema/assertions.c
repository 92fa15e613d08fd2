/* Keywords that look at one value (validation draft, section 6). A keyword says nothing of a value
 * of another type. */
#include "verifier/schema/node.h"
#include "verifier/text/text.h"

#include <stdlib.h>
#include <string.h>

static bool is_named(struct str name, const struct json_node *v)
{
    static const struct {
        const char *name;
        uint8_t from, to;
    } types[] = {
        {"null", TREE_NULL, TREE_NULL},       {"boolean", TREE_FALSE, TREE_TRUE},
        {"number", TREE_NUMBER, TREE_NUMBER}, {"string", TREE_STRING, TREE_STRING},
        {"array", TREE_ARRAY, TREE_ARRAY},    {"object", TREE_OBJECT, TREE_OBJECT},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (str_eq_c(name, types[i].name))
            return v->type >= types[i].from && v->type <= types[i].to;
    return v->type == TREE_NUMBER && decimal_is_integer(&v->number);
}

bool run_type(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    (void)ev, (void)seen;
    if (r->value->type == TREE_STRING)
        return is_named(r->value->text, v);
    for (uint32_t i = 0; i < r->value->n; i++)
        if (is_named(r->value->child[i].text, v))
            return true;
    return false;
}

bool run_enum(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    (void)seen;
    for (uint32_t i = 0; i < r->value->n && eval_charge(ev, 1); i++)
        if (eval_equal(ev, &r->value->child[i], v))
            return true;
    return false;
}

bool run_const(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    (void)seen;
    return eval_equal(ev, r->value, v);
}

bool run_multiple_of(struct eval *ev, const struct rule *r, const struct json_node *v,
                     struct seen *seen)
{
    (void)seen;
    return v->type != TREE_NUMBER || (eval_charge(ev, v->number.digits.n / 16) &&
                                      decimal_is_multiple(&v->number, &r->value->number));
}

/* Below, at or above the limit: -1, 0, 1; what is no number is within any. */
static int against(const struct rule *r, const struct json_node *v, int if_no_number)
{
    return v->type == TREE_NUMBER ? decimal_compare(&v->number, &r->value->number) : if_no_number;
}

bool run_maximum(struct eval *ev, const struct rule *r, const struct json_node *v,
                 struct seen *seen)
{
    (void)ev, (void)seen;
    return against(r, v, -1) <= 0;
}

bool run_exclusive_maximum(struct eval *ev, const struct rule *r, const struct json_node *v,
                           struct seen *seen)
{
    (void)ev, (void)seen;
    return against(r, v, -1) < 0;
}

bool run_minimum(struct eval *ev, const struct rule *r, const struct json_node *v,
                 struct seen *seen)
{
    (void)ev, (void)seen;
    return against(r, v, 1) >= 0;
}

bool run_exclusive_minimum(struct eval *ev, const struct rule *r, const struct json_node *v,
                           struct seen *seen)
{
    (void)ev, (void)seen;
    return against(r, v, 1) > 0;
}

/* Code points, as section 6.3.1 counts. */
static uint64_t length(struct eval *ev, const struct json_node *v)
{
    return eval_charge(ev, v->text.n / 16) ? text_count_chars(v->text) : 0;
}

bool run_max_length(struct eval *ev, const struct rule *r, const struct json_node *v,
                    struct seen *seen)
{
    (void)seen;
    return v->type != TREE_STRING || length(ev, v) <= r->count;
}

bool run_min_length(struct eval *ev, const struct rule *r, const struct json_node *v,
                    struct seen *seen)
{
    (void)seen;
    return v->type != TREE_STRING || length(ev, v) >= r->count;
}

bool run_pattern(struct eval *ev, const struct rule *r, const struct json_node *v,
                 struct seen *seen)
{
    (void)seen;
    if (v->type != TREE_STRING)
        return true;
    enum pattern_result found = pattern_search(r->pattern[0], v->text, ev->work);
    if (found == PATTERN_INCONCLUSIVE || found == PATTERN_BAD_TEXT)
        ev->stop = "inconclusive";
    return found == PATTERN_FOUND;
}

bool run_max_items(struct eval *ev, const struct rule *r, const struct json_node *v,
                   struct seen *seen)
{
    (void)ev, (void)seen;
    return v->type != TREE_ARRAY || v->n <= r->count;
}

bool run_min_items(struct eval *ev, const struct rule *r, const struct json_node *v,
                   struct seen *seen)
{
    (void)ev, (void)seen;
    return v->type != TREE_ARRAY || v->n >= r->count;
}

static int compare_hashes(const void *x, const void *y)
{
    const struct json_node *a = *(const struct json_node *const *)x;
    const struct json_node *b = *(const struct json_node *const *)y;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

/* Equal items have equal hashes: after sorting by hash they stand in one run. */
bool run_unique_items(struct eval *ev, const struct rule *r, const struct json_node *v,
                      struct seen *seen)
{
    (void)seen;
    if (r->value->type == TREE_FALSE || v->type != TREE_ARRAY || v->n < 2)
        return true;
    const struct json_node **item = arena_array(ev->item->arena, v->n, sizeof *item);
    if (!item) {
        ev->stop = "no_memory";
        return false;
    }
    for (uint32_t i = 0; i < v->n; i++)
        item[i] = &v->child[i];
    qsort(item, v->n, sizeof *item, compare_hashes);
    for (uint32_t i = 0; i < v->n; i++)
        for (uint32_t k = i + 1; k < v->n && item[k]->hash == item[i]->hash; k++)
            if (!eval_charge(ev, 1) || eval_equal(ev, item[i], item[k]))
                return false;
    return eval_charge(ev, v->n / 4);
}

bool run_max_properties(struct eval *ev, const struct rule *r, const struct json_node *v,
                        struct seen *seen)
{
    (void)ev, (void)seen;
    return v->type != TREE_OBJECT || v->n <= r->count;
}

bool run_min_properties(struct eval *ev, const struct rule *r, const struct json_node *v,
                        struct seen *seen)
{
    (void)ev, (void)seen;
    return v->type != TREE_OBJECT || v->n >= r->count;
}

static bool has_all(struct eval *ev, const struct json_node *names, const struct json_node *v)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (!eval_charge(ev, 1) || !json_tree_get(v, names->child[i].text))
            return false;
    return true;
}

bool run_required(struct eval *ev, const struct rule *r, const struct json_node *v,
                  struct seen *seen)
{
    (void)seen;
    return v->type != TREE_OBJECT || has_all(ev, r->value, v);
}

bool run_dependent_required(struct eval *ev, const struct rule *r, const struct json_node *v,
                            struct seen *seen)
{
    (void)seen;
    for (uint32_t i = 0; v->type == TREE_OBJECT && i < r->value->n; i++)
        if (json_tree_get(v, r->value->child[i].key) && !has_all(ev, &r->value->child[i], v))
            return false;
    return true;
}

bool run_format(struct eval *ev, const struct rule *r, const struct json_node *v, struct seen *seen)
{
    (void)seen;
    return v->type != TREE_STRING || !r->format || format_holds(r, ev, v->text);
}
