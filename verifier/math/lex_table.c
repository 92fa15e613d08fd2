/* The vocabulary: commands, words, symbols. Data only; sorted by meaning, searched linearly. */
#include "verifier/math/lex.h"

struct entry {
    const char *name;
    enum math_token_kind kind;
    int op;
};

static const struct entry COMMANDS[] = {
    {"left", TOKEN_SKIP, 1},
    {"right", TOKEN_SKIP, 1},
    {"big", TOKEN_SKIP, 0},
    {"Big", TOKEN_SKIP, 0},
    {"bigl", TOKEN_SKIP, 0},
    {"bigr", TOKEN_SKIP, 0},
    {"Bigl", TOKEN_SKIP, 0},
    {"Bigr", TOKEN_SKIP, 0},
    {"bigg", TOKEN_SKIP, 0},
    {"Bigg", TOKEN_SKIP, 0},
    {"biggl", TOKEN_SKIP, 0},
    {"biggr", TOKEN_SKIP, 0},
    {"displaystyle", TOKEN_SKIP, 0},
    {"textstyle", TOKEN_SKIP, 0},
    {"limits", TOKEN_SKIP, 0},
    {"quad", TOKEN_SKIP, 0},
    {"qquad", TOKEN_SKIP, 0},
    {"hline", TOKEN_SKIP, 0},
    {"mathbf", TOKEN_SKIP, 0},
    {"boldsymbol", TOKEN_SKIP, 0},
    {"mathit", TOKEN_SKIP, 0},
    {"mathcal", TOKEN_SKIP, 0},
    {"bm", TOKEN_SKIP, 0},
    {"vec", TOKEN_SKIP, 0},
    {"overrightarrow", TOKEN_SKIP, 0},
    {"hat", TOKEN_SKIP, 0},
    {"widehat", TOKEN_SKIP, 0},
    {"bar", TOKEN_SKIP, 0},
    {"underline", TOKEN_SKIP, 0},
    {"boxed", TOKEN_SKIP, 0},
    {"fbox", TOKEN_SKIP, 0},
    {"overline", TOKEN_OVERLINE, 0},
    {"dot", TOKEN_OVERLINE, 0},
    {"frac", TOKEN_FRACTION, 0},
    {"dfrac", TOKEN_FRACTION, 0},
    {"tfrac", TOKEN_FRACTION, 0},
    {"cfrac", TOKEN_FRACTION, 0},
    {"sfrac", TOKEN_FRACTION, 0},
    {"binom", TOKEN_BINOMIAL, 0},
    {"dbinom", TOKEN_BINOMIAL, 0},
    {"tbinom", TOKEN_BINOMIAL, 0},
    {"sqrt", TOKEN_ROOT, 0},
    {"cdot", TOKEN_TIMES, 0},
    {"times", TOKEN_TIMES, 0},
    {"ast", TOKEN_TIMES, 0},
    {"div", TOKEN_DIVIDE, 0},
    {"over", TOKEN_DIVIDE, 0},
    {"pm", TOKEN_SIGNS, 1},
    {"mp", TOKEN_SIGNS, -1},
    {"pi", TOKEN_CONSTANT, MATH_PI},
    {"infty", TOKEN_INFINITY, 0},
    {"circ", TOKEN_DEGREES, 0},
    {"degree", TOKEN_DEGREES, 0},
    {"degrees", TOKEN_DEGREES, 0},
    {"le", TOKEN_RELATION, MATH_LE},
    {"leq", TOKEN_RELATION, MATH_LE},
    {"leqslant", TOKEN_RELATION, MATH_LE},
    {"leqq", TOKEN_RELATION, MATH_LE},
    {"ge", TOKEN_RELATION, MATH_GE},
    {"geq", TOKEN_RELATION, MATH_GE},
    {"geqslant", TOKEN_RELATION, MATH_GE},
    {"geqq", TOKEN_RELATION, MATH_GE},
    {"lt", TOKEN_RELATION, MATH_LT},
    {"gt", TOKEN_RELATION, MATH_GT},
    {"ne", TOKEN_RELATION, MATH_NE},
    {"neq", TOKEN_RELATION, MATH_NE},
    {"in", TOKEN_RELATION, MATH_IN},
    {"approx", TOKEN_RELATION, MATH_NEAR},
    {"colon", TOKEN_COLON, 0},
    {"simeq", TOKEN_RELATION, MATH_NEAR},
    {"doteq", TOKEN_RELATION, MATH_NEAR},
    {"equiv", TOKEN_RELATION, MATH_LIKE},
    {"sim", TOKEN_RELATION, MATH_LIKE},
    {"cong", TOKEN_RELATION, MATH_LIKE},
    {"parallel", TOKEN_RELATION, MATH_LIKE},
    {"perp", TOKEN_RELATION, MATH_LIKE},
    {"to", TOKEN_RELATION, MATH_LIKE},
    {"mid", TOKEN_MID, 0},
    {"vert", TOKEN_BAR, 0},
    {"lvert", TOKEN_BAR, 0},
    {"rvert", TOKEN_BAR, 0},
    {"cup", TOKEN_SET_OP, MATH_SET_UNION},
    {"cap", TOKEN_SET_OP, MATH_SET_COMMON},
    {"setminus", TOKEN_SET_OP, MATH_SET_WITHOUT},
    {"backslash", TOKEN_SET_OP, MATH_SET_WITHOUT},
    {"smallsetminus", TOKEN_SET_OP, MATH_SET_WITHOUT},
    {"lor", TOKEN_JOIN, MATH_JOIN_OR},
    {"vee", TOKEN_JOIN, MATH_JOIN_OR},
    {"land", TOKEN_JOIN, MATH_JOIN_AND},
    {"wedge", TOKEN_JOIN, MATH_JOIN_AND},
    {"emptyset", TOKEN_EMPTY, 0},
    {"varnothing", TOKEN_EMPTY, 0},
    {"{", TOKEN_OPEN, '{'},
    {"}", TOKEN_CLOSE, '}'},
    {"lbrace", TOKEN_OPEN, '{'},
    {"rbrace", TOKEN_CLOSE, '}'},
    {"lbrack", TOKEN_OPEN, '['},
    {"rbrack", TOKEN_CLOSE, ']'},
    {"langle", TOKEN_OPEN, '<'},
    {"rangle", TOKEN_CLOSE, '>'},
    {"lfloor", TOKEN_OPEN, 'f'},
    {"rfloor", TOKEN_CLOSE, 'f'},
    {"lceil", TOKEN_OPEN, 'c'},
    {"rceil", TOKEN_CLOSE, 'c'},
    {"%", TOKEN_PERCENT, 0},
    {"prime", TOKEN_PRIME, 0},
    {"angle", TOKEN_NAME, 0},
    {"measuredangle", TOKEN_NAME, 0},
    {"triangle", TOKEN_NAME, 0},
    {"sin", TOKEN_FUNCTION, MATH_SIN},
    {"cos", TOKEN_FUNCTION, MATH_COS},
    {"tan", TOKEN_FUNCTION, MATH_TAN},
    {"tg", TOKEN_FUNCTION, MATH_TAN},
    {"cot", TOKEN_FUNCTION, MATH_COT},
    {"ctg", TOKEN_FUNCTION, MATH_COT},
    {"sec", TOKEN_FUNCTION, MATH_SEC},
    {"csc", TOKEN_FUNCTION, MATH_CSC},
    {"cosec", TOKEN_FUNCTION, MATH_CSC},
    {"arcsin", TOKEN_FUNCTION, MATH_ASIN},
    {"arccos", TOKEN_FUNCTION, MATH_ACOS},
    {"arctan", TOKEN_FUNCTION, MATH_ATAN},
    {"arctg", TOKEN_FUNCTION, MATH_ATAN},
    {"arccot", TOKEN_FUNCTION, MATH_ACOT},
    {"arcsec", TOKEN_FUNCTION, MATH_ASEC},
    {"arccsc", TOKEN_FUNCTION, MATH_ACSC},
    {"sinh", TOKEN_FUNCTION, MATH_SINH},
    {"cosh", TOKEN_FUNCTION, MATH_COSH},
    {"tanh", TOKEN_FUNCTION, MATH_TANH},
    {"ln", TOKEN_FUNCTION, MATH_LN},
    {"lg", TOKEN_FUNCTION, MATH_LOG10},
    {"log", TOKEN_FUNCTION, MATH_LOG},
    {"exp", TOKEN_FUNCTION, MATH_EXP},
    {"min", TOKEN_FUNCTION, MATH_MIN},
    {"max", TOKEN_FUNCTION, MATH_MAX},
    {"gcd", TOKEN_FUNCTION, MATH_GCD},
    {"lcm", TOKEN_FUNCTION, MATH_LCM},
};

