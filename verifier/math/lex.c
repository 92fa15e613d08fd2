/* One pass over the text; what is inside \text{} is read by the same code in a wordier mode.
 * No state outlives a call. */
#include "verifier/math/lex.h"

#include "common/utf8.h"
#include "verifier/math/lex_number.h"
#include "verifier/text/text.h"

#include <string.h>

struct lexer {
    struct str s;
    size_t at;
    enum math_reading reading;
    struct arena *arena;
    struct math_token *token;
    size_t n;
    int depth; /* of brackets */
    bool after_space, in_text, has_failed;
};

static void push(struct lexer *l, struct math_token t)
{
    if (t.kind == TOKEN_SKIP)
        return;
    if (l->n + 1 >= MATH_TOKENS_MAX || t.kind == TOKEN_END) {
        l->has_failed = true;
        return;
    }
    l->depth += t.kind == TOKEN_OPEN && t.op != 'g';
    l->depth -= t.kind == TOKEN_CLOSE && t.op != 'g';
    t.after_space = l->after_space;
    l->after_space = false;
    l->token[l->n++] = t;
}

static void push_kind(struct lexer *l, enum math_token_kind kind, int op)
{
    push(l, (struct math_token){.kind = kind, .op = op});
}

static struct str rest(const struct lexer *l)
{
    return str_slice(l->s, l->at, l->s.n);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const struct lexer *l, size_t ahead)
{
    return l->at + ahead < l->s.n ? l->s.p[l->at + ahead] : '\0';
}

static bool follows_value(const struct lexer *l)
{
    if (l->n == 0)
        return false;
    enum math_token_kind k = l->token[l->n - 1].kind;
    return k == TOKEN_NUMBER || k == TOKEN_CLOSE || k == TOKEN_TEXT || k == TOKEN_PERCENT;
}

/* Moves behind a balanced {...} at l->at. */
static bool take_group(struct lexer *l, struct str *inside)
{
    while (peek(l, 0) == ' ')
        l->at++;
    if (peek(l, 0) != '{')
        return false;
    size_t start = l->at + 1, depth = 0;
    for (size_t i = l->at; i < l->s.n; i++) {
        depth += l->s.p[i] == '{';
        depth -= l->s.p[i] == '}';
        if (depth == 0) {
            *inside = str_slice(l->s, start, i);
            l->at = i + 1;
            return true;
        }
    }
    return false;
}

static void lex_all(struct lexer *l);

static void lex_inside(struct lexer *l, struct str inside, bool in_text)
{
    struct lexer inner = *l;
    inner.s = inside;
    inner.at = 0;
    inner.in_text = in_text;
    lex_all(&inner);
    l->n = inner.n;
    l->depth = inner.depth;
    l->has_failed = inner.has_failed;
    l->after_space = inner.after_space;
}

/* The subscript at l->at as plain characters; also one character or command without braces. */
static struct str take_subscript(struct lexer *l)
{
    struct str inside;
    if (!take_group(l, &inside)) {
        size_t start = l->at;
        l->at += l->at < l->s.n;
        while (l->at > start && l->s.p[start] == '\\' && is_letter(peek(l, 0)))
            l->at++;
        while (is_digit(l->s.p[start]) && is_digit(peek(l, 0)))
            l->at++;
        inside = str_slice(l->s, start, l->at);
    }
    char *to = arena_alloc(l->arena, inside.n + 1);
    size_t n = 0;
    for (size_t i = 0; to && i < inside.n; i++)
        if (!strchr(" {}\\", inside.p[i]))
            to[n++] = inside.p[i];
    return (struct str){to, n};
}

static int to_base(struct str s)
{
    int base = 0;
    for (size_t i = 0; i < s.n && i < 3; i++)
        base = is_digit(s.p[i]) ? base * 10 + (s.p[i] - '0') : 99;
    return base >= 2 && base <= 36 ? base : 0;
}

