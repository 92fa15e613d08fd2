/* verifier/math/lex.h - LaTeX and plain mathematics to tokens. Linear time.
 *
 * What a comma between digits means depends on the reading; the comparison tries several. */
#ifndef VERIFIER_MATH_LEX_H
#define VERIFIER_MATH_LEX_H

#include "verifier/math/node.h"

enum math_token_kind {
    TOKEN_END,
    TOKEN_NUMBER,
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_CONSTANT,
    TOKEN_INFINITY,
    TOKEN_REALS,
    TOKEN_EMPTY,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_SIGNS,
    TOKEN_TIMES,
    TOKEN_DIVIDE,
    TOKEN_POWER,
    TOKEN_SUB,
    TOKEN_FACTORIAL,
    TOKEN_PERCENT,
    TOKEN_DEGREES,
    TOKEN_PRIME,
    TOKEN_RELATION,
    TOKEN_OPEN,
    TOKEN_CLOSE, /* op: the bracket's character; 'g' for a bare LaTeX group */
    TOKEN_BAR,
    TOKEN_MID,
    TOKEN_COMMA,
    TOKEN_SEMICOLON,
    TOKEN_COLON,
    TOKEN_JOIN, /* op: math_join */
    TOKEN_SET_OP,
    TOKEN_FRACTION,
    TOKEN_BINOMIAL,
    TOKEN_ROOT,
    TOKEN_FUNCTION,
    TOKEN_MATRIX,
    TOKEN_ALIGN,
    TOKEN_LEAVE,
    TOKEN_AND,
    TOKEN_ROW,
    TOKEN_OVERLINE,
    TOKEN_SKIP
};

enum math_reading {
    MATH_READ_GROUPS,      /* 1,234 is a number, (1,234) a pair */
    MATH_READ_LIST,        /* a comma always separates */
    MATH_READ_DECIMAL,     /* 0,5 is a half */
    MATH_READ_EVERY_GROUP, /* (1,234) is a number in brackets */
    MATH_READINGS_N
};

struct math_token {
    enum math_token_kind kind;
    int op;
    bool after_space;
    struct str text;
};

enum { MATH_TEXT_MAX_BYTES = 4096, MATH_TOKENS_MAX = 2048 };

/* tokens: room for MATH_TOKENS_MAX, the last is TOKEN_END. False when there is something that is
 * not understood, or too much of it. Texts are borrowed from s or live in the arena. */
bool math_lex(struct str s, enum math_reading reading, struct arena *a, struct math_token *tokens);

/* lex_table.c: what a \command or a bare word is. Kind TOKEN_END when it is not known. */
struct math_token math_command(struct str name);
struct math_token math_word(struct str word);
struct math_token math_symbol(struct str s, size_t *n_bytes); /* at the start of s */
bool math_is_unit(struct str word);

#endif
