/* Tries each reading of the commas in either text; words are compared as words. No state. */
#include "verifier/math/equal.h"

#include "verifier/math/chars.h"
#include "verifier/math/compare.h"
#include "verifier/math/parse.h"

#include <string.h>

struct readings {
    const struct math_node *tree[MATH_READINGS_N];
    int n;
};

/* Space or a mark between two digits keeps them apart. */
static bool is_between_digits(struct str s, size_t i)
{
    return i > 0 && is_digit(s.p[i - 1]) && is_digit(char_at(s, i + 1));
}

/* Commas directly between digits; how many of them outside of brackets. */
static int count_commas(struct str s, int *outside)
{
    int all = 0, depth = 0;
    *outside = 0;
    for (size_t i = 0; i < s.n; i++) {
        depth += s.p[i] == '(' || s.p[i] == '[';
        depth -= s.p[i] == ')' || s.p[i] == ']';
        bool is_one = s.p[i] == ',' && is_between_digits(s, i);
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

/* Length of the longest of the names at i, 0 when none is there. */
static size_t name_at(struct str s, size_t i, const char *const *names, size_t n)
{
    size_t longest = 0;
    for (size_t k = 0; k < n; k++) {
        struct str name = str_from(names[k]);
        if (name.n > longest && str_starts(str_slice(s, i, s.n), name))
            longest = name.n;
    }
    return longest;
}

/* Letters, digits and other alphabets; without commands for fonts, marks and spaces. */
static struct str plain_words(struct str s, struct arena *a)
{
    static const char *const fonts[] = {"\\text",   "\\textbf", "\\mathrm", "\\mathbf",
                                        "\\textit", "\\left",   "\\right",  "\\boxed"};
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n;) {
        size_t skip = name_at(s, i, fonts, sizeof fonts / sizeof fonts[0]);
        char c = s.p[i];
        if (skip == 0 && is_one_of(c, " \t\r\n{}$.,;:!?\"'`()*_~\\") && !is_between_digits(s, i))
            skip = 1;
        if (skip == 0)
            to[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        i += skip ? skip : 1;
    }
    return (struct str){to, n};
}

/* The text without white space and size commands: the last resort. */
static struct str plain_marks(struct str s, struct arena *a)
{
    static const char *const sizes[] = {"\\left", "\\right", "\\!", "\\,", "\\;", " ", "\n", "$"};
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n;) {
        size_t skip = name_at(s, i, sizes, sizeof sizes / sizeof sizes[0]);
        if (skip == 1 && is_between_digits(s, i))
            skip = 0;
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

static bool same_form(struct str want, struct str got, struct arena *a,
                      struct str (*form)(struct str, struct arena *))
{
    struct str x = form(want, a), y = form(got, a);
    return x.n && y.p && str_eq(x, y);
}

/* A text that begins with words is not read as a product: its numbers count only against a number
 * ("about 20"), its words only against a set ("all real numbers"). */
static bool may_be_values(const struct readings *want, const struct readings *got)
{
    bool want_words = begins_with_words(want), got_words = begins_with_words(got);
    if (want->n == 0 || got->n == 0 || (want_words && got_words))
        return false;
    return (!want_words && !got_words) || has_numbers(want) == has_numbers(got);
}

/* Operators that are read as names: what they make of their operands is not known here. */
static bool has_opaque(struct str s)
{
    static const char *const opaque[] = {"\\sum", "\\prod", "\\int", "\\iint", "\\oint", "\\lim"};
    for (size_t i = 0; i < s.n; i++) {
        size_t n = s.p[i] == '\\' ? name_at(s, i, opaque, sizeof opaque / sizeof opaque[0]) : 0;
        if (n && !is_letter(char_at(s, i + n)))
            return true;
    }
    return false;
}

static bool has_words(struct str s)
{
    bool is_command = false;
    for (size_t i = 0; i + 1 < s.n; i++) {
        is_command = s.p[i] == '\\' || (is_command && is_letter(s.p[i]));
        if (!is_command && is_letter(s.p[i]) && is_letter(s.p[i + 1]))
            return true;
        if (is_one_of(s.p[i], "([") || (s.p[i] == '\\' && s.p[i + 1] == '{'))
            return false;
    }
    return false;
}

bool math_same_words(struct str want, struct str got, struct arena *a)
{
    bool is_short = want.n <= MATH_TEXT_MAX_BYTES && got.n <= MATH_TEXT_MAX_BYTES;
    return is_short && has_words(want) && has_words(got) && same_form(want, got, a, plain_words);
}

enum math_verdict math_equal(struct str want, struct str got, int decimals, struct arena *a)
{
    struct math_work w = {.arena = a, .decimals = decimals, .sign = 1, .seed = 0x6d617468};
    if (want.n == 0 || got.n == 0 || got.n > MATH_TEXT_MAX_BYTES || want.n > MATH_TEXT_MAX_BYTES)
        return MATH_DIFFERENT;
    if (same_form(want, got, a, plain_marks))
        return MATH_SAME;
    struct readings wanted = read_all(&w, want), given = read_all(&w, got);
    bool are_words = begins_with_words(&wanted) || begins_with_words(&given);
    if ((are_words || wanted.n == 0 || given.n == 0) && same_form(want, got, a, plain_words))
        return MATH_SAME;
    if (may_be_values(&wanted, &given) && any_same(&w, &wanted, &given))
        return MATH_SAME;
    return w.is_spent || has_opaque(want) != has_opaque(got) ? MATH_UNDECIDED : MATH_DIFFERENT;
}
