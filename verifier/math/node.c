/* Making tree nodes within a fixed number and depth. No state of its own. */
#include "verifier/math/node.h"

struct math_node *math_node_many(struct math_work *w, enum math_kind kind, int op,
                                 const struct math_node *const *child, uint32_t n)
{
    if (w->nodes >= MATH_NODES_MAX || !math_charge(w, 1 + n))
        goto spent;
    struct math_node *node = arena_array(w->arena, 1, sizeof *node);
    if (!node)
        goto spent;
    *node = (struct math_node){.kind = kind, .op = op, .n = n, .depth = 1};
    node->child = arena_array(w->arena, n ? n : 1, sizeof *node->child);
    if (!node->child)
        goto spent;
    for (uint32_t i = 0; i < n; i++) {
        if (!child[i] || child[i]->depth >= MATH_DEPTH_MAX)
            goto spent;
        node->child[i] = child[i];
        if (child[i]->depth >= node->depth)
            node->depth = (uint8_t)(child[i]->depth + 1);
    }
    w->nodes++;
    return node;
spent:
    w->is_spent = true;
    return NULL;
}

struct math_node *math_node_one(struct math_work *w, enum math_kind kind, int op,
                                const struct math_node *child)
{
    return math_node_many(w, kind, op, &child, 1);
}

struct math_node *math_node_two(struct math_work *w, enum math_kind kind, int op,
                                const struct math_node *a, const struct math_node *b)
{
    return math_node_many(w, kind, op, (const struct math_node *[]){a, b}, 2);
}

struct math_node *math_node_text(struct math_work *w, enum math_kind kind, struct str text)
{
    struct math_node *node = math_node_many(w, kind, 0, NULL, 0);
    if (node)
        node->text = text;
    return node;
}

bool math_has_kind(const struct math_node *n, enum math_kind kind)
{
    if (n->kind == kind)
        return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (math_has_kind(n->child[i], kind))
            return true;
    return false;
}
