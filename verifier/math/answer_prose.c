/* Cues, numbers and words in running text. Each passes once over it. */
#include "verifier/math/answer_find.h"
#include "verifier/math/chars.h"

enum { CUE_GAP = 60 };

static bool is_word_is(struct str s, size_t i)
{
    return (s.p[i] | 32) == 'i' && starts_folded(s, i, "is") && !is_letter(char_at(s, i + 2));
}

/* Index behind what links "answer" at i to its value; 0 when nothing does. */
static size_t behind_link(struct str s, size_t i)
{
    size_t k = i + 6;
    while (is_one_of(char_at(s, k), "*_ )") && k < i + CUE_GAP)
        k++;
    if (char_at(s, k) == ':' || char_at(s, k) == '=')
        return k + 1;
    if (char_at(s, k) == '$' || (char_at(s, k) == '\\' && is_one_of(char_at(s, k + 1), "([b")))
        return k;
    for (size_t j = k; j < s.n && j < k + CUE_GAP && !is_one_of(s.p[j], ".\n$\\"); j++) {
        if (is_word_is(s, j) && (j == k || s.p[j - 1] == ' '))
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
        size_t behind = behind_link(s, i), k = behind;
        while (k < behind + CUE_GAP && is_one_of(char_at(s, k), " \t\r\n"))
            k++;
        bool has_value = behind && k < s.n && s.p[k] != '.';
        found = has_value ? behind : found;
    }
    *rest = str_slice(s, found, s.n);
    return found > 0;
}

static bool is_number_part(char c)
{
    return is_digit(c) || is_one_of(c, "+-*/^.,:%()") || (unsigned char)c >= 0x80;
}

/* Index where the number that ends with the digit at i begins. */
static size_t number_start(struct str s, size_t i)
{
    while (i > 0 && is_number_part(s.p[i - 1]))
        i--;
    return i;
}

/* A number beside braces or a backslash belongs to a \\command: all up to white space. */
static struct str command_around(struct str s, size_t from, size_t to)
{
    size_t least = from > CUE_GAP ? from - CUE_GAP : 0;
    while (from > least && !is_one_of(s.p[from - 1], " \n\t"))
        from--;
    while (to < s.n && !is_one_of(s.p[to], " \n\t$"))
        to++;
    return str_slice(s, from, to);
}

static struct str plain_number(struct str s, size_t from, size_t to)
{
    while (from < to && is_one_of(s.p[from], ".,:)*^/%") &&
           !(s.p[from] == '.' && is_digit(char_at(s, from + 1))))
        from++;
    if (char_at(s, to) == '\\' && char_at(s, to + 1) == '%')
        to += 2;
    else if (char_at(s, to) == '%')
        to++;
    else if (char_at(s, to) == '\xcf' && char_at(s, to + 1) == '\x80') /* pi */
        to += 2;
    return str_slice(s, from, to);
}

bool answer_number(struct str s, struct str *out, size_t *end)
{
    for (size_t i = s.n; i-- > 0;) {
        if (!is_digit(s.p[i]))
            continue;
        size_t from = number_start(s, i);
        bool is_command = from > 0 && is_one_of(s.p[from - 1], "{}\\");
        if (from > 0 && is_letter(s.p[from - 1]) && !is_command) {
            i = from; /* digits of a name */
            continue;
        }
        *out = is_command ? command_around(s, from, i + 1) : plain_number(s, from, i + 1);
        *end = (size_t)(out->p + out->n - s.p);
        return true;
    }
    return false;
}

/* A word of two letters or more at i, other than "and" and "or". */
static bool starts_word(struct str s, size_t i)
{
    bool is_start = is_letter(s.p[i]) && is_letter(char_at(s, i + 1)) &&
                    (i == 0 || is_one_of(s.p[i - 1], " \n\t*(\""));
    return is_start && !starts_folded(s, i, "and ") && !starts_folded(s, i, "or ");
}

/* "Therefore, x = 7", "Then a + b = 7": a word that is neither the answer nor what equals it. */
static bool has_opener(struct str s)
{
    size_t i = 0;
    while (i < s.n && is_one_of(s.p[i], " \n\t*"))
        i++;
    if (!starts_word(s, i))
        return false;
    while (i < s.n && is_letter(s.p[i]))
        i++;
    bool is_set_off = char_at(s, i) == ',' && char_at(s, i + 1) == ' ';
    return is_set_off ||
           (char_at(s, i) == ' ' && char_at(s, i + 1) != '=' && str_find(s, STR("="), i + 1) >= 0);
}

bool answer_is_prose(struct str s)
{
    int before = 0, all = 0, depth = 0;
    bool has_value = false;
    for (size_t i = 0; i < s.n; i++) {
        depth += s.p[i] == '{';
        depth -= s.p[i] == '}';
        has_value = has_value || is_digit(s.p[i]) || is_one_of(s.p[i], "$\\");
        bool is_word = depth == 0 && starts_word(s, i);
        all += is_word;
        before += is_word && !has_value;
    }
    struct answer_parts formulas;
    bool has_formula = before >= 1 && answer_formulas(s, &formulas);
    return has_value && (before >= 2 || all >= 5 || has_formula || (before >= 1 && has_opener(s)));
}
