/* Powers, functions, fractions, roots, numbers, names. */
#include "verifier/math/parser.h"

#include <string.h>

bool parse_starts_factor(const struct parser *p)
{
    switch (p->at->kind) {
    case TOKEN_NUMBER:
    case TOKEN_NAME:
    case TOKEN_CONSTANT:
    case TOKEN_INFINITY:
    case TOKEN_REALS:
    case TOKEN_FRACTION:
    case TOKEN_BINOMIAL:
    case TOKEN_ROOT:
    case TOKEN_FUNCTION:
    case TOKEN_MATRIX:
    case TOKEN_OVERLINE:
    case TOKEN_OPEN:
        return true;
    case TOKEN_BAR:
        return !p->bar_closes;
    default:
        return false;
    }
}

/* Behind words: ^2, ^{2} or / and more words belong to the unit. */
static bool takes_unit_tail(struct parser *p, struct str *text)
{
    struct math_token *t = p->at;
    bool is_group = t->kind == TOKEN_POWER && t[1].kind == TOKEN_OPEN && t[1].op == 'g' &&
                    t[2].kind == TOKEN_NUMBER && t[3].kind == TOKEN_CLOSE;
    bool is_plain = t->kind == TOKEN_POWER && t[1].kind == TOKEN_NUMBER;
    if (is_group || is_plain) {
        struct str power = t[is_group ? 2 : 1].text;
        *text = arena_printf(p->work->arena, STR_FMT "^" STR_FMT, STR_ARG(*text), STR_ARG(power));
        p->at += is_group ? 4 : 2;
        return true;
    }
    if (t->kind != TOKEN_DIVIDE || t[1].kind != TOKEN_TEXT)
        return false;
    *text = arena_printf(p->work->arena, STR_FMT "/", STR_ARG(*text));
    p->at++;
    return true;
}

static struct str lower_case(struct arena *a, struct str s)
{
    struct str copy = arena_str(a, s);
    char *to = (char *)copy.p;
    for (size_t i = 0; copy.p && i < copy.n; i++)
        if (to[i] >= 'A' && to[i] <= 'Z')
            to[i] = (char)(to[i] + 32);
    return copy;
}

const struct math_node *parse_words(struct parser *p)
{
    struct str text = STR("");
    while (parse_is(p, TOKEN_TEXT)) {
        struct str word = lower_case(p->work->arena, p->at->text);
        text = arena_printf(p->work->arena, STR_FMT STR_FMT, STR_ARG(text), STR_ARG(word));
        p->at++;
        if (!math_charge(p->work, text.n))
            return NULL;
        while (takes_unit_tail(p, &text))
            ;
    }
    return math_node_text(p->work, MATH_TEXT, text);
}

static const struct math_node *number_node(struct parser *p, struct str text, int op)
{
    enum math_kind kind = op < 0 ? MATH_BASED : MATH_NUMBER;
    struct math_node *n = math_node_text(p->work, kind, text);
    if (n)
        n->op = op < 0 ? -op : op;
    return n;
}

/* \frac13 takes one digit at a time, \sqrt13 and x^13 the number. */
const struct math_node *parse_argument(struct parser *p, bool is_one_digit)
{
    if (parse_is(p, TOKEN_OPEN))
        return parse_brackets(p);
    struct math_token *t = p->at;
    bool splits = is_one_digit && t->kind == TOKEN_NUMBER && t->op == 0 && t->text.n > 1 &&
                  !memchr(t->text.p, '.', t->text.n);
    if (splits) {
        const struct math_node *n = number_node(p, str_slice(t->text, 0, 1), 0);
        t->text = str_slice(t->text, 1, t->text.n);
        return n;
    }
    if (t->kind == TOKEN_NUMBER) {
        parse_next(p);
        return number_node(p, t->text, t->op);
    }
    return parse_starts_factor(p) ? parse_power(p) : NULL;
}

static const struct math_node *parse_two_arguments(struct parser *p)
{
    bool is_binomial = parse_is(p, TOKEN_BINOMIAL);
    parse_next(p);
    const struct math_node *a = parse_argument(p, true);
    const struct math_node *b = a ? parse_argument(p, true) : NULL;
    return math_node_two(p->work, is_binomial ? MATH_CALL : MATH_DIVIDE,
                         is_binomial ? MATH_BINOMIAL : 0, a, b);
}

static const struct math_node *parse_root(struct parser *p)
{
    const struct math_node *degree = NULL;
    parse_next(p);
    if (parse_is_op(p, TOKEN_OPEN, '['))
        degree = parse_brackets(p);
    else
        degree = number_node(p, STR("2"), 0);
    const struct math_node *value = degree ? parse_argument(p, false) : NULL;
    return math_node_two(p->work, MATH_CALL, MATH_ROOT, degree, value);
}

static const struct math_node *parse_exponent(struct parser *p)
{
    const struct math_node *n = NULL;
    if (!parse_enter(p))
        goto out;
    if (parse_is(p, TOKEN_MINUS)) {
        parse_next(p);
        n = math_node_one(p->work, MATH_NEGATE, 0, parse_exponent(p));
    } else if (parse_is_op(p, TOKEN_OPEN, 'g')) {
        n = parse_brackets(p);
    } else if (parse_starts_factor(p)) {
        n = parse_power(p);
    }
out:
    parse_leave(p);
    return n;
}

/* The factors behind a function without brackets: sin 2x cos x is sin(2x) cos(x). */
static const struct math_node *parse_open_argument(struct parser *p)
{
    uint32_t base = p->top;
    bool is_negative = parse_is(p, TOKEN_MINUS);
    if (is_negative)
        parse_next(p);
    do {
        if (!parse_push(p, parse_power(p)))
            return NULL;
    } while (parse_starts_factor(p) && !parse_is(p, TOKEN_FUNCTION) && !parse_is(p, TOKEN_OPEN));
    const struct math_node *n = parse_pop(p, base, MATH_TIMES, 0);
    return n && is_negative ? math_node_one(p->work, MATH_NEGATE, 0, n) : n;
}

