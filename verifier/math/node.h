/* verifier/math/node.h - a mathematical answer as a tree, and the work it may cost.
 *
 * Nodes live in the arena of the check and are never changed after the parser has built them. */
#ifndef VERIFIER_MATH_NODE_H
#define VERIFIER_MATH_NODE_H

#include "common/arena.h"

enum math_kind {
    MATH_NUMBER,   /* text = digits with at most one point; op = digits that repeat at the end */
    MATH_BASED,    /* 1011_2: text = digits, op = base */
    MATH_NAME,     /* a variable or a name, with its subscript */
    MATH_TEXT,     /* words */
    MATH_CONSTANT, /* op: enum math_constant */
    MATH_INFINITY,
    MATH_REALS,    /* text = letter of the number set */
    MATH_ADD,      /* children */
    MATH_NEGATE,   /* 1 */
    MATH_SIGNS,    /* plus-minus 1; op = 1, minus-plus: op = -1 */
    MATH_CHOSEN,   /* 1 child under one choice of its plus-minus signs; op = 1 or -1 */
    MATH_TIMES,    /* children */
    MATH_DIVIDE,   /* 2 */
    MATH_POWER,    /* 2 */
    MATH_CALL,     /* op: enum math_function */
    MATH_PERCENT,  /* 1 */
    MATH_DEGREES,  /* 1 */
    MATH_UNIT,     /* 1; text = the unit */
    MATH_RATIO,    /* a:b:c */
    MATH_LIST,     /* children; open and close brackets, 0 when bare; op: enum math_join */
    MATH_RELATION, /* n children, ops[n-1] between them */
    MATH_UNION,    /* 2; op: enum math_set_op */
    MATH_MATRIX    /* n = rows * columns, by rows; op = columns */
};

enum math_constant { MATH_PI, MATH_E, MATH_I };
enum math_join { MATH_JOIN_COMMA, MATH_JOIN_OR, MATH_JOIN_AND };
enum math_set_op { MATH_SET_UNION, MATH_SET_COMMON, MATH_SET_WITHOUT };
enum math_relation {
    MATH_EQ,
    MATH_NE,
    MATH_LT,
    MATH_LE,
    MATH_GT,
    MATH_GE,
    MATH_IN,
    MATH_NEAR,
    MATH_LIKE
};

enum math_function {
    MATH_SIN,
    MATH_COS,
    MATH_TAN,
    MATH_COT,
    MATH_SEC,
    MATH_CSC,
    MATH_ASIN,
    MATH_ACOS,
    MATH_ATAN,
    MATH_ACOT,
    MATH_ASEC,
    MATH_ACSC,
    MATH_SINH,
    MATH_COSH,
    MATH_TANH,
    MATH_LN,
    MATH_LOG10,
    MATH_LOG, /* LOG: base, value */
    MATH_EXP,
    MATH_ROOT, /* ROOT: degree, value */
    MATH_ABS,
    MATH_FLOOR,
    MATH_CEIL,
    MATH_FACTORIAL,
    MATH_BINOMIAL,
    MATH_MIN,
    MATH_MAX,
    MATH_GCD,
    MATH_LCM
};

struct math_node {
    enum math_kind kind;
    int op;
    bool is_grouped; /* stood in round brackets of its own */
    char open, close;
    uint8_t depth; /* of the tree below, at most MATH_DEPTH_MAX */
    uint32_t n;
    const struct math_node **child;
    const uint8_t *ops;
    struct str text;
};

/* Everything that costs is charged here; when it is spent, the answer is "undecided". A step is
 * about a tenth of a microsecond, so the budget is a bound on time by construction. */
enum { MATH_STEPS_MAX = 2000000, MATH_NODES_MAX = 2000, MATH_DEPTH_MAX = 100 };

struct math_work {
    struct arena *arena;
    uint32_t steps, nodes;
    bool is_spent; /* steps or memory ran out */
    int decimals;  /* compare after rounding to so many; -1: exactly */
    int sign;      /* what plus-minus means now */
    uint64_t seed; /* of the random points */
};

/* False when the budget is spent. */
static inline bool math_charge(struct math_work *w, uint64_t steps)
{
    if (steps > MATH_STEPS_MAX || w->steps + steps > MATH_STEPS_MAX)
        w->is_spent = true;
    else
        w->steps += (uint32_t)steps;
    return !w->is_spent;
}

/* NULL, and the work is spent, when memory, nodes or depth run out, or when a child is NULL. */
struct math_node *math_node_many(struct math_work *w, enum math_kind kind, int op,
                                 const struct math_node *const *child, uint32_t n);
struct math_node *math_node_one(struct math_work *w, enum math_kind kind, int op,
                                const struct math_node *child);
struct math_node *math_node_two(struct math_work *w, enum math_kind kind, int op,
                                const struct math_node *a, const struct math_node *b);
struct math_node *math_node_text(struct math_work *w, enum math_kind kind, struct str text);

bool math_has_kind(const struct math_node *n, enum math_kind kind); /* anywhere below */

#endif
