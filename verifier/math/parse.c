/* Lists, relations, ratios, sets, sums and products. Depth is bounded by parse_enter and by the
 * depth of a node; every token is read once. */
#include "verifier/math/parse.h"

#include "verifier/math/parser.h"

void parse_next(struct parser *p)
{
    if (p->at->kind != TOKEN_END)
        p->at++;
    while (p->align && p->at->kind == TOKEN_AND)
        p->at++;
}

bool parse_is(const struct parser *p, enum math_token_kind kind)
{
    return p->at->kind == kind;
}

bool parse_is_op(const struct parser *p, enum math_token_kind kind, int op)
{
    return p->at->kind == kind && p->at->op == op;
}

bool parse_enter(struct parser *p)
{
    return ++p->depth <= PARSE_DEPTH_MAX && math_charge(p->work, 1);
}

void parse_leave(struct parser *p)
{
    p->depth--;
}

bool parse_push(struct parser *p, const struct math_node *item)
{
    if (!item || p->top >= MATH_TOKENS_MAX)
        return false;
    p->stack[p->top++] = item;
    return true;
}

struct math_node *parse_pop(struct parser *p, uint32_t base, enum math_kind kind, int op)
{
    uint32_t n = p->top - base;
    p->top = base;
    return math_node_many(p->work, kind, op, p->stack + base, n);
}

static bool is_integer(const struct math_token *t)
{
    bool is_plain = t->kind == TOKEN_NUMBER && t->op == 0;
    for (size_t i = 0; is_plain && i < t->text.n; i++)
        is_plain = t->text.p[i] != '.';
    return is_plain;
}

static const struct math_node *parse_plain_part(struct parser *p)
{
    const struct math_node *over = parse_power(p);
    parse_next(p); /* the / */
    return math_node_two(p->work, MATH_DIVIDE, 0, over, over ? parse_power(p) : NULL);
}

/* 2 1/2 and 2\frac{1}{2} are sums. */
static const struct math_node *parse_mixed(struct parser *p)
{
    const struct math_token *t = p->at;
    bool is_plain = is_integer(t) && is_integer(t + 1) && t[1].after_space &&
                    t[2].kind == TOKEN_DIVIDE && is_integer(t + 3);
    const struct math_node *whole = parse_power(p);
    if (whole && is_plain)
        return math_node_two(p->work, MATH_ADD, 0, whole, parse_plain_part(p));
    if (!whole || !is_integer(t) || p->at != t + 1 || !parse_is(p, TOKEN_FRACTION))
        return whole;
    const struct math_node *part = parse_power(p);
    bool is_mixed = part && part->kind == MATH_DIVIDE && part->child[0]->kind == MATH_NUMBER &&
                    part->child[1]->kind == MATH_NUMBER;
    return math_node_two(p->work, is_mixed ? MATH_ADD : MATH_TIMES, 0, whole, part);
}

static const struct math_node *parse_signed(struct parser *p, bool is_first);

static bool parse_divided(struct parser *p, uint32_t base)
{
    parse_next(p);
    const struct math_node *left = parse_pop(p, base, MATH_TIMES, 0);
    const struct math_node *right = parse_signed(p, false);
    return parse_push(p, right ? math_node_two(p->work, MATH_DIVIDE, 0, left, right) : NULL);
}

static bool parse_unit(struct parser *p, uint32_t base)
{
    const struct math_node *left = parse_pop(p, base, MATH_TIMES, 0);
    const struct math_node *words = parse_words(p);
    struct math_node *unit = words ? math_node_one(p->work, MATH_UNIT, 0, left) : NULL;
    if (unit)
        unit->text = words->text;
    return parse_push(p, unit);
}

static bool parse_more_factors(struct parser *p, uint32_t base)
{
    bool is_ok = true;
    while (is_ok) {
        if (parse_is(p, TOKEN_TIMES)) {
            parse_next(p);
            is_ok = parse_push(p, parse_signed(p, false));
        } else if (parse_is(p, TOKEN_DIVIDE)) {
            is_ok = parse_divided(p, base);
        } else if (parse_is(p, TOKEN_TEXT)) {
            is_ok = parse_unit(p, base);
        } else if (parse_is(p, TOKEN_NUMBER) && p->at[-1].kind == TOKEN_NUMBER) {
            return false; /* two numbers side by side mean nothing */
        } else if (parse_starts_factor(p)) {
            is_ok = parse_push(p, parse_power(p));
        } else {
            return true;
        }
    }
    return false;
}

static const struct math_node *parse_product(struct parser *p)
{
    uint32_t base = p->top;
    if (!parse_push(p, parse_mixed(p)) || !parse_more_factors(p, base))
        return NULL;
    if (p->top == base + 1) {
        p->top = base;
        return p->stack[base];
    }
    return parse_pop(p, base, MATH_TIMES, 0);
}

static bool is_sign(const struct parser *p)
{
    return parse_is(p, TOKEN_PLUS) || parse_is(p, TOKEN_MINUS) || parse_is(p, TOKEN_SIGNS);
}

