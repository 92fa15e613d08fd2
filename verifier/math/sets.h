/* verifier/math/sets.h - sets of real numbers as sorted pieces. */
#ifndef VERIFIER_MATH_SETS_H
#define VERIFIER_MATH_SETS_H

#include "verifier/math/scalar.h"

enum { MATH_PIECES_MAX = 32 };

struct math_end {
    const struct math_node *value; /* NULL: infinite, or only known as a number */
    math_wide at;
    bool is_closed;
};

struct math_piece {
    struct math_end low, high;
};

struct math_set {
    uint32_t n;
    struct math_piece piece[MATH_PIECES_MAX]; /* sorted, apart from each other */
};

/* Intervals, unions, number sets, inequalities of one name, lists of these, {1, 2}. False when the
 * tree is no such set, or its ends depend on names. */
bool math_set_of(struct math_work *w, const struct math_node *n, struct math_set *out);
bool math_set_same(struct math_work *w, const struct math_set *a, const struct math_set *b);

/* A tree that can only be meant as a set of numbers: a union, an inequality, "all reals". */
bool math_is_set_like(const struct math_node *n);

#endif
