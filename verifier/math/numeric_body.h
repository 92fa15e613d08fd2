/* verifier/math/numeric_body.h - evaluation over REAL and CPLX, with FN(name) of libm.
 *
 * Included once per precision. Real arguments take the real functions, so that what is real stays
 * exactly real. Whatever is not defined is NaN. */
#ifndef VERIFIER_MATH_NUMERIC_BODY_H
#define VERIFIER_MATH_NUMERIC_BODY_H

#include <complex.h>
#include <math.h>

struct eval {
    struct math_work *work;
    const struct math_point *point;
    REAL scale;
};

static CPLX eval_node(struct eval *e, const struct math_node *n);

static CPLX make(REAL re, REAL im)
{
    union {
        REAL part[2];
        CPLX whole;
    } u = {.part = {re, im}};
    return u.whole;
}

static CPLX real(REAL re)
{
    return make(re, 0);
}

static CPLX undefined(void)
{
    return real((REAL)NAN);
}

static bool is_real(CPLX z)
{
    return FN(cimag)(z) == 0;
}

static REAL pi(void)
{
    return FN(acos)((REAL)-1);
}

/* A real function inside [low, high], its complex one elsewhere. */
struct function {
    REAL (*on_reals)(REAL);
    CPLX (*on_plane)(CPLX);
    double low, high;
};

static const struct function FUNCTIONS[] = {
    [MATH_SIN] = {FN(sin), FN(csin), -HUGE_VAL, HUGE_VAL},
    [MATH_COS] = {FN(cos), FN(ccos), -HUGE_VAL, HUGE_VAL},
    [MATH_TAN] = {FN(tan), FN(ctan), -HUGE_VAL, HUGE_VAL},
    [MATH_ASIN] = {FN(asin), FN(casin), -1, 1},
    [MATH_ACOS] = {FN(acos), FN(cacos), -1, 1},
    [MATH_ATAN] = {FN(atan), FN(catan), -HUGE_VAL, HUGE_VAL},
    [MATH_SINH] = {FN(sinh), FN(csinh), -HUGE_VAL, HUGE_VAL},
    [MATH_COSH] = {FN(cosh), FN(ccosh), -HUGE_VAL, HUGE_VAL},
    [MATH_TANH] = {FN(tanh), FN(ctanh), -HUGE_VAL, HUGE_VAL},
    [MATH_LN] = {FN(log), FN(clog), 0, HUGE_VAL},
    [MATH_EXP] = {FN(exp), FN(cexp), -HUGE_VAL, HUGE_VAL},
};

static CPLX apply(int op, CPLX z)
{
    const struct function *f = &FUNCTIONS[op];
    bool is_inside = is_real(z) && FN(creal)(z) >= f->low && FN(creal)(z) <= f->high;
    return is_inside ? real(f->on_reals(FN(creal)(z))) : f->on_plane(z);
}

/* 1/f(z), or f(1/z) for the inverses. */
static CPLX apply_reciprocal(int op, CPLX z)
{
    static const int of[] = {
        [MATH_COT] = MATH_TAN,   [MATH_SEC] = MATH_COS,   [MATH_CSC] = MATH_SIN,
        [MATH_ACOT] = MATH_ATAN, [MATH_ASEC] = MATH_ACOS, [MATH_ACSC] = MATH_ASIN};
    CPLX one = real(1);
    return op >= MATH_ACOT ? apply(of[op], one / z) : one / apply(of[op], z);
}

static CPLX power(CPLX base, CPLX exponent)
{
    if (is_real(base) && is_real(exponent)) {
        REAL b = FN(creal)(base), x = FN(creal)(exponent);
        if (b > 0 || x == FN(floor)(x))
            return real(FN(pow)(b, x));
        if (b == 0)
            return x > 0 ? real(0) : undefined();
    }
    return FN(cexp)(exponent * FN(clog)(base));
}

