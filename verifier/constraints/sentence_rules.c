/* Instructions about sentences: their number, kind, length, first and last words. */
#include "verifier/constraints/pieces.h"

#include <string.h>

#define EDGES PIECES_PUNCTUATION " "

static size_t count_ending(const struct list *l, const char *mark)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += str_ends(l->item[i], str_from(mark));
    return n;
}

bool sentence_type_ratio(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    return count_ending(&l, ".") == 2 * count_ending(&l, "?");
}

bool sentence_type_balance(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    size_t told = count_ending(&l, ".");
    return told == count_ending(&l, "?") && told == count_ending(&l, "!");
}

/* Three sentences of one length; that all words differ is asked for too. */
bool sentence_lengths(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    if (l.n != 3)
        return false;
    for (size_t i = 1; i < 3; i++)
        if (text_count_chars(l.item[i]) != text_count_chars(l.item[0]))
            return false;
    struct list words = pieces_words(c, pieces_bare(c, pieces_lower(c, c->text)));
    size_t before = words.n;
    return pieces_sort_unique(&words) == before;
}

bool sentence_keyword(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    if (c->arg[1].n < 1 || (int64_t)l.n < c->arg[1].n)
        return false;
    struct str low = pieces_lower(c, l.item[c->arg[1].n - 1]);
    return str_find(low, pieces_lower(c, c->arg[0].text), 0) >= 0;
}

bool sentence_increment(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    int64_t before = -1;
    for (size_t i = 0; i < l.n; i++) {
        int64_t n = (int64_t)text_count_words(pieces_bare(c, l.item[i]));
        if (i > 0 && n != before + c->arg[0].n)
            return false;
        before = n;
    }
    return true;
}

/* Words that start like their neighbour: two for the first of a row, one for each more. */
static int alliteration(struct constraint *c, struct str sentence)
{
    struct list words = pieces_words(c, sentence);
    int n = 0;
    bool was = false;
    uint32_t before = 0;
    for (size_t i = 0; i < words.n; i++) {
        uint32_t first = pieces_char(pieces_strip_left(words.item[i], EDGES), 0);
        if (!first)
            continue;
        bool is = first == before;
        n += is ? (was ? 1 : 2) : 0;
        was = is;
        before = first;
    }
    return n;
}

bool alliteration_increment(struct constraint *c)
{
    struct list l = pieces_sentences(c, pieces_lower(c, c->text));
    int before = -1;
    for (size_t i = 0; i < l.n; i++) {
        int n = alliteration(c, l.item[i]);
        if (n <= before)
            return false;
        before = n;
    }
    return true;
}

static bool is_emoji(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        {0xA9, 0xA9},       {0xAE, 0xAE},       {0x203C, 0x203C},   {0x2049, 0x2049},
        {0x2122, 0x2122},   {0x2139, 0x2139},   {0x2194, 0x2199},   {0x21A9, 0x21AA},
        {0x231A, 0x231B},   {0x2328, 0x2328},   {0x23CF, 0x23CF},   {0x23E9, 0x23F3},
        {0x23F8, 0x23FA},   {0x24C2, 0x24C2},   {0x25AA, 0x25AB},   {0x25B6, 0x25B6},
        {0x25C0, 0x25C0},   {0x25FB, 0x25FE},   {0x2600, 0x27BF},   {0x2934, 0x2935},
        {0x2B05, 0x2B07},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},
        {0x3030, 0x3030},   {0x303D, 0x303D},   {0x3297, 0x3297},   {0x3299, 0x3299},
        {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F170, 0x1F1FF}, {0x1F201, 0x1FAFF},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (cp >= ranges[i][0] && cp <= ranges[i][1])
            return true;
    return false;
}

static struct str without_marks(struct constraint *c, struct str s)
{
    return text_trim(pieces_bare(c, s));
}

/* The last character, or the one before it: an emoji may have a variation selector behind it. */
static bool ends_with_emoji(struct str s)
{
    uint32_t cp, last = 0, before = 0;
    while (text_next_char(&s, &cp)) {
        before = last;
        last = cp;
    }
    return is_emoji(last) || is_emoji(before);
}

/* "Done! :)" or "Done :)!": an emoji behind the mark begins what is cut as the next sentence. */
bool emoji_ends(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    for (size_t i = 0; i < l.n; i++) {
        struct str s = without_marks(c, l.item[i]);
        if (s.n == 0)
            return false;
        if (ends_with_emoji(s))
            continue;
        struct str next = i + 1 < l.n ? without_marks(c, l.item[i + 1]) : STR("");
        if (!is_emoji(pieces_char(next, 0)))
            return false;
    }
    return true;
}

static struct str last_word(struct constraint *c, struct str s)
{
    struct list words = pieces_words(c, pieces_strip_right(s, EDGES));
    return words.n ? words.item[words.n - 1] : STR("");
}

static struct str first_word(struct constraint *c, struct str s)
{
    struct list words = pieces_words(c, pieces_strip_left(s, EDGES));
    return words.n ? words.item[0] : STR("");
}

/* The last sentence has no next one, whose marks would have to be told from the word. */
bool last_word_first(struct constraint *c)
{
    struct list l = pieces_sentences(c, pieces_lower(c, c->text));
    for (size_t i = 0; i + 1 < l.n; i++) {
        struct str last = last_word(c, l.item[i]);
        struct str first = pieces_strip_right(first_word(c, l.item[i + 1]), EDGES);
        if (last.n == 0 || !str_eq(last, first))
            return false;
    }
    return true;
}

bool keyword_position(struct constraint *c)
{
    struct list l = pieces_sentences(c, c->text);
    if (c->arg[1].n < 1 || c->arg[2].n < 1 || (int64_t)l.n < c->arg[1].n)
        return false;
    struct list tokens = pieces_tokens(c, l.item[c->arg[1].n - 1]);
    return (int64_t)tokens.n >= c->arg[2].n &&
           str_eq(tokens.item[c->arg[2].n - 1], text_trim(c->arg[0].text));
}

/* Second and second to last, marks counted as words. */
bool words_position(struct constraint *c)
{
    struct list tokens = pieces_tokens(c, c->text);
    struct str word = text_trim(c->arg[0].text);
    return tokens.n >= 2 && str_eq(tokens.item[1], word) && str_eq(tokens.item[tokens.n - 2], word);
}
