/* The order of preference among what the finders see. No state. */
#include "verifier/math/answer.h"

#include "verifier/math/answer_find.h"
#include "verifier/math/chars.h"
#include "verifier/text/text.h"

enum { ANSWER_MAX = 4096, LINE_MAX_BYTES = 300 };

static bool is_alnum(char c)
{
    return is_letter(c) || is_digit(c);
}

/* 73 of **73**; the power of 2**3 stays. */
static struct str without_bold(struct str s, struct arena *a)
{
    if (str_find(s, STR("**"), 0) < 0 && str_find(s, STR("__"), 0) < 0)
        return s;
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n; i++) {
        bool is_pair = i + 1 < s.n && s.p[i] == s.p[i + 1] && (s.p[i] == '*' || s.p[i] == '_');
        bool is_between = i > 0 && i + 2 < s.n && is_alnum(s.p[i - 1]) && is_alnum(s.p[i + 2]);
        if (is_pair && !is_between)
            i++;
        else
            to[n++] = s.p[i];
    }
    return (struct str){to, n};
}

/* Without white space and marks at both ends; one pass. */
static struct str plain_ends(struct str s)
{
    size_t from = 0, to = s.n;
    while (from < to && is_one_of(s.p[from], "*_`:= \t\r\n"))
        from++;
    while (to > from && is_one_of(s.p[to - 1], ".,;:*` \t\r\n"))
        to--;
    return text_trim(str_slice(s, from, to));
}

static struct str behind_marks(struct str s)
{
    size_t from = 0;
    while (is_one_of(char_at(s, from), ":*_ \t\r\n"))
        from++;
    return str_slice(s, from, s.n);
}

static struct str finish(struct str s, struct arena *a)
{
    return plain_ends(without_bold(s, a));
}

static struct str joined(struct str s, const struct answer_parts *parts, struct arena *a)
{
    struct str out = STR("");
    for (int i = 0; i < parts->n; i++) {
        struct str part = str_slice(s, parts->part[i].from, parts->part[i].to);
        if (parts->n == 1 || out.n + part.n > ANSWER_MAX)
            return finish(part, a);
        out = arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(out), i ? " , " : "", STR_ARG(part));
    }
    return out;
}

/* "the largest $n$ is 34": a formula without digits, then a number that is said to be its value. */
static bool is_only_named(struct str formula, struct str behind)
{
    for (size_t i = 0; i < formula.n; i++)
        if (formula.p[i] >= '0' && formula.p[i] <= '9')
            return false;
    return str_find(behind, STR(" is "), 0) >= 0 || str_find(behind, STR("="), 0) >= 0;
}

/* The last formula, or the last number when that comes later and the formula is only a name. */
static bool within_prose(struct str s, struct arena *a, struct str *out)
{
    struct answer_parts parts;
    struct str number;
    size_t end = 0;
    bool has_formula = answer_formulas(s, &parts), has_number = answer_number(s, &number, &end);
    if (has_formula) {
        const struct answer_part *last = &parts.part[parts.n - 1];
        bool is_later = has_number && end > last->outer_to && parts.n == 1;
        struct str behind = is_later ? str_slice(s, last->outer_to, end) : STR("");
        if (!is_only_named(str_slice(s, last->from, last->to), behind)) {
            *out = joined(s, &parts, a);
            return true;
        }
    }
    if (has_number)
        *out = finish(number, a);
    return has_number;
}

/* "Total: 5 apples" without its label. */
static struct str without_label(struct str s)
{
    size_t i = 0, letters = 0;
    while (i < s.n && (is_alnum(s.p[i]) || s.p[i] == ' ')) {
        if (s.p[i] >= '0' && s.p[i] <= '9')
            return s;
        letters += s.p[i++] != ' ';
    }
    bool is_label = letters >= 3 && i + 1 < s.n && s.p[i] == ':';
    return is_label ? text_trim(str_slice(s, i + 1, s.n)) : s;
}