/* x_1 is one name, 101_2 a number of base 2; log_2 is left to the parser. */
static void lex_subscript(struct lexer *l)
{
    struct math_token *before = l->n ? &l->token[l->n - 1] : NULL;
    l->at++;
    if (!before || before->kind == TOKEN_FUNCTION) {
        push_kind(l, TOKEN_SUB, 0);
        return;
    }
    if (l->at >= l->s.n) {
        l->has_failed = true;
        return;
    }
    struct str sub = take_subscript(l);
    if (before->kind == TOKEN_NUMBER && to_base(sub)) {
        *before =
            (struct math_token){.kind = TOKEN_NUMBER, .op = -to_base(sub), .text = before->text};
    } else if (before->kind == TOKEN_NAME || before->kind == TOKEN_TEXT ||
               before->kind == TOKEN_CONSTANT) {
        before->text =
            arena_printf(l->arena, STR_FMT "_" STR_FMT, STR_ARG(before->text), STR_ARG(sub));
        before->kind = before->kind == TOKEN_CONSTANT ? TOKEN_NAME : before->kind;
    } else if (before->kind != TOKEN_REALS) {
        l->has_failed = true;
    }
}

static const char *const TEXT_COMMANDS[] = {
    "text",         "textbf", "textit", "textrm", "textnormal", "mbox", "mathrm",
    "operatorname", "mathsf", "texttt", "textsf", "emph",       "hbox"};
static const char *const MATRICES[] = {"pmatrix", "bmatrix", "matrix",      "vmatrix",
                                       "Bmatrix", "array",   "smallmatrix", "Vmatrix"};

#define IS_ONE_OF(s, list) is_one_of(s, list, sizeof list / sizeof list[0])
static bool is_one_of(struct str s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq_c(s, list[i]))
            return true;
    return false;
}

static void lex_environment(struct lexer *l, bool is_begin)
{
    struct str name, columns;
    if (!take_group(l, &name)) {
        l->has_failed = true;
        return;
    }
    bool is_matrix = IS_ONE_OF(name, MATRICES);
    if (is_begin && str_eq_c(name, "array"))
        take_group(l, &columns);
    if (is_begin)
        push_kind(l, is_matrix ? TOKEN_MATRIX : TOKEN_ALIGN, 0);
    else
        push_kind(l, TOKEN_LEAVE, 0);
}

static void lex_number_set(struct lexer *l)
{
    struct str inside;
    while (peek(l, 0) == ' ')
        l->at++;
    if (!take_group(l, &inside)) {
        inside = str_slice(l->s, l->at, l->at + 1);
        l->at += inside.n;
    }
    push(l, (struct math_token){
                .kind = TOKEN_REALS, .op = inside.n ? inside.p[0] : 0, .text = inside});
}

static void lex_named_command(struct lexer *l, struct str name)
{
    struct str inside;
    if (IS_ONE_OF(name, TEXT_COMMANDS)) {
        if (peek(l, 0) == '*')
            l->at++;
        if (take_group(l, &inside))
            lex_inside(l, inside, true);
        return;
    }
    if (str_eq_c(name, "begin") || str_eq_c(name, "end")) {
        lex_environment(l, name.p[0] == 'b');
        return;
    }
    if (str_eq_c(name, "mathbb")) {
        lex_number_set(l);
        return;
    }
    if (str_eq_c(name, "color") || str_eq_c(name, "textcolor")) {
        take_group(l, &inside);
        return;
    }
    struct math_token t = math_command(name);
    if (t.kind == TOKEN_SKIP && t.op && peek(l, 0) == '.')
        l->at++;             /* \left. and \right. */
    if (t.kind == TOKEN_END) /* a Greek letter, or something opaque such as \sum */
        t.kind = TOKEN_NAME;
    push(l, t);
}

static void lex_command(struct lexer *l)
{
    size_t start = ++l->at;
    while (l->at < l->s.n && is_letter(l->s.p[l->at]))
        l->at++;
    struct str name = str_slice(l->s, start, l->at);
    if (name.n) {
        lex_named_command(l, name);
        return;
    }
    char c = peek(l, 0);
    name = str_slice(l->s, start, start + 1);
    l->at += name.n;
    if (c == '\\')
        push_kind(l, TOKEN_ROW, 0);
    else if (c == '|')
        push_kind(l, TOKEN_BAR, 0);
    else if (!strchr(",;:! \n$()[]\"'", c) || c == '\0')
        push(l, math_command(name));
    else
        l->after_space = true;
}

/* Length of the run of letters at l->at, over one byte each unless another alphabet is used. */
static size_t letter_run(const struct lexer *l, bool *is_ascii)
{
    size_t i = l->at, n_bytes;
    uint32_t cp;
    *is_ascii = true;
    while (i < l->s.n) {
        unsigned char c = (unsigned char)l->s.p[i];
        if (c < 0x80 && !is_letter((char)c))
            break;
        struct str here = str_slice(l->s, i, l->s.n);
        size_t step = c < 0x80 ? 1 : utf8_decode(here, &cp);
        if (step == 0 || (c >= 0x80 && math_symbol(here, &n_bytes).kind != TOKEN_END))
            break;
        *is_ascii = *is_ascii && c < 0x80;
        i += step;
    }
    return i - l->at;
}

