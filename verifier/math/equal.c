/* Tries each reading of the commas in either text; words are compared as words. No state. */
#include "verifier/math/equal.h"

#include "verifier/math/compare.h"
#include "verifier/math/parse.h"

#include <string.h>

struct readings {
    const struct math_node *tree[MATH_READINGS_N];
    int n;
};

static bool is_digit_at(struct str s, size_t i)
{
    return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

/* Commas directly between digits; how many of them outside of brackets. */
static int count_commas(struct str s, int *outside)
{
    int all = 0, depth = 0;
    *outside = 0;
    for (size_t i = 0; i < s.n; i++) {
        depth += s.p[i] == '(' || s.p[i] == '[';
        depth -= s.p[i] == ')' || s.p[i] == ']';
        bool is_one = i > 0 && s.p[i] == ',' && is_digit_at(s, i - 1) && is_digit_at(s, i + 1);
        all += is_one;
        *outside += is_one && depth == 0;
    }
    return all;
}

static void add_reading(struct math_work *w, struct str s, enum math_reading reading,
                        struct readings *out)
{
    const struct math_node *n = math_parse(s, reading, w);
    if (n)
        out->tree[out->n++] = n;
}

static struct readings read_all(struct math_work *w, struct str s)
{
    struct readings out = {.n = 0};
    int outside, commas = count_commas(s, &outside);
    bool has_semicolon = s.n && memchr(s.p, ';', s.n);
    add_reading(w, s, MATH_READ_GROUPS, &out);
    if (commas == 0)
        return out;
    add_reading(w, s, MATH_READ_LIST, &out);
    if (commas > outside)
        add_reading(w, s, MATH_READ_EVERY_GROUP, &out);
    if (has_semicolon || (outside == 1 && commas == 1))
        add_reading(w, s, MATH_READ_DECIMAL, &out);
    return out;
}

static bool any_same(struct math_work *w, const struct readings *want, const struct readings *got)
{
    for (int i = 0; i < want->n; i++)
        for (int j = 0; j < got->n; j++)
            if (math_same(w, want->tree[i], got->tree[j]))
                return true;
    return false;
}

/* Letters, digits and other alphabets; without commands for fonts, marks and spaces. */
static struct str plain_words(struct str s, struct arena *a)
{
    static const char *const fonts[] = {"\\text",   "\\textbf", "\\mathrm", "\\mathbf",
                                        "\\textit", "\\left",   "\\right",  "\\boxed"};
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n;) {
        size_t skip = 0;
        for (size_t f = 0; s.p[i] == '\\' && f < sizeof fonts / sizeof fonts[0]; f++) {
            struct str name = str_from(fonts[f]);
            bool is_here = str_starts(str_slice(s, i, s.n), name) && name.n > skip;
            skip = is_here ? name.n : skip;
        }
        char c = s.p[i];
        i += skip ? skip : 1;
        if (skip || strchr(" \t\r\n{}$.,;:!?\"'`()*_~\\", c))
            continue;
        to[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    return (struct str){to, n};
}

/* The text without white space and size commands: the last resort. */
static struct str plain_marks(struct str s, struct arena *a)
{
    static const char *const sizes[] = {"\\left", "\\right", "\\!", "\\,", "\\;", "\\ ", "$"};
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n;) {
        size_t skip = s.p[i] == ' ' || s.p[i] == '\n';
        for (size_t k = 0; !skip && k < sizeof sizes / sizeof sizes[0]; k++)
            if (str_starts(str_slice(s, i, s.n), str_from(sizes[k])))
                skip = strlen(sizes[k]);
        if (!skip)
            to[n++] = s.p[i];
        i += skip ? skip : 1;
    }
    return (struct str){to, n};
}

static bool begins_with_words(const struct readings *r)
{
    const struct math_node *n = r->n ? r->tree[0] : NULL;
    while (n && n->n)
        n = n->child[0];
    return n && n->kind == MATH_TEXT;
}

static bool has_numbers(const struct readings *r)
{
    return r->n && math_has_kind(r->tree[0], MATH_NUMBER);
}

enum math_verdict math_equal(struct str want, struct str got, int decimals, struct arena *a)
{
    struct math_work w = {.arena = a, .decimals = decimals, .sign = 1, .seed = 0x6d617468};
    if (want.n == 0 || got.n == 0 || got.n > MATH_TEXT_MAX_BYTES || want.n > MATH_TEXT_MAX_BYTES)
        return MATH_DIFFERENT;
    struct str x = plain_marks(want, a), y = plain_marks(got, a);
    if (x.n && str_eq(x, y))
        return MATH_SAME;
    struct readings wanted = read_all(&w, want), given = read_all(&w, got);
    bool are_words = begins_with_words(&wanted) || begins_with_words(&given);
    if (are_words || wanted.n == 0 || given.n == 0) {
        x = plain_words(want, a);
        y = plain_words(got, a);
        if (x.n && str_eq(x, y))
            return MATH_SAME;
        bool may_be_values = has_numbers(&wanted) && has_numbers(&given) &&
                             !(begins_with_words(&wanted) && begins_with_words(&given));
        bool is_set = wanted.n && given.n && !has_numbers(&wanted) && !has_numbers(&given);
        if (!may_be_values && !(is_set && any_same(&w, &wanted, &given)))
            return w.is_spent ? MATH_UNDECIDED : MATH_DIFFERENT;
    }
    if (any_same(&w, &wanted, &given))
        return MATH_SAME;
    return w.is_spent ? MATH_UNDECIDED : MATH_DIFFERENT;
}
