/* Words and marks apart, as the Penn Treebank writes English: punctuation at the ends of a word
 * stands by itself, a full stop only where a sentence ends, and 's, n't and the like are tokens. */
#include "verifier/constraints/pieces.h"

#include <string.h>

struct tokens {
    struct constraint *c;
    struct list list;
    size_t room;
};

static void put(struct tokens *t, struct str token)
{
    if (token.n && t->list.n < t->room)
        t->list.item[t->list.n++] = token;
}

/* Length of the mark that s starts with: brackets, quotes, marks, "..." and "--" as one. */
static size_t opening(struct str s)
{
    static const struct str wide[] = {
        {"...", 3}, {"--", 2}, {"\xE2\x80\x9C", 3}, {"\xE2\x80\x98", 3}, {"\xE2\x80\x94", 3}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (str_starts(s, wide[i]))
            return wide[i].n;
    return s.n && s.p[0] && strchr("([{<\"'`#$@%&?!,;:", s.p[0]) ? 1 : 0;
}

static size_t closing(struct str s, bool ends_sentence)
{
    static const struct str wide[] = {
        {"...", 3}, {"--", 2}, {"\xE2\x80\x9D", 3}, {"\xE2\x80\x99", 3}, {"\xE2\x80\x94", 3}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (str_ends(s, wide[i]))
            return wide[i].n;
    if (s.n && s.p[s.n - 1] == '.')
        return ends_sentence;
    return s.n && s.p[s.n - 1] && strchr(")]}>\"'?!,;:%&@#", s.p[s.n - 1]) ? 1 : 0;
}

/* Length of the contraction s ends with; 0 for none. */
static size_t contraction(struct constraint *c, struct str s)
{
    static const char *const ends[] = {"n't", "'s", "'m", "'d", "'ll", "'re", "'ve"};
    struct str low = pieces_lower(c, s);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (str_ends(low, str_from(ends[i])) && low.n == s.n && s.n > strlen(ends[i]))
            return strlen(ends[i]);
    return 0;
}

static void put_plain(struct tokens *t, struct str s)
{
    size_t tail = contraction(t->c, s);
    put(t, str_slice(s, 0, s.n - tail));
    put(t, str_slice(s, s.n - tail, s.n));
}

/* Marks inside a word cut it, commas and colons only where no digit follows. */
static void put_word(struct tokens *t, struct str s)
{
    size_t from = 0;
    for (size_t i = 1; i + 1 < s.n; i++) {
        bool is_number = s.p[i + 1] >= '0' && s.p[i + 1] <= '9';
        if (!s.p[i] || !strchr(",:;?!()[]{}\"&@#$%", s.p[i]) || (is_number && strchr(",:", s.p[i])))
            continue;
        put_plain(t, str_slice(s, from, i));
        put(t, str_slice(s, i, i + 1));
        from = i + 1;
    }
    put_plain(t, str_slice(s, from, s.n));
}

static void put_chunk(struct tokens *t, struct str s, bool ends_sentence)
{
    struct str behind[64];
    size_t n = 0;
    for (size_t k; s.n && (k = opening(s)) > 0; s = str_slice(s, k, s.n))
        put(t, str_slice(s, 0, k));
    for (size_t k; s.n && n < 64 && (k = closing(s, ends_sentence)) > 0;
         s = str_slice(s, 0, s.n - k))
        behind[n++] = str_slice(s, s.n - k, s.n);
    put_word(t, s);
    while (n > 0)
        put(t, behind[--n]);
}

struct list pieces_tokens(struct constraint *c, struct str s)
{
    struct list sentence = pieces_sentences(c, s);
    struct tokens t = {.c = c, .room = s.n + 1};
    t.list.item = arena_array(c->arena, t.room, sizeof *t.list.item);
    c->no_memory = c->no_memory || !t.list.item;
    for (size_t i = 0; t.list.item && i < sentence.n; i++) {
        struct str word, rest = sentence.item[i];
        while (text_next_word(&rest, &word))
            put_chunk(&t, word, rest.n == 0); /* sentences are trimmed */
    }
    return t.list;
}