/* Words outside of \text{} that are not products of letters. */
static const struct entry WORDS[] = {
    {"or", TOKEN_JOIN, MATH_JOIN_OR},
    {"and", TOKEN_JOIN, MATH_JOIN_AND},
    {"percent", TOKEN_PERCENT, 0},
    {"percentage", TOKEN_PERCENT, 0},
    {"pct", TOKEN_PERCENT, 0},
    {"degree", TOKEN_DEGREES, 0},
    {"degrees", TOKEN_DEGREES, 0},
    {"deg", TOKEN_DEGREES, 0},
    {"pi", TOKEN_CONSTANT, MATH_PI},
    {"inf", TOKEN_INFINITY, 0},
    {"infinity", TOKEN_INFINITY, 0},
    {"infty", TOKEN_INFINITY, 0},
    {"oo", TOKEN_INFINITY, 0},
    {"sqrt", TOKEN_ROOT, 0},
    {"abs", TOKEN_FUNCTION, MATH_ABS},
    {"floor", TOKEN_FUNCTION, MATH_FLOOR},
    {"ceil", TOKEN_FUNCTION, MATH_CEIL},
    {"sin", TOKEN_FUNCTION, MATH_SIN},
    {"cos", TOKEN_FUNCTION, MATH_COS},
    {"tan", TOKEN_FUNCTION, MATH_TAN},
    {"cot", TOKEN_FUNCTION, MATH_COT},
    {"sec", TOKEN_FUNCTION, MATH_SEC},
    {"csc", TOKEN_FUNCTION, MATH_CSC},
    {"asin", TOKEN_FUNCTION, MATH_ASIN},
    {"acos", TOKEN_FUNCTION, MATH_ACOS},
    {"atan", TOKEN_FUNCTION, MATH_ATAN},
    {"arcsin", TOKEN_FUNCTION, MATH_ASIN},
    {"arccos", TOKEN_FUNCTION, MATH_ACOS},
    {"arctan", TOKEN_FUNCTION, MATH_ATAN},
    {"sinh", TOKEN_FUNCTION, MATH_SINH},
    {"cosh", TOKEN_FUNCTION, MATH_COSH},
    {"tanh", TOKEN_FUNCTION, MATH_TANH},
    {"ln", TOKEN_FUNCTION, MATH_LN},
    {"log", TOKEN_FUNCTION, MATH_LOG},
    {"lg", TOKEN_FUNCTION, MATH_LOG10},
    {"exp", TOKEN_FUNCTION, MATH_EXP},
    {"min", TOKEN_FUNCTION, MATH_MIN},
    {"max", TOKEN_FUNCTION, MATH_MAX},
    {"gcd", TOKEN_FUNCTION, MATH_GCD},
    {"lcm", TOKEN_FUNCTION, MATH_LCM},
    {"in", TOKEN_RELATION, MATH_IN},
    {"union", TOKEN_SET_OP, MATH_SET_UNION},
    {"alpha", TOKEN_NAME, 0},
    {"beta", TOKEN_NAME, 0},
    {"gamma", TOKEN_NAME, 0},
    {"delta", TOKEN_NAME, 0},
    {"theta", TOKEN_NAME, 0},
    {"lambda", TOKEN_NAME, 0},
    {"mu", TOKEN_NAME, 0},
    {"phi", TOKEN_NAME, 0},
    {"omega", TOKEN_NAME, 0},
};

