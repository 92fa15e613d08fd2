/* Each finder passes once over the text; looking back is bounded by constants. */
#include "verifier/math/answer_find.h"

#include "verifier/text/text.h"

#include <string.h>

enum { GAP_MAX = 40, BOX_MAX = 4096, CUES_GAP = 60 };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char at(struct str s, size_t i)
{
    return i < s.n ? s.p[i] : '\0';
}

static bool starts_folded(struct str s, size_t i, const char *word)
{
    for (size_t k = 0; word[k]; k++)
        if ((at(s, i + k) | 32) != word[k])
            return false;
    return true;
}

/* Index of the closing brace for the open one at i, at most limit bytes on; s.n when there is none.
 */
static size_t closing_brace(struct str s, size_t i, size_t limit)
{
    size_t depth = 0;
    for (size_t k = i; k < s.n && k - i <= limit; k++) {
        depth += s.p[k] == '{' && (k == 0 || s.p[k - 1] != '\\');
        depth -= s.p[k] == '}' && s.p[k - 1] != '\\';
        if (depth == 0)
            return k;
    }
    return s.n;
}

/* The brace behind \boxed or \fbox at i, 0 when it is something else. */
static size_t box_brace(struct str s, size_t i)
{
    static const struct str names[] = {{"\\boxed", 6}, {"\\fbox", 5}};
    for (int k = 0; k < 2; k++) {
        size_t brace = i + names[k].n;
        if (!str_starts(str_slice(s, i, s.n), names[k]))
            continue;
        while (at(s, brace) == ' ')
            brace++;
        return at(s, brace) == '{' ? brace : 0;
    }
    return 0;
}

/* Between two parts of one answer: marks only, or few words with "and" or "or" among them. */
static bool joins(struct str gap)
{
    bool has_words = false, has_join = false;
    if (gap.n > GAP_MAX)
        return false;
    for (size_t i = 0; i < gap.n; i++) {
        if (strchr(".;!?", gap.p[i]))
            return false;
        bool starts_word = is_letter(gap.p[i]) && (i == 0 || !is_letter(gap.p[i - 1]));
        if (!starts_word || (i > 0 && gap.p[i - 1] == '\\'))
            continue;
        bool is_and = starts_folded(gap, i, "and") && !is_letter(at(gap, i + 3));
        bool is_or = starts_folded(gap, i, "or") && !is_letter(at(gap, i + 2));
        has_join = has_join || is_and || is_or;
        has_words = true;
    }
    return has_join || !has_words;
}

static void put_first(struct answer_parts *parts, struct answer_part p)
{
    memmove(parts->part + 1, parts->part, sizeof p * (size_t)parts->n);
    parts->part[0] = p;
    parts->n++;
}

/* The box that ends shortly before `before` and is joined to it. */
static bool box_before(struct str s, size_t before, struct answer_part *out)
{
    size_t least = before > BOX_MAX ? before - BOX_MAX : 0;
    for (size_t i = before; i-- > least;) {
        size_t brace = s.p[i] == '\\' ? box_brace(s, i) : 0;
        if (!brace)
            continue;
        size_t end = closing_brace(s, brace, BOX_MAX);
        if (end >= before || !joins(str_slice(s, end + 1, before)))
            return false;
        *out = (struct answer_part){brace + 1, end, i, end + 1};
        return true;
    }
    return false;
}

int answer_boxes(struct str s, struct answer_parts *out)
{
    size_t last = 0, brace = 0;
    out->n = 0;
    for (ptrdiff_t i = 0; (i = str_find(s, STR("\\"), (size_t)i)) >= 0; i++) {
        size_t here = box_brace(s, (size_t)i);
        last = here ? (size_t)i : last;
        brace = here ? here : brace;
    }
    if (!brace)
        return 0;
    size_t end = closing_brace(s, brace, s.n);
    if (end == s.n)
        return -1;
    put_first(out, (struct answer_part){brace + 1, end, last, end + 1});
    struct answer_part more;
    while (out->n < ANSWER_PARTS_MAX && box_before(s, out->part[0].outer_from, &more))
        put_first(out, more);
    return 1;
}

/* "5 and he pays " between two currency signs is not a formula. */
static bool is_formula(struct str s)
{
    int words = 0, depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        depth += s.p[i] == '{';
        depth -= s.p[i] == '}';
        bool starts = is_letter(s.p[i]) && (i == 0 || !is_letter(s.p[i - 1]));
        bool is_word =
            starts && is_letter(at(s, i + 1)) && depth == 0 && (i == 0 || s.p[i - 1] == ' ');
        bool is_join = is_word && (starts_folded(s, i, "and ") || starts_folded(s, i, "or "));
        words += is_word && !is_join;
    }
    return s.n > 0 && words < 2;
}

