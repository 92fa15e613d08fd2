/* Structure first (lists, sets, relations, matrices, ratios, units), values at the leaves.
 * Each step goes to smaller trees, and the budget ends what is left. */
#include "verifier/math/compare.h"

#include "verifier/math/matrix.h"
#include "verifier/math/scalar.h"
#include "verifier/math/sets.h"
#include "verifier/math/shape.h"

enum { UNORDERED_MAX = 64 };

static bool same_in_order(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    bool is_same = a->n == b->n;
    for (uint32_t i = 0; is_same && i < a->n; i++)
        is_same = math_same(w, a->child[i], b->child[i]);
    return is_same;
}

static bool is_among(struct math_work *w, const struct math_node *one, const struct math_node *list,
                     bool list_is_wanted)
{
    for (uint32_t i = 0; i < list->n && !w->is_spent; i++)
        if (list_is_wanted ? math_same(w, list->child[i], one) : math_same(w, one, list->child[i]))
            return true;
    return false;
}

static bool same_as_sets(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    if (a->n > UNORDERED_MAX || b->n > UNORDERED_MAX)
        return same_in_order(w, a, b);
    for (uint32_t i = 0; i < a->n; i++)
        if (!is_among(w, a->child[i], b, false))
            return false;
    for (uint32_t i = 0; i < b->n; i++)
        if (!is_among(w, b->child[i], a, true))
            return false;
    return true;
}

/* (0,1) and [0,1] differ; of three or more elements the brackets say nothing. */
static bool brackets_differ(const struct math_node *a, const struct math_node *b)
{
    bool are_pairs = a->n == 2 && b->n == 2 && math_is_tuple(a) && math_is_tuple(b);
    bool is_angle = a->open == '<' || b->open == '<';
    return are_pairs && !is_angle && (a->open != b->open || a->close != b->close);
}

static bool says_domain(const struct math_node *n)
{
    return n->kind == MATH_RELATION && n->n == 2 && n->ops[0] == MATH_IN &&
           n->child[1]->kind == MATH_REALS;
}

/* One element as it counts: none for "n in Z" beside others, two for a plus-minus. */
static uint32_t put_element(struct math_work *w, const struct math_node *from, bool is_alone,
                            const struct math_node **to)
{
    const struct math_node *plain = math_plain(w, from);
    if (!plain || (says_domain(plain) && !is_alone))
        return 0;
    bool is_pair =
        plain != from && plain->n == 2 && math_is_bare_list(plain) && !math_is_bare_list(from);
    to[0] = is_pair ? plain->child[0] : plain;
    if (is_pair)
        to[1] = plain->child[1];
    return is_pair ? 2 : 1;
}

/* The elements of a list, or the one that another tree is. */
static const struct math_node *elements(struct math_work *w, const struct math_node *n)
{
    const struct math_node *one[] = {n};
    bool is_list = n->kind == MATH_LIST;
    const struct math_node *const *from = is_list ? n->child : one;
    uint32_t n_from = is_list ? n->n : 1, count = 0;
    const struct math_node **item = arena_array(w->arena, 2 * n_from + 1, sizeof *item);
    for (uint32_t i = 0; item && i < n_from; i++)
        count += put_element(w, from[i], n_from == 1, item + count);
    struct math_node *out = item ? math_node_many(w, MATH_LIST, 0, item, count) : NULL;
    if (out) {
        out->open = is_list ? n->open : 0;
        out->close = n->close;
    }
    return w->is_spent ? NULL : out;
}

static bool same_lists(struct math_work *w, const struct math_node *want,
                       const struct math_node *got)
{
    const struct math_node *a = elements(w, want), *b = elements(w, got);
    if (!a || !b || brackets_differ(a, b))
        return false;
    if (math_is_tuple(a) || math_is_tuple(b)) {
        bool is_one_of = !math_is_tuple(a) && a->n == 1 && b->n != 1;
        return !is_one_of && same_in_order(w, a, b);
    }
    return same_as_sets(w, a, b);
}

static const struct math_node *less(struct math_work *w, const struct math_node *rel)
{
    return math_node_two(w, MATH_ADD, 0, rel->child[0],
                         math_node_one(w, MATH_NEGATE, 0, rel->child[rel->n - 1]));
}

static bool points_up(int op)
{
    return op == MATH_GT || op == MATH_GE;
}

static bool is_order(int op)
{
    return op >= MATH_LT && op <= MATH_GE;
}

static bool is_strict(int op)
{
    return op == MATH_LT || op == MATH_GT;
}