static bool is_minus_one(const struct math_node *n)
{
    return n->kind == MATH_NEGATE && n->child[0]->kind == MATH_NUMBER &&
           str_eq_c(n->child[0]->text, "1");
}

static const struct math_node *call_node(struct parser *p, int op, const struct math_node *base,
                                         const struct math_node *value)
{
    bool takes_many = op == MATH_MIN || op == MATH_MAX || op == MATH_GCD || op == MATH_LCM;
    if (value->kind == MATH_LIST && takes_many)
        return math_node_many(p->work, MATH_CALL, op, value->child, value->n);
    if (value->kind == MATH_LIST && op == MATH_LOG && value->n == 2)
        return math_node_two(p->work, MATH_CALL, op, value->child[1], value->child[0]);
    if (value->kind == MATH_LIST)
        return NULL;
    if (op == MATH_LOG && base)
        return math_node_two(p->work, MATH_CALL, MATH_LOG, base, value);
    return math_node_one(p->work, MATH_CALL, op == MATH_LOG ? MATH_LN : op, value);
}

static const struct math_node *parse_function(struct parser *p)
{
    const struct math_node *base = NULL, *power = NULL;
    int op = p->at->op;
    parse_next(p);
    if (parse_is(p, TOKEN_SUB)) {
        parse_next(p);
        if (!(base = parse_argument(p, true)))
            return NULL;
    }
    if (parse_is(p, TOKEN_POWER)) {
        parse_next(p);
        if (!(power = parse_exponent(p)))
            return NULL;
    }
    const struct math_node *value =
        parse_is(p, TOKEN_OPEN) ? parse_brackets(p) : parse_open_argument(p);
    if (!value)
        return NULL;
    if (power && is_minus_one(power) && op <= MATH_CSC) {
        op += MATH_ASIN - MATH_SIN;
        power = NULL;
    }
    const struct math_node *call = call_node(p, op, base, value);
    return power ? math_node_two(p->work, MATH_POWER, 0, call, power) : call;
}

static const struct math_node *parse_leaf(struct parser *p)
{
    struct math_token t = *p->at;
    parse_next(p);
    if (t.kind == TOKEN_NUMBER)
        return number_node(p, t.text, t.op);
    if (t.kind == TOKEN_EMPTY) {
        struct math_node *n = math_node_many(p->work, MATH_LIST, 0, NULL, 0);
        if (n)
            n->open = '{', n->close = '}';
        return n;
    }
    enum math_kind kind = t.kind == TOKEN_NAME       ? MATH_NAME
                          : t.kind == TOKEN_CONSTANT ? MATH_CONSTANT
                          : t.kind == TOKEN_REALS    ? MATH_REALS
                                                     : MATH_INFINITY;
    struct math_node *n = math_node_text(p->work, kind, t.text);
    if (n)
        n->op = t.op;
    return n;
}

static const struct math_node *parse_primary(struct parser *p)
{
    switch (p->at->kind) {
    case TOKEN_OPEN:
        return parse_brackets(p);
    case TOKEN_BAR:
        return parse_absolute(p);
    case TOKEN_FRACTION:
    case TOKEN_BINOMIAL:
        return parse_two_arguments(p);
    case TOKEN_ROOT:
        return parse_root(p);
    case TOKEN_FUNCTION:
        return parse_function(p);
    case TOKEN_MATRIX:
        return parse_matrix(p);
    case TOKEN_ALIGN:
        return parse_aligned(p);
    case TOKEN_TEXT:
        return parse_words(p);
    case TOKEN_OVERLINE:
        parse_next(p);
        return parse_argument(p, false);
    case TOKEN_NUMBER:
    case TOKEN_NAME:
    case TOKEN_CONSTANT:
    case TOKEN_INFINITY:
    case TOKEN_REALS:
    case TOKEN_EMPTY:
        return parse_leaf(p);
    default:
        return NULL;
    }
}

static const struct math_node *with_prime(struct parser *p, const struct math_node *n)
{
    if (n->kind != MATH_NAME)
        return n;
    return math_node_text(p->work, MATH_NAME,
                          arena_printf(p->work->arena, STR_FMT "'", STR_ARG(n->text)));
}

/* Factorial, percent, degrees and primes behind an operand. */
static const struct math_node *parse_tail(struct parser *p, const struct math_node *n)
{
    for (;; parse_next(p)) {
        if (!n)
            return NULL;
        if (parse_is(p, TOKEN_FACTORIAL))
            n = math_node_one(p->work, MATH_CALL, MATH_FACTORIAL, n);
        else if (parse_is(p, TOKEN_PERCENT))
            n = math_node_one(p->work, MATH_PERCENT, 0, n);
        else if (parse_is(p, TOKEN_DEGREES))
            n = math_node_one(p->work, MATH_DEGREES, 0, n);
        else if (parse_is(p, TOKEN_PRIME))
            n = with_prime(p, n);
        else
            return n;
    }
}

const struct math_node *parse_power(struct parser *p)
{
    const struct math_node *n = NULL;
    if (!parse_enter(p))
        goto out;
    n = parse_tail(p, parse_primary(p));
    if (n && parse_is(p, TOKEN_POWER)) {
        parse_next(p);
        if (parse_is(p, TOKEN_PRIME))
            n = parse_tail(p, n);
        else
            n = parse_tail(p, math_node_two(p->work, MATH_POWER, 0, n, parse_exponent(p)));
    }
out:
    parse_leave(p);
    return n;
}
