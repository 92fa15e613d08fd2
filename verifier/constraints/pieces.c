/* Cutting and counting, each linear in the text (sorting aside). */
#include "verifier/constraints/pieces.h"

#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static char *room(struct constraint *c, size_t n)
{
    char *p = arena_alloc(c->arena, n + 1);
    c->no_memory = c->no_memory || !p;
    return p;
}

struct str pieces_bare(struct constraint *c, struct str s)
{
    char *to = room(c, s.n);
    size_t n = 0;
    for (size_t i = 0; to && i < s.n; i++)
        if (!is_in(s.p[i], PIECES_PUNCTUATION))
            to[n++] = s.p[i];
    return (struct str){to ? to : "", n};
}

struct str pieces_lower(struct constraint *c, struct str s)
{
    char *to = room(c, s.n * 2 + 4); /* two bytes of lower case can need three of the other */
    size_t n = 0;
    for (uint32_t cp; to && text_next_char(&s, &cp);) {
        if (cp < 0x80)
            to[n++] = (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        else
            n += utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), to + n);
    }
    return (struct str){to ? to : "", n};
}

struct str pieces_ascii(struct constraint *c, struct str s)
{
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)s.p, (utf8proc_ssize_t)s.n, &mapped,
                                      UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    char *to = n >= 0 ? room(c, (size_t)n) : NULL;
    size_t kept = 0;
    for (utf8proc_ssize_t i = 0; to && i < n; i++)
        if (mapped[i] < 0x80)
            to[kept++] = (char)mapped[i];
    free(mapped);
    return (struct str){to ? to : "", kept};
}

struct str pieces_strip_left(struct str s, const char *set)
{
    size_t i = 0;
    while (i < s.n && is_in(s.p[i], set))
        i++;
    return str_slice(s, i, s.n);
}

struct str pieces_strip_right(struct str s, const char *set)
{
    while (s.n > 0 && is_in(s.p[s.n - 1], set))
        s.n--;
    return s;
}

struct str pieces_strip(struct str s, const char *set)
{
    return pieces_strip_right(pieces_strip_left(s, set), set);
}

static struct list new_list(struct constraint *c, size_t n)
{
    struct list l = {.item = arena_array(c->arena, n ? n : 1, sizeof *l.item)};
    c->no_memory = c->no_memory || !l.item;
    return l;
}

struct list pieces_words(struct constraint *c, struct str s)
{
    size_t n = text_count_words(s);
    struct list l = new_list(c, n);
    for (struct str word; l.item && l.n < n && text_next_word(&s, &word);)
        l.item[l.n++] = word;
    return l;
}

size_t pieces_count(struct str s, struct str needle)
{
    size_t n = 0, from = 0;
    for (ptrdiff_t at; needle.n && (at = str_find(s, needle, from)) >= 0; n++)
        from = (size_t)at + needle.n;
    return n;
}

struct list pieces_split(struct constraint *c, struct str s, struct str separator)
{
    size_t from = 0;
    struct list l = new_list(c, pieces_count(s, separator) + 1);
    for (ptrdiff_t at; l.item && (at = str_find(s, separator, from)) >= 0;) {
        l.item[l.n++] = str_slice(s, from, (size_t)at);
        from = (size_t)at + separator.n;
    }
    if (l.item)
        l.item[l.n++] = str_slice(s, from, s.n);
    return l;
}

struct list pieces_lines(struct constraint *c, struct str s)
{
    return pieces_split(c, s, STR("\n"));
}

struct list pieces_filled_lines(struct constraint *c, struct str s)
{
    struct list l = pieces_lines(c, s);
    size_t kept = 0;
    for (size_t i = 0; i < l.n; i++)
        if (text_trim(l.item[i]).n)
            l.item[kept++] = l.item[i];
    l.n = kept;
    return l;
}

size_t pieces_count_runs(struct str s, bool (*is_inside)(uint32_t cp))
{
    size_t n = 0;
    bool was = false;
    for (uint32_t cp; text_next_char(&s, &cp);) {
        bool is = is_inside(cp) || (was && is_mark_char(cp));
        n += is && !was;
        was = is;
    }
    return n;
}

uint32_t pieces_char(struct str s, size_t index)
{
    uint32_t cp;
    while (text_next_char(&s, &cp))
        if (index-- == 0)
            return cp;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

size_t pieces_sort_unique(struct list *l)
{
    size_t kept = 0;
    if (l->n)
        qsort(l->item, l->n, sizeof *l->item, compare);
    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || !str_eq(l->item[i], l->item[kept - 1]))
            l->item[kept++] = l->item[i];
    l->n = kept;
    return kept;
}

bool pieces_holds(struct str s, const char *needle)
{
    return str_find(s, str_from(needle), 0) >= 0;
}

bool pieces_is_one_of(struct str s, const char *words)
{
    char key[32];
    if (s.n == 0 || s.n + 3 > sizeof key || memchr(s.p, ' ', s.n))
        return false;
    key[0] = key[s.n + 1] = ' ';
    memcpy(key + 1, s.p, s.n);
    return str_find(str_from(words), (struct str){key, s.n + 2}, 0) >= 0;
}

/* The character before byte i; 0 at the beginning. */
static uint32_t char_before(struct str s, size_t i)
{
    size_t from = i;
    uint32_t cp = 0;
    while (from > 0 && i - from < 4 && (s.p[--from] & 0xC0) == 0x80)
        ;
    return i > 0 && utf8_decode(str_slice(s, from, i), &cp) ? cp : 0;
}

bool pieces_holds_word(struct str s, struct str word)
{
    for (ptrdiff_t at = 0; word.n && (at = str_find(s, word, (size_t)at)) >= 0; at++) {
        size_t end = (size_t)at + word.n;
        uint32_t last = char_before(word, word.n);
        bool starts =
            !is_word_char(pieces_char(word, 0)) || !is_word_char(char_before(s, (size_t)at));
        bool ends = !is_word_char(last) || !is_word_char(pieces_char(str_slice(s, end, s.n), 0));
        if (starts && ends)
            return true;
    }
    return false;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool is_word_char(uint32_t cp)
{
    utf8proc_category_t k = category(cp);
    return cp == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool is_mark_char(uint32_t cp)
{
    return category(cp) >= UTF8PROC_CATEGORY_MN && category(cp) <= UTF8PROC_CATEGORY_ME;
}

bool is_digit_char(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool is_upper_char(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU || category(cp) == UTF8PROC_CATEGORY_LT;
}

bool is_lower_char(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL;
}

bool pieces_is_of_case(struct str s, bool (*is_wanted)(uint32_t cp))
{
    bool has = false;
    for (uint32_t cp; text_next_char(&s, &cp);) {
        bool is_good = is_wanted(cp);
        if (!is_good && (is_upper_char(cp) || is_lower_char(cp)))
            return false;
        has = has || is_good;
    }
    return has;
}
