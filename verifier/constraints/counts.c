/* Instructions that count words, characters and kinds of words in the whole text. */
#include "verifier/constraints/pieces.h"

#include <stdlib.h>
#include <string.h>

#define EDGES PIECES_PUNCTUATION " "

bool word_count_range(struct constraint *c)
{
    int64_t n = (int64_t)pieces_count_runs(c->text, is_word_char);
    return n >= c->arg[0].n && n <= c->arg[1].n;
}

bool unique_word_count(struct constraint *c)
{
    struct list words = pieces_words(c, pieces_lower(c, c->text));
    size_t kept = 0;
    for (size_t i = 0; i < words.n; i++) {
        words.item[kept] = pieces_strip(words.item[i], EDGES);
        kept += words.item[kept].n > 0;
    }
    words.n = kept;
    return (int64_t)pieces_sort_unique(&words) >= c->arg[0].n;
}

static const char STOP_WORDS[] =
    " i me my myself we our ours ourselves you your yours yourself yourselves he him his himself "
    "she "
    "her hers herself it its itself they them their theirs themselves what which who whom this "
    "that "
    "these those am is are was were be been being have has had having do does did doing a an the "
    "and "
    "but if or because as until while of at by for with about against between into through during "
    "before after above below to from up down in out on off over under again further then once "
    "here "
    "there when where why how all any both each few more most other some such no nor not only own "
    "same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn "
    "doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn ";

/* Runs of word characters, lower-cased. */
static struct list word_runs(struct constraint *c, struct str s)
{
    size_t most = pieces_count_runs(s, is_word_char);
    struct list l = {.item = arena_array(c->arena, most + 1, sizeof *l.item)};
    c->no_memory = c->no_memory || !l.item;
    const char *start = NULL;
    uint32_t cp;
    for (struct str rest = s; l.item;) {
        const char *at = rest.p;
        bool is = text_next_char(&rest, &cp) && (is_word_char(cp) || (start && is_mark_char(cp)));
        if (is && !start)
            start = at;
        if (!is && start) {
            l.item[l.n++] = (struct str){start, (size_t)(at - start)};
            start = NULL;
        }
        if (at == rest.p)
            break;
    }
    return l;
}

bool stop_word_share(struct constraint *c)
{
    struct list words = word_runs(c, pieces_lower(c, c->text));
    size_t n = 0;
    for (size_t i = 0; i < words.n; i++)
        n += pieces_is_one_of(words.item[i], STOP_WORDS);
    return words.n > 0 && (double)n * 100 <= (double)(c->arg[0].n * (int64_t)words.n);
}

/* How many of the listed words stand in the text. */
bool conjunctions(struct constraint *c)
{
    struct list words = pieces_words(c, pieces_lower(c, c->text));
    size_t kept = 0;
    for (size_t i = 0; i < words.n; i++) {
        struct str word = pieces_strip(words.item[i], EDGES);
        if (pieces_is_one_of(word, " and but for nor or so yet "))
            words.item[kept++] = word;
    }
    words.n = kept;
    return (int64_t)pieces_sort_unique(&words) >= c->arg[0].n;
}

