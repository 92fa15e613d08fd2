/* Equality of values: rational arithmetic first, evaluation where that does not reach (Schwartz,
 * JACM 27, 1980: an identity that holds at random points). No state. */
#include "verifier/math/scalar.h"

#include "verifier/math/exact.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_MAX = 24, POINTS_ENOUGH = 10, POINTS_LEAST = 3, DIGITS_TO_ROUND = 6 };

bool math_is_closed(const struct math_node *n)
{
    return !math_has_kind(n, MATH_NAME) && !math_has_kind(n, MATH_TEXT) &&
           !math_has_kind(n, MATH_REALS);
}

/* 1 same, 0 different, -1 not both rational. */
static int same_exactly(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    mpq_t p, q;
    mpq_inits(p, q, NULL);
    int same = -1;
    if (math_exact(w, a, p) && math_exact(w, b, q))
        same = mpq_equal(p, q) != 0;
    mpq_clears(p, q, NULL);
    return same;
}

/* Decimals of a decimal fraction with at least DIGITS_TO_ROUND significant digits, else 0. */
static int decimals_of(const struct math_node *n)
{
    while (n->kind == MATH_NEGATE || n->kind == MATH_UNIT || n->kind == MATH_SIGNS ||
           n->kind == MATH_CHOSEN)
        n = n->child[0];
    const char *point = n->kind == MATH_NUMBER && n->op == 0 && n->text.n
                            ? memchr(n->text.p, '.', n->text.n)
                            : NULL;
    size_t significant = 0;
    for (size_t i = 0; point && i < n->text.n; i++)
        significant += n->text.p[i] != '.' && (significant || n->text.p[i] != '0');
    return significant >= DIGITS_TO_ROUND ? (int)(n->text.p + n->text.n - point - 1) : 0;
}

static bool same_rounded(struct math_work *w, const struct math_value *a,
                         const struct math_value *b)
{
    math_wide unit = MATH_WIDE(pow)((math_wide)10, (math_wide)w->decimals);
    return MATH_WIDE(round)(a->re * unit) == MATH_WIDE(round)(b->re * unit) &&
           MATH_WIDE(round)(a->im * unit) == MATH_WIDE(round)(b->im * unit);
}

/* A long decimal fraction stands for every value that it is a rounding or a cut of. */
static bool same_to(int decimals, const struct math_value *a, const struct math_value *b)
{
    if (decimals == 0 || decimals > 30)
        return false;
    math_wide unit = MATH_WIDE(pow)((math_wide)10, (math_wide)-decimals);
    return MATH_WIDE(hypot)(a->re - b->re, a->im - b->im) < unit;
}

static bool same_closed(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    struct math_point none = {.n = 0};
    struct math_value x, y;
    int exactly = same_exactly(w, a, b);
    if (exactly == 1)
        return true;
    if (!math_value_at(w, a, &none, &x) || !math_value_at(w, b, &none, &y))
        return false;
    if (exactly < 0 && math_value_near(&x, &y))
        return true;
    if (w->decimals >= 0)
        return same_rounded(w, &x, &y);
    return same_to(decimals_of(a), &x, &y) || same_to(decimals_of(b), &x, &y);
}

struct tally {
    int real, same_real, complex_points, same_complex;
};

static bool compare_points(struct math_work *w, const struct math_node *a,
                           const struct math_node *b, struct math_point *p, struct tally *t)
{
    for (uint32_t round = 0; round < ROUNDS_MAX && t->real < POINTS_ENOUGH; round++) {
        struct math_value x, y;
        math_point_choose(w, p, round);
        if (!math_value_at(w, a, p, &x) || !math_value_at(w, b, p, &y)) {
            if (w->is_spent)
                return false;
            continue;
        }
        bool is_near = math_value_near(&x, &y);
        bool is_real = math_value_is_real(&x) && math_value_is_real(&y);
        t->real += is_real;
        t->same_real += is_real && is_near;
        t->complex_points++;
        t->same_complex += is_near;
        if (is_real && !is_near)
            return false;
    }
    return true;
}

bool math_scalar_same(struct math_work *w, const struct math_node *a, const struct math_node *b)
{
    struct math_point p = {.n = 0};
    struct tally t = {0};
    if (w->is_spent || !math_names(a, &p) || !math_names(b, &p))
        return false;
    if (p.n == 0)
        return same_closed(w, a, b);
    if (!compare_points(w, a, b, &p, &t))
        return false;
    if (t.real >= POINTS_LEAST) /* where only one of them is real, the other is out of its domain */
        return t.same_real == t.real;
    return t.complex_points >= POINTS_LEAST && t.same_complex == t.complex_points;
}

/* One point's factor joins those before it. False when it is another one. */
static bool join_factor(const struct math_value *x, const struct math_value *y, math_wide *factor,
                        math_wide *slack, int *n)
{
    math_wide here = x->re / y->re;
    math_wide loose = MATH_WIDE(fabs)(here) *
                      (x->noise / MATH_WIDE(fabs)(x->re) + y->noise / MATH_WIDE(fabs)(y->re));
    if (*n && MATH_WIDE(fabs)(here - *factor) > 4 * (loose + *slack))
        return false;
    *factor = here;
    *slack = loose;
    (*n)++;
    return true;
}

bool math_scalar_proportional(struct math_work *w, const struct math_node *a,
                              const struct math_node *b, bool *is_positive)
{
    struct math_point p = {.n = 0};
    math_wide factor = 0, slack = 0;
    int n = 0;
    if (!math_names(a, &p) || !math_names(b, &p) || p.n == 0)
        return false;
    for (uint32_t round = 0; round < ROUNDS_MAX && n < POINTS_ENOUGH; round++) {
        struct math_value x, y;
        math_point_choose(w, &p, round);
        if (!math_value_at(w, a, &p, &x) || !math_value_at(w, b, &p, &y)) {
            if (w->is_spent)
                return false;
            continue;
        }
        if (!math_value_is_real(&x) || !math_value_is_real(&y))
            continue;
        bool x_is_zero = MATH_WIDE(fabs)(x.re) <= x.noise,
             y_is_zero = MATH_WIDE(fabs)(y.re) <= y.noise;
        if (x_is_zero != y_is_zero || (!x_is_zero && !join_factor(&x, &y, &factor, &slack, &n)))
            return false;
    }
    *is_positive = factor > 0;
    return n >= POINTS_LEAST;
}
