/* Finders of the letter; each passes once over the text. No state. */
#include "verifier/text/letter.h"

#include "verifier/text/text.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_mark(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static char char_at(struct str s, size_t i)
{
    return i < s.n ? s.p[i] : '\0';
}

static bool starts_folded(struct str s, size_t i, const char *word)
{
    for (size_t k = 0; word[k]; k++) {
        char c = char_at(s, i + k);
        if ((is_letter(c) ? (c | 32) : c) != word[k])
            return false;
    }
    return true;
}

enum { DECORATION_MAX = 64 };

/* Index behind marks, font commands and the words before a letter, at most DECORATION_MAX on. */
static size_t behind_decoration(struct str s, size_t i)
{
    static const char *const words[] = {"\\text{",  "\\textbf{", "\\mathrm{", "\\mathbf{",
                                        "\\boxed{", "\\(",       "option ",   "choice ",
                                        "letter ",  "option: ",  "choice: "};
    size_t limit = i + DECORATION_MAX;
    for (size_t start = i + 1; start != i && i < limit;) {
        start = i;
        while (i < limit && is_mark(char_at(s, i), " \t\r\n*_$`([{\"':"))
            i++;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            if (starts_folded(s, i, words[w]))
                i += strlen(words[w]);
    }
    return i;
}

/* "a dog", "I think": a word rather than a letter. */
static bool is_word_at(struct str s, size_t i)
{
    char after = char_at(s, i + 2);
    bool is_one = s.p[i] == 'A' || s.p[i] == 'I';
    return is_one && char_at(s, i + 1) == ' ' && after >= 'a' && after <= 'z';
}

/* The letter at i if it stands for itself: B. (b) **C** but not "a dog" or "Because". */
static char letter_at(struct str s, size_t i, int n_letters)
{
    char c = char_at(s, i), next = char_at(s, i + 1), upper = (char)(c & ~32);
    if (!is_letter(c) || upper - 'A' >= n_letters || is_word_at(s, i))
        return 0;
    bool is_closed = i + 1 >= s.n || is_mark(next, ")]}.:,*\n$`\"\\");
    bool is_free =
        !is_letter(next) && !is_mark(next, "0123456789'-/&") && (unsigned char)next < 0x80;
    return is_free && (is_closed || c <= 'Z') ? upper : 0;
}

char letter_alone(struct str text, int n_letters)
{
    struct str s = text_trim(text);
    size_t i = behind_decoration(s, 0);
    char c = letter_at(s, i, n_letters);
    for (i++; c && i < s.n; i++)
        if (!is_mark(s.p[i], " \t\r\n*_$`)]}\"'.:\\"))
            return 0;
    return c;
}

/* Index behind the last \boxed{, 0 when there is none. */
static size_t behind_box(struct str s)
{
    const struct str box = STR("\\boxed{");
    ptrdiff_t at = text_find_last(s, box);
    return at < 0 ? 0 : (size_t)at + box.n;
}

/* The word ends there, unless its script knows no spaces. */
static bool is_link(struct str s, size_t at, const char *word)
{
    return starts_folded(s, at, word) &&
           !(is_letter(word[0]) && is_letter(char_at(s, at + strlen(word))));
}

/* The letter behind the last "answer is", "answer:", "answer (B)" and the like. */
static char behind_cue(struct str s, int n_letters)
{
    static const char *const cues[] = {"answer", "choice", "option", "答案"};
    static const char *const links[] = {"is", "would be", "should be", "must be", "是", "为", "："};
    enum { CUES = sizeof cues / sizeof cues[0], LINKS = sizeof links / sizeof links[0] };
    char found = 0;
    for (size_t i = 0; i < s.n; i++) {
        size_t k = 0;
        for (size_t w = 0; !k && w < CUES; w++)
            if ((i == 0 || !is_letter(s.p[i - 1])) && starts_folded(s, i, cues[w]))
                k = i + strlen(cues[w]);
        if (!k || is_letter(char_at(s, k)))
            continue;
        size_t at = behind_decoration(s, k);
        for (size_t l = 0; l < LINKS; l++)
            if (is_link(s, at, links[l])) {
                at = behind_decoration(s, at + strlen(links[l]));
                break;
            }
        char c = letter_at(s, at, n_letters);
        found = c ? c : found;
    }
    return found;
}

/* "C is the correct answer": the last letter of which that is said. */
static char said_to_be_right(struct str s, int n_letters)
{
    static const char *const said[] = {"is correct",   "is right",    "is the correct",
                                       "is the right", "is the best", "is the answer",
                                       "is my "};
    char found = 0;
    for (size_t i = 0; i + 1 < s.n; i++) {
        if (s.p[i] < 'A' || s.p[i] > 'Z' || (i > 0 && !is_mark(s.p[i - 1], " \n*([\"")))
            continue;
        size_t at = i + 1;
        while (is_mark(char_at(s, at), ")]*\" "))
            at++;
        for (size_t k = 0; at > i + 1 && k < sizeof said / sizeof said[0]; k++)
            if (starts_folded(s, at, said[k]) && s.p[i] - 'A' < n_letters)
                found = s.p[i];
    }
    return found;
}

/* The last (B) or [B]. */
static char in_brackets(struct str s, int n_letters)
{
    for (size_t i = s.n; i-- > 2;) {
        bool is_one = is_mark(s.p[i], ")]") && is_mark(s.p[i - 2], "([");
        char c = is_one ? letter_at(s, i - 1, n_letters) : 0;
        if (c)
            return c;
    }
    return 0;
}

/* A capital that is the last word, or the first one before a mark or the end of its line. */
static char at_either_end(struct str s, int n_letters)
{
    s = text_trim(s);
    size_t i = behind_decoration(s, 0), end = s.n;
    char c = letter_at(s, i, n_letters);
    bool is_talked_about = starts_folded(s, i + 1, ") is ");
    if (c && !is_talked_about && (i + 1 >= s.n || is_mark(s.p[i + 1], ").:]\n*,`$\"")))
        return c;
    c = in_brackets(s, n_letters);
    while (!c && end > 0 && is_mark(s.p[end - 1], " .*_`)$}!\n\""))
        end--;
    if (!c && end > 0 && (end == 1 || is_mark(s.p[end - 2], " *_(\n:{\"")) && s.p[end - 1] <= 'Z')
        c = letter_at(str_slice(s, 0, end), end - 1, n_letters);
    return c;
}

char letter_stated(struct str text, int n_letters)
{
    text = text_answered(text);
    size_t box = behind_box(text);
    if (box && str_find(text, STR("}"), box) < 0)
        return 0;
    if (box)
        return letter_at(text, behind_decoration(text, box), n_letters);
    char c = behind_cue(text, n_letters);
    c = c ? c : said_to_be_right(text, n_letters);
    return c ? c : at_either_end(text, n_letters);
}
