/* Instructions about each word, or about neighbours. */
#include "verifier/constraints/pieces.h"

#include <string.h>

#define EDGES PIECES_PUNCTUATION " "

/* Lower-cased words without punctuation. */
static struct list bare_words(struct constraint *c)
{
    return pieces_words(c, pieces_bare(c, pieces_lower(c, c->text)));
}

bool alphabet_loop(struct constraint *c)
{
    struct list words = bare_words(c);
    for (size_t i = 0; i < words.n; i++) {
        uint32_t first = pieces_char(words.item[i], 0);
        uint32_t start = pieces_char(words.item[0], 0);
        if (start < 'a' || start > 'z' || first != 'a' + (start - 'a' + i) % 26)
            return false;
    }
    return words.n > 0;
}

bool three_vowels(struct constraint *c)
{
    struct str s = pieces_lower(c, text_trim(c->text));
    int kinds = 0;
    for (const char *vowel = "aeiou"; *vowel; vowel++)
        kinds += s.n && memchr(s.p, *vowel, s.n) != NULL;
    return kinds <= 3 && !pieces_holds(s, "\n");
}

static bool is_consonant(char ch)
{
    return ch >= 'b' && ch <= 'z' && !strchr("eiou", ch);
}

static bool has_cluster(struct str word)
{
    for (size_t i = 0; i + 1 < word.n; i++)
        if (is_consonant(word.p[i]) && is_consonant(word.p[i + 1]))
            return true;
    return false;
}

bool consonant_clusters(struct constraint *c)
{
    struct list words = pieces_words(c, pieces_lower(c, c->text));
    for (size_t i = 0; i < words.n; i++)
        if (!has_cluster(words.item[i]))
            return false;
    return true;
}

static bool is_palindrome(struct constraint *c, struct str word)
{
    size_t n = text_count_chars(word), i = 0;
    uint32_t *cp = n >= 5 ? arena_array(c->arena, n, sizeof *cp) : NULL;
    if (!cp)
        return false;
    while (i < n && text_next_char(&word, &cp[i]))
        i++;
    for (i = 0; i < n / 2; i++)
        if (cp[i] != cp[n - 1 - i])
            return false;
    return true;
}

bool palindromes(struct constraint *c)
{
    struct list words = bare_words(c);
    size_t n = 0;
    for (size_t i = 0; i < words.n && n < 10; i++)
        n += is_palindrome(c, words.item[i]);
    return n >= 10;
}

static bool is_prime(size_t n)
{
    for (size_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n >= 2;
}

bool prime_lengths(struct constraint *c)
{
    struct list words = bare_words(c);
    for (size_t i = 0; i < words.n; i++)
        if (!is_prime(text_count_chars(words.item[i])))
            return false;
    return true;
}

/* Sorted copies of one word stand side by side. */
bool word_repeats(struct constraint *c)
{
    struct list words = bare_words(c), unique = words;
    unique.item = arena_array(c->arena, words.n + 1, sizeof *unique.item);
    if (!unique.item) {
        c->no_memory = true;
        return false;
    }
    if (words.n)
        memcpy(unique.item, words.item, words.n * sizeof *words.item);
    size_t kinds = pieces_sort_unique(&unique);
    uint32_t *count = arena_array(c->arena, kinds + 1, sizeof *count);
    c->no_memory = c->no_memory || !count;
    for (size_t i = 0; count && i < words.n; i++) {
        size_t low = 0, high = kinds;
        while (low + 1 < high) {
            size_t middle = (low + high) / 2;
            bool is_before = str_compare(words.item[i], unique.item[middle]) < 0;
            high = is_before ? middle : high;
            low = is_before ? low : middle;
        }
        if ((int64_t)++count[low] > c->arg[0].n)
            return false;
    }
    return true;
}

bool first_letters_differ(struct constraint *c)
{
    struct list words = bare_words(c);
    for (size_t i = 0; i + 1 < words.n; i++)
        if (pieces_char(words.item[i], 0) == pieces_char(words.item[i + 1], 0))
            return false;
    return true;
}

bool paragraph_last_first(struct constraint *c)
{
    struct list lines = pieces_filled_lines(c, pieces_lower(c, c->text));
    for (size_t i = 0; i < lines.n; i++) {
        struct list words = pieces_words(c, pieces_strip(text_trim(lines.item[i]), EDGES));
        if (words.n == 0 || !str_eq(words.item[0], words.item[words.n - 1]))
            return false;
    }
    return true;
}

/* A small first letter is wrong in a word whose rest is of one case. */
bool title_case(struct constraint *c)
{
    struct list tokens = pieces_tokens(c, c->text);
    for (size_t i = 0; i < tokens.n; i++) {
        struct str rest = tokens.item[i];
        uint32_t first;
        if (!text_next_char(&rest, &first) || !is_lower_char(first))
            continue;
        if (pieces_is_of_case(rest, is_lower_char) || pieces_is_of_case(rest, is_upper_char))
            return false;
    }
    return true;
}

bool no_whitespace(struct constraint *c)
{
    struct str s = c->text;
    for (uint32_t cp; text_next_char(&s, &cp);)
        if (text_is_space(cp))
            return false;
    return true;
}
