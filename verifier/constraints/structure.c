/* Instructions about parts of the text: paragraphs, sections, bullets, titles, marks (IFEval). */
#include "verifier/constraints/pieces.h"
#include "verifier/text/json_scan.h"

#include <string.h>

/* Parts between separators; empty ones only at the ends. -1 when one in the middle is empty. */
static int64_t count_parts(struct constraint *c, struct str s, struct str separator)
{
    struct list l = pieces_split(c, s, separator);
    int64_t n = 0;
    for (size_t i = 0; i < l.n; i++) {
        bool is_empty = text_trim(l.item[i]).n == 0;
        if (is_empty && i > 0 && i + 1 < l.n)
            return -1;
        n += !is_empty;
    }
    return n;
}

bool number_paragraphs(struct constraint *c)
{
    return count_parts(c, c->text, STR("***")) == c->arg[0].n;
}

/* Letters up to the first mark, quotes in front left out. */
static struct str plain_word(struct constraint *c, struct str paragraph)
{
    struct str word = STR(""), rest = paragraph;
    text_next_word(&rest, &word);
    word = pieces_strip_left(pieces_strip_left(word, "'"), "\"");
    for (size_t i = 0; i < word.n; i++)
        if (strchr(".,?!'\"", word.p[i]) && word.p[i])
            return pieces_lower(c, str_slice(word, 0, i));
    return pieces_lower(c, word);
}

/* Paragraphs stand between empty lines; the nth is counted with empty ones, as the data does. */
bool paragraph_first_word(struct constraint *c)
{
    struct list l = pieces_split(c, c->text, STR("\n\n"));
    int64_t filled = 0, nth = c->arg[1].n;
    for (size_t i = 0; i < l.n; i++)
        filled += text_trim(l.item[i]).n > 0;
    if (nth < 1 || nth > filled || filled != c->arg[0].n)
        return false;
    struct str first = plain_word(c, l.item[nth - 1]);
    return first.n && str_eq(first, pieces_lower(c, c->arg[2].text));
}

/* [something] on one line. A line without a closing bracket is left at once. */
bool bracketed_gaps(struct constraint *c)
{
    struct list lines = pieces_lines(c, c->text);
    int64_t n = 0;
    for (size_t i = 0; i < lines.n; i++) {
        ptrdiff_t at = 0;
        while (at >= 0 && (at = str_find(lines.item[i], STR("["), (size_t)at)) >= 0) {
            at = str_find(lines.item[i], STR("]"), (size_t)at);
            n += at >= 0;
        }
    }
    return n >= c->arg[0].n;
}

enum { MARKER_MAX_BYTES = 64 };

/* s starts with the marker's letters, single spaces allowed where it has a stop. */
static bool starts_with_marker(struct str s, struct str marker)
{
    size_t i = 0;
    for (size_t k = 0; k < marker.n; k++) {
        bool is_gap =
            k > 0 && marker.p[k - 1] == '.' && i < s.n && s.p[i] == ' ' && marker.p[k] != ' ';
        i += is_gap;
        if (i >= s.n || s.p[i] != marker.p[k])
            return false;
        i++;
    }
    return true;
}

/* "P.S." and "P.P.S" are known by their letters, however they are spaced. */
bool postscript(struct constraint *c)
{
    struct str low = pieces_lower(c, c->text), marker = pieces_lower(c, text_trim(c->arg[0].text));
    if (marker.n == 0 || marker.n > MARKER_MAX_BYTES)
        c->unscored = "bad_arguments";
    for (size_t i = 0; !c->unscored && i < low.n; i++)
        if (starts_with_marker(str_slice(low, i, low.n), marker))
            return true;
    return false;
}

/* Lines that start with - or with one *. */
bool bullet_lists(struct constraint *c)
{
    struct list lines = pieces_lines(c, c->text);
    int64_t n = 0;
    for (size_t i = 0; i < lines.n; i++) {
        struct str line = text_trim(lines.item[i]);
        n += str_starts(line, STR("-")) || (line.n > 1 && line.p[0] == '*' && line.p[1] != '*');
    }
    return n == c->arg[0].n;
}

bool constrained_response(struct constraint *c)
{
    return pieces_holds(c->text, "My answer is yes.") ||
           pieces_holds(c->text, "My answer is no.") ||
           pieces_holds(c->text, "My answer is maybe.");
}

/* Pieces between two marks on one line, with text in them. The next one begins behind. */
static int64_t count_marked(struct str s, struct str mark)
{
    int64_t n = 0;
    size_t from = 0;
    for (ptrdiff_t at; (at = str_find(s, mark, from)) >= 0;) {
        size_t start = (size_t)at + mark.n, end = start;
        while (end < s.n && s.p[end] != '*' && s.p[end] != '\n')
            end++;
        bool is_closed = str_starts(str_slice(s, end, s.n), mark);
        n += is_closed && text_trim(str_slice(s, start, end)).n > 0;
        from = is_closed ? end + mark.n : (size_t)at + 1;
    }
    return n;
}

/* *one* counts once, **one** twice where its inner marks pair up, as in the data set. */
bool highlights(struct constraint *c)
{
    return count_marked(c->text, STR("*")) + count_marked(c->text, STR("**")) >= c->arg[0].n;
}

/* The splitter, perhaps a space, and a number. */
bool sections(struct constraint *c)
{
    struct str word = text_trim(c->arg[0].text);
    int64_t n = 0;
    size_t from = 0;
    for (ptrdiff_t at; word.n && (at = str_find(c->text, word, from)) >= 0;) {
        size_t i = (size_t)at + word.n;
        i += text_is_space(pieces_char(str_slice(c->text, i, c->text.n), 0)) != 0;
        n += is_digit_char(pieces_char(str_slice(c->text, i, c->text.n), 0));
        from = (size_t)at + word.n;
    }
    return n >= c->arg[1].n;
}

/* All of it, but for one fence around. */
bool json_only(struct constraint *c)
{
    static const char *const fences[] = {"```json", "```Json", "```JSON", "```"};
    struct str s = text_trim(c->text);
    for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++)
        if (str_starts(s, str_from(fences[i])))
            s = str_slice(s, strlen(fences[i]), s.n);
    if (str_ends(s, STR("```")))
        s.n -= 3;
    s = text_trim(s);
    enum json_scan_result scanned = json_scan_text(s);
    if (scanned == JSON_SCAN_DEEP)
        c->unscored = "inconclusive";
    return scanned == JSON_SCAN_OK;
}

/* <<text>> on one line. */
bool title(struct constraint *c)
{
    struct list lines = pieces_lines(c, c->text);
    for (size_t i = 0; i < lines.n; i++) {
        ptrdiff_t from = str_find(lines.item[i], STR("<<"), 0);
        ptrdiff_t to = from >= 0 ? str_find(lines.item[i], STR(">>"), (size_t)from + 3) : -1;
        if (to >= 0 &&
            text_trim(pieces_strip(str_slice(lines.item[i], (size_t)from, (size_t)to), "<>")).n > 0)
            return true;
    }
    return false;
}

bool two_responses(struct constraint *c)
{
    struct list l = pieces_split(c, c->text, STR("******"));
    struct str part[2];
    size_t n = 0;
    for (size_t i = 0; i < l.n; i++) {
        struct str s = text_trim(l.item[i]);
        if (s.n == 0 && i > 0 && i + 1 < l.n)
            return false;
        if (s.n && n < 2)
            part[n] = s;
        n += s.n > 0;
    }
    return n == 2 && !str_eq(part[0], part[1]);
}