static size_t upper_case(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] >= 'A' && s.p[i] <= 'Z';
    return n;
}

static struct math_token one_letter(struct str s)
{
    struct math_token t = {.kind = TOKEN_NAME, .text = s};
    if (str_eq_c(s, "e") || str_eq_c(s, "i"))
        t = (struct math_token){
            .kind = TOKEN_CONSTANT, .op = s.p[0] == 'e' ? MATH_E : MATH_I, .text = s};
    return t;
}

/* The m and the s of "10 m/s" within \text{}. */
static bool is_unit_letter(const struct lexer *l)
{
    bool is_under = l->n >= 2 && l->token[l->n - 1].kind == TOKEN_DIVIDE &&
                    l->token[l->n - 2].kind == TOKEN_TEXT;
    return l->in_text && (follows_value(l) || is_under);
}

/* miles, but not ab or ABC; within \text{} everything of two letters. */
static bool is_word(const struct lexer *l, struct str run, bool is_ascii, bool is_unit)
{
    if (!is_ascii)
        return is_unit || text_count_chars(run) > 1;
    if (run.n == 1)
        return is_unit_letter(l);
    bool names_corners = run.n <= 5 && upper_case(run) == run.n && !l->in_text;
    return l->in_text || math_is_unit(run) || (run.n >= 4 && !names_corners);
}

/* A word, or in formulas a product of one-letter names. */
static void lex_letters(struct lexer *l)
{
    bool is_ascii;
    struct str run = str_slice(l->s, l->at, l->at + letter_run(l, &is_ascii));
    if (run.n == 0) {
        l->has_failed = true;
        return;
    }
    l->at += run.n;
    bool is_unit = math_is_unit(run) && (follows_value(l) || l->in_text);
    struct math_token t = is_unit ? (struct math_token){0} : math_word(run);
    if (t.kind == TOKEN_RELATION && l->n == 0)
        t.kind = TOKEN_END;
    if (t.kind != TOKEN_END) {
        push(l, t);
    } else if (is_word(l, run, is_ascii, is_unit)) {
        push(l, (struct math_token){.kind = TOKEN_TEXT, .text = run});
    } else if (!is_ascii) {
        push(l, (struct math_token){.kind = TOKEN_NAME, .text = run});
    } else {
        for (size_t i = 0; i < run.n; i++)
            push(l, one_letter(str_slice(run, i, i + 1)));
    }
}

/* 1.5e-3: the exponent behind a number, as tokens. */
static void lex_exponent(struct lexer *l)
{
    size_t sign = peek(l, 1) == '-' || peek(l, 1) == '+', digits = 0;
    while (is_digit(peek(l, 1 + sign + digits)))
        digits++;
    char behind = peek(l, 1 + sign + digits);
    if (digits == 0 || digits > 5 || is_letter(behind) || behind == '.')
        return;
    struct math_token mantissa = l->token[--l->n];
    bool is_negative = peek(l, 1) == '-';
    struct str exponent = str_slice(l->s, l->at + 1 + sign, l->at + 1 + sign + digits);
    l->at += 1 + sign + digits;
    push_kind(l, TOKEN_OPEN, '(');
    push(l, mantissa);
    push_kind(l, TOKEN_TIMES, 0);
    push(l, (struct math_token){.kind = TOKEN_NUMBER, .text = STR("10")});
    push_kind(l, TOKEN_POWER, 0);
    if (is_negative)
        push_kind(l, TOKEN_MINUS, 0);
    push(l, (struct math_token){.kind = TOKEN_NUMBER, .text = exponent});
    push_kind(l, TOKEN_CLOSE, ')');
}

static void lex_number(struct lexer *l)
{
    struct math_token t;
    size_t end = math_lex_number(l->s, l->at, l->reading, l->depth > 0, l->arena, &t);
    if (end == 0) {
        l->has_failed = true;
        return;
    }
    l->at = end;
    push(l, t);
    if (!l->has_failed && (peek(l, 0) | 32) == 'e')
        lex_exponent(l);
}