/* Odd roots of negative numbers are the real ones, as \sqrt[3]{-8} is written. */
static CPLX root(CPLX degree, CPLX z)
{
    if (!is_real(degree) || FN(creal)(degree) == 0)
        return undefined();
    REAL d = FN(creal)(degree), x = FN(creal)(z);
    bool is_odd = d == FN(floor)(d) && FN(fmod)(FN(fabs)(d), 2) == 1;
    if (d == 2 && is_real(z))
        return x >= 0 ? real(FN(sqrt)(x)) : make(0, FN(sqrt)(-x));
    if (is_real(z) && x < 0 && is_odd)
        return real(-FN(pow)(-x, 1 / d));
    return power(z, real(1 / d));
}

static REAL gamma_of(REAL x)
{
    return FN(tgamma)(x + 1);
}

static CPLX call_real(int op, REAL x)
{
    if (op == MATH_FACTORIAL)
        return x >= 0 ? real(gamma_of(x)) : undefined();
    return real(op == MATH_FLOOR ? FN(floor)(x) : FN(ceil)(x));
}

static CPLX call_two(struct eval *e, const struct math_node *n)
{
    CPLX a = eval_node(e, n->child[0]), b = eval_node(e, n->child[1]);
    if (n->op == MATH_ROOT)
        return root(a, b);
    if (n->op == MATH_LOG)
        return apply(MATH_LN, b) / apply(MATH_LN, a);
    REAL top = FN(creal)(a), k = FN(creal)(b);
    if (!is_real(a) || !is_real(b) || top < 0 || k < 0)
        return undefined();
    return real(gamma_of(top) / (gamma_of(k) * gamma_of(top - k)));
}

static CPLX call_extreme(struct eval *e, const struct math_node *n)
{
    CPLX best = eval_node(e, n->child[0]);
    for (uint32_t i = 1; i < n->n; i++) {
        CPLX next = eval_node(e, n->child[i]);
        if (!is_real(best) || !is_real(next))
            return undefined();
        bool is_less = FN(creal)(next) < FN(creal)(best);
        best = is_less == (n->op == MATH_MIN) ? next : best;
    }
    return best;
}

static CPLX call_one(struct eval *e, const struct math_node *n)
{
    CPLX z = eval_node(e, n->child[0]);
    if (n->op == MATH_ABS)
        return real(FN(cabs)(z));
    if (n->op == MATH_LOG10)
        return apply(MATH_LN, z) / FN(log)((REAL)10);
    if (n->op == MATH_FLOOR || n->op == MATH_CEIL || n->op == MATH_FACTORIAL)
        return is_real(z) ? call_real(n->op, FN(creal)(z)) : undefined();
    bool is_reciprocal =
        (n->op >= MATH_COT && n->op <= MATH_CSC) || (n->op >= MATH_ACOT && n->op <= MATH_ACSC);
    return is_reciprocal ? apply_reciprocal(n->op, z) : apply(n->op, z);
}

static CPLX eval_call(struct eval *e, const struct math_node *n)
{
    if (!math_charge(e->work, 60))
        return undefined();
    if (n->op == MATH_ROOT || n->op == MATH_LOG || n->op == MATH_BINOMIAL)
        return call_two(e, n);
    if (n->op == MATH_MIN || n->op == MATH_MAX)
        return call_extreme(e, n);
    if (n->op == MATH_GCD || n->op == MATH_LCM)
        return undefined();
    return call_one(e, n);
}

/* Digits by Horner's rule; the repeating end as a geometric series. */
static CPLX eval_number(struct eval *e, const struct math_node *n)
{
    REAL value = 0, unit = 1, before = 0;
    bool has_point = false;
    math_charge(e->work, n->text.n / 4);
    for (size_t i = 0; i < n->text.n; i++) {
        if (i + (size_t)n->op == n->text.n)
            before = value;
        if (n->text.p[i] == '.') {
            has_point = true;
            continue;
        }
        value = value * 10 + (n->text.p[i] - '0');
        unit = has_point ? unit * 10 : unit;
    }
    if (n->op == 0)
        return real(value / unit);
    REAL nines = FN(pow)((REAL)10, (REAL)n->op) - 1;
    return real((value - before) / (unit / (nines + 1) * nines));
}

static REAL digit_value(char c)
{
    return c <= '9' ? (REAL)(c - '0') : (REAL)((c | 32) - 'a' + 10);
}