/* A formula that opens at i; its end, or 0. */
static size_t formula_at(struct str s, size_t i, struct answer_part *out)
{
    static const struct {
        struct str open, close;
        bool is_one_line;
    } marks[] = {{{"$$", 2}, {"$$", 2}, false},
                 {{"$", 1}, {"$", 1}, true},
                 {{"\\(", 2}, {"\\)", 2}, true},
                 {{"\\[", 2}, {"\\]", 2}, false}};
    for (int m = 0; m < 4; m++) {
        if (!str_starts(str_slice(s, i, s.n), marks[m].open) || (m < 2 && i && s.p[i - 1] == '\\'))
            continue;
        size_t from = i + marks[m].open.n, limit = from + BOX_MAX;
        for (size_t k = from; k < s.n && k < limit; k++) {
            if (marks[m].is_one_line && s.p[k] == '\n')
                break;
            if (!str_starts(str_slice(s, k, s.n), marks[m].close) || (m < 2 && s.p[k - 1] == '\\'))
                continue;
            *out = (struct answer_part){from, k, i, k + marks[m].close.n};
            return is_formula(str_slice(s, from, k)) ? out->outer_to : 0;
        }
    }
    return 0;
}

bool answer_formulas(struct str s, struct answer_parts *out)
{
    out->n = 0;
    for (size_t i = 0; i < s.n;) {
        struct answer_part p;
        size_t end = s.p[i] == '$' || s.p[i] == '\\' ? formula_at(s, i, &p) : 0;
        if (end == 0) {
            i++;
            continue;
        }
        bool is_joined = out->n && out->n < ANSWER_PARTS_MAX &&
                         joins(str_slice(s, out->part[out->n - 1].outer_to, p.outer_from)) &&
                         !memchr(s.p + out->part[out->n - 1].outer_to, '\n',
                                 p.outer_from - out->part[out->n - 1].outer_to);
        out->n = is_joined ? out->n : 0;
        out->part[out->n++] = p;
        i = end;
    }
    return out->n > 0;
}

/* Index behind what links "answer" at i to its value; 0 when nothing does. */
static size_t behind_link(struct str s, size_t i)
{
    size_t k = i + 6;
    while (k < s.n && strchr("*_ )", s.p[k]))
        k++;
    if (at(s, k) == ':' || at(s, k) == '=')
        return k + 1;
    if (at(s, k) == '$' || (at(s, k) == '\\' && strchr("([b", at(s, k + 1))))
        return k;
    for (size_t j = k; j < s.n && j < k + CUES_GAP && !strchr(".\n$\\", s.p[j]); j++) {
        bool is_link =
            starts_folded(s, j, "is") && !is_letter(at(s, j + 2)) && (j == k || s.p[j - 1] == ' ');
        if (is_link)
            return j + 2;
    }
    return 0;
}

bool answer_cue(struct str s, struct str *rest)
{
    size_t found = 0;
    for (size_t i = 0; i + 6 < s.n; i++) {
        if ((s.p[i] | 32) != 'a' || !starts_folded(s, i, "answer") || (i && is_letter(s.p[i - 1])))
            continue;
        size_t behind = behind_link(s, i);
        struct str tail = text_trim(str_slice(s, behind, behind + 64));
        found = behind && tail.n && tail.p[0] != '.' ? behind : found;
    }
    *rest = str_slice(s, found, s.n);
    return found > 0;
}

static bool is_number_part(char c)
{
    return is_digit(c) || (c && strchr("+-*/^.,:%()", c));
}

bool answer_number(struct str s, struct str *out, size_t *end)
{
    for (size_t i = s.n; i-- > 0;) {
        if (!is_digit(s.p[i]))
            continue;
        size_t from = i, to = i + 1;
        while (from > 0 && (is_number_part(s.p[from - 1]) || (unsigned char)s.p[from - 1] >= 0x80))
            from--;
        bool is_inside_word = from > 0 && is_letter(s.p[from - 1]);
        bool is_command = from > 0 && strchr("{}\\", s.p[from - 1]);
        if (is_inside_word && !is_command) {
            i = from;
            continue;
        }
        while (is_command && from > 0 && !strchr(" \n\t", s.p[from - 1]) && i - from < GAP_MAX)
            from--;
        while (is_command && to < s.n && !strchr(" \n\t$", s.p[to]))
            to++;
        while (from < i && strchr(".,:)*^/%", s.p[from]) &&
               !(s.p[from] == '.' && is_digit(at(s, from + 1))))
            from++;
        to += at(s, to) == '%' ? 1 : at(s, to) == '\\' && at(s, to + 1) == '%' ? 2 : 0;
        *out = str_slice(s, from, to);
        *end = to;
        return true;
    }
    return false;
}

bool answer_is_prose(struct str s)
{
    int before = 0, all = 0, depth = 0;
    bool has_value = false;
    for (size_t i = 0; i < s.n; i++) {
        depth += s.p[i] == '{';
        depth -= s.p[i] == '}';
        has_value = has_value || is_digit(s.p[i]) || s.p[i] == '$' || s.p[i] == '\\';
        bool starts = is_letter(s.p[i]) && is_letter(at(s, i + 1)) && depth == 0 &&
                      (i == 0 || strchr(" \n\t*(\"", s.p[i - 1]));
        bool is_join = starts && (starts_folded(s, i, "and ") || starts_folded(s, i, "or "));
        all += starts && !is_join;
        before += starts && !is_join && !has_value;
    }
    struct answer_parts formulas;
    bool has_formula = before >= 1 && answer_formulas(s, &formulas);
    return has_value && (before >= 2 || all >= 5 || has_formula);
}