/* ^\circ and ^{\circ} */
static bool lex_degrees(struct lexer *l)
{
    static const struct str forms[] = {
        {"^\\circ", 6}, {"^{\\circ}", 8}, {"^ \\circ", 7}, {"^{\\circ }", 9}, {"^\\degree", 8}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!str_starts(rest(l), forms[i]))
            continue;
        l->at += forms[i].n;
        push_kind(l, TOKEN_DEGREES, 0);
        return true;
    }
    return false;
}

/* 2^{\text{nd}}: a number all the same. */
static bool lex_ordinal(struct lexer *l)
{
    static const char *const endings[] = {"st", "nd", "rd", "th"};
    static const struct str fonts[] = {{"{", 1}, {"\\text{", 6}, {"\\mathrm{", 8}};
    size_t i = l->at + 1, open = 0;
    if (peek(l, 0) != '^' || !follows_value(l))
        return false;
    for (size_t k = 0; k < sizeof fonts / sizeof fonts[0]; k++)
        if (str_starts(str_slice(l->s, i, l->s.n), fonts[k])) {
            i += fonts[k].n;
            open++;
        }
    if (!IS_ONE_OF(str_slice(l->s, i, i + 2), endings))
        return false;
    for (i += 2; open > 0 && i < l->s.n && l->s.p[i] == '}'; i++)
        open--;
    if (open == 0)
        l->at = i;
    return open == 0;
}

static bool lex_raised(struct lexer *l)
{
    static const struct str raised[] = {{"\xC2\xB2", 2}, {"\xC2\xB3", 2}};
    for (size_t i = 0; i < 2; i++) {
        if (!str_starts(rest(l), raised[i]))
            continue;
        l->at += raised[i].n;
        push_kind(l, TOKEN_POWER, 0);
        push(l, (struct math_token){.kind = TOKEN_NUMBER, .text = i ? STR("3") : STR("2")});
        return true;
    }
    return false;
}

static void lex_symbol(struct lexer *l)
{
    size_t n_bytes = 0;
    struct math_token t = math_symbol(rest(l), &n_bytes);
    if (t.kind == TOKEN_END) {
        lex_letters(l);
        return;
    }
    bool is_factorial = n_bytes == 2 && l->s.p[l->at] == '!' && follows_value(l) && !l->after_space;
    if (is_factorial) /* 5!=120 */
        t = math_symbol(STR("!"), &n_bytes);
    l->at += n_bytes;
    push(l, t);
}

static void lex_one(struct lexer *l)
{
    char c = peek(l, 0);
    if (strchr(" \t\r\n", c) && c) {
        l->after_space = true;
        l->at++;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(l, 1)))) {
        lex_number(l);
    } else if (c == '\\') {
        lex_command(l);
    } else if (is_letter(c)) {
        lex_letters(l);
    } else if (c == '_') {
        lex_subscript(l);
    } else if (!lex_degrees(l) && !lex_ordinal(l) && !lex_raised(l)) {
        lex_symbol(l);
    }
}

static void lex_all(struct lexer *l)
{
    while (!l->has_failed && l->at < l->s.n)
        lex_one(l);
}

/* 5^\circ C is a temperature: "degrees C" is one unit then, and no angle. */
static void join_temperatures(struct lexer *l)
{
    static const char *const scales[] = {"C",          "F",       "Celsius",
                                         "Fahrenheit", "celsius", "fahrenheit"};
    size_t to = 0;
    for (size_t i = 0; i < l->n; i++, to++) {
        struct math_token *next = i + 1 < l->n ? &l->token[i + 1] : NULL;
        bool is_named = next && (next->kind == TOKEN_NAME || next->kind == TOKEN_TEXT);
        if (l->token[i].kind == TOKEN_DEGREES && is_named && IS_ONE_OF(next->text, scales)) {
            i++;
            next->kind = TOKEN_TEXT;
            next->text = str_slice(next->text, 0, 1);
        }
        l->token[to] = l->token[i];
    }
    l->n = to;
}

bool math_lex(struct str s, enum math_reading reading, struct arena *a, struct math_token *tokens)
{
    struct lexer l = {.s = s, .reading = reading, .arena = a, .token = tokens};
    if (s.n > MATH_TEXT_MAX_BYTES)
        return false;
    lex_all(&l);
    join_temperatures(&l);
    tokens[l.n] = (struct math_token){.kind = TOKEN_END};
    return !l.has_failed;
}