/* "2,74 $ a year": one currency sign behind a number ends it. */
static struct str up_to_currency(struct str s)
{
    ptrdiff_t first = str_find(s, STR("$"), 0);
    if (first <= 0 || str_find(s, STR("$"), (size_t)first + 1) >= 0)
        return s;
    struct str before = text_trim(str_slice(s, 0, (size_t)first));
    return before.n && is_digit(before.p[before.n - 1]) ? before : s;
}

static bool from_text(struct str s, struct arena *a, struct str *out)
{
    bool is_long = s.n > ANSWER_MAX;
    s = is_long ? s : finish(s, a);
    if ((is_long || answer_is_prose(s)) && within_prose(s, a, out))
        return true;
    *out = finish(up_to_currency(without_label(s)), a);
    return out->n > 0;
}

/* First line with something on it, up to the end of its sentence. */
static struct str first_sentence(struct str s)
{
    s = behind_marks(s);
    for (size_t i = 0; i < s.n; i++) {
        bool is_stop = s.p[i] == '.' && i + 1 < s.n && (s.p[i + 1] == ' ' || s.p[i + 1] == '\n');
        if (s.p[i] == '\n' || is_stop)
            return str_slice(s, 0, i);
    }
    return s;
}

static bool is_display(struct str s)
{
    return str_starts(s, STR("\\[")) || str_starts(s, STR("$$")) || str_starts(s, STR("$")) ||
           str_starts(s, STR("\\("));
}

/* What follows a cue: the formula there, else its sentence. */
static bool from_cue(struct str rest, struct arena *a, struct str *out)
{
    struct str s = behind_marks(rest);
    struct str line = first_sentence(s);
    ptrdiff_t close = str_starts(s, STR("\\["))  ? str_find(s, STR("\\]"), 2)
                      : str_starts(s, STR("$$")) ? str_find(s, STR("$$"), 2)
                                                 : -1;
    struct answer_parts parts;
    if (close > 0 && close <= ANSWER_MAX) {
        *out = finish(str_slice(s, 2, (size_t)close), a);
        return out->n > 0;
    }
    if (is_display(s) && answer_formulas(line, &parts)) {
        struct str outside = text_trim(str_slice(line, 0, parts.part[0].outer_from));
        if (outside.n == 0) {
            *out = joined(line, &parts, a);
            return true;
        }
    }
    return line.n <= ANSWER_MAX && from_text(line, a, out);
}

static struct str last_line(struct str s)
{
    struct str line, best = STR("");
    while (str_split(&s, '\n', &line))
        best = text_trim(line).n ? text_trim(line) : best;
    return best;
}

static bool behind_hashes(struct str text, struct str *line)
{
    size_t behind = text.n;
    while (behind >= 4 && memcmp(text.p + behind - 4, "####", 4) != 0)
        behind--;
    if (behind < 4)
        return false;
    struct str rest = text_trim(str_slice(text, behind, text.n));
    str_split(&rest, '\n', line);
    return true;
}

static bool from_whole(struct str text, struct arena *a, struct str *out)
{
    text = text_trim(text);
    if (text.n <= ANSWER_MAX && !answer_is_prose(text))
        return from_text(text, a, out);
    if (within_prose(text, a, out))
        return true;
    struct str line = last_line(text);
    return line.n > 0 && line.n <= LINE_MAX_BYTES && from_text(line, a, out);
}

enum math_found math_answer(struct str text, struct arena *a, struct str *out)
{
    struct answer_parts parts;
    struct str rest, line;
    text = text_answered(text);
    int box = answer_boxes(text, &parts);
    if (box) {
        *out = box > 0 ? joined(text, &parts, a) : STR("");
        return box > 0 ? MATH_ANSWER_FOUND : MATH_ANSWER_OPEN_BOX;
    }
    bool found = false;
    if (behind_hashes(text, &line))
        found = from_text(line, a, out);
    else
        found = (answer_cue(text, &rest) && from_cue(rest, a, out)) || from_whole(text, a, out);
    return found ? MATH_ANSWER_FOUND : MATH_ANSWER_NONE;
}