/* -x > -1 and x < 1; 2y = 4x and y = 2x. */
static bool same_up_to_factor(struct math_work *w, const struct math_node *a,
                              const struct math_node *b)
{
    bool is_positive = false;
    int p = a->ops[0], q = b->ops[0];
    bool are_equations = math_is_equation(a) && math_is_equation(b);
    bool are_unequal = p == MATH_NE && q == MATH_NE;
    bool are_ordered = is_order(p) && is_order(q) && is_strict(p) == is_strict(q);
    if (!are_equations && (a->n != 2 || b->n != 2 || (!are_unequal && !are_ordered)))
        return false;
    const struct math_node *x = less(w, a), *y = less(w, b);
    if (!x || !y || !math_scalar_proportional(w, x, y, &is_positive))
        return false;
    return !are_ordered || is_positive == (points_up(p) == points_up(q));
}

static bool same_chain(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    for (uint32_t i = 0; i + 1 < a->n && a->n == b->n; i++)
        if (a->ops[i] != b->ops[i])
            return false;
    return same_in_order(w, a, b);
}

static bool names_differ(const struct math_node *a, const struct math_node *b)
{
    const struct math_node *x = a->child[0], *y = b->child[0];
    return x->kind == MATH_NAME && y->kind == MATH_NAME && !str_eq(x->text, y->text);
}

static bool same_relations(struct math_work *w, const struct math_node *want,
                           const struct math_node *got)
{
    const struct math_node *a = math_stated_value(want), *b = math_stated_value(got);
    if (a && b && !names_differ(want, got) && math_same(w, a, b))
        return true;
    return same_up_to_factor(w, want, got) || same_chain(w, want, got);
}

/* One side is a relation: the value it states is compared. */
static bool same_as_stated(struct math_work *w, const struct math_node *want,
                           const struct math_node *got)
{
    const struct math_node *a = math_stated_value(want), *b = math_stated_value(got);
    if (a)
        return math_same(w, a, got);
    if (b)
        return math_same(w, want, b);
    const struct math_node *last = got->n ? got->child[got->n - 1] : got;
    return math_is_equation(got) && math_is_closed(want) && math_is_closed(last) &&
           !math_is_closed(got->child[0]) && math_same(w, want, last);
}

static bool same_sets(struct math_work *w, const struct math_node *want,
                      const struct math_node *got)
{
    struct math_set *s = arena_array(w->arena, 2, sizeof *s);
    bool are_sets = s && math_set_of(w, want, &s[0]) && math_set_of(w, got, &s[1]);
    if (are_sets)
        return math_set_same(w, &s[0], &s[1]);
    return want->kind == MATH_UNION && got->kind == MATH_UNION && want->op == got->op &&
           same_in_order(w, want, got);
}

static bool is_clock_part(const struct math_node *n)
{
    return n->kind == MATH_NUMBER && n->text.n == 2 && n->text.p[0] == '0';
}

static bool has_clock_part(const struct math_node *ratio)
{
    for (uint32_t i = 0; i < ratio->n; i++)
        if (is_clock_part(ratio->child[i]))
            return true;
    return false;
}

static bool same_quotient(struct math_work *w, const struct math_node *ratio,
                          const struct math_node *value)
{
    const struct math_node *quotient =
        ratio->n == 2 ? math_node_two(w, MATH_DIVIDE, 0, ratio->child[0], ratio->child[1]) : NULL;
    return quotient && math_scalar_same(w, quotient, value);
}

/* 7:32 = 14:64 = 7/32, but 1:00 is not 12:00. */
static bool same_ratios(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    if (a->kind != MATH_RATIO)
        return same_quotient(w, b, a);
    if (b->kind != MATH_RATIO)
        return same_quotient(w, a, b);
    if (has_clock_part(a) || has_clock_part(b))
        return same_in_order(w, a, b);
    bool is_same = a->n == b->n;
    for (uint32_t i = 1; is_same && i < a->n; i++) {
        const struct math_node *x = math_node_two(w, MATH_TIMES, 0, a->child[0], b->child[i]);
        const struct math_node *y = math_node_two(w, MATH_TIMES, 0, b->child[0], a->child[i]);
        is_same = x && y && math_scalar_same(w, x, y);
    }
    return is_same;
}

/* A matrix of one row or column is also a tuple. */
static bool same_matrices(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    const struct math_node *m = a->kind == MATH_MATRIX ? a : b, *other = m == a ? b : a;
    bool is_vector = m->op == 1 || (uint32_t)m->op == m->n;
    if (other->kind == MATH_MATRIX)
        return a->op == b->op && same_in_order(w, a, b);
    return is_vector && math_is_tuple(other) && same_in_order(w, a, b);
}

