/* Rational arithmetic over GMP. Sizes are bounded before each operation, and the cost of each is
 * charged by its length, so a tower of powers ends at once. No state. */
#include "verifier/math/exact.h"

#include <stdlib.h>
#include <string.h>

enum { BITS_MAX = 1 << 16, FACTORIAL_MAX = 5000, ROOT_MAX = 64, DIGITS_MAX = 4096 };

static size_t bits(const mpq_t q)
{
    return mpz_sizeinbase(mpq_numref(q), 2) + mpz_sizeinbase(mpq_denref(q), 2);
}

/* A product or common divisor of numbers of so many bits is worth its square in words. */
static bool charge_bits(struct math_work *w, size_t n_bits)
{
    uint64_t words = n_bits / 64 + 1;
    return n_bits <= BITS_MAX && math_charge(w, 1 + words * words / 64);
}

/* Digits with at most one point; a run at the end that repeats for ever adds
 * (all digits - digits before the run) / (10^point (10^run - 1)). */
static bool exact_number(struct math_work *w, const struct math_node *n, mpq_t out)
{
    char *digits = arena_alloc(w->arena, n->text.n + 1);
    size_t n_digits = 0, decimals = 0, repeat = (size_t)n->op;
    bool has_point = false;
    if (!digits || n->text.n > DIGITS_MAX || !charge_bits(w, n->text.n * 4))
        return false;
    for (size_t i = 0; i < n->text.n; i++) {
        decimals += has_point;
        if (n->text.p[i] == '.')
            has_point = true;
        else
            digits[n_digits++] = n->text.p[i];
    }
    if (n_digits == 0 || mpz_set_str(mpq_numref(out), digits, 10) != 0)
        return false;
    mpz_ui_pow_ui(mpq_denref(out), 10, decimals);
    if (repeat) {
        mpz_t before, nines;
        mpz_inits(before, nines, NULL);
        digits[n_digits - repeat] = '\0';
        mpz_set_str(before, n_digits > repeat ? digits : "0", 10);
        mpz_sub(mpq_numref(out), mpq_numref(out), before);
        mpz_ui_pow_ui(nines, 10, repeat);
        mpz_sub_ui(nines, nines, 1);
        mpz_ui_pow_ui(mpq_denref(out), 10, decimals - repeat);
        mpz_mul(mpq_denref(out), mpq_denref(out), nines);
        mpz_clears(before, nines, NULL);
    }
    mpq_canonicalize(out);
    return true;
}

static bool exact_based(struct math_work *w, const struct math_node *n, mpq_t out)
{
    struct str copy = arena_str(w->arena, n->text);
    mpz_set_ui(mpq_denref(out), 1);
    return copy.p && copy.n <= DIGITS_MAX && charge_bits(w, copy.n * 6) &&
           mpz_set_str(mpq_numref(out), copy.p, n->op) == 0;
}

static bool exact_negate(struct math_work *w, const struct math_node *n, mpq_t out)
{
    bool is_known = math_exact(w, n->child[0], out);
    if (is_known)
        mpq_neg(out, out);
    return is_known;
}

static bool exact_signs(struct math_work *w, const struct math_node *n, mpq_t out)
{
    return n->op * w->sign < 0 ? exact_negate(w, n, out) : math_exact(w, n->child[0], out);
}

static bool exact_chosen(struct math_work *w, const struct math_node *n, mpq_t out)
{
    int before = w->sign;
    w->sign = n->op;
    bool is_known = math_exact(w, n->child[0], out);
    w->sign = before;
    return is_known;
}

static bool exact_child(struct math_work *w, const struct math_node *n, mpq_t out)
{
    return math_exact(w, n->child[0], out);
}

static bool exact_percent(struct math_work *w, const struct math_node *n, mpq_t out)
{
    mpq_t hundred;
    if (!math_exact(w, n->child[0], out) || !charge_bits(w, bits(out)))
        return false;
    mpq_init(hundred);
    mpq_set_ui(hundred, 100, 1);
    mpq_div(out, out, hundred);
    mpq_clear(hundred);
    return true;
}