/* Longest first where one begins another. */
static const struct entry SYMBOLS[] = {
    {"<=", TOKEN_RELATION, MATH_LE},
    {">=", TOKEN_RELATION, MATH_GE},
    {"!=", TOKEN_RELATION, MATH_NE},
    {"==", TOKEN_RELATION, MATH_EQ},
    {":=", TOKEN_RELATION, MATH_EQ},
    {"**", TOKEN_POWER, 0},
    {"=", TOKEN_RELATION, MATH_EQ},
    {"<", TOKEN_RELATION, MATH_LT},
    {">", TOKEN_RELATION, MATH_GT},
    {"+", TOKEN_PLUS, 0},
    {"-", TOKEN_MINUS, 0},
    {"*", TOKEN_TIMES, 0},
    {"/", TOKEN_DIVIDE, 0},
    {"^", TOKEN_POWER, 0},
    {"_", TOKEN_SUB, 0},
    {"!", TOKEN_FACTORIAL, 0},
    {"%", TOKEN_PERCENT, 0},
    {"'", TOKEN_PRIME, 0},
    {"(", TOKEN_OPEN, '('},
    {")", TOKEN_CLOSE, ')'},
    {"[", TOKEN_OPEN, '['},
    {"]", TOKEN_CLOSE, ']'},
    {"{", TOKEN_OPEN, 'g'},
    {"}", TOKEN_CLOSE, 'g'},
    {"|", TOKEN_BAR, 0},
    {",", TOKEN_COMMA, 0},
    {";", TOKEN_SEMICOLON, 0},
    {":", TOKEN_COLON, 0},
    {"&", TOKEN_AND, 0},
    {"$", TOKEN_SKIP, 0},
    {"~", TOKEN_SKIP, 0},
    {"\"", TOKEN_SKIP, 0},
    {"`", TOKEN_SKIP, 0},
    {"?", TOKEN_SKIP, 0},
    {".", TOKEN_SKIP, 0},
    {"\xE2\x88\x92", TOKEN_MINUS, 0},
    {"\xE2\x80\x93", TOKEN_MINUS, 0}, /* minus, en dash */
    {"\xC3\x97", TOKEN_TIMES, 0},
    {"\xC2\xB7", TOKEN_TIMES, 0}, /* times, middle dot */
    {"\xE2\x8B\x85", TOKEN_TIMES, 0},
    {"\xC3\xB7", TOKEN_DIVIDE, 0},
    {"\xC2\xB1", TOKEN_SIGNS, 1},
    {"\xE2\x88\x93", TOKEN_SIGNS, -1},
    {"\xE2\x88\x9A", TOKEN_ROOT, 0},
    {"\xCF\x80", TOKEN_CONSTANT, MATH_PI},
    {"\xE2\x88\x9E", TOKEN_INFINITY, 0},
    {"\xE2\x89\xA4", TOKEN_RELATION, MATH_LE},
    {"\xE2\x89\xA5", TOKEN_RELATION, MATH_GE},
    {"\xE2\xA9\xBD", TOKEN_RELATION, MATH_LE},
    {"\xE2\xA9\xBE", TOKEN_RELATION, MATH_GE},
    {"\xE2\x89\xA0", TOKEN_RELATION, MATH_NE},
    {"\xE2\x89\x88", TOKEN_RELATION, MATH_NEAR},
    {"\xE2\x88\x88", TOKEN_RELATION, MATH_IN},
    {"\xC2\xB0", TOKEN_DEGREES, 0},
    {"\xE2\x88\xAA", TOKEN_SET_OP, MATH_SET_UNION},
    {"\xE2\x88\xA9", TOKEN_SET_OP, MATH_SET_COMMON},
    {"\xE2\x88\x96", TOKEN_SET_OP, MATH_SET_WITHOUT},
    {"\xE2\x88\x85", TOKEN_EMPTY, 0},
    {"\xE2\x84\x9D", TOKEN_REALS, 'R'},
    {"\xE2\x84\xA4", TOKEN_REALS, 'Z'},
    {"\xE2\x9F\xA8", TOKEN_OPEN, '<'},
    {"\xE2\x9F\xA9", TOKEN_CLOSE, '>'},
    {"\xE2\x82\xAC", TOKEN_SKIP, 0},
    {"\xC2\xA3", TOKEN_SKIP, 0},
    {"\xC2\xA5", TOKEN_SKIP, 0},
    {"\xC2\xA0", TOKEN_SKIP, 0},
    {"\xE2\x80\xAF", TOKEN_SKIP, 0},
    {"\xE2\x80\x89", TOKEN_SKIP, 0},
    {"\xE2\x80\x99", TOKEN_PRIME, 0},
    {"\xE2\x80\x9C", TOKEN_SKIP, 0},
    {"\xE2\x80\x9D", TOKEN_SKIP, 0},
    {"\xE3\x80\x82", TOKEN_SKIP, 0},
};

