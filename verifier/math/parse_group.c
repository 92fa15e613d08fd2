/* What stands between brackets, bars or \begin and \end. */
#include "verifier/math/parser.h"

static bool closes(char open, const struct math_token *t)
{
    if (t->kind == TOKEN_END)
        return open == '{'; /* \left\{ ... \right. */
    if (t->kind != TOKEN_CLOSE)
        return false;
    if (open == '(' || open == '[')
        return t->op == ')' || t->op == ']';
    return t->op == (open == '{' ? '}' : open == '<' ? '>' : open);
}

static const struct math_node *copy_of(struct parser *p, const struct math_node *n)
{
    struct math_node *copy = math_node_many(p->work, n->kind, n->op, n->child, n->n);
    if (copy) {
        copy->text = n->text;
        copy->ops = n->ops;
        copy->open = n->open;
        copy->close = n->close;
        copy->is_grouped = true;
    }
    return copy;
}

/* The inside as what its brackets make of it. */
static const struct math_node *bracketed(struct parser *p, const struct math_node *in, char open,
                                         char close)
{
    bool is_bare = in->kind == MATH_LIST && in->open == 0;
    if (open == 'f' || open == 'c')
        return math_node_one(p->work, MATH_CALL, open == 'f' ? MATH_FLOOR : MATH_CEIL, in);
    if (open == 'g')
        return in;
    if (!is_bare && open != '{')
        return copy_of(p, in);
    struct math_node *list = is_bare ? math_node_many(p->work, MATH_LIST, in->op, in->child, in->n)
                                     : math_node_one(p->work, MATH_LIST, 0, in);
    if (list) {
        list->open = open;
        list->close = close;
    }
    return list;
}

/* {x | x > 1} is its condition. */
static const struct math_node *parse_condition(struct parser *p, const struct math_node *in)
{
    bool is_builder = parse_is(p, TOKEN_MID) || parse_is(p, TOKEN_BAR) || parse_is(p, TOKEN_COLON);
    if (!is_builder)
        return in;
    parse_next(p);
    p->in_set = p->bar_closes = false;
    return parse_list(p);
}

const struct math_node *parse_brackets(struct parser *p)
{
    bool bar_closes = p->bar_closes, in_set = p->in_set, is_builder = false;
    char open = (char)p->at->op;
    const struct math_node *in = NULL, *out = NULL;
    parse_next(p);
    if (open != 'g')
        p->bar_closes = p->in_set = open == '{';
    in = parse_list(p);
    if (in && open == '{') {
        out = parse_condition(p, in);
        is_builder = out != in;
        in = out;
    }
    p->bar_closes = bar_closes;
    p->in_set = in_set;
    if (!in || !closes(open, p->at))
        return NULL;
    char close = p->at->kind == TOKEN_END ? '}' : (char)p->at->op;
    parse_next(p);
    return is_builder ? in : bracketed(p, in, open, close);
}

const struct math_node *parse_absolute(struct parser *p)
{
    bool bar_closes = p->bar_closes;
    parse_next(p);
    p->bar_closes = true;
    const struct math_node *in = parse_list(p);
    p->bar_closes = bar_closes;
    if (!in || in->kind == MATH_LIST || !parse_is(p, TOKEN_BAR))
        return NULL;
    parse_next(p);
    return math_node_one(p->work, MATH_CALL, MATH_ABS, in);
}

const struct math_node *parse_matrix(struct parser *p)
{
    uint32_t base = p->top, columns = 0, row_start = p->top;
    int align = p->align;
    p->align = 0;
    parse_next(p);
    while (!parse_is(p, TOKEN_LEAVE)) {
        if (!parse_push(p, parse_sum(p)))
            return NULL;
        if (parse_is(p, TOKEN_AND)) {
            parse_next(p);
            continue;
        }
        if (columns && p->top - row_start != columns)
            return NULL;
        columns = p->top - row_start;
        row_start = p->top;
        if (parse_is(p, TOKEN_ROW))
            parse_next(p);
        else if (!parse_is(p, TOKEN_LEAVE))
            return NULL;
    }
    p->align = align;
    parse_next(p);
    return columns ? parse_pop(p, base, MATH_MATRIX, (int)columns) : NULL;
}

const struct math_node *parse_aligned(struct parser *p)
{
    p->align++;
    parse_next(p);
    const struct math_node *in = parse_list(p);
    p->align--;
    if (!in || !parse_is(p, TOKEN_LEAVE))
        return NULL;
    parse_next(p);
    return in;
}