/* out = the children folded by op. */
static bool exact_fold(struct math_work *w, const struct math_node *n, mpq_t out,
                       void (*op)(mpq_ptr, mpq_srcptr, mpq_srcptr))
{
    mpq_t next;
    bool is_known = math_exact(w, n->child[0], out);
    mpq_init(next);
    for (uint32_t i = 1; is_known && i < n->n; i++) {
        is_known = math_exact(w, n->child[i], next) && charge_bits(w, bits(out) + bits(next));
        if (is_known)
            op(out, out, next);
    }
    mpq_clear(next);
    return is_known;
}

static bool exact_add(struct math_work *w, const struct math_node *n, mpq_t out)
{
    return exact_fold(w, n, out, mpq_add);
}

static bool exact_times(struct math_work *w, const struct math_node *n, mpq_t out)
{
    return exact_fold(w, n, out, mpq_mul);
}

static bool exact_divide(struct math_work *w, const struct math_node *n, mpq_t out)
{
    mpq_t by;
    mpq_init(by);
    bool is_known = math_exact(w, n->child[1], by) && mpq_sgn(by) != 0 &&
                    math_exact(w, n->child[0], out) && charge_bits(w, bits(out) + bits(by));
    if (is_known)
        mpq_div(out, out, by);
    mpq_clear(by);
    return is_known;
}

/* The real root when it is rational. Even roots of negative numbers are not real. */
static bool take_root(struct math_work *w, mpq_t q, unsigned long degree)
{
    if (degree == 1)
        return true;
    if (degree == 0 || degree > ROOT_MAX || (degree % 2 == 0 && mpq_sgn(q) < 0) ||
        !charge_bits(w, bits(q) * 2))
        return false;
    return mpz_root(mpq_numref(q), mpq_numref(q), degree) &&
           mpz_root(mpq_denref(q), mpq_denref(q), degree);
}

static bool take_power(struct math_work *w, mpq_t q, const mpz_t exponent)
{
    bool is_unit = mpz_cmpabs_ui(mpq_numref(q), 1) <= 0 && mpz_cmp_ui(mpq_denref(q), 1) == 0;
    if (mpq_sgn(q) == 0 && mpz_sgn(exponent) <= 0)
        return false;
    if (is_unit) {
        if (mpz_even_p(exponent))
            mpq_abs(q, q);
        return true;
    }
    if (mpz_cmpabs_ui(exponent, BITS_MAX) > 0)
        return false;
    unsigned long e = mpz_get_ui(exponent);
    if (!charge_bits(w, bits(q) * (e + 1)))
        return false;
    mpz_pow_ui(mpq_numref(q), mpq_numref(q), e);
    mpz_pow_ui(mpq_denref(q), mpq_denref(q), e);
    if (mpz_sgn(exponent) < 0)
        mpq_inv(q, q);
    return true;
}

static bool exact_power(struct math_work *w, const struct math_node *n, mpq_t out)
{
    mpq_t exponent;
    mpq_init(exponent);
    bool is_known = math_exact(w, n->child[1], exponent) && math_exact(w, n->child[0], out);
    bool is_whole = is_known && mpz_cmp_ui(mpq_denref(exponent), 1) == 0;
    if (is_known && !is_whole) /* (-8)^(1/3) is not real by the principal value */
        is_known = mpq_sgn(out) >= 0 && mpz_cmp_ui(mpq_denref(exponent), ROOT_MAX) <= 0 &&
                   take_root(w, out, mpz_get_ui(mpq_denref(exponent)));
    is_known = is_known && take_power(w, out, mpq_numref(exponent));
    mpq_clear(exponent);
    return is_known;
}

static bool is_small_whole(const mpq_t q, unsigned long max)
{
    return mpz_cmp_ui(mpq_denref(q), 1) == 0 && mpq_sgn(q) >= 0 &&
           mpz_cmp_ui(mpq_numref(q), max) <= 0;
}

static bool call_root(struct math_work *w, const struct math_node *n, mpq_t out)
{
    mpq_t degree;
    mpq_init(degree);
    bool is_known = math_exact(w, n->child[0], degree) && is_small_whole(degree, ROOT_MAX) &&
                    math_exact(w, n->child[1], out) &&
                    take_root(w, out, mpz_get_ui(mpq_numref(degree)));
    mpq_clear(degree);
    return is_known;
}

static bool call_abs(struct math_work *w, const struct math_node *n, mpq_t out)
{
    bool is_known = math_exact(w, n->child[0], out);
    if (is_known)
        mpq_abs(out, out);
    return is_known;
}

