/* Instructions about the shape of the text: brackets, quotes, lines, bullets, templates. */
#include "verifier/constraints/pieces.h"

#include <string.h>

#define EDGES PIECES_PUNCTUATION " "

enum { NESTING = 5, QUOTE_NESTING = 3 };

/* Five levels open at once, and closed by their own kind. A wrong one begins anew. */
bool nested_parentheses(struct constraint *c)
{
    static const char open[] = "([{", close[] = ")]}";
    char *stack = arena_alloc(c->arena, c->text.n + 1);
    size_t depth = 0, deepest = 0;
    c->no_memory = c->no_memory || !stack;
    for (size_t i = 0; stack && i < c->text.n; i++) {
        const char *opens = memchr(open, c->text.p[i], 3), *closes = memchr(close, c->text.p[i], 3);
        if (opens)
            stack[depth++] = close[opens - open];
        deepest = depth > deepest ? depth : deepest;
        if (!closes)
            continue;
        if (depth == 0 || stack[depth - 1] != *closes)
            depth = deepest = 0;
        else if (depth-- && deepest >= NESTING)
            return true;
    }
    return false;
}

/* A quote mark closes when it is the one that was opened last, else it opens. */
bool nested_quotes(struct constraint *c)
{
    char *stack = arena_alloc(c->arena, c->text.n + 1);
    size_t depth = 0, deepest = 0;
    c->no_memory = c->no_memory || !stack;
    for (size_t i = 0; stack && i < c->text.n; i++) {
        char ch = c->text.p[i];
        if (ch != '"' && ch != '\'')
            continue;
        if (depth && stack[depth - 1] == ch) {
            depth--;
            if (deepest - depth >= QUOTE_NESTING)
                return true;
        } else {
            stack[depth++] = ch;
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return false;
}

/* "a), b), c)": marks around the letters a, b, c and nothing else in front. */
static bool is_lettered(struct constraint *c, struct str s)
{
    const char *next = "abc";
    struct str low = pieces_lower(c, s);
    for (uint32_t cp; *next && text_next_char(&low, &cp);) {
        if (cp == (uint32_t)*next)
            next++;
        else if (is_word_char(cp))
            return false;
    }
    return !*next;
}

bool options(struct constraint *c)
{
    struct str asked = c->arg[0].text;
    bool is_exact = is_lettered(c, asked);
    struct str separator = pieces_holds(asked, "/")      ? STR("/")
                           : pieces_holds(asked, " or ") ? STR(" or ")
                                                         : STR(",");
    struct list l = pieces_split(c, asked, separator);
    struct str answer = pieces_lower(c, pieces_strip(c->text, EDGES "\n\t"));
    for (size_t i = 0; i < l.n; i++) {
        struct str option = text_trim(l.item[i]);
        if (is_exact ? str_eq(option, c->text)
                     : str_eq(pieces_lower(c, pieces_strip(option, EDGES)), answer))
            return true;
    }
    return false;
}

bool word_a_line(struct constraint *c)
{
    struct str bare = text_trim(pieces_bare(c, c->text));
    struct list lines = pieces_lines(c, bare);
    size_t filled = 0;
    for (size_t i = 0; i < lines.n; i++)
        filled += lines.item[i].n > 0;
    return filled == text_count_words(bare);
}

static size_t indent(struct str line)
{
    return line.n - pieces_strip_left(line, " ").n;
}

bool line_indent(struct constraint *c)
{
    struct list lines = pieces_filled_lines(c, c->text);
    for (size_t i = 0; i + 1 < lines.n; i++)
        if (indent(lines.item[i + 1]) <= indent(lines.item[i]))
            return false;
    return true;
}

/* A copy in which curly quotes are straight, '"' is gone, and so is white space. */
static struct str quotes_only_text(struct constraint *c)
{
    struct str s = c->text;
    char *to = arena_alloc(c->arena, s.n + 1);
    size_t n = 0;
    c->no_memory = c->no_memory || !to;
    for (uint32_t cp; to && s.n;) {
        struct str here = s;
        if (!text_next_char(&s, &cp))
            break;
        if (str_starts(here, STR("'\"'")))
            s = str_slice(here, 3, here.n);
        else if (cp == 0x201C || cp == 0x201D)
            to[n++] = '"';
        else if (!text_is_space(cp)) {
            memcpy(to + n, here.p, here.n - s.n);
            n += here.n - s.n;
        }
    }
    return (struct str){to ? to : "", n};
}

/* No quote directly behind another, none at the end. */
bool quote_unquote(struct constraint *c)
{
    struct str s = quotes_only_text(c);
    if (pieces_holds(s, "\"\""))
        return false;
    s = pieces_strip(s, "0123456789!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");
    return s.n > 0 && s.p[s.n - 1] != '"';
}

bool list_marker(struct constraint *c)
{
    return pieces_count(c->text, c->arg[0].text) >= 2;
}

/* Index behind the first of two texts at or after from; -1 for none. */
static ptrdiff_t behind_either(struct str s, const char *a, const char *b, size_t from,
                               size_t *start)
{
    ptrdiff_t at = str_find(s, str_from(a), from);
    const char *which = at >= 0 ? a : b;
    at = at >= 0 ? at : str_find(s, str_from(b), from);
    *start = at >= 0 ? (size_t)at : 0;
    return at < 0 ? -1 : at + (ptrdiff_t)strlen(which);
}

/* <i>something</i>, or <em>, and text behind it. */
bool italics_thesis(struct constraint *c)
{
    size_t open, close;
    ptrdiff_t from = behind_either(c->text, "<i>", "<em>", 0, &open);
    if (from < 0)
        return false;
    ptrdiff_t to = behind_either(c->text, "</i>", "</em>", (size_t)from, &close);
    return to >= 0 && text_trim(str_slice(c->text, (size_t)from, close)).n > 0 &&
           text_trim(str_slice(c->text, (size_t)to, c->text.n)).n > 0;
}

/* Behind every *, before the next one, there is a -. */
bool sub_bullets(struct constraint *c)
{
    struct list l = pieces_split(c, c->text, STR("*"));
    for (size_t i = 1; i < l.n; i++)
        if (!pieces_holds(l.item[i], "-"))
            return false;
    return true;
}

/* Two sentences or more, then two lines or more that start with *, then nothing. */
bool text_then_bullets(struct constraint *c)
{
    struct list lines = pieces_lines(c, c->text);
    size_t sentences = 0, bullets = 0;
    bool in_text = true;
    for (size_t i = 0; i < lines.n; i++) {
        struct str line = text_trim(lines.item[i]);
        if (str_starts(line, STR("*"))) {
            in_text = false;
            bullets++;
            if (sentences < 2)
                return false;
        } else if (in_text) {
            sentences += pieces_sentences(c, line).n;
        } else if (line.n) {
            return false;
        }
    }
    return bullets >= 2;
}

bool output_template(struct constraint *c)
{
    return pieces_holds(c->text, "My Answer:") && pieces_holds(c->text, "My Conclusion:") &&
           pieces_holds(c->text, "Future Outlook:");
}
