/* verifier/math/numeric.h - values as complex floating-point numbers in two precisions.
 *
 * The difference between the two says how much rounding an expression suffers, and so how far two
 * equal values may lie apart. */
#ifndef VERIFIER_MATH_NUMERIC_H
#define VERIFIER_MATH_NUMERIC_H

#include "verifier/math/node.h"

/* glibc has the whole of libm for 128 bits; clang knows the type by no name in C. */
#if defined(__x86_64__) && !defined(__clang__)
typedef _Float128 math_wide;
typedef _Complex _Float128 math_wide_complex;
#define MATH_WIDE(f) f##f128
enum { MATH_WIDE_BITS = 113 };
#else
typedef long double math_wide;
typedef _Complex long double math_wide_complex;
#define MATH_WIDE(f) f##l
enum { MATH_WIDE_BITS = __LDBL_MANT_DIG__ };
#endif

enum { MATH_NAMES_MAX = 16 };

/* Values of the names; exact in both precisions. */
struct math_point {
    uint32_t n;
    struct str name[MATH_NAMES_MAX];
    double value[MATH_NAMES_MAX];
};

struct math_value {
    math_wide re, im;
    math_wide noise; /* how far rounding may have moved it */
};

/* Adds the names below n. False when there are too many. */
bool math_names(const struct math_node *n, struct math_point *p);
void math_point_choose(struct math_work *w, struct math_point *p, uint32_t round);

/* False when the value is not finite, not defined, or not a number at all. */
bool math_value_at(struct math_work *w, const struct math_node *n, const struct math_point *p,
                   struct math_value *out);
bool math_value_is_real(const struct math_value *v);
bool math_value_near(const struct math_value *a, const struct math_value *b);

/* numeric_double.c, numeric_wide.c: the same text (numeric_body.h) in each precision. re and im
 * may be NaN. *scale grows to the largest term of any sum. */
void math_eval_double(struct math_work *w, const struct math_node *n, const struct math_point *p,
                      double *re, double *im, double *scale);
void math_eval_wide(struct math_work *w, const struct math_node *n, const struct math_point *p,
                    math_wide *re, math_wide *im, math_wide *scale);

#endif