static CPLX eval_leaf(struct eval *e, const struct math_node *n)
{
    if (n->kind == MATH_NUMBER)
        return eval_number(e, n);
    if (n->kind == MATH_CONSTANT)
        return n->op == MATH_PI  ? real(pi())
               : n->op == MATH_E ? real(FN(exp)((REAL)1))
                                 : make(0, 1);
    if (n->kind == MATH_BASED) {
        REAL value = 0;
        for (size_t i = 0; i < n->text.n; i++)
            value = value * n->op + digit_value(n->text.p[i]);
        return real(value);
    }
    for (uint32_t i = 0; i < e->point->n; i++)
        if (str_eq(e->point->name[i], n->text))
            return real((REAL)e->point->value[i]);
    return undefined();
}

static CPLX multiply(CPLX a, CPLX b)
{
    if (is_real(a) && is_real(b))
        return real(FN(creal)(a) * FN(creal)(b));
    return a * b;
}

static CPLX divide(CPLX a, CPLX b)
{
    if (is_real(a) && is_real(b))
        return real(FN(creal)(a) / FN(creal)(b));
    return a / b;
}

static CPLX eval_many(struct eval *e, const struct math_node *n)
{
    CPLX out = eval_node(e, n->child[0]);
    for (uint32_t i = 0; n->kind == MATH_ADD && i < n->n; i++) {
        CPLX next = i ? eval_node(e, n->child[i]) : out;
        REAL size = FN(cabs)(next);
        e->scale = size > e->scale ? size : e->scale;
        out = i ? out + next : next;
    }
    for (uint32_t i = 1; n->kind == MATH_TIMES && i < n->n; i++)
        out = multiply(out, eval_node(e, n->child[i]));
    return out;
}

static CPLX eval_chosen(struct eval *e, const struct math_node *n)
{
    int before = e->work->sign;
    e->work->sign = n->op;
    CPLX out = eval_node(e, n->child[0]);
    e->work->sign = before;
    return out;
}

static CPLX eval_one(struct eval *e, const struct math_node *n)
{
    if (n->kind == MATH_CHOSEN)
        return eval_chosen(e, n);
    CPLX z = eval_node(e, n->child[0]);
    if (n->kind == MATH_PERCENT)
        return divide(z, real(100));
    if (n->kind == MATH_DEGREES)
        return multiply(z, real(pi() / 180));
    bool is_negative =
        n->kind == MATH_NEGATE || (n->kind == MATH_SIGNS && n->op * e->work->sign < 0);
    return is_negative ? make(-FN(creal)(z), is_real(z) ? 0 : -FN(cimag)(z)) : z;
}

static CPLX eval_node(struct eval *e, const struct math_node *n)
{
    if (!math_charge(e->work, 3))
        return undefined();
    switch (n->kind) {
    case MATH_NUMBER:
    case MATH_BASED:
    case MATH_NAME:
    case MATH_TEXT:
    case MATH_CONSTANT:
        return eval_leaf(e, n);
    case MATH_ADD:
    case MATH_TIMES:
        return eval_many(e, n);
    case MATH_DIVIDE:
        return divide(eval_node(e, n->child[0]), eval_node(e, n->child[1]));
    case MATH_POWER:
        math_charge(e->work, 60);
        return power(eval_node(e, n->child[0]), eval_node(e, n->child[1]));
    case MATH_CALL:
        return eval_call(e, n);
    case MATH_NEGATE:
    case MATH_SIGNS:
    case MATH_CHOSEN:
    case MATH_PERCENT:
    case MATH_DEGREES:
    case MATH_UNIT:
        return eval_one(e, n);
    default:
        return undefined();
    }
}

void EVAL(struct math_work *w, const struct math_node *n, const struct math_point *p, REAL *re,
          REAL *im, REAL *scale)
{
    struct eval e = {.work = w, .point = p, .scale = 0};
    CPLX z = eval_node(&e, n);
    *re = FN(creal)(z);
    *im = FN(cimag)(z);
    *scale = e.scale;
}

#endif
