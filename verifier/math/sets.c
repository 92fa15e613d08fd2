/* Unions, intersections, complements of intervals, and which trees denote them. No state. */
#include "verifier/math/sets.h"

#include "verifier/math/shape.h"

#include <math.h>
#include <string.h>

static struct math_end infinite(int sign)
{
    return (struct math_end){.at = sign < 0 ? -(math_wide)INFINITY : (math_wide)INFINITY};
}

static bool end_of(struct math_work *w, const struct math_node *n, bool is_closed,
                   struct math_end *out)
{
    int sign = math_infinite_sign(n);
    if (sign) {
        *out = infinite(sign);
        return true;
    }
    struct math_point none = {.n = 0};
    struct math_value v;
    if (!math_is_closed(n) || !math_value_at(w, n, &none, &v) || !math_value_is_real(&v))
        return false;
    *out = (struct math_end){.value = n, .at = v.re, .is_closed = is_closed};
    return true;
}

static bool put(struct math_set *s, struct math_end low, struct math_end high)
{
    bool is_empty = low.at > high.at || (low.at == high.at && !(low.is_closed && high.is_closed));
    if (is_empty)
        return true;
    if (s->n == MATH_PIECES_MAX)
        return false;
    s->piece[s->n++] = (struct math_piece){low, high};
    return true;
}

static bool starts_before(const struct math_end *a, const struct math_end *b)
{
    return a->at < b->at || (a->at == b->at && a->is_closed && !b->is_closed);
}

static bool ends_before(const struct math_end *a, const struct math_end *b)
{
    return a->at < b->at || (a->at == b->at && !a->is_closed && b->is_closed);
}

static void sort(struct math_set *s)
{
    for (uint32_t i = 1; i < s->n; i++)
        for (uint32_t j = i; j > 0 && starts_before(&s->piece[j].low, &s->piece[j - 1].low); j--) {
            struct math_piece swap = s->piece[j];
            s->piece[j] = s->piece[j - 1];
            s->piece[j - 1] = swap;
        }
}

/* Sorts, and joins pieces that overlap or touch. */
static void settle(struct math_set *s)
{
    uint32_t n = 0;
    sort(s);
    for (uint32_t i = 0; i < s->n; i++) {
        struct math_piece next = s->piece[i], *last = n ? &s->piece[n - 1] : NULL;
        bool touches =
            last && (next.low.at < last->high.at || (next.low.at == last->high.at &&
                                                     (next.low.is_closed || last->high.is_closed)));
        if (!touches)
            s->piece[n++] = next;
        else if (ends_before(&last->high, &next.high))
            last->high = next.high;
    }
    s->n = n;
}

static bool unite(struct math_set *a, const struct math_set *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (!put(a, b->piece[i].low, b->piece[i].high))
            return false;
    settle(a);
    return true;
}

static bool intersect(struct math_set *a, const struct math_set *b)
{
    struct math_set out = {.n = 0};
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++) {
            const struct math_piece *p = &a->piece[i], *q = &b->piece[j];
            struct math_end low = starts_before(&p->low, &q->low) ? q->low : p->low;
            struct math_end high = ends_before(&p->high, &q->high) ? p->high : q->high;
            if (!put(&out, low, high))
                return false;
        }
    settle(&out);
    *a = out;
    return true;
}

static bool complement(const struct math_set *s, struct math_set *out)
{
    struct math_end low = infinite(-1);
    *out = (struct math_set){.n = 0};
    for (uint32_t i = 0; i < s->n; i++) {
        struct math_end high = s->piece[i].low;
        high.is_closed = !high.is_closed && isfinite(high.at);
        if (!put(out, low, high))
            return false;
        low = s->piece[i].high;
        low.is_closed = !low.is_closed && isfinite(low.at);
    }
    return put(out, low, infinite(1));
}

/* x op end, for a name x. */
static bool half_line(struct math_end end, int op, struct math_set *out)
{
    *out = (struct math_set){.n = 0};
    end.is_closed =
        (op == MATH_LE || op == MATH_GE || op == MATH_EQ || op == MATH_NE) && isfinite(end.at);
    if (op == MATH_LT || op == MATH_LE)
        return put(out, infinite(-1), end);
    if (op == MATH_GT || op == MATH_GE)
        return put(out, end, infinite(1));
    struct math_set point = {.n = 0};
    bool is_ok = put(&point, end, end);
    if (op == MATH_NE)
        return is_ok && complement(&point, out);
    *out = point;
    return is_ok && op == MATH_EQ;
}