/* Short words that are units or answers, not products of letters. */
static const char *const SHORT[] = {
    "cm",  "mm",  "km",    "kg",  "mg",  "ml",  "mL",   "ft",   "in",  "yd",  "mi",
    "lb",  "lbs", "oz",    "hr",  "hrs", "min", "sec",  "ms",   "mph", "kph", "kmh",
    "sq",  "cu",  "cents", "rad", "rpm", "Hz",  "kHz",  "kPa",  "kJ",  "kW",  "yes",
    "no",  "odd", "all",   "one", "two", "six", "ten",  "none", "USD", "day", "men",
    "per", "the", "Yes",   "No",  "Odd", "All", "ways", "way",  "nor", "not", "for",
};

#define FIND(table, s) find(table, sizeof table / sizeof table[0], s)
static struct math_token find(const struct entry *table, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq_c(name, table[i].name))
            return (struct math_token){.kind = table[i].kind, .op = table[i].op, .text = name};
    return (struct math_token){.kind = TOKEN_END, .text = name};
}

struct math_token math_command(struct str name)
{
    return FIND(COMMANDS, name);
}

struct math_token math_word(struct str word)
{
    return FIND(WORDS, word);
}

struct math_token math_symbol(struct str s, size_t *n_bytes)
{
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof SYMBOLS[0]; i++) {
        struct str name = str_from(SYMBOLS[i].name);
        if (!str_starts(s, name))
            continue;
        *n_bytes = name.n;
        return (struct math_token){
            .kind = SYMBOLS[i].kind, .op = SYMBOLS[i].op, .text = str_slice(s, 0, name.n)};
    }
    return (struct math_token){.kind = TOKEN_END};
}

bool math_is_unit(struct str word)
{
    for (size_t i = 0; i < sizeof SHORT / sizeof SHORT[0]; i++)
        if (str_eq_c(word, SHORT[i]))
            return true;
    return false;
}
