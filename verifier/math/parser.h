/* verifier/math/parser.h - what the parser's files share: private to parse*.c. */
#ifndef VERIFIER_MATH_PARSER_H
#define VERIFIER_MATH_PARSER_H

#include "verifier/math/parse.h"

enum { PARSE_DEPTH_MAX = 120, PARSE_RELATIONS_MAX = 32 };

struct parser {
    struct math_work *work;
    struct math_token *at;
    const struct math_node *stack[MATH_TOKENS_MAX]; /* items of lists and sums being read */
    uint32_t top;
    int depth;
    int align;       /* within an aligned environment: & and \\ only lay out */
    bool bar_closes; /* a | behind an operand ends something */
    bool in_set;     /* directly within braces: a colon begins a condition */
};

/* parse.c: levels from the loosest down. Each returns NULL on failure. */
const struct math_node *parse_list(struct parser *p);
const struct math_node *parse_sum(struct parser *p);
/* parse_factor.c */
const struct math_node *parse_power(struct parser *p);
const struct math_node *parse_argument(struct parser *p, bool is_one_digit);
const struct math_node *parse_words(struct parser *p);
bool parse_starts_factor(const struct parser *p);
/* parse_group.c */
const struct math_node *parse_brackets(struct parser *p);
const struct math_node *parse_absolute(struct parser *p);
const struct math_node *parse_matrix(struct parser *p);
const struct math_node *parse_aligned(struct parser *p);

void parse_next(struct parser *p);
bool parse_is(const struct parser *p, enum math_token_kind kind);
bool parse_is_op(const struct parser *p, enum math_token_kind kind, int op);
bool parse_enter(struct parser *p); /* false when too deep; pairs with parse_leave */
void parse_leave(struct parser *p);
bool parse_push(struct parser *p, const struct math_node *item);
/* The items above base as one node; the stack returns to base. */
struct math_node *parse_pop(struct parser *p, uint32_t base, enum math_kind kind, int op);

#endif