static int mirrored(int op)
{
    static const int of[] = {[MATH_EQ] = MATH_EQ, [MATH_NE] = MATH_NE, [MATH_LT] = MATH_GT,
                             [MATH_LE] = MATH_GE, [MATH_GT] = MATH_LT, [MATH_GE] = MATH_LE};
    return op <= MATH_GE ? of[op] : op;
}

static struct math_end negative(struct math_work *w, struct math_end e)
{
    e.at = -e.at;
    e.value = e.value ? math_node_one(w, MATH_NEGATE, 0, e.value) : NULL;
    return e;
}

/* The set of |x| to the set of x. */
static bool both_sides(struct math_work *w, struct math_set *s)
{
    struct math_set all = {.n = 0}, reals = {.n = 0};
    struct math_end zero = {.at = 0, .is_closed = true};
    if (!put(&reals, zero, infinite(1)) || !intersect(s, &reals))
        return false;
    all = *s;
    for (uint32_t i = 0; i < s->n; i++)
        if (!put(&all, negative(w, s->piece[i].high), negative(w, s->piece[i].low)))
            return false;
    settle(&all);
    *s = all;
    return true;
}

static math_wide difference_at(struct math_work *w, const struct math_node *rel, double x)
{
    struct math_point p = {.n = 0};
    struct math_value a, b;
    if (!math_names(rel, &p) || p.n != 1)
        return (math_wide)NAN;
    p.value[0] = x;
    bool is_known = math_value_at(w, rel->child[0], &p, &a) &&
                    math_value_at(w, rel->child[1], &p, &b) && math_value_is_real(&a) &&
                    math_value_is_real(&b);
    return is_known ? a.re - b.re : (math_wide)NAN;
}

/* 2x - 1 > 3: the left less the right is linear in the one name. */
static bool solve_linear(struct math_work *w, const struct math_node *rel, struct math_set *out)
{
    math_wide at0 = difference_at(w, rel, 0), at1 = difference_at(w, rel, 1);
    math_wide slope = at1 - at0, at9 = difference_at(w, rel, -9);
    math_wide slack = MATH_WIDE(ldexp)(MATH_WIDE(fabs)(at0) + MATH_WIDE(fabs)(at1), -50);
    if (!isfinite(at9) || slope == 0 || MATH_WIDE(fabs)(at0 - 9 * slope - at9) > slack)
        return false;
    struct math_end end = {.at = -at0 / slope};
    return half_line(end, slope > 0 ? rel->ops[0] : mirrored(rel->ops[0]), out);
}

/* One comparison between a label and a closed value, either way round. */
static bool comparison(struct math_work *w, const struct math_node *left, int op,
                       const struct math_node *right, struct math_set *out)
{
    bool is_left = math_is_label(left);
    const struct math_node *label = is_left ? left : right;
    struct math_end end;
    if (!math_is_label(label) || !end_of(w, is_left ? right : left, false, &end) ||
        !half_line(end, is_left ? op : mirrored(op), out))
        return false;
    bool is_size = label->kind == MATH_CALL && label->child[0]->kind == MATH_NAME;
    return !is_size || both_sides(w, out);
}

static bool relation_set(struct math_work *w, const struct math_node *n, struct math_set *out)
{
    if (n->n == 2 && n->ops[0] == MATH_IN)
        return math_is_label(n->child[0]) && math_set_of(w, n->child[1], out);
    if (n->n == 2)
        return comparison(w, n->child[0], n->ops[0], n->child[1], out) || solve_linear(w, n, out);
    struct math_set second;
    return n->n == 3 && comparison(w, n->child[0], n->ops[0], n->child[1], out) &&
           comparison(w, n->child[1], n->ops[1], n->child[2], &second) && intersect(out, &second);
}