static bool is_value_with_letter(const struct math_node *n)
{
    static const char *const letters[] = {"m", "g", "s", "h", "l", "L",
                                          "N", "J", "W", "V", "A", "K"};
    bool is_pair = n->kind == MATH_TIMES && n->n == 2 && n->child[1]->kind == MATH_NAME;
    for (size_t i = 0; is_pair && i < sizeof letters / sizeof letters[0]; i++)
        if (str_eq_c(n->child[1]->text, letters[i]))
            return math_is_closed(n->child[0]);
    return false;
}

/* "5 m" where the m was read as a name, "about 5" and "(A) 5" where something
 * else stands before. */
static const struct math_node *without_words(const struct math_node *n)
{
    if (is_value_with_letter(n))
        return n->child[0];
    if (n->kind != MATH_TIMES || n->n != 2)
        return NULL;
    const struct math_node *first = n->child[0];
    bool is_letter = first->kind == MATH_NAME && first->is_grouped; /* (A) 5 */
    return (first->kind == MATH_TEXT || is_letter) && math_is_closed(n->child[1]) ? n->child[1]
                                                                                  : NULL;
}

static struct str unit_of(const struct math_node *n)
{
    if (n->kind == MATH_UNIT)
        return n->text;
    return is_value_with_letter(n) ? n->child[1]->text : STR("");
}

/* Centimetres are not metres; a unit that is not known is only compared where no number says what
 * is meant. */
static bool units_clash(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    struct str x = math_unit_name(w, unit_of(a)), y = math_unit_name(w, unit_of(b));
    if (x.n && y.n)
        return !str_eq(x, y);
    bool are_units = a->kind == MATH_UNIT && b->kind == MATH_UNIT;
    return are_units && !math_is_closed(a->child[0]) && !str_eq(a->text, b->text);
}

static bool same_digits_in_base(const struct math_node *a, const struct math_node *b)
{
    return (a->kind == MATH_BASED) != (b->kind == MATH_BASED) &&
           (a->kind == MATH_NUMBER || b->kind == MATH_NUMBER) && str_eq(a->text, b->text);
}

/* Percent and degrees may be left out, or meant as the factor they are. */
static bool same_values(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    if (math_scalar_same(w, a, b) || same_digits_in_base(a, b))
        return true;
    enum math_kind marks[] = {MATH_PERCENT, MATH_DEGREES};
    for (int i = 0; i < 2; i++) {
        if (a->kind == marks[i] && math_scalar_same(w, a->child[0], b))
            return true;
        if (b->kind == marks[i] && math_scalar_same(w, a, b->child[0]))
            return true;
    }
    const struct math_node *x = without_words(a), *y = without_words(b);
    if (x && math_is_closed(b))
        return math_same(w, x, b);
    return y && math_is_closed(a) && math_same(w, a, y);
}

static bool either_is(const struct math_node *a, const struct math_node *b, enum math_kind kind)
{
    return a->kind == kind || b->kind == kind;
}

static bool same_plain(struct math_work *w, const struct math_node *want,
                       const struct math_node *got)
{
    if (math_infinite_sign(want) || math_infinite_sign(got))
        return math_infinite_sign(want) == math_infinite_sign(got);
    if (want->kind == MATH_RELATION && got->kind == MATH_RELATION && same_relations(w, want, got))
        return true;
    if ((want->kind == MATH_RELATION) != (got->kind == MATH_RELATION) &&
        same_as_stated(w, want, got))
        return true;
    if (math_is_set_like(want) || math_is_set_like(got))
        return same_sets(w, want, got);
    if (either_is(want, got, MATH_MATRIX))
        return same_matrices(w, want, got);
    if (either_is(want, got, MATH_LIST))
        return same_lists(w, want, got);
    if (either_is(want, got, MATH_RELATION))
        return false;
    if (either_is(want, got, MATH_RATIO))
        return same_ratios(w, want, got);
    return same_values(w, want, got);
}

bool math_same(struct math_work *w, const struct math_node *want, const struct math_node *got)
{
    const struct math_node *a = math_plain(w, want), *b = math_plain(w, got);
    if (!a || !b || !math_charge(w, 20) || units_clash(w, a, b))
        return false;
    a = a->kind == MATH_UNIT ? a->child[0] : a;
    b = b->kind == MATH_UNIT ? b->child[0] : b;
    a = math_matrix_value(w, a);
    b = math_matrix_value(w, b);
    return a && b && same_plain(w, a, b);
}