bool person_names(struct constraint *c)
{
    /* The list of the instruction. */
    struct str names = STR(
        "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte "
        "Alexander Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen "
        "Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David "
        "Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan");
    int64_t n = 0;
    for (struct str name; str_split(&names, ' ', &name);)
        n += pieces_holds_word(c->text, name);
    return n >= c->arg[0].n;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

struct trigrams {
    uint64_t *item; /* three code points of 21 bits; sorted, each once */
    size_t n;
};

static struct trigrams trigrams_of(struct constraint *c, struct str s)
{
    struct trigrams t = {.item = arena_array(c->arena, s.n + 1, sizeof *t.item)};
    uint64_t last = 0;
    size_t seen = 0, kept = 0;
    c->no_memory = c->no_memory || !t.item;
    for (uint32_t cp; t.item && text_next_char(&s, &cp);) {
        last = (last << 21 | cp) & (((uint64_t)1 << 63) - 1);
        if (++seen >= 3)
            t.item[t.n++] = last;
    }
    if (t.n)
        qsort(t.item, t.n, sizeof *t.item, compare_u64);
    for (size_t i = 0; i < t.n; i++)
        if (i == 0 || t.item[i] != t.item[kept - 1])
            t.item[kept++] = t.item[i];
    t.n = kept;
    return t;
}

/* Trigrams of characters, as the data set's reference counts them; within two points. */
bool trigram_overlap(struct constraint *c)
{
    struct trigrams ours = trigrams_of(c, c->text), theirs = trigrams_of(c, c->arg[0].text);
    size_t shared = 0;
    for (size_t i = 0, k = 0; i < ours.n && k < theirs.n;) {
        shared += ours.item[i] == theirs.item[k];
        bool ours_is_less = ours.item[i] <= theirs.item[k];
        k += ours.item[i] >= theirs.item[k];
        i += ours_is_less;
    }
    double percent = ours.n ? 100.0 * (double)shared / (double)ours.n : 0;
    return ours.n && percent >= (double)c->arg[1].n - 2 && percent <= (double)c->arg[1].n + 2;
}

/* 1,000 and 3.14 are one number each. */
bool number_count(struct constraint *c)
{
    struct str bare = pieces_bare(c, c->text);
    return (int64_t)pieces_count_runs(bare, is_digit_char) == c->arg[0].n;
}

/* . , ! ? ; : each at least once, the interrobang not counted for ! and ?. */
bool punctuation_cover(struct constraint *c)
{
    ptrdiff_t at = str_find(c->text, STR("?!"), 0);
    at = at >= 0 ? at : str_find(c->text, STR("!?"), 0);
    if (at < 0 && !pieces_holds(c->text, "\xE2\x80\xBD"))
        return false;
    size_t cut = at >= 0 ? (size_t)at : c->text.n;
    for (const char *mark = ".,!?;:"; *mark; mark++) {
        bool is_there = memchr(c->text.p, *mark, cut) != NULL;
        if (!is_there && cut + 2 <= c->text.n)
            is_there = memchr(c->text.p + cut + 2, *mark, c->text.n - cut - 2) != NULL;
        if (!is_there)
            return false;
    }
    return true;
}

bool pronouns(struct constraint *c)
{
    static const char list[] =
        " i me my mine myself we us our ours ourselves you your yours yourself yourselves he him "
        "his "
        "himself she her hers herself it its itself they them their theirs themselves ";
    struct str low = pieces_lower(c, c->text);
    for (size_t i = 0; i < low.n; i++) /* she/her are two; the copy is ours */
        if (low.p[i] == '/')
            ((char *)low.p)[i] = ' ';
    struct list words = pieces_words(c, pieces_bare(c, low));
    int64_t n = 0;
    for (size_t i = 0; i < words.n; i++)
        n += pieces_is_one_of(words.item[i], list);
    return n >= c->arg[0].n;
}

static bool is_japanese(uint32_t cp)
{
    return (cp >= 0x3040 && cp <= 0x30FF) || (cp >= 0x4E00 && cp <= 0x9FFF);
}

static bool is_all_digits(struct str s)
{
    bool all = s.n > 0;
    for (uint32_t cp; text_next_char(&s, &cp);)
        all = all && is_digit_char(cp);
    return all;
}

bool words_japanese(struct constraint *c)
{
    struct list words = pieces_words(c, c->text);
    if (c->arg[0].n < 1)
        return false;
    for (size_t i = (size_t)c->arg[0].n - 1; i < words.n; i += (size_t)c->arg[0].n) {
        struct str word = pieces_strip(words.item[i], EDGES);
        if (word.n && !is_all_digits(word) && pieces_count_runs(word, is_japanese) == 0)
            return false;
    }
    return true;
}
