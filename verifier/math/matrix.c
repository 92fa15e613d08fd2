/* Matrix arithmetic on trees: each entry of the result is a tree over entries. */
#include "verifier/math/matrix.h"

enum { ENTRIES_MAX = 64 };

struct pieces {
    const struct math_node *item[ENTRIES_MAX];
};

static const struct math_node *matrix_of(struct math_work *w, const struct pieces *p, uint32_t n,
                                         int columns)
{
    return math_node_many(w, MATH_MATRIX, columns, p->item, n);
}

static const struct math_node *sum(struct math_work *w, const struct math_node *a,
                                   const struct math_node *b)
{
    struct pieces out;
    if (a->op != b->op || a->n != b->n || a->n > ENTRIES_MAX)
        return NULL;
    for (uint32_t i = 0; i < a->n; i++)
        out.item[i] = math_node_two(w, MATH_ADD, 0, a->child[i], b->child[i]);
    return matrix_of(w, &out, a->n, a->op);
}

static const struct math_node *multiple(struct math_work *w, const struct math_node *factor,
                                        const struct math_node *m)
{
    struct pieces out;
    if (m->n > ENTRIES_MAX)
        return NULL;
    for (uint32_t i = 0; i < m->n; i++)
        out.item[i] = math_node_two(w, MATH_TIMES, 0, factor, m->child[i]);
    return matrix_of(w, &out, m->n, m->op);
}

static const struct math_node *entry(struct math_work *w, const struct math_node *a,
                                     const struct math_node *b, uint32_t row, uint32_t column)
{
    struct pieces terms;
    uint32_t n = (uint32_t)a->op;
    for (uint32_t k = 0; k < n; k++)
        terms.item[k] = math_node_two(w, MATH_TIMES, 0, a->child[row * n + k],
                                      b->child[k * (uint32_t)b->op + column]);
    return math_node_many(w, MATH_ADD, 0, terms.item, n);
}

static const struct math_node *product(struct math_work *w, const struct math_node *a,
                                       const struct math_node *b)
{
    struct pieces out;
    uint32_t rows = a->n / (uint32_t)a->op, columns = (uint32_t)b->op;
    if (b->n / columns != (uint32_t)a->op || a->op > ENTRIES_MAX || rows * columns > ENTRIES_MAX)
        return NULL;
    for (uint32_t i = 0; i < rows * columns; i++)
        out.item[i] = entry(w, a, b, i / columns, i % columns);
    return matrix_of(w, &out, rows * columns, (int)columns);
}

static const struct math_node *joined(struct math_work *w, enum math_kind kind,
                                      const struct math_node *a, const struct math_node *b)
{
    bool a_is = a->kind == MATH_MATRIX, b_is = b->kind == MATH_MATRIX;
    if (kind == MATH_ADD)
        return a_is && b_is ? sum(w, a, b) : NULL;
    if (a_is && b_is)
        return product(w, a, b);
    return a_is ? multiple(w, b, a) : b_is ? multiple(w, a, b) : math_node_two(w, kind, 0, a, b);
}

static const struct math_node *negative(struct math_work *w, const struct math_node *m)
{
    struct pieces out;
    if (m->kind != MATH_MATRIX || m->n > ENTRIES_MAX)
        return NULL;
    for (uint32_t i = 0; i < m->n; i++)
        out.item[i] = math_node_one(w, MATH_NEGATE, 0, m->child[i]);
    return matrix_of(w, &out, m->n, m->op);
}

const struct math_node *math_matrix_value(struct math_work *w, const struct math_node *n)
{
    bool is_sum = n->kind == MATH_ADD || n->kind == MATH_TIMES;
    if ((!is_sum && n->kind != MATH_NEGATE) || !math_has_kind(n, MATH_MATRIX) ||
        !math_charge(w, 10 + n->n))
        return w->is_spent ? NULL : n;
    const struct math_node *out = math_matrix_value(w, n->child[0]);
    if (out && n->kind == MATH_NEGATE)
        out = negative(w, out);
    for (uint32_t i = 1; out && i < n->n; i++) {
        const struct math_node *next = math_matrix_value(w, n->child[i]);
        out = next ? joined(w, n->kind, out, next) : NULL;
    }
    return w->is_spent ? NULL : out ? out : n;
}
