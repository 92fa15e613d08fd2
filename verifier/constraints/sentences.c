/* Sentences as IFBench's data count them: a full stop, question or exclamation mark ends one,
 * unless the stop belongs to a title, an abbreviation, an initial, a number or a web address; a
 * closing quote behind the mark goes with the sentence. Stops that end nothing, the last one of a
 * row, and spaces that end one are written as bytes that valid UTF-8 does not have. */
#include "verifier/constraints/pieces.h"

#include <string.h>

enum { KEPT = 0xFF, END = 0xFE, LAST = 0xFD };

struct cutter {
    unsigned char *p; /* from p[0] to p[n-1]; p[-1], p[n] and p[n+1] are spaces */
    size_t n;
};

static bool is_letter(unsigned char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_capital(unsigned char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_number(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* One of the words ends in front of byte i. */
static bool ends_with(const struct cutter *t, size_t i, const char *const *word)
{
    for (; *word; word++) {
        size_t n = strlen(*word);
        if (i >= n && memcmp(t->p + i - n, *word, n) == 0)
            return true;
    }
    return false;
}

static bool starts_with(const struct cutter *t, size_t i, const char *const *word)
{
    for (; *word; word++) {
        size_t n = strlen(*word);
        if (i + n <= t->n && memcmp(t->p + i, *word, n) == 0)
            return true;
    }
    return false;
}

static const char *const TITLES[] = {"Mr", "St", "Mrs", "Ms", "Dr", NULL};
static const char *const DOMAINS[] = {"com", "net", "org", "io", "gov", "edu", "me", NULL};
static const char *const COMPANY[] = {" Inc", " Ltd", " Jr", " Sr", " Co", NULL};
static const char *const STARTERS[] = {
    " Mr",  " Mrs",  " Ms",       " Dr",    " Prof",  " Capt",     " Cpt",
    " Lt",  " He ",  " She ",     " It ",   " They ", " Their ",   " Our ",
    " We ", " But ", " However ", " That ", " This ", " Wherever", NULL};

/* Dots next to each other: they are no stops one by one, together they end a sentence. */
static size_t keep_run(struct cutter *t, size_t i)
{
    size_t end = i;
    while (end < t->n && t->p[end] == '.')
        t->p[end++] = KEPT;
    t->p[end - 1] = LAST;
    return end - 1;
}

static bool is_acronym_end(const struct cutter *t, size_t i)
{
    return i >= 3 && is_letter(t->p[i - 1]) && is_letter(t->p[i - 3]) &&
           (t->p[i - 2] == '.' || t->p[i - 2] == KEPT);
}

/* A letter and a stop in front of another letter and a stop. */
static bool is_acronym_start(const struct cutter *t, size_t i)
{
    return i >= 1 && is_letter(t->p[i - 1]) && i + 2 < t->n && is_letter(t->p[i + 1]) &&
           t->p[i + 2] == '.';
}

/* Titles, web addresses, numbers, the first stops of an acronym: whatever stands behind them. */
static bool is_inside(const struct cutter *t, size_t i)
{
    bool is_in_number = i > 0 && is_number(t->p[i - 1]) && is_number(t->p[i + 1]);
    return is_in_number || is_acronym_start(t, i) || ends_with(t, i, TITLES) ||
           starts_with(t, i + 1, DOMAINS);
}

/* What the stop at i means. An acronym or a company ends a sentence when a usual first word
 * follows. */
static unsigned char meaning(const struct cutter *t, size_t i)
{
    bool is_acronym = is_acronym_end(t, i);
    bool may_end = !is_acronym || (is_capital(t->p[i - 1]) && is_capital(t->p[i - 3]));
    if (is_inside(t, i))
        return KEPT;
    if (is_acronym || ends_with(t, i, COMPANY))
        return may_end && starts_with(t, i + 1, STARTERS) ? END : KEPT;
    bool is_initial = i >= 1 && is_letter(t->p[i - 1]) && (i == 1 || t->p[i - 2] == ' ');
    return is_initial ? KEPT : '.';
}

static void mark_stops(struct cutter *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->p[i] != '.')
            continue;
        if (t->p[i + 1] == '.') {
            i = keep_run(t, i);
            continue;
        }
        t->p[i] = meaning(t, i);
    }
}

static bool is_mark(unsigned char c)
{
    return c == '.' || c == '?' || c == '!';
}

/* Length of the closing quote at i, 0 when there is none. Curly ones only behind a stop. */
static size_t quote_at(const struct cutter *t, size_t i, unsigned char mark)
{
    if (i < t->n && t->p[i] == '"')
        return 1;
    bool is_curly = mark == '.' && i + 3 <= t->n && memcmp(t->p + i, "\xE2\x80\x9D", 3) == 0;
    return is_curly ? 3 : 0;
}

/* The mark moves behind a closing quote, so that the quote stays with its sentence. */
static void move_quotes(struct cutter *t)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t quote = is_mark(t->p[i]) ? quote_at(t, i + 1, t->p[i]) : 0;
        if (!quote)
            continue;
        unsigned char mark = t->p[i];
        memmove(t->p + i, t->p + i + 1, quote);
        t->p[i + quote] = mark;
        i += quote;
    }
}

static bool is_end(unsigned char c)
{
    return is_mark(c) || c == END || c == LAST;
}

static void add(struct list *l, struct cutter *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        t->p[i] = t->p[i] >= LAST ? (t->p[i] == END ? ' ' : '.') : t->p[i];
    l->item[l->n++] = text_trim((struct str){(const char *)t->p + from, to - from});
}

static struct list cut(struct constraint *c, struct cutter *t)
{
    struct list l = {0};
    size_t n = 1, from = 0;
    for (size_t i = 0; i < t->n; i++)
        n += is_end(t->p[i]);
    l.item = arena_array(c->arena, n, sizeof *l.item);
    c->no_memory = c->no_memory || !l.item;
    for (size_t i = 0; l.item && i < t->n; i++) {
        if (!is_end(t->p[i]))
            continue;
        add(&l, t, from, i + 1);
        from = i + 1;
    }
    if (l.item)
        add(&l, t, from, t->n);
    l.n -= l.n && l.item[l.n - 1].n == 0;
    return l;
}

struct list pieces_sentences(struct constraint *c, struct str s)
{
    unsigned char *p = arena_alloc(c->arena, s.n + 3);
    if (!p) {
        c->no_memory = true;
        return (struct list){0};
    }
    memset(p, ' ', s.n + 3);
    memcpy(p + 1, s.p, s.n);
    struct cutter t = {p + 1, s.n};
    for (size_t i = 0; i < t.n; i++)
        t.p[i] = t.p[i] == '\n' ? ' ' : t.p[i];
    mark_stops(&t);
    move_quotes(&t);
    return cut(c, &t);
}