static bool call_floor(struct math_work *w, const struct math_node *n, mpq_t out)
{
    if (!math_exact(w, n->child[0], out))
        return false;
    if (n->op == MATH_FLOOR)
        mpz_fdiv_q(mpq_numref(out), mpq_numref(out), mpq_denref(out));
    else
        mpz_cdiv_q(mpq_numref(out), mpq_numref(out), mpq_denref(out));
    mpz_set_ui(mpq_denref(out), 1);
    return true;
}

static bool call_factorial(struct math_work *w, const struct math_node *n, mpq_t out)
{
    if (!math_exact(w, n->child[0], out) || !is_small_whole(out, FACTORIAL_MAX) ||
        !charge_bits(w, BITS_MAX / 8))
        return false;
    mpz_fac_ui(mpq_numref(out), mpz_get_ui(mpq_numref(out)));
    return true;
}

static bool call_binomial(struct math_work *w, const struct math_node *n, mpq_t out)
{
    mpq_t k;
    mpq_init(k);
    bool is_known = math_exact(w, n->child[1], k) && is_small_whole(k, FACTORIAL_MAX) &&
                    math_exact(w, n->child[0], out) && is_small_whole(out, FACTORIAL_MAX) &&
                    charge_bits(w, BITS_MAX / 8);
    if (is_known)
        mpz_bin_ui(mpq_numref(out), mpq_numref(out), mpz_get_ui(mpq_numref(k)));
    mpq_clear(k);
    return is_known;
}

static void smaller(mpq_ptr out, mpq_srcptr a, mpq_srcptr b)
{
    mpq_set(out, mpq_cmp(a, b) <= 0 ? a : b);
}

static void larger(mpq_ptr out, mpq_srcptr a, mpq_srcptr b)
{
    mpq_set(out, mpq_cmp(a, b) >= 0 ? a : b);
}

static void common_divisor(mpq_ptr out, mpq_srcptr a, mpq_srcptr b)
{
    mpz_gcd(mpq_numref(out), mpq_numref(a), mpq_numref(b));
}

static void common_multiple(mpq_ptr out, mpq_srcptr a, mpq_srcptr b)
{
    mpz_lcm(mpq_numref(out), mpq_numref(a), mpq_numref(b));
}

static bool call_fold(struct math_work *w, const struct math_node *n, mpq_t out)
{
    static void (*const OPS[])(mpq_ptr, mpq_srcptr, mpq_srcptr) = {smaller, larger, common_divisor,
                                                                   common_multiple};
    if (!exact_fold(w, n, out, OPS[n->op - MATH_MIN]))
        return false;
    return n->op <= MATH_MAX || mpz_cmp_ui(mpq_denref(out), 1) == 0;
}

typedef bool (*exact_fn)(struct math_work *, const struct math_node *, mpq_t);

static bool exact_call(struct math_work *w, const struct math_node *n, mpq_t out)
{
    static const exact_fn BY_FUNCTION[] = {
        [MATH_ROOT] = call_root,
        [MATH_ABS] = call_abs,
        [MATH_FLOOR] = call_floor,
        [MATH_CEIL] = call_floor,
        [MATH_FACTORIAL] = call_factorial,
        [MATH_BINOMIAL] = call_binomial,
        [MATH_MIN] = call_fold,
        [MATH_MAX] = call_fold,
        [MATH_GCD] = call_fold,
        [MATH_LCM] = call_fold,
    };
    return BY_FUNCTION[n->op] && BY_FUNCTION[n->op](w, n, out);
}

bool math_exact(struct math_work *w, const struct math_node *n, mpq_t out)
{
    static const exact_fn BY_KIND[MATH_MATRIX + 1] = {
        [MATH_NUMBER] = exact_number,   [MATH_BASED] = exact_based,   [MATH_ADD] = exact_add,
        [MATH_NEGATE] = exact_negate,   [MATH_SIGNS] = exact_signs,   [MATH_CHOSEN] = exact_chosen,
        [MATH_TIMES] = exact_times,     [MATH_DIVIDE] = exact_divide, [MATH_POWER] = exact_power,
        [MATH_PERCENT] = exact_percent, [MATH_UNIT] = exact_child,    [MATH_CALL] = exact_call,
    };
    return BY_KIND[n->kind] && math_charge(w, 1) && BY_KIND[n->kind](w, n, out);
}