/* Signs before a product (is_first) or before one factor behind a times or divide sign. */
static const struct math_node *parse_signed(struct parser *p, bool is_first)
{
    bool is_negative = false;
    int signs = 0;
    for (; is_sign(p); parse_next(p)) {
        is_negative ^= parse_is(p, TOKEN_MINUS);
        signs = parse_is(p, TOKEN_SIGNS) ? p->at->op : signs;
    }
    const struct math_node *n = is_first ? parse_product(p) : parse_power(p);
    if (n && signs)
        n = math_node_one(p->work, MATH_SIGNS, signs, n);
    return n && is_negative ? math_node_one(p->work, MATH_NEGATE, 0, n) : n;
}

const struct math_node *parse_sum(struct parser *p)
{
    uint32_t base = p->top;
    do {
        if (!parse_push(p, parse_signed(p, true)))
            return NULL;
    } while (is_sign(p));
    if (p->top > base + 1)
        return parse_pop(p, base, MATH_ADD, 0);
    p->top = base;
    return p->stack[base];
}

static const struct math_node *parse_sets(struct parser *p)
{
    const struct math_node *left = parse_sum(p);
    while (left && parse_is(p, TOKEN_SET_OP)) {
        int op = p->at->op;
        parse_next(p);
        left = math_node_two(p->work, MATH_UNION, op, left, parse_sum(p));
    }
    return left;
}

static const struct math_node *parse_ratio(struct parser *p)
{
    uint32_t base = p->top;
    const struct math_node *first = parse_sets(p);
    if (!first || p->in_set || !parse_is(p, TOKEN_COLON))
        return first;
    if (!parse_push(p, first))
        return NULL;
    while (parse_is(p, TOKEN_COLON)) {
        parse_next(p);
        if (!parse_push(p, parse_sets(p)))
            return NULL;
    }
    return parse_pop(p, base, MATH_RATIO, 0);
}

static const struct math_node *parse_relation(struct parser *p)
{
    uint32_t base = p->top, n = 0;
    uint8_t ops[PARSE_RELATIONS_MAX];
    const struct math_node *first = parse_ratio(p);
    if (!first || !parse_is(p, TOKEN_RELATION))
        return first;
    bool is_ok = parse_push(p, first);
    while (is_ok && parse_is(p, TOKEN_RELATION) && n < PARSE_RELATIONS_MAX) {
        ops[n++] = (uint8_t)p->at->op;
        parse_next(p);
        is_ok = parse_push(p, parse_ratio(p));
    }
    struct math_node *node = is_ok ? parse_pop(p, base, MATH_RELATION, 0) : NULL;
    if (node)
        node->ops = (const uint8_t *)arena_str(p->work->arena, (struct str){(char *)ops, n}).p;
    return node && node->ops ? node : NULL;
}

static bool skip_separators(struct parser *p, int *join)
{
    bool any = false;
    for (;; parse_next(p)) {
        bool is_row = p->align && parse_is(p, TOKEN_ROW);
        if (parse_is(p, TOKEN_JOIN))
            *join = p->at->op;
        else if (!parse_is(p, TOKEN_COMMA) && !is_row)
            return any;
        any = true;
    }
}

static bool ends_list(const struct parser *p)
{
    enum math_token_kind k = p->at->kind;
    return k == TOKEN_END || k == TOKEN_CLOSE || k == TOKEN_SEMICOLON || k == TOKEN_LEAVE ||
           k == TOKEN_MID || (k == TOKEN_BAR && p->bar_closes);
}

static const struct math_node *parse_commas(struct parser *p)
{
    uint32_t base = p->top;
    int join = MATH_JOIN_COMMA;
    skip_separators(p, &join);
    while (!ends_list(p)) {
        if (!parse_push(p, parse_relation(p)))
            return NULL;
        if (!skip_separators(p, &join))
            break;
    }
    if (p->top != base + 1)
        return parse_pop(p, base, MATH_LIST, join);
    p->top = base;
    return p->stack[base];
}

const struct math_node *parse_list(struct parser *p)
{
    uint32_t base = p->top;
    const struct math_node *out = NULL;
    if (!parse_enter(p) || !parse_push(p, parse_commas(p)))
        goto out;
    while (parse_is(p, TOKEN_SEMICOLON)) {
        parse_next(p);
        if (!ends_list(p) && !parse_push(p, parse_commas(p)))
            goto out;
    }
    out = p->stack[base];
    if (p->top > base + 1)
        out = parse_pop(p, base, MATH_LIST, MATH_JOIN_COMMA);
    p->top = base;
out:
    parse_leave(p);
    return out;
}

const struct math_node *math_parse(struct str text, enum math_reading reading, struct math_work *w)
{
    struct math_token *tokens = arena_array(w->arena, MATH_TOKENS_MAX + 4, sizeof *tokens);
    struct parser *p = arena_array(w->arena, 1, sizeof *p);
    if (!tokens || !p) {
        w->is_spent = true;
        return NULL;
    }
    if (!math_charge(w, text.n / 8) || !math_lex(text, reading, w->arena, tokens) ||
        tokens[0].kind == TOKEN_END)
        return NULL;
    *p = (struct parser){.work = w, .at = tokens};
    const struct math_node *n = parse_list(p);
    return n && parse_is(p, TOKEN_END) ? n : NULL;
}
