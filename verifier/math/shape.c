/* Questions about one tree; no arithmetic. */
#include "verifier/math/shape.h"

#include "verifier/math/scalar.h"

static bool all_labels(const struct math_node *n)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (!math_is_label(n->child[i]))
            return false;
    return n->n > 0;
}

/* f(2) and a(n): a name before brackets; AB: names side by side. */
static bool is_name_product(const struct math_node *n)
{
    if (!math_is_label(n->child[0]))
        return false;
    for (uint32_t i = 1; i < n->n; i++) {
        const struct math_node *c = n->child[i];
        bool is_argument = c->is_grouped || c->kind == MATH_LIST;
        if (!is_argument && c->kind != MATH_CONSTANT && !math_is_label(c))
            return false;
    }
    return true;
}

bool math_is_label(const struct math_node *n)
{
    switch (n->kind) {
    case MATH_NAME:
    case MATH_TEXT:
        return true;
    case MATH_TIMES:
        return is_name_product(n);
    case MATH_CALL:
        return n->op == MATH_ABS && all_labels(n);
    case MATH_DIVIDE:
    case MATH_RATIO:
    case MATH_LIST:
    case MATH_UNIT:
        return all_labels(n);
    case MATH_POWER: /* f^{-1}(x), C_5^2 */
        return math_is_label(n->child[0]) && math_is_closed(n->child[1]) &&
               n->child[1]->kind == MATH_NEGATE;
    default:
        return false;
    }
}

int math_infinite_sign(const struct math_node *n)
{
    if (n->kind == MATH_NEGATE)
        return -math_infinite_sign(n->child[0]);
    return n->kind == MATH_INFINITY;
}

bool math_is_equation(const struct math_node *n)
{
    if (n->kind != MATH_RELATION)
        return false;
    for (uint32_t i = 0; i + 1 < n->n; i++)
        if (n->ops[i] != MATH_EQ && n->ops[i] != MATH_NEAR)
            return false;
    return true;
}

const struct math_node *math_stated_value(const struct math_node *n)
{
    if (n->kind != MATH_RELATION)
        return NULL;
    const struct math_node *first = n->child[0], *last = n->child[1];
    if (n->n == 2 && n->ops[0] == MATH_IN && math_is_label(first))
        return last;
    if (!math_is_equation(n))
        return NULL;
    for (uint32_t i = 1; i + 1 < n->n && n->ops[i] == MATH_EQ; i++)
        last = n->child[i + 1]; /* x = 1/3, about 0.33, states 1/3 */
    bool states = math_is_label(first) || (math_is_closed(first) && math_is_closed(last));
    return states ? last : NULL;
}

bool math_is_bare_list(const struct math_node *n)
{
    return n->kind == MATH_LIST && n->open == 0;
}

bool math_is_tuple(const struct math_node *n)
{
    return n->kind == MATH_LIST && (n->open == '(' || n->open == '[' || n->open == '<');
}

static const struct math_node *chosen_inside(struct math_work *w, const struct math_node *chosen)
{
    const struct math_node *in = chosen->child[0];
    const struct math_node **item = arena_array(w->arena, in->n + 1, sizeof *item);
    if (!item) {
        w->is_spent = true;
        return NULL;
    }
    for (uint32_t i = 0; i < in->n; i++)
        if (!(item[i] = math_node_one(w, MATH_CHOSEN, chosen->op, in->child[i])))
            return NULL;
    struct math_node *out = math_node_many(w, in->kind, in->op, item, in->n);
    if (out) {
        out->ops = in->ops;
        out->open = in->open;
        out->close = in->close;
    }
    return out;
}

static const struct math_node *both_signs(struct math_work *w, const struct math_node *n)
{
    return math_node_two(w, MATH_LIST, MATH_JOIN_OR, math_node_one(w, MATH_CHOSEN, 1, n),
                         math_node_one(w, MATH_CHOSEN, -1, n));
}

const struct math_node *math_plain(struct math_work *w, const struct math_node *n)
{
    bool is_set = n->kind == MATH_LIST && !math_is_tuple(n);
    if (is_set && n->n == 1)
        return math_plain(w, n->child[0]);
    if (n->kind == MATH_CHOSEN &&
        (n->child[0]->kind == MATH_LIST || n->child[0]->kind == MATH_RELATION))
        return chosen_inside(w, n);
    if (!is_set && n->kind != MATH_CHOSEN && math_has_kind(n, MATH_SIGNS) &&
        !math_has_kind(n, MATH_CHOSEN))
        return both_signs(w, n);
    return n;
}

struct alias {
    const char *alias, *name;
};

static const struct alias UNITS[] = {
    {"cm", "cm"},         {"centimeter", "cm"}, {"centimetre", "cm"}, {"mm", "mm"},
    {"millimeter", "mm"}, {"millimetre", "mm"}, {"km", "km"},         {"kilometer", "km"},
    {"kilometre", "km"},  {"m", "m"},           {"meter", "m"},       {"metre", "m"},
    {"in", "in"},         {"inch", "in"},       {"inche", "in"},      {"ft", "ft"},
    {"foot", "ft"},       {"feet", "ft"},       {"yd", "yd"},         {"yard", "yd"},
    {"mi", "mi"},         {"mile", "mi"},       {"kg", "kg"},         {"kilogram", "kg"},
    {"g", "g"},           {"gram", "g"},        {"mg", "mg"},         {"lb", "lb"},
    {"pound", "lb"},      {"oz", "oz"},         {"ounce", "oz"},      {"hour", "h"},
    {"hr", "h"},          {"minute", "min"},    {"min", "min"},       {"second", "s"},
    {"sec", "s"},         {"day", "day"},       {"week", "week"},     {"month", "month"},
    {"year", "year"},     {"dollar", "dollar"}, {"cent", "cent"},     {"yuan", "yuan"},
    {"euro", "euro"},     {"rupee", "rupee"},   {"liter", "l"},       {"litre", "l"},
    {"ml", "ml"},         {"milliliter", "ml"}, {"gallon", "gallon"}, {"radian", "rad"},
    {"rad", "rad"},
};

static struct str known_unit(struct str s)
{
    for (int plural = 0; plural < 2; plural++) {
        for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
            if (str_eq_c(s, UNITS[i].alias))
                return str_from(UNITS[i].name);
        if (!str_ends(s, STR("s")))
            break;
        s.n--;
    }
    return STR("");
}

struct str math_unit_name(struct math_work *w, struct str unit)
{
    static const struct alias powers[] = {
        {"square", "^2"}, {"sq", "^2"}, {"cubic", "^3"}, {"cu", "^3"}};
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        struct str word = str_from(powers[i].alias);
        struct str base =
            str_starts(unit, word) ? known_unit(str_slice(unit, word.n, unit.n)) : STR("");
        if (base.n)
            return arena_printf(w->arena, STR_FMT "%s", STR_ARG(base), powers[i].name);
    }
    ptrdiff_t raised = str_find(unit, STR("^"), 0);
    struct str base = known_unit(raised < 0 ? unit : str_slice(unit, 0, (size_t)raised));
    if (raised < 0 || base.n == 0)
        return base;
    return arena_printf(w->arena, STR_FMT STR_FMT, STR_ARG(base),
                        STR_ARG(str_slice(unit, (size_t)raised, unit.n)));
}