static bool interval_set(struct math_work *w, const struct math_node *n, struct math_set *out)
{
    struct math_end low, high;
    if (n->n != 2 || !end_of(w, n->child[0], n->open == '[', &low) ||
        !end_of(w, n->child[1], n->close == ']', &high))
        return false;
    return low.at < high.at && put(out, low, high);
}

static bool covers_all(const struct math_set *s)
{
    return s->n == 1 && isinf(s->piece[0].low.at) && isinf(s->piece[0].high.at);
}

/* "or" and commas unite, "and" intersects; a union of everything was meant as "and". */
static bool list_set(struct math_work *w, const struct math_node *n, struct math_set *out)
{
    struct math_set common = {.n = 0}, next;
    for (uint32_t i = 0; i < n->n; i++) {
        if (!math_set_of(w, n->child[i], &next))
            return false;
        if (i == 0)
            common = next;
        else if (!intersect(&common, &next))
            return false;
        if (!unite(out, &next))
            return false;
    }
    bool is_common = n->op == MATH_JOIN_AND && common.n > 0;
    if (n->n > 1 && (is_common || (covers_all(out) && n->op == MATH_JOIN_COMMA)))
        *out = common;
    return true;
}

static bool union_set(struct math_work *w, const struct math_node *n, struct math_set *out)
{
    struct math_set right, rest;
    if (!math_set_of(w, n->child[0], out) || !math_set_of(w, n->child[1], &right))
        return false;
    if (n->op == MATH_SET_UNION)
        return unite(out, &right);
    if (n->op == MATH_SET_COMMON)
        return intersect(out, &right);
    return complement(&right, &rest) && intersect(out, &rest);
}

static bool says_all_reals(const struct math_node *n)
{
    static const char *const texts[] = {"allrealnumbers", "realnumbers", "allreals",
                                        "allreal",        "reals",       "thesetofallrealnumbers",
                                        "anyrealnumber"};
    for (size_t i = 0; n->kind == MATH_TEXT && i < sizeof texts / sizeof texts[0]; i++)
        if (str_eq_c(n->text, texts[i]))
            return true;
    return n->kind == MATH_REALS && n->op == 'R';
}

bool math_set_of(struct math_work *w, const struct math_node *n, struct math_set *out)
{
    struct math_end point;
    *out = (struct math_set){.n = 0};
    if (!math_charge(w, 10))
        return false;
    if (says_all_reals(n))
        return put(out, infinite(-1), infinite(1));
    if (n->kind == MATH_RELATION)
        return relation_set(w, n, out);
    if (n->kind == MATH_UNION)
        return union_set(w, n, out);
    if (math_is_tuple(n))
        return interval_set(w, n, out);
    if (n->kind == MATH_LIST)
        return list_set(w, n, out);
    return end_of(w, n, true, &point) && isfinite(point.at) && put(out, point, point);
}

static bool same_end(struct math_work *w, const struct math_end *a, const struct math_end *b)
{
    if (a->is_closed != b->is_closed || isfinite(a->at) != isfinite(b->at))
        return false;
    if (a->value && b->value)
        return math_scalar_same(w, a->value, b->value);
    if (!isfinite(a->at))
        return a->at == b->at;
    math_wide size = MATH_WIDE(fabs)(a->at) + MATH_WIDE(fabs)(b->at);
    return MATH_WIDE(fabs)(a->at - b->at) <= MATH_WIDE(ldexp)(size, -50);
}

bool math_set_same(struct math_work *w, const struct math_set *a, const struct math_set *b)
{
    bool is_same = a->n == b->n;
    for (uint32_t i = 0; is_same && i < a->n; i++)
        is_same = same_end(w, &a->piece[i].low, &b->piece[i].low) &&
                  same_end(w, &a->piece[i].high, &b->piece[i].high);
    return is_same;
}

bool math_is_set_like(const struct math_node *n)
{
    if (n->kind == MATH_UNION || says_all_reals(n))
        return true;
    if (n->kind == MATH_RELATION)
        return !math_is_equation(n) && n->ops[0] != MATH_LIKE;
    bool is_list_of_sets = n->kind == MATH_LIST && !math_is_tuple(n) && n->n > 0;
    for (uint32_t i = 0; is_list_of_sets && i < n->n; i++)
        is_list_of_sets = math_is_set_like(n->child[i]);
    return is_list_of_sets;
}
