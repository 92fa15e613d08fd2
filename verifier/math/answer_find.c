/* Each finder passes once over the text; looking back is bounded by constants. */
#include "verifier/math/answer_find.h"

#include "verifier/math/chars.h"

enum { GAP_MAX = 40, BOX_MAX = 4096 };

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
        while (char_at(s, brace) == ' ')
            brace++;
        return char_at(s, brace) == '{' ? brace : 0;
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
        if (is_one_of(gap.p[i], ".;!?"))
            return false;
        bool starts_word = is_letter(gap.p[i]) && (i == 0 || !is_letter(gap.p[i - 1]));
        if (!starts_word || (i > 0 && gap.p[i - 1] == '\\'))
            continue;
        bool is_and = starts_folded(gap, i, "and") && !is_letter(char_at(gap, i + 3));
        bool is_or = starts_folded(gap, i, "or") && !is_letter(char_at(gap, i + 2));
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
    for (size_t i = 0; i < s.n; i++) {
        size_t here = s.p[i] == '\\' ? box_brace(s, i) : 0;
        last = here ? i : last;
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
            starts && is_letter(char_at(s, i + 1)) && depth == 0 && (i == 0 || s.p[i - 1] == ' ');
        bool is_join = is_word && (starts_folded(s, i, "and ") || starts_folded(s, i, "or "));
        words += is_word && !is_join;
    }
    return s.n > 0 && words < 2;
}

struct mark {
    struct str open, close;
    bool is_one_line, may_be_escaped;
};

enum { MARKS_N = 4 };
static const struct mark MARKS[MARKS_N] = {{{"$$", 2}, {"$$", 2}, false, true},
                                           {{"$", 1}, {"$", 1}, true, true},
                                           {{"\\(", 2}, {"\\)", 2}, true, false},
                                           {{"\\[", 2}, {"\\]", 2}, false, false}};

/* Where the next closing mark and the next line end stand: each only moves forward, so that a text
 * of opening marks alone is passed over once. */
struct search {
    struct str s;
    size_t close[MARKS_N], line_end;
};

static size_t next_at(struct str s, struct str what, size_t from)
{
    while (from < s.n) {
        const char *hit = memchr(s.p + from, what.p[0], s.n - from);
        if (!hit)
            return s.n;
        from = (size_t)(hit - s.p);
        if (str_starts(str_slice(s, from, s.n), what))
            return from;
        from++;
    }
    return s.n;
}

static size_t next_close(struct search *f, int m, size_t from)
{
    const struct mark *mark = &MARKS[m];
    size_t at = f->close[m];
    if (at < from)
        at = next_at(f->s, mark->close, from);
    while (mark->may_be_escaped && at < f->s.n && at > 0 && f->s.p[at - 1] == '\\')
        at = next_at(f->s, mark->close, at + 1);
    f->close[m] = at;
    return at;
}

/* A formula that opens at i; its end, or 0. */
static size_t formula_at(struct search *f, size_t i, struct answer_part *out)
{
    for (int m = 0; m < MARKS_N; m++) {
        const struct mark *mark = &MARKS[m];
        bool is_escaped = mark->may_be_escaped && i && f->s.p[i - 1] == '\\';
        if (is_escaped || !str_starts(str_slice(f->s, i, f->s.n), mark->open))
            continue;
        size_t from = i + mark->open.n, to = next_close(f, m, from);
        if (mark->is_one_line && f->line_end < from)
            f->line_end = next_at(f->s, STR("\n"), from);
        if (to == f->s.n || to - from > BOX_MAX || (mark->is_one_line && f->line_end < to))
            return 0;
        *out = (struct answer_part){from, to, i, to + mark->close.n};
        return is_formula(str_slice(f->s, from, to)) ? out->outer_to : 0;
    }
    return 0;
}

bool answer_formulas(struct str s, struct answer_parts *out)
{
    struct search f = {.s = s};
    out->n = 0;
    for (size_t i = 0; i < s.n;) {
        struct answer_part p;
        size_t end = s.p[i] == '$' || s.p[i] == '\\' ? formula_at(&f, i, &p) : 0;
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
